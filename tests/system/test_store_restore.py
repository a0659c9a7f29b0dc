"""A store that goes back to a backup under running daemons and pods: every part follows it.

Also where nobody saw it: masters that are started after the restore, agents that were down
meanwhile, an empty store that a dump is loaded into. New pods are asked for at once, while the
hosts of the running ones are about to claim them.
"""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from core import keys
from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.etcd import Etcd
from tests.bed.hosts import Host
from tests.bed.pods import CniFailed, Pod
from tests.bed.store import Store
from tests.bed.waiting import WITHIN, eventually
from tests.system.rest import ask, delete_endpoint

pytestmark = [
    pytest.mark.usefixtures("no_pods_left"),
    pytest.mark.system,
    pytest.mark.store,
    pytest.mark.stores("etcd", "consul"),
]


@pytest.fixture
def store(bed: Bed) -> Store:
    """Give the store; what tests leave in it does not matter."""
    return bed.store


def backup_of(store: Store) -> Callable[[], None]:
    """Save a store; return what restores it."""
    if isinstance(store, Etcd):
        file = store.save()
        return lambda: store.restore(file)
    snapshot = store.save()
    return lambda: store.restore(snapshot)


def test_a_restored_store_is_what_every_part_follows(bed: Bed, store: Store) -> None:
    """The finding of docs/notes/trust.md §1."""
    here, there = bed.hosts
    bed.netctl("policy", "create", "guard")
    bed.netctl("group", "create", "-p", "guard", "default-net", "web")
    old = [bed.add_pod(here, "old-1"), bed.add_pod(there, "old-2", group="web")]
    eventually(lambda: old[0].ping(old[1].address), "pods of two hosts reach each other")
    go_back = backup_of(store)
    old += [bed.add_pod(here, "later-1"), bed.add_pod(there, "later-2", group="web")]
    for number in range(5):
        bed.netctl("tenant", "create", f"t{number}")
    go_back()
    new = [new_pod(bed, host) for host in bed.hosts]
    eventually(lambda: are_stored(store, [*old, *new]), "pods are claimed again")
    eventually(lambda: hosts_applied(bed), "hosts follow the restored store")
    assert_addresses_differ([*old, *new])
    assert all(new[0].loses_nothing_to(pod.address) for pod in old[1:])
    eventually(lambda: new[0].ping(new[1].address), "new pods reach each other")
    assert new[0].loses_nothing_to(old[1].address)
    rule = ["--direction=in", "--action=deny", "--protocol=icmp", "--priority=10"]
    bed.netctl("policy", "rule-add", *rule, "guard", "1")
    eventually(lambda: not new[0].ping(old[1].address), "the rule is in force")
    assert new[0].loses_nothing_to(new[1].address)


def test_hosts_come_back_to_an_empty_store_that_is_loaded(bed: Bed, store: Store) -> None:
    """The finding of docs/notes/trust.md §1."""
    old = [bed.add_pod(host, f"old-{host.label}") for host in bed.hosts]
    backup = netmaster(bed, "dump")
    old += [bed.add_pod(host, f"later-{host.label}") for host in bed.hosts]
    bed.netmaster.stop()
    store.empty()
    netmaster(bed, "load", text=backup)
    bed.netmaster.start()
    new = [new_pod(bed, host) for host in bed.hosts]
    all_is_right(bed, old, new)


def test_masters_that_start_after_a_restore_grant_no_address_that_runs(
    bed: Bed, store: Store
) -> None:
    go_back = backup_of(store)
    old = [bed.add_pod(host, f"later-{host.label}") for host in bed.hosts]
    bed.netmaster.kill()
    go_back()
    bed.netmaster.start()
    new = [new_pod(bed, host) for host in bed.hosts]
    all_is_right(bed, old, new)


