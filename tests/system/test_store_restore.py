"""A store that goes back to a backup under running daemons and pods: every part follows it."""

import subprocess
import time
from typing import Any

import pytest

from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.etcd import Etcd
from tests.bed.hosts import Host
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.rest import ask

pytestmark = [
    pytest.mark.usefixtures("no_pods_left"),
    pytest.mark.system,
    pytest.mark.store,
    pytest.mark.stores("etcd"),
    pytest.mark.timeout(200),
]

NOTICED = 30.0
"""Seconds within which all is as it should be, on a busy machine."""


@pytest.fixture
def store(bed: Bed) -> Etcd:
    """Give the store; what tests leave in it does not matter."""
    assert isinstance(bed.store, Etcd)
    return bed.store


def test_a_restored_store_is_what_every_part_follows(bed: Bed, store: Etcd) -> None:
    here, there = bed.hosts
    bed.netctl("policy", "create", "guard")
    bed.netctl("group", "create", "-p", "guard", "default-net", "web")
    old = [bed.add_pod(here, "old-1"), bed.add_pod(there, "old-2", group="web")]
    eventually(lambda: old[0].ping(old[1].address), "pods of two hosts reach each other")
    saved = store.save()
    for number in range(5):
        bed.netctl("tenant", "create", f"t{number}")
    store.restore(saved)
    eventually(lambda: hosts_applied(bed), "hosts follow the restored store", within=NOTICED)
    new = [new_pod(bed, host) for host in bed.hosts]
    assert_addresses_differ([*old, *new])
    eventually(lambda: new[0].ping(new[1].address), "new pods reach each other")
    assert new[0].ping(old[1].address)
    rule = ["--direction=in", "--action=deny", "--protocol=icmp", "--priority=10"]
    bed.netctl("policy", "rule-add", *rule, "guard", "1")
    eventually(lambda: not new[0].ping(old[1].address), "the rule is in force")
    assert new[0].ping(new[1].address)


def test_hosts_come_back_to_an_empty_store_that_is_loaded(bed: Bed, store: Etcd) -> None:
    old = [bed.add_pod(host, f"old-{host.label}") for host in bed.hosts]
    backup = netmaster(bed, "dump")
    bed.netmaster.stop()
    store.empty()
    netmaster(bed, "load", text=backup)
    bed.netmaster.start()
    eventually(lambda: hosts_applied(bed), "all hosts are there", within=NOTICED)
    new = [new_pod(bed, host) for host in bed.hosts]
    assert_addresses_differ([*old, *new])
    eventually(lambda: new[0].ping(new[1].address), "new pods reach each other")
    assert new[0].ping(old[1].address)


def new_pod(bed: Bed, host: Host) -> Pod:
    """Return a new pod; a runtime tries again as well."""
    give_up_at = time.monotonic() + NOTICED
    while True:
        try:
            return bed.add_pod(host, f"new-{host.label}")
        except CniFailed:
            if time.monotonic() > give_up_at:
                raise


def assert_addresses_differ(pods: list[Pod]) -> None:
    assert len({pod.address for pod in pods}) == len(pods), "an address is held twice"


def netmaster(bed: Bed, command: str, *, text: str = "") -> str:
    """Run a command of netmaster on the store; its output."""
    words = [*bed.fabric.namespace.enter, str(PROGRAMS / "netmaster"), command, *bed.store_flags()]
    done = subprocess.run(words, check=True, input=text, capture_output=True, text=True, timeout=60)
    return str(done.stdout)


def hosts_applied(bed: Bed) -> bool:
    """Tell whether all hosts are registered, without faults, and have applied all."""
    shown = hosts(bed)
    return len(shown) == len(bed.hosts) and all(
        one["registered"] and one["applied"] and not one["errors"] for one in shown
    )


def hosts(bed: Bed) -> list[dict[str, Any]]:
    """Return what netmaster shows of hosts; nothing while no master leads."""
    answer = ask(bed, "GET", "/hosts")
    found: list[dict[str, Any]] = answer.json() if answer.status == 200 else []
    return found
