"""The addresses of the underlay as the store has them: of hosts, masters and the store's members.

In come entries of the store; out come the addresses, for the decisions of
`netmaster.plan.address_space`. Hosts are those with a record, masters those that are registered. It
lives for a term of a leader, while views come and go.
"""

from collections.abc import Container
from typing import Any, Final, Self

from core import keys
from core.errors import Invalid
from core.ids import HostLabel
from state import codec
from state.underlay import Underlay, UnderlayAddress, faults_of, of_host, of_master

_MASTERS: Final = keys.services(keys.SERVICE_NETMASTER)


class KnownUnderlay:
    """The addresses of the underlay, by the keys of the store that they are from."""

    # A record that cannot be read has no addresses. Its host is named by
    # `netmaster.api.leader.hosts`.

    def __init__(self) -> None:
        self._found: dict[str, tuple[UnderlayAddress, ...]] = {}
        self._revs: dict[str, int] = {}
        self.faults: dict[HostLabel, list[str]] = {}
        """What is wrong with hosts' records, by host."""
        self._all: Underlay | None = None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return itself: no change that is tried on the copy of a view changes the underlay."""
        return self

    def put(self, key: str, rev: int, value: bytes) -> None:
        """Add or replace an entry of the store; one that says nothing here is passed over."""
        if key.startswith((keys.HOSTS, _MASTERS)) and self._revs.get(key) != rev:
            self._revs[key] = rev
            found, faults = _read(key, value)
            if key.startswith(keys.HOSTS):
                self.faults[HostLabel(keys.after(keys.HOSTS, key))] = faults
            if self._found.get(key) != found:
                self._found[key] = found
                self._all = None

    def remove(self, key: str) -> None:
        """Remove an entry, if it is there."""
        self._revs.pop(key, None)
        if key.startswith(keys.HOSTS):
            self.faults.pop(HostLabel(keys.after(keys.HOSTS, key)), None)
        if self._found.pop(key, None) is not None:
            self._all = None

    def retain(self, held: Container[str]) -> None:
        """Remove all other entries."""
        for key in [key for key in self._found if key not in held]:
            self.remove(key)

    @property
    def all(self) -> Underlay:
        """All addresses."""
        if self._all is None:
            self._all = Underlay(one for members in self._found.values() for one in members)
        return self._all


def _read(key: str, value: bytes) -> tuple[tuple[UnderlayAddress, ...], list[str]]:
    try:
        if not key.startswith(keys.HOSTS):
            return tuple(of_master(codec.decode_service(key, value))), []
        record = codec.decode_host(key, value)
    except Invalid:
        return (), []
    return tuple(of_host(record)), list(faults_of(record))
