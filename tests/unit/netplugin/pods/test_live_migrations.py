"""Pods that await their machine: without a port until it runs in them, whatever tells of that."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import IPv4Network
from typing import NamedTuple

import pytest

from core import keys
from core.change_notifier import ChangeNotifier
from core.errors import Conflict, ContivError, HostError, MasterUnavailable
from core.tasks import background
from netplugin.cni.request import GcRequest, PodRequest
from netplugin.pods.live_migrations import LiveMigrations
from netplugin.pods.registry.journal_entry import EntryState
from netplugin.world.bridges import port_names
from netplugin.world.kubernetes.kube_pods import KubePod, endpoint_labels
from netplugin.world.kubernetes.pod_annotations import MACHINE_RUNS, MIGRATION
from ofnet.world import HostPort
from state.lineage import Lineage, Term
from state.records import EndpointRecord, NetworkRecord
from state.watch import Removed, StoreRolledBack, SyncedTo
from tests.unit.netplugin.agent import (
    Agent,
    Outside,
    eventually,
    left_nothing,
    request,
    running,
    stays,
)
from tests.unit.netplugin.records import PEER, asking, endpoint, key, network

pytestmark = pytest.mark.usefixtures("hurried")

MACHINE: Mapping[str, str] = {"kubevirt.io/domain": "db"}


class Ears:
    """Where machines announce themselves."""

    def __init__(self) -> None:
        self.links: Set[str] = frozenset()
        self.heard: Callable[[str], None] = lambda _: None

    def made(self, heard: Callable[[str], None]) -> "Ears":
        self.heard = heard
        return self

    def listen(self, links: Set[str]) -> Sequence[ContivError]:
        self.links = links
        return []

    def close(self) -> None:
        self.links = frozenset()


class Site(NamedTuple):
    agent: Agent
    pods: "Pods"
    ears: Ears


class Pods:
    """The pods that Kubernetes knows."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self._changed = ChangeNotifier()

    def pod(self, key: str, uid: str) -> KubePod | None:
        namespace, _, name = key.partition("/")
        labels = {**MACHINE, MIGRATION: "1"}
        found = KubePod(namespace, name, frozenset({uid}), labels, {}, self.annotations)
        return found if key == "shop/db-2" else None

    def changed(self) -> asyncio.Event:
        return self._changed.next

    def annotate(self, annotations: Mapping[str, str]) -> None:
        self.annotations.update(annotations)
        self._changed.notify()


