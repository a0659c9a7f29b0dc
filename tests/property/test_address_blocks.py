"""Hosts that give addresses by themselves: no address is ever a pod's while it is another's.

The leader's plans and the agents' own blocks play against each other, joined by a network that
delays, repeats and loses what it likes. Agents restart, leaders change, hosts are cut off until
they are declared dead and come back; the clocks of hosts run faster or slower than the leader's.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from contivmodel.rpc import AddressBlocksRequest, DeleteEndpointRequest
from core.errors import Conflict, Exhausted, NotFound
from core.ids import HostLabel, NetworkId
from netmaster.plan.endpoints import address_blocks, cleanup, endpoint
from netmaster.plan.endpoints.address_blocks import BlocksReply, Renewal
from netplugin.masters.address_blocks import AddressBlocks, BlocksAnswer, HeldAddress
from state.records import EndpointRecord
from tests.property.holdings import violations
from tests.unit.netmaster.scene import NOW, Scene, wanted

N1 = NetworkId("n1.default")
SECONDS = 100.0
STEPS = 50
HOSTS = [HostLabel(f"h{number}") for number in (1, 2)]


@dataclass
class Pod:
    """A pod's entry in its host's journal; `runs` until it is deleted or cut off."""

    name: str
    host: HostLabel
    ipv4: str
    ipv6: str
    token: str
    known: bool
    runs: bool = True
    given_up: bool = False
    """Its host was declared dead while it ran."""


@dataclass
class Agent:
    """A host's agent, with a clock that runs at its own rate."""

    blocks: AddressBlocks
    asked: tuple[float, AddressBlocksRequest] | None = None
    pods: list[Pod] = field(default_factory=list)


