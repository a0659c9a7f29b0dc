"""The mirror of a store: the records of the leader's keys, as of the last item of a watch."""

import pytest

from core import keys
from core.errors import Invalid, SchemaMismatch
from core.ids import NetworkId
from netmaster.commits.mirror import PART, Mirror
from netmaster.ipam.resting import AddressRest
from netmaster.view import View
from objdb.api import Delta, Entry, Snapshot
from state import codec, schema
from state.records import GrantOwner, GrantRecord
from state.schema import SchemaStamp

NETWORK = NetworkId("n1.default")
HOST = keys.HOSTS + "h1"


def grant(number: int, rev: int = 1) -> Entry:
    """Return the grant of an address as the store holds it."""
    record = GrantRecord(owner=GrantOwner.VIP, owner_id=f"o{number}", seq=number)
    key = keys.grant(NETWORK, f"10.1.{number // 250}.{number % 250}")
    return Entry(key, codec.encode(record), rev)


def snapshot(*entries: Entry, rev: int = 1) -> Snapshot:
    return Snapshot(rev, {entry.key: entry for entry in entries})


def updated(mirror: Mirror, item: Snapshot | Delta) -> int:
    """Take over an item; return in how many parts."""
    return sum(1 for _ in mirror.update(item))


def view_of(mirror: Mirror) -> View:
    return mirror.view(AddressRest())


def seqs(mirror: Mirror) -> set[int]:
    """Return the sequence numbers of the grants in the view."""
    addresses = view_of(mirror).addresses.get(NETWORK)
    return set() if addresses is None else {one.seq for one in addresses.grants.values()}


def test_it_has_what_a_snapshot_holds() -> None:
    mirror = Mirror.of(snapshot(grant(1), grant(2, rev=2), Entry(HOST, b"?", 3), rev=5))
    assert (mirror.rev, mirror.revs[HOST], mirror.revs[grant(2).key]) == (5, 3, 2)
    assert seqs(mirror) == {1, 2}


def test_it_follows_changes() -> None:
    mirror = Mirror.of(snapshot(grant(1), grant(2), Entry(HOST, b"?", 1)))
    updated(mirror, Delta(2, (grant(3, 2),), (grant(1).key, HOST)))
    assert (mirror.rev, seqs(mirror)) == (2, {2, 3})
    assert mirror.revs == {grant(2).key: 1, grant(3).key: 2}


def test_a_later_snapshot_replaces_all() -> None:
    mirror = Mirror.of(snapshot(grant(1), Entry(grant(2).key, b"{", 1)))
    updated(mirror, snapshot(grant(3, rev=9), rev=9))
    assert (mirror.rev, mirror.revs, seqs(mirror)) == (9, {grant(3).key: 9}, {3})


def test_many_entries_are_taken_over_in_parts() -> None:
    mirror = Mirror()
    assert updated(mirror, snapshot(*map(grant, range(2 * PART + 1)))) == 3
    assert len(seqs(mirror)) == 2 * PART + 1


def test_what_cannot_be_read_is_an_error_of_who_leads() -> None:
    bad = Entry(grant(1).key, b"{", 1)
    mirror = Mirror.of(snapshot(bad, grant(2)))
    with pytest.raises(Invalid, match=bad.key):
        view_of(mirror)
    updated(mirror, Delta(2, (grant(1, 2),), ()))
    assert seqs(mirror) == {1, 2}
    updated(mirror, Delta(3, (Entry(bad.key, b"[]", 3),), ()))
    with pytest.raises(Invalid, match=bad.key):
        view_of(mirror)
    updated(mirror, Delta(4, (), (bad.key,)))
    assert seqs(mirror) == {2}


def test_a_store_of_another_release_is_refused_before_its_values_are() -> None:
    newer = schema.encode(SchemaStamp(schema.VERSION + 1))
    mirror = Mirror.of(snapshot(Entry(keys.SCHEMA, newer, 1), Entry(grant(1).key, b"{", 1)))
    with pytest.raises(SchemaMismatch):
        view_of(mirror)
    updated(mirror, Delta(2, (), (keys.SCHEMA, grant(1).key)))
    assert view_of(mirror).schema is None


def test_the_last_commit_is_of_any_writer() -> None:
    mirror = Mirror.of(snapshot(grant(1, rev=9), Entry(keys.commit("a"), b"", 4)))
    assert mirror.last_commit == 4
    updated(mirror, Delta(12, (Entry(keys.commit("b"), b"", 11),), ()))
    assert mirror.last_commit == 11
    assert Mirror().last_commit == 0