GONE = GcRequest(network_name="net-a", keep=frozenset())
TO_HOST = HostPort(ofport=0x7F00, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
SOURCE = endpoint(1, host=PEER, container="source")


def awaiting(container: str = "c1") -> PodRequest:
    asked = request(container)
    pod = KubePod("shop", "db-2", frozenset({"u"}), MACHINE)
    spec = replace(
        asked.spec, keep="shop/db@vm", awaits_machine=True, labels=endpoint_labels(pod, "u")
    )
    return replace(asked, spec=spec)


@asynccontextmanager
async def migrating(outside: Outside, on: NetworkRecord | None = None) -> AsyncIterator[Site]:
    """Run an agent that knows the source pod's endpoint, and follows machines."""
    outside.master.source = SOURCE.endpoint_id
    pods, ears = Pods(), Ears()
    async with running(outside, (on or network(),)) as agent:
        know(agent, SOURCE, 5)
        host = agent.pod_services.host
        follower = LiveMigrations(host, agent.pods, pods, 1000.0, ears.made)
        async with background("live migrations", follower.run()):
            yield Site(agent, pods, ears)


def know(agent: Agent, record: EndpointRecord, revision: int) -> None:
    agent.learn(f"{keys.ENDPOINTS}{record.key}", record)
    agent.records.apply(SyncedTo(keys.ENDPOINTS, revision))


def connected(agent: Agent) -> bool:
    return agent.world.endpoints.port(key("c1")) is not None


async def test_a_pod_that_awaits_its_machine_has_no_port(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, ears):
        result = await agent.pods.add(awaiting())
        name = result.host_ifname
        assert outside.links.inside["/run/netns/c1", "eth0"].mac == result.mac
        assert name not in outside.ovsdb.ports()
        assert not connected(agent)
        await eventually(lambda: ears.links == {name})
        entry = outside.journal.entries[key("c1")]
        assert (entry.state, entry.source) == (EntryState.PRESENT, "source")
        await agent.pod_ports.converge()
        assert agent.pod_ports.publish() == {}
        assert name not in outside.ovsdb.ports()
        assert await agent.pods.add(awaiting()) == result  # kubelet asks again
        await agent.pods.delete(awaiting())
        await left_nothing(agent)
        assert outside.master.replaced == []


async def test_a_machine_that_announces_itself_is_connected(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, ears):
        result = await agent.pods.add(awaiting())
        await eventually(lambda: bool(ears.links))
        ears.heard(result.host_ifname)
        await eventually(lambda: outside.journal.entries[key("c1")].source == "")
        assert result.host_ifname in outside.ovsdb.ports()
        assert connected(agent)
        assert outside.master.replaced == ["source"]
        assert agent.registry.awaiting() == []
        await eventually(lambda: not ears.links)
        await agent.pods.delete(awaiting())
        await left_nothing(agent)


async def test_kubevirts_word_is_enough(outside: Outside) -> None:
    async with migrating(outside) as (agent, pods, _):
        await agent.pods.add(awaiting())
        pods.annotate({MACHINE_RUNS: "2026-11-28T12:00:00Z"})
        await eventually(lambda: connected(agent))


async def test_a_source_pod_that_is_gone_is_enough(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, _):
        await agent.pods.add(awaiting())
        assert not connected(agent)
        agent.records.apply(Removed(f"{keys.ENDPOINTS}{SOURCE.key}", SOURCE))
        await eventually(lambda: connected(agent))


@pytest.mark.parametrize("failure", [MasterUnavailable("no answer"), Conflict("another has it")])
async def test_what_netmaster_refuses_is_tried_again(
    outside: Outside, failure: ContivError
) -> None:
    async with migrating(outside) as (agent, pods, _):
        await agent.pods.add(awaiting())
        outside.faults.failing["create"] = failure
        pods.annotate({MACHINE_RUNS: "now"})
        await eventually(lambda: agent.context.loops.failures["live migrations not in sync"] > 1)
        assert not connected(agent)
        assert outside.journal.entries[key("c1")].source == "source"
        del outside.faults.failing["create"]
        await eventually(lambda: connected(agent))


async def test_the_next_agent_goes_on_waiting(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, _):
        result = await agent.pods.add(awaiting())
    async with migrating(outside) as (agent, _, ears):
        await eventually(lambda: ears.links == {result.host_ifname})
        assert not connected(agent)
        ears.heard(result.host_ifname)
        await eventually(lambda: connected(agent))


async def test_without_a_source_the_pod_is_connected_at_once(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, ears):
        outside.master.source = ""
        await agent.pods.add(awaiting())
        assert connected(agent)
        assert not ears.links


async def test_a_pod_is_cut_off_once_another_one_has_its_address(outside: Outside) -> None:
    async with migrating(outside) as (agent, pods, _):
        outside.master.source = ""
        result = await agent.pods.add(awaiting())
        name, record = result.host_ifname, outside.master.endpoints[key("c1")]
        know(agent, record, 6)
        agent.records.apply(Removed(f"{keys.ENDPOINTS}{SOURCE.key}", SOURCE))
        pods.annotate({MACHINE_RUNS: "when it came here"})
        agent.records.apply(Removed(f"{keys.ENDPOINTS}{record.key}", record))
        await stays(lambda: name in outside.ovsdb.ports())  # the record may come back
        there = replace(record, key=key("c9"), endpoint_id="c9", homing_host=PEER)
        know(agent, there, 7)
        await eventually(lambda: name not in outside.ovsdb.ports() and not connected(agent))
        assert outside.journal.entries[key("c1")].cut_off
        await agent.pod_ports.converge()
        await agent.pod_services.claims.mark()
        assert name not in outside.ovsdb.ports()
        assert name in outside.links.there
        agent.records.apply(Removed(f"{keys.ENDPOINTS}{there.key}", there))
        await stays(lambda: name not in outside.ovsdb.ports())
        await agent.pods.delete(awaiting())
        await left_nothing(agent)


async def test_a_pod_that_was_replaced_while_no_agent_ran_is_cut_off(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, _):
        outside.master.source = ""
        result = await agent.pods.add(awaiting())
        record = outside.master.endpoints.pop(key("c1"))
    async with migrating(outside) as (agent, _, _):
        know(agent, replace(record, key=key("c9"), endpoint_id="c9", homing_host=PEER), 7)
        await eventually(lambda: result.host_ifname not in outside.ovsdb.ports())


def in_history(outside: Outside, agent: Agent, *terms: Term) -> None:
    """Have the store in a history, in which netmaster answers from now on."""
    outside.master.history = terms[-1].id
    agent.learn(keys.LINEAGE, Lineage(terms))


async def test_a_store_that_went_back_takes_no_machine_from_its_pod(outside: Outside) -> None:
    """It does not know the source pod, which is younger than the store's state."""
    async with migrating(outside) as (agent, _, ears):
        in_history(outside, agent, Term("a", 0))
        outside.master.revisions = {keys.ENDPOINTS: 5}
        result = await agent.pods.add(awaiting())
        agent.records.apply(StoreRolledBack(keys.ENDPOINTS))
        agent.records.apply(Removed(f"{keys.ENDPOINTS}{SOURCE.key}", SOURCE))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 3))
        await stays(lambda: not connected(agent))
        in_history(outside, agent, Term("a", 0), Term("b", 3))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 9))
        await stays(lambda: not connected(agent))
        ears.heard(result.host_ifname)
        await eventually(lambda: connected(agent))


