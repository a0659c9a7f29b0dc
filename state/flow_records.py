"""Records of flows, and what may be asked of them: parameters in, a decision for each record. Pure.

Agents make the records and choose among them (`netplugin.flow_records`). netmaster reads the
parameters too, to refuse wrong ones, and passes them on (`netmaster.api.v2.diagnostics.flow_list`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any, Final, NamedTuple

from core.errors import Malformed
from core.numbers import bounded

FORWARDED: Final = "forwarded"
DROPPED: Final = "dropped"
AUDITED: Final = "audited"
"""A rule with `audit` would have dropped it; what became of it another record says."""

VERDICTS: Final = (FORWARDED, DROPPED, AUDITED)
NAMES: Final = ("tenant", "network", "group", "namespace", "pod", "endpoint", "container")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndNames:
    """What an end of a flow is called; "" for what it has not, or what is not known."""

    tenant: str = ""
    network: str = ""
    group: str = ""
    namespace: str = ""
    pod: str = ""
    endpoint: str = ""
    container: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


NAMELESS: Final = EndNames()


@dataclass(frozen=True, slots=True)
class End:
    """The sender or the receiver of a flow's first packet; `port` is 0 without any."""

    address: str
    port: int
    names: EndNames = NAMELESS


@dataclass(slots=True, kw_only=True)
class FlowRecord:
    """A connection that a host forwarded, or what it dropped of one; times are seconds of UTC.

    Or what a rule with `audit` would have dropped of one: a record beside that of the connection.

    Packets and bytes are those of `source`, the `answer_…` those of `destination`. `service` is the
    key of the service whose address the source sent to, with that address and port; `destination`
    is then the provider. `number` tells it from others of its host, `changed` rises when it begins
    and when it ends.
    """

    number: int
    changed: int
    first: float
    last: float
    verdict: str
    protocol: str
    source: End
    destination: End
    ended: bool = False
    reason: str = ""
    because: str = ""
    policy: str = ""
    rule: str = ""
    service: str = ""
    service_address: str = ""
    service_port: int = 0
    packets: int = 0
    bytes: int = 0
    answer_packets: int = 0
    answer_bytes: int = 0

    @property
    def begun(self) -> int:
        """When it began, in whole milliseconds."""
        return _milliseconds(self.first)

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants of its ends."""
        return frozenset({self.source.names.tenant, self.destination.names.tenant}) - {""}

    def seen_by(self, tenants: frozenset[str]) -> "FlowRecord":
        """Return the record without the names that are of other tenants than these.

        Who may not see a name must not find records by it either, or could guess names by asking.
        """
        if {self.source.names.tenant, self.destination.names.tenant} <= tenants:
            return self
        seen = replace(
            self,
            source=_seen(self.source, tenants),
            destination=_seen(self.destination, tenants),
        )
        if self.destination.names.tenant not in tenants:
            # whose policy has dropped it is the business of whoever it protects
            seen.policy = seen.rule = seen.because = ""
        return seen

    def shown(self) -> dict[str, Any]:
        """Return the record as REST has it."""
        return {
            "number": self.number,
            "first": _iso(self.first),
            "last": _iso(self.last),
            "ended": self.ended,
            "verdict": self.verdict,
            "reason": self.reason,
            "because": self.because,
            "policy": self.policy,
            "rule": self.rule,
            "protocol": self.protocol,
            "source": _end(self.source),
            "destination": _end(self.destination),
            "service": self.service,
            "serviceAddress": self.service_address,
            "servicePort": self.service_port,
            "packets": self.packets,
            "bytes": self.bytes,
            "answerPackets": self.answer_packets,
            "answerBytes": self.answer_bytes,
        }


def _seen(end: End, tenants: frozenset[str]) -> End:
    return end if end.names.tenant in tenants else replace(end, names=NAMELESS)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000 + 0.5)


def _iso(seconds: float) -> str:
    whole = _milliseconds(seconds)
    return (_EPOCH + timedelta(milliseconds=whole)).isoformat(timespec="milliseconds")


_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class RecordPlace(NamedTuple):
    """Where a record stands among those of all hosts: its time in milliseconds, its host, number.

    Written as `<time>.<number>.<host>`.
    """

    begun: int
    host: str
    number: int

    @classmethod
    def read(cls, text: str) -> "RecordPlace | None":
        """Return the place that a text names; None for no text. Raises Malformed."""
        if not text:
            return None
        begun, _, rest = text.partition(".")
        number, _, host = rest.partition(".")
        at, which = bounded(begun, 0, _LAST), bounded(number, 0, _LAST)
        if at is None or which is None or not host:
            raise Malformed(f"{text[:80]!r} is no place of a record")
        return cls(at, host, which)

    @classmethod
    def of(cls, first: str, host: str, number: int) -> "RecordPlace":
        """Return the place of a record that REST shows. Raises ValueError."""
        return cls(_milliseconds(datetime.fromisoformat(first).timestamp()), host, number)

    def is_before(self, record: FlowRecord, host: str) -> bool:
        """Return whether a record of a host is older than the one of this place."""
        return (record.begun, host, record.number) < self

    def __str__(self) -> str:
        return f"{self.begun}.{self.number}.{self.host}"


_LAST: Final = 10**18 - 1


def _end(end: End) -> dict[str, Any]:
    names = end.names
    return {
        "address": end.address,
        "port": end.port,
        **{name: getattr(names, name) for name in NAMES},
        "labels": dict(names.labels),
    }


Fits = Callable[[FlowRecord], bool]

_ENDS: Final = {"from": "source", "to": "destination"}
_OF_ENDS: Final = {
    "": "{} an end of this name, whatever has it: pod (`name` or `namespace/name`), container, "
    "endpoint, group, network, service, address, or a block of addresses",
    "Tenant": "{} an end of this tenant",
    "Network": "{} an end on this network",
    "Group": "{} an end in this group",
    "Namespace": "{} a pod of this namespace of Kubernetes",
    "Pod": "{} a pod of this name",
    "Endpoint": "{} the endpoint of this key",
    "Container": "{} the container of this name or id",
    "Address": "{} this address, or one of this block",
    "Port": "{} this port",
    "Labels": "{} an end whose labels fit all of these words, joined by commas: `key`, `!key`, "
    "`key=value`, `key!=value`",
}
FILTERS: Final[Mapping[str, str]] = {
    "verdict": f"`{FORWARDED}`, `{DROPPED}`, or `{AUDITED}`: a rule with `audit` would drop it",
    "reason": "dropped for this reason, as `policy`, `spoofed`, `no-route`",
    "protocol": "of this protocol: `tcp`, `udp`, `icmp`, or its number",
    "service": "to the service of this key",
    "policy": "dropped or audited by the policy of this name",
    "rule": "dropped or audited by the rule with this id",
    "tenant": "an end of which is of this tenant",
    "since": "with packets at or after this time, as 2026-11-26T09:30:00Z",
    "until": "begun at or before this time",
    **{f"{end}{name}": text.format(end) for end in _ENDS for name, text in _OF_ENDS.items()},
}
_EXACT: Final = ("verdict", "reason", "protocol", "service", "policy", "rule")
_LONGEST: Final = 1024
_LAST_PORT: Final = 65_535


def chooser(asked: Mapping[str, str]) -> Fits:
    """Return what decides whether a record fits all of the `FILTERS` that are asked for.

    Raises Malformed.
    """
    wanted = [_one(name, text) for name, text in asked.items() if text]
    return lambda record: all(fits(record) for fits in wanted)


def _one(name: str, text: str) -> Fits:
    if len(text) > _LONGEST:
        raise Malformed(f"parameter {name} is longer than {_LONGEST} characters")
    if name == "verdict" and text not in VERDICTS:
        raise Malformed(f"parameter verdict={text} is none of {', '.join(VERDICTS)}")
    if name in _EXACT:
        return lambda record: getattr(record, name) == text
    if name == "tenant":
        return lambda record: text in {record.source.names.tenant, record.destination.names.tenant}
    if name in {"since", "until"}:
        at = _moment(name, text)
        if name == "since":
            return lambda record: record.last >= at
        return lambda record: record.first <= at
    for begun, end in _ENDS.items():
        if name.startswith(begun) and name.removeprefix(begun) in _OF_ENDS:
            return _of_end(name, text, name.removeprefix(begun), end)
    raise Malformed(f"unknown parameter {name}")


def _of_end(name: str, text: str, part: str, end: str) -> Fits:
    match part:
        case "":
            return partial(_is_called, text, _block(text), end)
        case "Address":
            inside = _block(text)
            if inside is None:
                raise Malformed(
                    f"parameter {name}={text} is neither an address nor a block of them"
                )
            return lambda record: inside(getattr(record, end).address)
        case "Port":
            port = bounded(text, 0, _LAST_PORT)
            if port is None:
                raise Malformed(f"parameter {name}={text} is no port")
            return lambda record: getattr(record, end).port == port
        case "Labels":
            words = [_word(one) for one in text.split(",")]
            return lambda record: all(one(getattr(record, end).names.labels) for one in words)
        case _:
            attribute = part.lower()
            return lambda record: getattr(getattr(record, end).names, attribute) == text


def _is_called(
    text: str, inside: Callable[[str], bool] | None, end: str, record: FlowRecord
) -> bool:
    one: End = getattr(record, end)
    names = one.names
    if inside is not None:
        of_service = end == "destination" and record.service_address != ""
        return inside(one.address) or (of_service and inside(record.service_address))
    known = {names.pod, names.container, names.endpoint, names.group, names.network}
    known.add(f"{names.namespace}/{names.pod}")
    if end == "destination":
        known |= {record.service, record.service.partition(":")[0]}
    return text in known


def _block(text: str) -> Callable[[str], bool] | None:
    """Return what tells whether an address is in a block; None for text that is no block."""
    try:
        block = ip_network(text, strict=False)
    except ValueError:
        return None
    if block.num_addresses == 1:
        only = str(block.network_address)
        return lambda address: address == only
    return lambda address: ip_address(address) in block


def _word(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Return what a requirement of a label selector says of labels. Raises Malformed."""
    word = text.strip()
    key, equals, value = word.partition("=")
    if not word.strip("!="):
        raise Malformed(f"{text!r} is no requirement of labels: key, !key, key=value, key!=value")
    if not equals:
        absent = word.startswith("!")
        name = word.removeprefix("!")
        return lambda labels: (name in labels) is not absent
    if key.endswith("!"):
        other = key.removesuffix("!")
        return lambda labels: labels.get(other) != value
    return lambda labels: labels.get(key) == value.removeprefix("=")


def _moment(name: str, text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as exc:
        raise Malformed(f"parameter {name}={text} is no time, as 2026-11-26T09:30:00Z") from exc
