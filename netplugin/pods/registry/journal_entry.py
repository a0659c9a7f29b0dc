"""An endpoint of this host as the journal keeps it, and the text of its file (pure).

The text is one flat JSON object (`_members`), which releases before and after this one read: a
member is added, never renamed, and one that older files lack has a default (`_DEFAULTS`). The files
are `netplugin.pods.registry.journal`'s.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from core.ids import EndpointKey, GroupName
from core.outside_json import read_json
from netplugin.cni.interface_spec import Delivery, InterfaceSpec
from netplugin.cni.net_config import BandwidthLimit
from netplugin.cni.port_mappings import mapping_of
from state.lineage import Position


class EntryState(StrEnum):
    """The state of an endpoint, which decides what an agent that finds the entry does."""

    ADDING = "adding"
    PRESENT = "present"
    REMOVING = "removing"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An endpoint of this host: the interface that was asked for, and what became of it.

    `joined` is the namespace that an engine moved a handed-over link to, "" before. `name` and the
    addresses are empty until netmaster granted them, and in entries of older agents. `claiming`
    says that the store does not know the endpoint: it went back, or this host gave the address (see
    `claims`); `block` is the token by which it held it then, else "". `term` and `rev` are the
    position in the store's lineage at which it knew the endpoint. `source` is the endpoint id of
    the pod that this pod's machine runs in, "" if it runs here: until then this pod has no
    endpoint, no port and no flows. Nor has one that is `cut_off`, as another endpoint has its
    addresses for good: the machine migrated away.
    """

    key: EndpointKey
    spec: InterfaceSpec
    port: int
    bridge: str
    state: EntryState
    joined: str = ""
    name: str = ""
    ip_address: str = ""
    ipv6_address: str = ""
    claiming: bool = False
    term: str = ""
    rev: int = 0
    block: str = ""
    source: str = ""
    cut_off: bool = False

    @property
    def netns(self) -> str:
        """The namespace that the pod's end of the link is in, "" before an engine chose one."""
        return self.joined or self.spec.netns

    @property
    def position(self) -> Position:
        """Where in its history the store knew the endpoint."""
        return Position(self.term, self.rev)


_DEFAULTS: Final[dict[str, object]] = {
    "name": "",
    "ip_address": "",
    "ipv6_address": "",
    "claiming": False,
    "term": "",
    "rev": 0,
    "labels": {},
    "endpoint_id": "",
    "network_name": "",
    "attachment_id": "",
    "mac_address": "",
    "keep": "",
    "default_route": True,
    "rate": 0,
    "burst": 0,
    "mappings": [],
    "receive_rate": 0,
    "receive_burst": 0,
    "delivery": Delivery.INSIDE,
    "block": "",
    "source": "",
    "cut_off": False,
}
"""Members that files of older agents lack."""

_REQUIRED: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("key", "container_id", "netns", "ifname", "tenant", "network"), str),
    "group": (str, type(None)),
    "port": int,
    **dict.fromkeys(("bridge", "state"), str),
}
_KINDS: Final = _REQUIRED | {
    name: str if isinstance(default, str) else type(default) for name, default in _DEFAULTS.items()
}
"""The types of all members."""


def text_of(entry: JournalEntry) -> str:
    """Return the text of an entry's file."""
    return json.dumps(_members(entry))


def parse(text: str) -> JournalEntry:
    """Return the entry in a file's text. Raises ValueError for anything else."""
    value = read_json(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - the text is at fault
    if missing := _REQUIRED.keys() - value.keys():
        raise ValueError(f"{', '.join(sorted(missing))} missing")
    wrong = [n for n, kind in _KINDS.items() if n in value and not isinstance(value[n], kind)]
    if wrong:
        raise ValueError(f"{', '.join(sorted(wrong))} of the wrong type")
    # Unknown members are ignored: a newer agent may have written them before a downgrade.
    return _entry(_DEFAULTS | value)


def _members(entry: JournalEntry) -> dict[str, object]:
    spec = entry.spec
    return {
        "key": entry.key,
        "container_id": spec.container_id,
        "netns": entry.netns,
        "ifname": spec.ifname,
        "tenant": spec.tenant,
        "network": spec.network,
        "group": spec.group,
        "port": entry.port,
        "bridge": entry.bridge,
        "state": entry.state,
        "name": entry.name,
        "ip_address": entry.ip_address,
        "ipv6_address": entry.ipv6_address,
        "claiming": entry.claiming,
        "term": entry.term,
        "rev": entry.rev,
        "labels": dict(spec.labels),
        "endpoint_id": "" if spec.endpoint == spec.container_id else spec.endpoint,
        "network_name": spec.network_name,
        "attachment_id": spec.attachment_id,
        "mac_address": spec.mac,
        "keep": spec.keep,
        "default_route": spec.default_route,
        "rate": spec.limit.rate,
        "burst": spec.limit.burst,
        "mappings": [asdict(one) for one in spec.mappings],
        "receive_rate": spec.receive_limit.rate,
        "receive_burst": spec.receive_limit.burst,
        "delivery": spec.delivery,
        "block": entry.block,
        "source": entry.source,
        "cut_off": entry.cut_off,
    }


def _entry(members: Mapping[str, Any]) -> JournalEntry:
    """Return the entry with the members that `_members` returns."""
    handed_over = members["delivery"] == Delivery.HANDED_OVER
    spec = InterfaceSpec(
        container_id=members["container_id"],
        endpoint=members["endpoint_id"] or members["container_id"],
        netns="" if handed_over else members["netns"],
        ifname=members["ifname"],
        tenant=members["tenant"],
        network=members["network"],
        group=members["group"] or GroupName(""),
        default_route=members["default_route"],
        limit=BandwidthLimit(members["rate"], members["burst"]),
        receive_limit=BandwidthLimit(members["receive_rate"], members["receive_burst"]),
        mappings=tuple(map(mapping_of, members["mappings"])),
        delivery=members["delivery"],
        mac=members["mac_address"],
        keep=members["keep"],
        network_name=members["network_name"],
        attachment_id=members["attachment_id"],
        labels=members["labels"],
    )
    own = ("key", "port", "bridge", "name", "ip_address", "ipv6_address")
    lineage = ("claiming", "term", "rev", "block", "source", "cut_off")
    return JournalEntry(
        spec=spec,
        state=EntryState(members["state"]),
        joined=members["netns"] if handed_over else "",
        **{name: members[name] for name in own + lineage},
    )