async def test_a_store_that_went_back_cuts_no_pod_off(outside: Outside) -> None:
    """It knows the pod that the machine ran in before."""
    async with migrating(outside) as (agent, _, _):
        in_history(outside, agent, Term("a", 0))
        outside.master.source = ""
        outside.master.revisions = {keys.ENDPOINTS: 5}
        result = await agent.pods.add(awaiting())
        record = outside.master.endpoints[key("c1")]
        know(agent, record, 6)
        agent.records.apply(StoreRolledBack(keys.ENDPOINTS))
        agent.records.apply(Removed(f"{keys.ENDPOINTS}{record.key}", record))
        know(agent, replace(record, key=key("c9"), endpoint_id="c9", homing_host=PEER), 3)
        await stays(lambda: result.host_ifname in outside.ovsdb.ports())
        in_history(outside, agent, Term("a", 0), Term("b", 3))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 9))
        await stays(lambda: result.host_ifname in outside.ovsdb.ports())
        assert not outside.journal.entries[key("c1")].cut_off


async def test_a_machine_that_comes_while_another_one_is_connected_is_too(
    outside: Outside,
) -> None:
    async with migrating(outside) as (agent, _, ears):
        first = await agent.pods.add(awaiting())
        second = await agent.pods.add(awaiting("c2"))
        await eventually(lambda: len(ears.links) == 2)
        creates = outside.faults.reached["create"]
        going_on = outside.faults.stop("create")
        ears.heard(second.host_ifname)
        await outside.faults.until("create", creates + 1)
        ears.heard(first.host_ifname)
        outside.faults.stopped.pop("create")
        going_on.set()
        await eventually(lambda: first.host_ifname in outside.ovsdb.ports())


async def test_a_pod_that_was_just_made_is_none_that_a_runtime_forgot(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, _):
        asked = asking(awaiting(), network_name="net-a", attachment_id="c1")
        going_on = outside.faults.stop("journal present")
        adding = asyncio.gather(agent.pods.add(asked))
        await outside.faults.until("journal present")
        collecting = asyncio.gather(agent.calls.collection.collect(GONE))
        await outside.faults.quiet()
        going_on.set()
        await asyncio.gather(adding, collecting)
        assert outside.journal.entries[key("c1")].state is EntryState.PRESENT


async def test_a_pod_that_is_cut_off_goes_when_its_runtime_forgot_it(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, _):
        outside.master.source = ""
        await agent.pods.add(asking(awaiting(), network_name="net-a", attachment_id="c1"))
        await agent.pods.cut_off(agent.registry.entries()[0])
        await agent.calls.collection.collect(GONE)
        await left_nothing(agent)


@pytest.mark.parametrize("step", ["row", "inside"])
async def test_what_is_not_done_for_a_machine_is_done_again(outside: Outside, step: str) -> None:
    async with migrating(outside, network(gateway="")) as (agent, _, ears):
        agent.world.endpoints.set_host_port(TO_HOST)
        result = await agent.pods.add(awaiting())
        await eventually(lambda: bool(ears.links))
        outside.faults.failing[step] = HostError("not now")
        ears.heard(result.host_ifname)
        await eventually(lambda: agent.context.loops.failures["live migrations not in sync"] > 1)
        assert outside.journal.entries[key("c1")].source == "source"
        del outside.faults.failing[step]
        await eventually(lambda: outside.journal.entries[key("c1")].source == "")
        assert result.host_ifname in outside.ovsdb.ports()
        assert port_names.access_name(agent.registry.entries()[0].port) in outside.ovsdb.ports()


async def test_the_next_agent_finishes_what_this_one_began(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, ears):
        result = await agent.pods.add(awaiting())
        await eventually(lambda: bool(ears.links))
        outside.faults.failing["row"] = HostError("not now")
        ears.heard(result.host_ifname)
        await eventually(lambda: agent.context.loops.failures["live migrations not in sync"] > 0)
        assert key("c1") in outside.master.endpoints
    del outside.faults.failing["row"]
    async with migrating(outside):
        await eventually(lambda: result.host_ifname in outside.ovsdb.ports())


async def test_a_repeated_add_keeps_the_pod_whose_source_is_gone(outside: Outside) -> None:
    async with migrating(outside) as (agent, _, _):
        result = await agent.pods.add(awaiting())
        outside.master.source = ""
        outside.master.endpoints[key("c1")] = endpoint(1)
        assert await agent.pods.add(awaiting()) == result
        assert outside.faults.reached["unlink"] == 0
        know(agent, outside.master.endpoints[key("c1")], 6)
        await eventually(lambda: connected(agent))
