"""Validation of the fields of REST objects, one rule per field.

`contivmodel.objects` declares a field's rule in its type (`tenant_name: Name`). `validate` checks
the fields in declared order, which is the original's, and reports the first failure with the
original's text. A rule sees one field; netmaster's plans check references between objects.
"""

# The patterns accept exactly what the original's patterns accept, oddities included (`_PREFIX6` has
# no 118, `_PREFIX4` no 32): clients depend on both outcomes. They are written differently, though.
# Go's engine matches in linear time. With the original's nested repetitions Python's engine would
# backtrack exponentially, and any client could block the leader with one long name.

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Final, TypeVar

from contivmodel.wire import WireModel
from core.errors import Invalid

_LABEL = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IP4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_PREFIX4 = r"(?:3[0-1]|2[0-9]|1[0-9]|[1-9])"
_RANGE_END = rf"(?:-{_OCTET})?"
_HEX = r"[0-9a-fA-F]{1,4}"
_IP6 = rf"(?:{_HEX}(?::{_HEX}){{7}}|(?:(?:{_HEX}:){{0,6}}|:)(?:(?::{_HEX}){{0,6}}|:))"
_PREFIX6 = r"(?:1[0-2][0-7]|[1-9][0-9]|[1-9])"
_MATCHED6 = r"(?:12[0-8]|1[01][0-9]|[1-9][0-9]|[1-9])"
_NODE = r"topology/pod-[0-9]{1,4}/node-[0-9]{1,4}"
_PATH = r"topology/pod-[0-9]{1,4}/paths-[0-9]{1,4}/pathep-\[eth[0-9]{1,2}/[0-9]{1,2}\]"

NAME_BYTES: Final = 64
TAG_BYTES: Final = 128
LONG_NAME_BYTES: Final = 256
ADDRESS_BYTES: Final = 15
ADDRESS6_BYTES: Final = 39
HOST_BYTES: Final = 253
CALL_BYTES: Final = 1024
BINDINGS_BYTES: Final = 2048
MAX_PKT_TAG: Final = 16_777_216
MAX_DSCP: Final = 63
MAX_BURST: Final = 10_486
MAX_QUOTA: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """One field's rule: maximal bytes and pattern of a text, bounds of a number.

    The pattern must match the whole text. `fill` replaces an empty text or zero before the check.
    The text may be empty if the field `instead` is not.
    """

    longest: int | None = None
    pattern: re.Pattern[str] | None = None
    maximum: int | None = None
    minimum: int | None = None
    fill: str | int = ""
    instead: str = ""


def _text(
    pattern: str, *, longest: int | None = None, fill: str = "", instead: str = ""
) -> FieldCheck:
    return FieldCheck(longest=longest, pattern=re.compile(pattern), fill=fill, instead=instead)


