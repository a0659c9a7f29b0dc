"""Leadership while processor and disk are taken away for moments, and when they are for good.

Run by `make overload`, not by `make test`. Three masters on an etcd whose disk can be frozen, with
changes all the time. Bursts of up to 1.5 s must not cost the leader its lock; a leader that stays
frozen, as one whose machine has stopped, must be succeeded within 3 s.
"""

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core import keys
from tests.bed.etcd import Etcd
from tests.bed.janitor import detach_mounts
from tests.bed.master import Master
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

BURSTS = int(os.environ.get("CONTIV_TEST_BURSTS", "100"))
STALLS = int(os.environ.get("CONTIV_TEST_STALLS", "10"))
LONGEST = 1.5
"""Seconds that a burst lasts at most."""
HANDED_OVER = 3.0
"""Seconds after which another master leads, when the leader does not go on."""


def leads(master: Master) -> bool:
    """Return whether a master says that it leads, which a frozen one does not."""
    if master.frozen:
        return False
    answer = master.ask("GET", "/info")
    return answer.status == 200 and f'"leader-ip":"{master.address}"' in answer.body.decode()


class OverloadedMasters:
    """Three masters on one etcd that has a disk of its own."""

    def __init__(self, directory: Path) -> None:
        self.disk = directory / "disk"
        self.etcd = Etcd(self.disk)
        self._directory = directory
        self.masters: list[Master] = []

    def start(self) -> "OverloadedMasters":
        image = self._directory / "image"
        with image.open("wb") as file:
            file.truncate(256 << 20)
        self.disk.mkdir()
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, self.disk], check=True)
        self.etcd.start()
        for number in range(3):
            master = Master(self._directory, self.etcd, name=f"m{number}", leads=not number)
            master.start()
            self.masters.append(master)
        return self

    def stop(self) -> None:
        for daemon in (*self.masters, self.etcd):
            daemon.kill()
        detach_mounts(self._directory)

    def leader(self) -> Master:
        """Return the master that leads."""
        found = eventually(
            lambda: [one for one in self.masters if leads(one)], "a master leads", within=30
        )
        return found[0]

    def lock(self) -> bytes | None:
        """Return what the lock's holder has written, another in each term."""
        return self.etcd.entries(keys.LEADER_LOCK).get(keys.LEADER_LOCK)

    def freeze_disk(self, seconds: float) -> None:
        """Let nothing be written for so long, whatever becomes of this process."""
        script = 'fsfreeze -f "$0" && sleep "$1"; fsfreeze -u "$0"'
        subprocess.run(["sh", "-c", script, self.disk, str(seconds)], check=True)

    def freeze(self, *daemons: Master | Etcd, seconds: float) -> None:
        """Give daemons no processor for so long."""
        for daemon in daemons:
            daemon.pause()
        time.sleep(seconds)
        for daemon in daemons:
            daemon.resume()


@pytest.fixture
def cluster(bed_dir: Path) -> Iterator[OverloadedMasters]:
    cluster = OverloadedMasters(bed_dir)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@contextmanager
def changing(cluster: OverloadedMasters) -> Iterator[Callable[[], int]]:
    """Create and delete a tenant all the time; yield how many changes were made."""
    done, made = threading.Event(), [0]

    def change() -> None:
        while not done.is_set():
            for method in ("POST", "DELETE"):
                body = {"tenantName": "busy"} if method == "POST" else None
                try:
                    answer = cluster.leader().ask(method, "/api/v1/tenants/busy/", body)
                except (OSError, TimeoutError):
                    continue
                made[0] += answer.status == 200

    changer = threading.Thread(target=change)
    changer.start()
    try:
        yield lambda: made[0]
    finally:
        done.set()
        changer.join()


def test_bursts_cost_no_leader_its_lock(cluster: OverloadedMasters) -> None:
    """Processor, disk, or both: of the leader, of the store, of both."""
    choices = random.Random(os.environ.get("CONTIV_TEST_SEED", "1"))
    held = cluster.lock()
    leader, etcd = cluster.leader(), cluster.etcd
    kinds: dict[str, Callable[[float], None]] = {
        "the leader's processor": lambda seconds: cluster.freeze(leader, seconds=seconds),
        "the store's processor": lambda seconds: cluster.freeze(etcd, seconds=seconds),
        "the processor of both": lambda seconds: cluster.freeze(leader, etcd, seconds=seconds),
        "the disk": cluster.freeze_disk,
    }
    lost = []
    with changing(cluster) as made:
        for _ in range(BURSTS):
            kind, seconds = choices.choice(sorted(kinds)), choices.uniform(0.3, LONGEST)
            kinds[kind](seconds)
            goes_on(made)
            if cluster.lock() != held:
                lost.append(f"{seconds:.2f} s without {kind}")
                held, leader = cluster.lock(), cluster.leader()
            time.sleep(choices.uniform(0, 0.5))
    print(f"\n{BURSTS} bursts, {made()} changes, {len(lost)} changes of leader: {lost}")  # noqa: T201
    assert not lost


def test_a_leader_that_stays_frozen_is_succeeded(cluster: OverloadedMasters) -> None:
    took = []
    for _ in range(STALLS):
        leader, held = cluster.leader(), cluster.lock()
        leader.pause()
        begun = time.monotonic()
        taken_over(cluster, held)
        took.append(time.monotonic() - begun)
        leader.resume()
        follows(leader)
    print(f"\nhanded over after {', '.join(f'{one:.2f}' for one in took)} s")  # noqa: T201
    assert max(took) <= HANDED_OVER


def goes_on(made: Callable[[], int]) -> None:
    """Wait for another change."""
    before = made()
    eventually(lambda: made() > before, "changes are made again", within=30)


def taken_over(cluster: OverloadedMasters, held: bytes | None) -> None:
    """Wait until another one has the lock than it was held by."""
    eventually(lambda: cluster.lock() not in {held, None}, "another one leads", within=30)


def follows(master: Master) -> None:
    eventually(lambda: not leads(master), "the former leader follows")
