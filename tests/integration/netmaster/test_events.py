"""Watches of API v2 with several masters on a real store, and the client that reads them.

A watcher goes on behind the last event that it has seen, with whichever master answers. It must see
each change once and in order, whoever leads and whoever ends.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

import pytest

from contivmodel.calls_v2 import ApiChange, Events, creation, deletion, patch
from contivmodel.client_async import AsyncApiClient
from contivmodel.client_v2 import ApiClient
from contivmodel.objects import Netprofile, RestObject, Tenant
from core.errors import MasterUnavailable
from netmaster.api.v2.events.stream import StreamLimits
from tests.bed.etcd import Etcd
from tests.bed.master import MODES, Master
from tests.bed.store import Store
from tests.bed.waiting import WITHIN, eventually

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd")]

SHORT_LEASE: Final = (*MODES, "--lease-ttl", "2")
TENANT: Final = "watched"
M = TypeVar("M", bound=RestObject)
Seen = tuple[str, int | None]
"""The key of a profile, and its DSCP, None if it was deleted."""


@pytest.fixture
def masters(bed_dir: Path, store: Store) -> Iterator[list[Master]]:
    """Run three masters; the first leads."""
    running: list[Master] = []
    try:
        for number in range(3):
            master = Master(bed_dir, store, name=f"m{number}", leads=not number, flags=SHORT_LEASE)
            master.start()
            running.append(master)
        yield running
    finally:
        for master in running:
            master.kill()


class Watcher(threading.Thread):
    """Reads events, from one master after the other, until told to stop."""

    def __init__(self, masters: list[Master]) -> None:
        super().__init__()
        self._clients = [ApiClient(master.url, timeout=WITHIN) for master in masters]
        self.stop = threading.Event()
        self.events: list[Events] = []

    def run(self) -> None:
        """Go on behind the last event with the next master whenever a connection ends."""
        after: str | None = None
        for number in count():
            if self.stop.is_set():
                return
            with suppress(MasterUnavailable):
                for event in self._clients[number % len(self._clients)].events(after):
                    self.events.append(event)
                    after = event.id
                    if self.stop.is_set():
                        return
            self.stop.wait(0.05)

    def has_begun(self) -> bool:
        """Say whether anything came."""
        return bool(self.events)

    def has_seen(self, done: list[Seen]) -> bool:
        """Say whether as many changes came."""
        return len(self.seen()) >= len(done)

    def seen(self) -> list[Seen]:
        """Return the changes of profiles, in the order of their arrival."""
        return [
            (change.key, change.obj["DSCP"] if change.obj else None)
            for event in list(self.events)
            for change in event.changes
            if change.plural == Netprofile.plural
        ]


class Writer:
    """Makes changes one by one, each until its outcome is known."""

    def __init__(self, masters: list[Master]) -> None:
        self._clients = [ApiClient(master.url, timeout=WITHIN) for master in masters]
        self._next = 0
        self.done: list[Seen] = []
        self._number = 0

    def make(self, change: ApiChange[M]) -> None:
        """Make a change, with any master; the same key makes it once."""

        def made() -> bool:
            client = self._clients[self._next % len(self._clients)]
            try:
                client.make(change)
            except MasterUnavailable:
                self._next += 1
                return False
            return True

        eventually(made, f"{change.method} {change.path} is answered")

    def work(self, rounds: int) -> None:
        """Create, change and delete profiles."""
        for _ in range(rounds):
            self._number += 1
            name = f"p{self._number}"
            key = f"{TENANT}:{name}"
            profile = Netprofile(tenant_name=TENANT, profile_name=name, bandwidth="1 kbps", dscp=1)
            self.make(creation(profile))
            self.make(patch(Netprofile, key, {"DSCP": 2}))
            self.done += [(key, 1), (key, 2)]
            if self._number % 2:
                self.make(deletion(Netprofile, key))
                self.done.append((key, None))


def test_a_watcher_misses_none_and_repeats_none(masters: list[Master]) -> None:
    writer = Writer(masters)
    writer.make(creation(Tenant(tenant_name=TENANT)))
    # One begins at the leader, which is killed; the others at followers, one of which leads then.
    watchers = [Watcher(masters[first:] + masters[:first]) for first in range(3)]
    for watcher in watchers:
        watcher.start()
    try:
        for watcher in watchers:
            eventually(watcher.has_begun, "the watch has begun")
        writer.work(5)
        masters[0].kill()
        writer.work(5)
        second = eventually(lambda: leading(masters[1:]), "another master leads")
        second[0].terminate()
        writer.work(5)
        for watcher in watchers:
            eventually(partial(watcher.has_seen, writer.done), "all was seen")
    finally:
        for watcher in watchers:
            watcher.stop.set()
        for master in masters:
            master.kill()
        for watcher in watchers:
            watcher.join(WITHIN)
    for watcher in watchers:
        assert not watcher.is_alive()
        assert watcher.seen() == writer.done
        assert not any(event.reset for event in watcher.events)
        revisions = [event.revision for event in watcher.events if event.changes]
        assert revisions == sorted(set(revisions))


def leading(masters: list[Master]) -> list[Master]:
    """Return the one that says that it leads, if any."""
    return [
        master
        for master in masters
        if f'"leader-ip":"{master.address}"' in master.ask("GET", "/info").text
    ]


def test_who_is_too_far_behind_is_told_to_read_again(masters: list[Master]) -> None:
    client = ApiClient(masters[1].url, timeout=WITHIN)
    first = next(client.events(after=".1"))
    assert (first.reset, first.changes) == (True, ())
    most, held = StreamLimits().per_peer, []
    with pytest.raises(MasterUnavailable, match=f"^{most} watches are open"):  # noqa: PT012 - the last one is refused
        for _ in range(most + 1):
            held += [client.events()]
            next(held[-1])
    assert len(held) >= most  # the first one may not be over yet


def test_a_store_that_went_back_is_told(bed_dir: Path, store: Store) -> None:
    """The store passes the revision again that a watcher has seen, while no master looks."""
    assert isinstance(store, Etcd)
    master = Master(bed_dir, store, name="m0", leads=True, flags=SHORT_LEASE)
    master.start()
    try:
        client = ApiClient(master.url, timeout=WITHIN)
        kept, lost = (Tenant(tenant_name=name) for name in ("kept", "lost"))
        client.make(creation(kept))
        saved = store.save()
        events = client.events()
        assert next(events).changes == ()
        client.make(creation(lost))
        seen = next(event for event in events if event.changes)
        events.close()  # type: ignore[attr-defined]
        followed = client.follow(Tenant)
        assert {"kept", "lost"} <= next(followed).keys()
        master.kill()
        store.restore(saved, further=seen.revision)
        master.start()
        first = next(client.events(after=seen.id))
        assert (first.reset, first.changes) == (True, ())
        assert first.revision > seen.revision
        with pytest.raises(MasterUnavailable):
            list(followed)  # its connection ended with the master
        assert "lost" not in next(client.follow(Tenant))
    finally:
        master.kill()


def test_the_objects_of_a_class_are_followed(masters: list[Master]) -> None:
    client = ApiClient(masters[1].url, timeout=WITHIN)
    profile = Netprofile(tenant_name=TENANT, profile_name="p", bandwidth="1 kbps", dscp=1)
    client.make(creation(Tenant(tenant_name=TENANT)))
    followed = client.follow(Netprofile)
    assert next(followed) == {}
    client.make(creation(profile))
    assert next(followed)[profile.object_key()].dscp == 1
    client.make(patch(Netprofile, profile.object_key(), {"DSCP": 2}))
    assert next(followed)[profile.object_key()].dscp == 2
    client.make(deletion(Netprofile, profile.object_key()))
    assert next(followed) == {}


async def test_objects_are_followed_when_a_master_goes(masters: list[Master]) -> None:
    """Both clients know of three masters, and watch a follower that is killed."""
    one, watched, other = (master.url for master in masters)
    blocking = ApiClient([watched, other, one], timeout=WITHIN)
    tenants = blocking.follow(Tenant)
    async with AsyncApiClient([watched, other, one], timeout=WITHIN) as awaited:
        both = awaited.follow(Tenant)
        assert TENANT not in await asyncio.to_thread(next, tenants)
        assert TENANT not in await anext(both)
        masters[1].kill()
        blocking.make(creation(Tenant(tenant_name=TENANT)))
        while TENANT not in await asyncio.to_thread(next, tenants):
            pass
        while TENANT not in await anext(both):
            pass
