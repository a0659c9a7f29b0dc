"""Own commits are not taken for foreign writes, and foreign ones are found."""

import pytest

from core import keys
from core.ids import NetworkId
from netmaster.commits.foreign_writes import RevisionTracker
from objdb.api import Delete, Delta, Entry, Put, Snapshot

KEY = keys.network(NetworkId("a.t"))
OTHER = keys.network(NetworkId("b.t"))
AGENTS = keys.HOSTS + "h1"


def delta(rev: int, *puts: tuple[str, int], deletes: tuple[str, ...] = ()) -> Delta:
    entries = tuple(Entry(key, b"", at) for key, at in puts)
    return Delta(rev=rev, puts=entries, deletes=deletes)


def snapshot(rev: int, *puts: tuple[str, int]) -> Snapshot:
    return Snapshot(rev, {key: Entry(key, b"", at) for key, at in puts})


@pytest.fixture
def tracker() -> RevisionTracker:
    """Return a tracker of a store with one key, at revision 5."""
    tracker = RevisionTracker()
    tracker.restart({KEY: 3}, 5)
    return tracker


def test_what_was_there_at_the_start_is_known(tracker: RevisionTracker) -> None:
    assert tracker.foreign_key(snapshot(5, (KEY, 3))) is None
    assert tracker.prefixes.revisions == {keys.NETWORKS: 3}


def test_an_own_commit_is_known_by_its_revision(tracker: RevisionTracker) -> None:
    tracker.committed([Put(OTHER, b""), Delete(KEY)], 6)
    assert tracker.foreign_key(delta(6, (OTHER, 6), deletes=(KEY,))) is None
    assert tracker.revs == {OTHER: 6}


def test_a_foreign_put_is_found(tracker: RevisionTracker) -> None:
    assert tracker.foreign_key(delta(6, (KEY, 6))) == KEY


def test_a_foreign_put_behind_an_own_one_is_found(tracker: RevisionTracker) -> None:
    tracker.committed([Put(KEY, b"")], 6)
    assert tracker.foreign_key(delta(7, (KEY, 7))) == KEY


def test_a_report_from_before_an_own_put_proves_nothing(tracker: RevisionTracker) -> None:
    tracker.committed([Delete(KEY)], 6)
    tracker.committed([Put(KEY, b"")], 7)
    assert tracker.foreign_key(delta(6, deletes=(KEY,))) is None
    assert tracker.foreign_key(snapshot(6)) is None


@pytest.mark.parametrize("report", [delta(6, deletes=(KEY,)), snapshot(6)], ids=type)
def test_a_foreign_delete_is_found(tracker: RevisionTracker, report: Delta | Snapshot) -> None:
    assert tracker.foreign_key(report) == KEY


def test_keys_of_agents_are_none_of_the_leaders(tracker: RevisionTracker) -> None:
    assert tracker.foreign_key(delta(6, (AGENTS, 6))) is None
    assert tracker.foreign_key(delta(7, deletes=(AGENTS,))) is None
