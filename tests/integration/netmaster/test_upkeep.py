"""Leaked state over REST: addresses are checked and mended, hosts drained and removed.

A leader that is killed in the middle of a dead host's clean-up is followed by one that ends it, and
so is one that is killed while it takes the rules of a policy under audit, or out of it.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from core import keys
from core.ids import HostLabel, NetworkId
from objdb.api import Backend, Change, Put
from state import codec
from state.records import GrantOwner, GrantRecord, HostRecord, ServiceInstance
from tests.bed.master import MODES, Answer, Master
from tests.bed.store import Store, client
from tests.bed.waiting import eventually

pytestmark = pytest.mark.store

NETWORK = {
    "tenantName": "default",
    "networkName": "n",
    "encap": "vxlan",
    "subnet": "10.1.0.0/16",
}
H1 = HostLabel("h1")
MANY = 400
"""Endpoints of a host, rules of a policy: so many parts that a leader is killed between two."""


class AgentsSide:
    """What agents would write to the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, key: str, value: bytes) -> None:
        asyncio.run(self._put(key, value))

    def host(self, label: HostLabel) -> None:
        record = HostRecord(label=label, control_ip="10.0.0.1", vtep_ip="", vxlan_port=4789)
        self.put(keys.host(label), codec.encode(record))

    def register(self, label: HostLabel) -> None:
        """Register an agent, for ever."""
        instance = ServiceInstance(
            service=keys.SERVICE_NETPLUGIN, address="127.0.0.1", port=9002, hostname=label
        )
        self.put(keys.service(instance.service, "127.0.0.1", 9002), codec.encode(instance))

    async def _put(self, key: str, value: bytes) -> None:
        backend: Backend = client(self._store)
        try:
            await backend.commit([Change((), (Put(key, value),))])
        finally:
            await backend.close()


@pytest.fixture
def agents(store: Store) -> AgentsSide:
    """Write to the store as agents do."""
    return AgentsSide(store)


@pytest.fixture
def master(bed_dir: Path, store: Store) -> Iterator[Master]:
    """Run a leader with a network."""
    master = Master(bed_dir, store)
    master.start()
    try:
        assert master.ask("POST", "/api/v1/networks/default:n/", NETWORK).status == 200
        yield master
        assert "internal error" not in master.log_text()
    finally:
        master.kill()


def create(master: Master, container: str, host: str = H1) -> Answer:
    body = {
        "TenantName": "default",
        "NetworkName": "n",
        "ConfigEP": {"Container": container, "Host": host},
    }
    return master.ask("POST", "/plugin/createEndpoint", body)


def endpoints(store: Store) -> set[str]:
    return {key.removeprefix(keys.ENDPOINTS) for key in store.entries(keys.ENDPOINTS)}


def data(answer: Answer) -> Any:
    assert answer.status == 200, answer.text
    return answer.json()


def test_foreign_leaks_are_found_and_repaired(
    master: Master, store: Store, agents: AgentsSide
) -> None:
    agents.host(H1)
    create(master, "a")
    assert data(master.ask("GET", "/ipam/check"))["findings"] == []
    before = store.entries(keys.GRANTS)
    grant = GrantRecord(
        owner=GrantOwner.ENDPOINT, owner_id="n.default-gone", seq=77, granted_at=5.0
    )
    agents.put(keys.grant(NetworkId("n.default"), "10.1.0.9"), codec.encode(grant))

    def found() -> list[Any]:
        answer = master.ask("GET", "/ipam/check")
        return list(data(answer)["findings"]) if answer.status == 200 else []

    (finding,) = eventually(found, "the foreign grant is seen")
    assert finding == {
        "kind": "grant-without-owner",
        "network": "n.default",
        "address": "10.1.0.9",
        "owner": "endpoint n.default-gone",
        "since": 5.0,
        "remedy": "release the address",
        "certain": True,
    }
    fixed = data(master.ask("POST", "/ipam/fix"))
    assert (fixed["fixed"], fixed["findings"]) == ([finding], [])
    assert fixed["mended"] == {"grant-without-owner": 1}
    assert store.entries(keys.GRANTS) == before
    assert data(master.ask("POST", "/ipam/fix"))["fixed"] == []
    assert data(master.ask("GET", "/ipam/check"))["mended"] == {"grant-without-owner": 1}
    assert 'msg="address repaired" key=grant-without-owner network=n.default' in master.log_text()


def test_an_endpoint_of_an_unknown_host_is_found(master: Master) -> None:
    create(master, "a", "nowhere")
    (finding,) = data(master.ask("GET", "/ipam/check"))["findings"]
    assert finding["remedy"] == "nothing: netctl host rm nowhere --force"
    assert data(master.ask("DELETE", "/hosts/nowhere/force"))["endpoints"] == 1
    assert data(master.ask("GET", "/ipam/check"))["findings"] == []


