"""What the store holds, decoded, as of the last item of a watch. Does no I/O itself.

`netmaster.commits.standby` keeps a mirror while this master follows; `netmaster.commits.commit`
makes the view of a term from one, so that the decoding of all records is no part of a take-over.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from core import keys
from core.errors import ContivError
from netmaster import codec
from netmaster.ipam.resting import AddressRest
from netmaster.known_underlay import KnownUnderlay
from netmaster.stored import Stored
from netmaster.view import View
from objdb.api import Delta, Entry, Snapshot
from state import schema

PART: Final = 500
"""Entries that are decoded at a time: some 5 ms."""


class Mirror:
    """The records of the leader's keys, and the revisions of all keys."""

    # A record that cannot be decoded is an error only for who leads: it may be put right before
    # that, and a follower has to go on.

    def __init__(self) -> None:
        self.rev = 0
        """The revision of the last item, 0 before the first."""
        self.revs: dict[str, int] = {}
        self.underlay = KnownUnderlay()
        """What the store says of the addresses of hosts and masters."""
        self._records: dict[str, Stored] = {}
        self._unreadable: dict[str, ContivError] = {}
        self._schema: bytes | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Mirror":
        """Return the mirror of a store's content, which has no entries afterwards."""
        mirror = cls()
        for _ in mirror.update(snapshot):
            pass
        return mirror

    @property
    def last_commit(self) -> int:
        """The revision of the last commit of any leader, 0 for none."""
        # Each commit moves its writer's marker, also one that only deletes.
        markers = (rev for key, rev in self.revs.items() if key.startswith(keys.COMMITS))
        return max(markers, default=0)

    def update(self, item: Snapshot | Delta) -> Iterator[None]:
        """Apply an item of a watch in parts; the mirror is consistent after the last one only.

        A snapshot has no entries afterwards.
        """
        follow(self.underlay, item)
        if isinstance(item, Snapshot):
            self._clear()
            entries = item.drain()
        else:
            self._delete(item.deletes)
            entries = iter(item.puts)
        while part := list(islice(entries, PART)):
            self._put(part)
            yield
        self.rev = item.rev

    def view(self, resting: AddressRest, underlay: KnownUnderlay | None = None) -> View:
        """Return the view of the records, with another's underlay if one is given.

        Raises SchemaMismatch for a store of another release; Invalid, naming the key, for a value
        that cannot be decoded or does not fit the others.
        """
        schema.check(self._schema)
        for error in self._unreadable.values():
            raise error
        return View.of(self._records, resting, underlay or self.underlay)

    def _clear(self) -> None:
        self.revs.clear()
        self._records.clear()
        self._unreadable.clear()
        self._schema = None

    def _put(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            key = entry.key
            self.revs[key] = entry.rev
            if not codec.is_leaders(key):
                continue
            if key == keys.SCHEMA:
                self._schema = entry.value
            found = _decoded(entry)
            if isinstance(found, ContivError):
                self._records.pop(key, None)
                self._unreadable[key] = found
            else:
                self._unreadable.pop(key, None)
                self._records[key] = found

    def _delete(self, deleted: Iterable[str]) -> None:
        for key in deleted:
            self.revs.pop(key, None)
            self._records.pop(key, None)
            self._unreadable.pop(key, None)
            if key == keys.SCHEMA:
                self._schema = None


def follow(underlay: KnownUnderlay, item: Snapshot | Delta) -> bool:
    """Apply an item of a watch to the known underlay; return whether its addresses changed."""
    before = underlay.all
    if isinstance(item, Snapshot):
        underlay.retain(item.entries)
        puts: Iterable[Entry] = item.entries.values()
    else:
        for key in item.deletes:
            underlay.remove(key)
        puts = item.puts
    for entry in puts:
        underlay.put(entry.key, entry.rev, entry.value)
    return underlay.all is not before


def _decoded(entry: Entry) -> Stored | ContivError:
    try:
        return codec.decode(entry.key, entry.value)
    except ContivError as exc:
        return exc
