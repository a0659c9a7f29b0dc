"""`/metrics` of masters: of the leader, and of a follower, which answers for itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.metrics import MetricKind
from netmaster import master_metrics as names
from tests.bed.etcd import Etcd
from tests.bed.master import Master
from tests.bed.metrics import Metrics, parsed
from tests.bed.store import Store
from tests.bed.waiting import eventually

pytestmark = pytest.mark.store

OF_LEADER = {
    *(names.PENDING, names.LOCK, names.AGENTS, names.HOSTS, names.OBJECTS, names.ENDPOINTS),
    *(names.ADDRESSES, names.ADDRESSES_FREE),
}
NETWORK = {
    "tenantName": "default",
    "networkName": "n",
    "encap": "vxlan",
    "subnet": "10.7.0.0/24",
    "gateway": "10.7.0.254",
    "ipv6Subnet": "fd00:7::/64",
    "ipv6Gateway": "fd00:7::1",
}
AT = {"tenant": "default", "network": "n"}


@pytest.fixture
def leader(bed_dir: Path, store: Store) -> Iterator[Master]:
    master = Master(bed_dir, store, name="first")
    master.start()
    yield master
    master.kill()


@pytest.fixture
def follower(bed_dir: Path, store: Store, leader: Master) -> Iterator[Master]:
    master = Master(bed_dir, store, name="second", leads=False)
    master.start()
    assert leader.ask("GET", "/info").status == 200
    yield master
    master.kill()


def page(master: Master) -> Metrics:
    answer = master.ask("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.body)


def test_a_leader_and_a_follower_show_what_they_are(
    store: Store, leader: Master, follower: Master
) -> None:
    forwarded = {"method": "GET", "route": "forwarded"}
    before = page(follower)
    assert leader.ask("POST", "/api/v1/networks/default:n/", NETWORK).status == 200
    assert follower.ask("GET", "/api/v1/networks/default:n/").status == 200
    assert follower.ask("GET", "/nowhere").status == 404
    of_leader, of_follower = page(leader), page(follower)
    left_out = {names.RELEASED, names.LEASES_LOST, names.READY, names.EXPIRY}
    if not isinstance(store, Etcd):
        left_out |= {names.STORE_SIZE, names.STORE_USED}
    for metric in set(names.METRICS) - left_out:
        family = metric.name.removesuffix("_total")
        assert of_leader.kinds[family] == metric.kind.value
        if metric in OF_LEADER:
            assert not of_follower.has(metric.name)
        elif metric.kind is MetricKind.HISTOGRAM:
            assert of_follower.kinds[family] == "histogram"
    if isinstance(store, Etcd):
        for of in (of_leader, of_follower):
            assert 0 < of.value(names.STORE_USED.name) <= of.value(names.STORE_SIZE.name)
            assert of.value(names.STORE_ALARM.name, alarm="nospace") == 0
    assert of_leader.value(names.LEADER.name) == 1
    assert of_follower.value(names.LEADER.name) == 0
    assert of_leader.value(names.STATE.name, state="leader") == 1
    assert of_follower.value(names.STATE.name, state="follower") == 1
    assert not of_leader.has(names.READY.name)
    eventually(lambda: page(follower).value(names.READY.name) == 1, "it has read the store")
    assert 0 < of_leader.value(names.LOCK.name) <= 60
    for name, labels, more in (
        (names.REQUESTS.name, {**forwarded, "code": "200"}, 1),
        (names.REQUESTS.name, {**forwarded, "code": "404"}, 1),
        (f"{names.REQUEST_SECONDS.name}_count", forwarded, 2),
    ):
        assert of_follower.total(name, **labels) == before.total(name, **labels) + more
    route = "/api/v1/networks/{key}/"
    assert of_leader.value(names.REQUESTS.name, method="POST", route=route, code="200") == 1
    assert of_leader.value(names.REQUESTS.name, method="GET", route="unknown", code="404") == 1


def test_networks_show_how_many_addresses_they_have_left(leader: Master) -> None:
    leader.ask("POST", "/api/v1/networks/default:n/", NETWORK)
    before = page(leader)
    assert before.value(names.ADDRESSES.name, **AT, family="ipv4") == 254
    assert before.value(names.ADDRESSES_FREE.name, **AT, family="ipv4") == 253  # the gateway's
    assert before.value(names.ADDRESSES.name, **AT, family="ipv6") == float(2**64 - 1)
    created = {
        "TenantName": "default",
        "NetworkName": "n",
        "ConfigEP": {"Container": "c1", "Host": "h1"},
    }
    assert leader.ask("POST", "/plugin/createEndpoint", created).status == 200
    after = page(leader)
    assert after.value(names.ADDRESSES_FREE.name, **AT, family="ipv4") == 252
    assert after.value(names.ENDPOINTS.name) == before.value(names.ENDPOINTS.name) + 1
    committed = {"outcome": "committed"}
    made = after.value(names.COMMITS.name, **committed)
    assert made == before.value(names.COMMITS.name, **committed) + 1
    assert after.value(f"{names.COMMIT_GROUP.name}_count") == made
    assert after.value(f"{names.COMMIT_SECONDS.name}_count") == made
    eventually(
        lambda: page(leader).value(f"{names.WATCH_LAG.name}_count") >= 1,
        "the watch reports a commit",
    )


def test_a_master_without_a_store_still_answers(leader: Master, store: Store) -> None:
    store.kill()
    eventually(lambda: page(leader).value(names.LEADER.name) == 0, "it leads no more")
    assert page(leader).value(names.ELECTIONS.name, input="lost") == 1
    assert not page(leader).has(names.ENDPOINTS.name)


def test_paths_and_methods_of_clients_are_no_labels(leader: Master) -> None:
    for number in range(20):
        leader.ask("GET", f"/no/such/{number}")
        leader.ask("GET", f"/api/v1/networks/default:x{number}/")
    found = page(leader)
    routes = {
        dict(labels)["route"] for name, labels in found.samples if name == names.REQUESTS.name
    }
    # `forwarded` is from before it led
    known = {"unknown", "forwarded", "/api/v1/networks/{key}/", "/metrics", "/info"}
    assert routes <= known
    assert found.total(names.REQUESTS.name, route="unknown") >= 20
    assert found.total(names.REQUESTS.name, route="/api/v1/networks/{key}/", code="500") == 20