def test_a_drained_host_gets_no_endpoints(master: Master, agents: AgentsSide) -> None:
    agents.host(H1)
    first = create(master, "a")
    assert data(master.ask("POST", "/hosts/h1/drain")) == {
        "label": "h1",
        "drained": True,
        "endpoints": 1,
    }
    refused = create(master, "b")
    assert (refused.status, refused.text) == (
        500,
        "host h1 is drained and takes no new endpoints; netctl host drain h1 --undo ends that",
    )
    assert create(master, "a").body == first.body
    assert create(master, "b", "h2").status == 200
    master.kill()
    master.start()
    assert create(master, "c").status == 500
    assert data(master.ask("DELETE", "/hosts/h1/drain"))["drained"] is False
    assert create(master, "b").status == 200


def test_a_host_in_use_is_removed_by_force_only(
    master: Master, store: Store, agents: AgentsSide
) -> None:
    agents.host(H1)
    agents.register(H1)
    create(master, "a")
    master.ask("POST", "/hosts/h1/drain")
    assert "has a running agent" in master.ask("DELETE", "/hosts/h1").text
    for key in store.entries(keys.services(keys.SERVICE_NETPLUGIN)):
        store.delete(key)
    assert "has 1 endpoints; delete them" in master.ask("DELETE", "/hosts/h1").text
    assert data(master.ask("DELETE", "/hosts/h1/force")) == {"label": "h1", "endpoints": 1}
    assert (endpoints(store), store.entries(keys.HOSTS), store.entries(keys.DRAINS)) == (
        set(),
        {},
        {},
    )
    again = master.ask("DELETE", "/hosts/h1/force")
    assert (again.status, again.text) == (500, "host h1 not found")
    assert master.ask("POST", "/hosts/h1/drain").text == "host h1 not found"


def test_an_unused_host_is_removed(master: Master, store: Store, agents: AgentsSide) -> None:
    agents.host(H1)
    assert data(master.ask("DELETE", "/hosts/h1")) == {"label": "h1", "endpoints": 0}
    assert store.entries(keys.HOSTS) == {}


def test_the_next_leader_ends_a_dead_host_s_clean_up(
    bed_dir: Path, store: Store, agents: AgentsSide
) -> None:
    flags = (*MODES, "--dead-host-after", "1")
    first = Master(bed_dir, store, name="first", flags=flags)
    second = Master(bed_dir, store, name="second", flags=flags, leads=False)
    try:
        first.start()
        assert first.ask("POST", "/api/v1/networks/default:n/", NETWORK).status == 200
        for number in range(MANY):
            assert create(first, f"c{number}").status == 200
        assert create(first, "alive", "h2").status == 200
        second.start()
        agents.host(H1)
        eventually(lambda: len(endpoints(store)) <= MANY, "a part of the clean-up is done")
        first.kill()
        eventually(
            lambda: endpoints(store) == {"n.default-alive"} and not store.entries(keys.CLEANUPS),
            "the next leader has ended it",
        )
        assert store.entries(keys.HOSTS) == {}
        assert store.entries(keys.ABSENCES) == {}
        held = {json.loads(value)["ownerID"] for value in store.entries(keys.GRANTS).values()}
        assert held == {"n.default-alive"}
    finally:
        first.kill()
        second.kill()


@pytest.mark.parametrize("becomes", ["audit", "enforcing"])
def test_the_next_leader_ends_what_an_audit_began(
    bed_dir: Path, store: Store, becomes: str
) -> None:
    first = Master(bed_dir, store, name="first", flags=MODES)
    second = Master(bed_dir, store, name="second", flags=MODES, leads=False)
    policy = {"tenantName": "default", "policyName": "p"}
    audits = {"audit": True} if becomes == "enforcing" else {}
    try:
        first.start()
        body = policy | ({"enforcement": "audit"} if audits else {})
        assert first.ask("POST", "/api/v1/policys/default:p/", body).status == 200
        for number in range(MANY):
            rule = {**policy, "ruleId": str(number), "direction": "in", "priority": 1}
            rule |= {"action": "deny" if number % 2 else "allow", **audits}
            assert first.ask("POST", f"/api/v1/rules/default:p:{number}/", rule).status == 200
        second.start()

        def audited() -> list[bool]:
            found = store.entries(keys.RULES).values()
            return [bool(json.loads(one).get("audit")) for one in found]

        def change() -> None:
            with suppress(OSError):
                first.ask("POST", "/api/v1/policys/default:p/", policy | {"enforcement": becomes})

        asking = Thread(target=change)
        asking.start()
        wanted = becomes == "audit"
        eventually(lambda: wanted in audited(), "a part of the change is made")
        first.kill()
        asking.join()
        eventually(lambda: set(audited()) == {wanted}, "the next leader has ended it")

        def told() -> bool:
            answer = second.ask("GET", "/api/v1/policys/default:p/")
            said = data(answer).get("enforcement", "") if answer.status == 200 else None
            return said == ("audit" if wanted else "")

        eventually(told, "the policy says so")
    finally:
        first.kill()
        second.kill()