def test_an_agent_that_was_down_claims_what_was_lost_meanwhile(bed: Bed, store: Store) -> None:
    here, there = bed.hosts
    kept = bed.add_pod(here, "kept")
    go_back = backup_of(store)
    old = [kept, *(bed.add_pod(host, f"later-{host.label}") for host in (here, there))]
    bed.netmaster.kill()
    bed.agents[0].kill()
    go_back()
    bed.agents[0].start()
    bed.netmaster.start()
    new = [new_pod(bed, host) for host in bed.hosts]
    all_is_right(bed, old, new)
    # What is released in the history of now stays released, whatever restarts.
    assert delete_endpoint(bed, old[1].sandbox.container_id).status == 200
    bed.agents[0].restart()
    eventually(lambda: not holders(store, old[1].address), "it is not claimed again")
    assert not faults(bed, here.label)


def all_is_right(bed: Bed, old: Sequence[Pod], new: Sequence[Pod]) -> None:
    """See that running pods have their addresses, new ones others, and that all work."""
    eventually(lambda: are_stored(bed.store, [*old, *new]), "pods are claimed")
    eventually(lambda: hosts_applied(bed), "hosts follow the restored store")
    assert_addresses_differ([*old, *new])
    for pod in (*old, new[1]):
        eventually(lambda pod=pod: new[0].ping(pod.address), f"{pod.sandbox.name} is reached")  # type: ignore[misc]


def test_an_address_that_was_granted_to_another_is_reported(bed: Bed, store: Store) -> None:
    """The finding of docs/notes/trust.md §1."""
    here, there = bed.hosts
    asker = bed.add_pod(there, "asker")
    neighbour = bed.add_pod(here, "neighbour")
    go_back = backup_of(store)
    pod = bed.add_pod(here, "later")
    bed.agents[0].pause()
    go_back()
    eventually(lambda: takes(bed, pod.address), "another has the address")
    bed.agents[0].resume()
    eventually(lambda: pod.address in faults(bed, here.label), "it is reported")
    assert pod.address in bed.netctl("host", "inspect", here.label)
    assert holders(store, pod.address) == ["taker"]
    assert neighbour.loses_nothing_to(pod.address), "the pod runs on"
    assert delete_endpoint(bed, "taker").status == 200
    eventually(lambda: not faults(bed, here.label), "the claim is granted")
    eventually(lambda: asker.ping(pod.address), "the pod is reached again")


def takes(bed: Bed, address: str) -> bool:
    """Have an endpoint of no host take an address."""
    config = {"Container": "taker", "Host": "nowhere", "IPAddress": address}
    body = {"TenantName": "default", "NetworkName": "default-net", "ConfigEP": config}
    return ask(bed, "POST", "/plugin/createEndpoint", body).status == 200


def faults(bed: Bed, label: str) -> str:
    """Return the faults of a host; all others' too while it is not shown."""
    return "; ".join(
        error for one in hosts(bed) if one["label"] == label for error in one["errors"]
    )


def holders(store: Store, address: str) -> list[str]:
    """Return the containers that have an address."""
    found = [json.loads(value) for value in store.entries(keys.ENDPOINTS).values()]
    return [one["endpointID"] for one in found if one["ipAddress"] == address]


def are_stored(store: Store, pods: Sequence[Pod]) -> bool:
    """Tell whether each pod alone has its address."""
    return all(holders(store, pod.address) == [pod.sandbox.container_id] for pod in pods)


def new_pod(bed: Bed, host: Host) -> Pod:
    """Return a new pod; a runtime tries again as well."""
    give_up_at = time.monotonic() + WITHIN
    while True:
        try:
            return bed.add_pod(host, f"new-{host.label}")
        except CniFailed:
            if time.monotonic() > give_up_at:
                raise


def assert_addresses_differ(pods: Sequence[Pod]) -> None:
    assert len({pod.address for pod in pods}) == len(pods), "an address is held twice"


def netmaster(bed: Bed, command: str, *, text: str = "") -> str:
    """Run a command of netmaster on the store; its output."""
    words = [*bed.fabric.namespace.enter, str(PROGRAMS / "netmaster"), command, *bed.store_flags()]
    done = subprocess.run(
        words, check=True, input=text, capture_output=True, text=True, timeout=WITHIN
    )
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