Name = Annotated[str, _text(rf"{_LABEL}(?:\.{_LABEL})*", longest=NAME_BYTES)]
OptionalName = Annotated[str, _text(rf"(?:{_LABEL}\.)*(?:{_LABEL})?", longest=NAME_BYTES)]
Tag = Annotated[str, _text(rf"(?:{_LABEL}(?:\.{_LABEL})*)?", longest=TAG_BYTES)]
ShortText = Annotated[str, FieldCheck(longest=NAME_BYTES)]
NetworkKind = Annotated[str, _text(r"infra|data", fill="data")]
Encapsulation = Annotated[str, _text(r"vlan|vxlan")]
PacketTag = Annotated[int, FieldCheck(maximum=MAX_PKT_TAG)]
Subnet4 = Annotated[str, _text(rf"{_IP4}(?:-{_IP4})?/{_PREFIX4}", instead="ipv6_subnet")]
Address4 = Annotated[str, _text(rf"(?:{_IP4})?")]
Subnet6 = Annotated[str, _text(rf"(?:{_IP6}/{_PREFIX6})?")]
Address6 = Annotated[str, _text(rf"(?:{_IP6})?")]
Family = Annotated[str, _text(r"(?:ipv4|ipv6)?")]
AddressPool = Annotated[str, _text(rf"(?:{_IP4}(?:-{_IP4})?)?")]
GlobalName = Annotated[str, _text(r"global", longest=NAME_BYTES)]
InfraType = Annotated[str, _text(r"(?:aci|aci-opflex|default)?")]
VlanRange = Annotated[str, _text(r"[0-9]{1,4}-[0-9]{1,4}")]
VxlanRange = Annotated[str, _text(r"[0-9]{1,8}-[0-9]{1,8}")]
ForwardMode = Annotated[str, _text(r"(?:bridge|routing)?")]
ArpMode = Annotated[str, _text(r"(?:proxy|flood)?")]
PrivateSubnet = Annotated[str, _text(rf"{_IP4}/16")]
Dscp = Annotated[int, FieldCheck(minimum=0, maximum=MAX_DSCP)]
Burst = Annotated[int, FieldCheck(minimum=0, maximum=MAX_BURST)]
Bandwidth = Annotated[str, _text(r"(?:[1-9][0-9]* ?[kmgKMG](?:b|bps)?)?", longest=NAME_BYTES)]
GatewayName = Annotated[str, _text(r"aciGw", longest=NAME_BYTES)]
YesOrNo = Annotated[str, _text(r"yes|no")]
PhysicalDomain = Annotated[str, _text(rf"{_LABEL}(?:\.{_LABEL})*", longest=TAG_BYTES)]
NodeBindings = Annotated[str, _text(rf"(?:{_NODE}(?:,{_NODE})*)?", longest=BINDINGS_BYTES)]
PathBindings = Annotated[str, _text(rf"(?:{_PATH}(?:,{_PATH})*)?", longest=BINDINGS_BYTES)]
Direction = Annotated[str, _text(r"in|out")]
RuleAction = Annotated[str, _text(r"allow|deny")]
Enforcement = Annotated[str, _text(r"(?:audit|enforcing)?")]
Quota = Annotated[int, FieldCheck(minimum=0, maximum=MAX_QUOTA)]
Priority = Annotated[int, FieldCheck(minimum=1, maximum=100, fill=1)]
Port = Annotated[int, FieldCheck(minimum=0, maximum=65_535)]
Protocol = Annotated[str, _text(r"(?:tcp|udp|icmp|[0-1]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])?")]
AddressMatch = Annotated[
    str, _text(rf"(?:{_IP4}{_RANGE_END}(?:/{_PREFIX4})?|{_IP6}(?:/{_MATCHED6})?)?")
]
LongName = Annotated[str, _text(rf"{_LABEL}(?:\.{_LABEL})*", longest=LONG_NAME_BYTES)]
OneAddress4 = Annotated[str, _text(rf"(?:{_IP4})?", longest=ADDRESS_BYTES)]
ServiceAddress = Annotated[str, _text(rf"(?:{_IP4}|{_IP6})?", longest=ADDRESS6_BYTES)]
RouterAddress = Annotated[str, _text(rf"{_IP4}(?:-{_OCTET})?/{_PREFIX4}", instead="router_ipv6")]
HostName = Annotated[str, FieldCheck(longest=HOST_BYTES)]
CallText = Annotated[str, FieldCheck(longest=CALL_BYTES)]
"""What an agent sends; the original has no limit, and stores it in every record."""

MOST_BYTES: Final = 4
"""Of a character in UTF-8."""

M = TypeVar("M", bound=WireModel)


def validate(model: M) -> M:
    """Return the model with defaults filled in. Raises Invalid for the first invalid field."""
    whole = filled(model)
    for _, text in faults(whole):
        raise Invalid(text)
    return whole


def filled(model: M) -> M:
    """Return the model with the defaults of empty fields filled in."""
    empty = {
        attribute: check.fill
        for attribute, _, check in _checks(type(model))
        if check.fill and not getattr(model, attribute)
    }
    return model.model_copy(update=empty) if empty else model


def faults(model: WireModel) -> Iterator[tuple[str, str]]:
    """Yield (field, what is wrong) of the invalid fields of a model whose defaults are filled."""
    for attribute, name, check in _checks(type(model)):
        value = getattr(model, attribute)
        if value == "" and (check.pattern is None or _given_instead(model, check)):
            continue  # most of the fields of most calls, and every pod makes calls
        fault = _fault(name, value, check)
        if fault:
            yield name, fault


def _given_instead(model: WireModel, check: FieldCheck) -> bool:
    return bool(check.instead and getattr(model, check.instead))


def _fault(name: str, value: str | int, check: FieldCheck) -> str:
    """Return what is wrong with a field, in the original's words; "" if nothing is."""
    if isinstance(value, int):
        low, high = check.minimum, check.maximum
        out = (low is not None and value < low) or (high is not None and value > high)
        return f"{name} Value Out of bound" if out else ""
    longest = check.longest
    if longest is not None and len(value) * MOST_BYTES > longest < len(value.encode()):
        return f"{name} string too long"
    if check.pattern is not None and check.pattern.fullmatch(value) is None:
        return f"{name} string invalid format"
    return ""


@cache
def _checks(model: type[WireModel]) -> tuple[tuple[str, str, FieldCheck], ...]:
    return tuple(_declared(model))


def _declared(model: type[WireModel]) -> Iterator[tuple[str, str, FieldCheck]]:
    for attribute, field in model.model_fields.items():
        for rule in field.metadata:
            if isinstance(rule, FieldCheck):
                yield attribute, str(field.alias), rule
