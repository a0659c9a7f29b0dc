"""The original's keys and values, sorted by what they hold and decoded as JSON.

Which keys there are: docs/original/netmaster-state.md §1, docs/original/objdb-state.md §2-4.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core import keys
from core.errors import Conflict
from core.outside_json import read_json
from netmaster.takeover.findings import Skipped, TakeoverFinding, TakeoverOutcome, refused

Fields = dict[str, Any]
"""The JSON object of one key."""

OVS_DRIVERS: Final = keys.ROOT + "oper/ovs-driver/"
"""What the agent of a host keeps of its ports, by the host's label."""

_DERIVED: Final = "derived from other records here"
_LEASES: Final = "leases of the original's daemons"
_AGENTS: Final = "notes of the original's agents; agents find their ports in Open vSwitch"
_RESOURCES: Final = "written anew, from the global object and the networks"
_SKIPPED: Final[Mapping[str, str]] = {
    keys.LOCKS: _LEASES,
    keys.SERVICES: _LEASES,
    keys.ROOT + "state/policy/": _DERIVED,
    keys.ROOT + "state/policyRule/": _DERIVED,
    keys.ROOT + "state/provider/": _DERIVED,
    keys.ROOT + "oper/eps/": _AGENTS,
    OVS_DRIVERS: _AGENTS,
    keys.VLAN_RESOURCE: _RESOURCES,
    keys.VLAN_RESOURCE_OPER: _RESOURCES,
    keys.VXLAN_RESOURCE: _RESOURCES,
    keys.VXLAN_RESOURCE_OPER: _RESOURCES,
    keys.GLOBAL_OPER: _RESOURCES,
}
RECORDS: Final = (
    keys.NETWORKS,
    keys.GROUPS,
    keys.ENDPOINTS,
    keys.SERVICE_LBS,
    keys.BGPS,
    keys.DOCKNETS,
)
"""The prefixes of records that are translated; two more records have keys of their own."""
_ASKED: Final = "left out, as asked"


@dataclass(frozen=True, slots=True)
class TakeoverSource:
    """The original's store: what is to be translated, and what helps.

    `objects` are REST objects by their whole keys, `records` state records likewise, by the prefix
    or whole key of their kind. `registered` are the values of registrations, `locals` the endpoints
    that each host's agent has noted, by the host's label. `leader` is who holds the leader's lock.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    records: dict[str, dict[str, Fields]] = field(default_factory=dict)
    registered: dict[str, bytes] = field(default_factory=dict)
    locals: dict[str, frozenset[str]] = field(default_factory=dict)
    leader: str = ""
    skipped: list[Skipped] = field(default_factory=list)
    findings: list[TakeoverFinding] = field(default_factory=list)

    def of(self, prefix: str) -> dict[str, Fields]:
        """Return the records of one kind, by their keys."""
        return self.records.get(prefix, {})


def read(values: Mapping[str, bytes], leave_out: Container[str] = ()) -> TakeoverSource:
    """Return a store's keys, sorted. Raises Conflict for a store that is not the original's."""
    if keys.SCHEMA in values:
        raise Conflict("this store is this netmaster's, not the original's: use dump and load")
    source = TakeoverSource(leader=values.get(keys.LEADER_LOCK, b"").decode(errors="replace"))
    for key in sorted(values):
        if key in leave_out:
            source.findings.append(TakeoverFinding(TakeoverOutcome.LEFT_OUT, key, _ASKED))
        elif key.startswith(keys.ROOT) and not key.endswith("/"):
            _sort(source, key, values[key])
    return source


def _sort(source: TakeoverSource, key: str, value: bytes) -> None:
    if key.startswith(keys.OBJECTS):
        source.objects[key] = value
        return
    reason = next((why for prefix, why in _SKIPPED.items() if key.startswith(prefix)), "")
    if reason:
        source.skipped.append(Skipped(key, reason))
        _note(source, key, value)
        return
    kind = next((one for one in RECORDS if key.startswith(one)), "")
    if not kind and key in {keys.GLOBAL_CONFIG, keys.TAG_RANGES}:
        kind = key
    if not kind:
        text = "not a key of the original's that this release knows"
        source.findings.append(TakeoverFinding(TakeoverOutcome.LEFT_OUT, key, text))
        return
    fields = _parsed(value)
    if fields is None:
        source.findings.append(refused(key, "its value is not a JSON object", "correct it"))
    else:
        source.records.setdefault(kind, {})[key] = fields


def _note(source: TakeoverSource, key: str, value: bytes) -> None:
    """Keep what a key that is not translated says about hosts."""
    if key.startswith(keys.SERVICES):
        source.registered[key] = value
    elif key.startswith(OVS_DRIVERS):
        noted = (_parsed(value) or {}).get("LocalEpInfo")
        if isinstance(noted, dict):
            source.locals[keys.after(OVS_DRIVERS, key)] = frozenset(noted)


def _parsed(value: bytes) -> Fields | None:
    try:
        parsed = read_json(value)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None
