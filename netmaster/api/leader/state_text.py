"""Operational state as API v1 writes it: JSON that omits empty values, as Go does. Pure.

In comes what `netmaster.plan.show.inspect` shows; out go the bytes of an answer. Networks have
thousands of endpoints, each of which is encoded once and kept until its record is another.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from contivmodel.wire import dumps, escaped, text
from netmaster.plan.show.inspect import EndpointStates, endpoint_state
from state.records import EndpointRecord

if TYPE_CHECKING:
    from core.ids import EndpointKey

LIMIT: Final = 20_000
"""Endpoints whose JSON is kept, of half a kilobyte each; with more than that all are dropped."""


class EndpointTexts:
    """The JSON of endpoints as API v1 shows them."""

    # A record is immutable, so that its text holds as long as the view has this very record.

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._texts: dict[EndpointKey, tuple[EndpointRecord, str]] = {}

    def of(self, records: Iterable[EndpointRecord]) -> Iterator[str]:
        """Yield the JSON of endpoints."""
        if len(self._texts) > self._limit:
            self._texts.clear()
        for record in records:
            known = self._texts.get(record.key)
            if known is None or known[0] is not record:
                known = record, _endpoint(record)
                self._texts[record.key] = known
            yield known[1]


def inspection(shown: Mapping[str, Any], texts: EndpointTexts) -> bytes:
    """Return the JSON of an inspection: an object as `Config`, if it has one, and its `Oper`."""
    parts = []
    if "Config" in shown:
        parts.append(b'"Config":' + dumps(shown["Config"]))
    if "Oper" in shown:
        parts.append(b'"Oper":' + _object(shown["Oper"], texts).encode())
    return b"{" + b",".join(parts) + b"}"


def _object(state: Mapping[str, Any], texts: EndpointTexts) -> str:
    members = [f"{_plain(name)}:{_value(value, texts)}" for name, value in state.items() if value]
    return "{" + ",".join(members) + "}"


def _value(value: Any, texts: EndpointTexts) -> str:
    if isinstance(value, EndpointStates):
        return _array(texts.of(value.records))
    if type(value) is list and isinstance(value[0], Mapping):  # a list has values of one kind
        return _array(_object(one, texts) for one in value)
    return _plain(value)


def _endpoint(record: EndpointRecord) -> str:
    # written here, since the encoder takes longer to start than to write so little
    members = [
        f'"{name}":{_array(map(text, value)) if type(value) is list else text(value)}'
        for name, value in endpoint_state(record).items()
        if value
    ]
    return escaped("{" + ",".join(members) + "}")


def _array(items: Iterable[str]) -> str:
    return "[" + ",".join(items) + "]"


def _plain(value: Any) -> str:
    return escaped(text(value))