class BlockAgents:
    """One network of both families; `late` are requests that nobody waits for any more."""

    def __init__(self, rates: tuple[float, ...]) -> None:
        self.scene = Scene()
        self.scene.network("n1", "10.1.1.0/28", gateway="10.1.1.14", ipv6_subnet="2001:db8::/120")
        self.now = 0.0
        self.rates = dict(zip(HOSTS, rates, strict=True))
        self.agents = {label: Agent(self.new_blocks(label)) for label in HOSTS}
        self.renewed_at: dict[HostLabel, float] = {}
        self.late: list[Callable[[], object]] = []
        self.names = 0
        self.leases = 0

    def new_blocks(self, label: HostLabel) -> AddressBlocks:
        return AddressBlocks(4, lambda: self.now * self.rates[label])

    # -- what the leader does ------------------------------------------------------------------

    def renew(self, request: AddressBlocksRequest) -> BlocksReply:
        self.leases += 1
        how = Renewal(f"lease{self.leases}", SECONDS, NOW)
        reply = self.scene.do(address_blocks.renew, request, how)
        assert isinstance(reply, BlocksReply)
        if reply.renewed:
            self.renewed_at[HostLabel(request.host)] = self.now
        return reply

    def claim(self, pod: Pod) -> EndpointRecord:
        config = {"ip_address": pod.ipv4, "ipv6_address": pod.ipv6, "host": pod.host}
        request = wanted(pod.name, **config).model_copy(
            update={"claim": "true", "block": pod.token}
        )
        record = self.scene.do(endpoint.create, request, NOW)
        assert isinstance(record, EndpointRecord)
        return record

    def release(self, pod: Pod) -> None:
        self.scene.do(
            endpoint.delete,
            DeleteEndpointRequest(tenant_name="default", network_name="n1", endpoint_id=pod.name),
        )

    # -- blocks --------------------------------------------------------------------------------

    def ask(self, label: HostLabel) -> None:
        agent = self.agents[label]
        if agent.asked is not None:
            self.late.append(partial(self.renew, agent.asked[1]))
        agent.blocks.want([N1])
        asked_at = self.now * self.rates[label]
        asked = agent.blocks.request([(N1, pod.ipv4, pod.ipv6) for pod in agent.pods])
        agent.asked = (
            asked_at,
            AddressBlocksRequest(
                host=label,
                lease=asked.lease,
                number=asked.number,
                held=[f"{nid}/{address}" for nid, held in asked.held.items() for address in held],
                wanted={str(nid): str(count) for nid, count in asked.wanted.items()},
            ),
        )

    def renew_at_once(self, label: HostLabel) -> None:
        self.ask(label)
        self.answer(label, lost=False)

    def answer(self, label: HostLabel, lost: bool) -> None:
        agent = self.agents[label]
        if agent.asked is None:
            return
        (asked_at, request), agent.asked = agent.asked, None
        reply = self.renew(request)
        if lost:
            self.late.append(partial(self.renew, request))
            return
        granted = tuple(
            (one.network, HeldAddress(one.ipv4, one.ipv6, reply.token)) for one in reply.granted
        )
        agent.blocks.answered(
            asked_at,
            BlocksAnswer(reply.lease, reply.number, reply.renewed, reply.seconds, granted, False),
            [(N1, pod.ipv4, pod.ipv6) for pod in agent.pods],
        )

    def arrive_late(self, number: int, again: bool) -> None:
        if not self.late:
            return
        number %= len(self.late)
        with suppress(Conflict, NotFound):
            self.late[number]()
        if not again:
            del self.late[number]

    # -- pods ----------------------------------------------------------------------------------

    def add(self, label: HostLabel) -> None:
        agent = self.agents[label]
        self.names += 1
        given = agent.blocks.give(N1)
        if given is not None:
            agent.pods.append(
                Pod(f"c{self.names}", label, given.ipv4, given.ipv6, given.token, known=False)
            )

    def add_by_the_leader(self, label: HostLabel) -> None:
        self.names += 1
        name = f"c{self.names}"
        try:
            record = self.scene.endpoint(name, host=label)
        except Exhausted:
            return
        self.agents[label].pods.append(
            Pod(name, label, record.ip_address, record.ipv6_address, "", known=True)
        )

    def report(self, label: HostLabel, number: int, late: bool) -> None:
        pending = [pod for pod in self.agents[label].pods if not pod.known and pod.runs]
        if not pending:
            return
        pod = pending[number % len(pending)]
        if late:
            self.late.append(partial(self.claim, pod))
            return
        try:
            record = self.claim(pod)
        except Conflict:
            assert pod.given_up, f"{pod} was refused, and its host was never given up"
            pod.runs = False
        else:
            assert (record.ip_address, record.ipv6_address) == (pod.ipv4, pod.ipv6)
            pod.known, pod.given_up = True, False

    def delete(self, label: HostLabel, number: int, late: bool) -> None:
        pods = self.agents[label].pods
        if not pods:
            return
        pod = pods[number % len(pods)]
        pod.runs = False
        if late:
            return  # the entry stays until the leader has answered
        with suppress(NotFound):
            self.release(pod)
        pods.remove(pod)

    # -- faults --------------------------------------------------------------------------------

    def restart(self, label: HostLabel) -> None:
        agent = self.agents[label]
        if agent.asked is not None:
            self.late.append(partial(self.renew, agent.asked[1]))
        agent.asked = None
        agent.blocks = self.new_blocks(label)

    def change_leader(self) -> None:
        self.scene.reload()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def declare_dead(self, label: HostLabel, reclaimed: bool) -> None:
        lease = self.scene.view.block_leases.get(label)
        if lease is None:
            return
        self.now = max(self.now, self.renewed_at[label] + SECONDS)
        begun = self.scene.do(partial(cleanup.begin_host, renewal=lease.renewal), label, None)
        while part := cleanup.next_part(self.scene.view, begun):
            self.scene.do(cleanup.remove, part)
        self.scene.do(cleanup.finish, begun)
        for pod in self.agents[label].pods:
            pod.given_up = True
            pod.runs = pod.runs and not pod.known  # garbage collection cuts the others off
        if reclaimed:
            self.reclaim()

    def reclaim(self) -> None:
        while self.scene.do(address_blocks.reclaim):
            pass

    # -- what must hold ------------------------------------------------------------------------

    def no_address_is_two_pods(self) -> None:
        running = [
            pod
            for agent in self.agents.values()
            for pod in agent.pods
            if pod.runs and not pod.given_up
        ]
        for address in ("ipv4", "ipv6"):
            users = Counter(getattr(pod, address) for pod in running)
            assert max(users.values(), default=1) == 1, users

    def the_store_agrees(self) -> None:
        assert violations(self.scene.store) == []
        for agent in self.agents.values():
            for pod in agent.pods:
                if pod.known and pod.runs:
                    record = self.scene.view.endpoints[self.key(pod)]
                    assert record.ip_address == pod.ipv4

    def key(self, pod: Pod) -> Any:
        return f"{N1}-{pod.name}"


def step(cluster: BlockAgents, chance: Random) -> None:
    """Have something happen; what moves addresses happens more often."""
    label, number, sometimes = chance.choice(HOSTS), chance.randrange(30), chance.random() < 0.5
    happenings: dict[Callable[[], object], int] = {
        partial(cluster.renew_at_once, label): 3,
        partial(cluster.add, label): 4,
        partial(cluster.add_by_the_leader, label): 2,
        partial(cluster.report, label, number, late=sometimes): 2,
        partial(cluster.delete, label, number, late=sometimes): 2,
        partial(cluster.arrive_late, number, again=sometimes): 2,
        partial(cluster.ask, label): 1,
        partial(cluster.answer, label, lost=sometimes): 1,
        partial(cluster.restart, label): 1,
        cluster.change_leader: 1,
        partial(cluster.pass_time, chance.choice([1.0, 30.0, 89.0])): 1,
        partial(cluster.declare_dead, label, reclaimed=sometimes): 1,
        cluster.reclaim: 1,
    }
    (happens,) = chance.choices(list(happenings), list(happenings.values()))
    happens()


@settings(max_examples=60, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 2**32), rates=st.tuples(*[st.sampled_from([0.95, 1.0, 1.05])] * 2))
def test_no_address_is_ever_two_pods(seed: int, rates: tuple[float, ...]) -> None:
    cluster, chance = (
        BlockAgents(rates),
        Random(seed),
    )  # weighted: hosts have addresses most of the time
    for _ in range(STEPS):
        step(cluster, chance)
        cluster.no_address_is_two_pods()
        cluster.the_store_agrees()
