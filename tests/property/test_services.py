"""Whatever comes and goes: each client has one provider that is there, counted as it is.

A machine has providers, pods and services come and go, and pods send first packets. Flows from
change to change equal those from scratch (`tests.unit.ofnet.serving.Site` checks it each time).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats
from ofnet.channel.flow_stats import ReportedClient
from ofnet.services.clients import answer_of
from ofnet.world import Bridge, FwdMode, LocalEndpoint, Served, Service, ServicePort
from tests.unit.ofnet.fake_switch import reply
from tests.unit.ofnet.pipelines.scene import ANN, BOB, EVE, FAR, world
from tests.unit.ofnet.serving import HTTP, VIP, Site, having, service

PODS = st.sampled_from([ANN, BOB, EVE])
ADDRESSES = [pod.ip for pod in (ANN, BOB, EVE, FAR)]
PORTS = st.sampled_from([HTTP, ServicePort(6, 81, 8080), ServicePort(17, 5601, 9600)])
SERVICES = st.builds(
    lambda key, providers, ports, last: service(
        *providers, key=key, ports=tuple(ports), address=VIP + last
    ),
    st.sampled_from(["a:default", "b:default"]),
    st.sets(st.sampled_from(ADDRESSES)),
    st.lists(PORTS, min_size=1, unique=True),
    st.integers(0, 1),
)


class Serving(RuleBasedStateMachine):
    """The services of one bridge."""

    @initialize(mode=st.sampled_from(FwdMode))
    def begin(self, mode: FwdMode) -> None:
        self.start = world(mode)
        self.site = Site(Bridge.VXLAN, having(self.start, service(*ADDRESSES, key="a:default")))

    @rule(one=SERVICES)
    def put_service(self, one: Service) -> None:
        self.site.becomes(having(self.site.world, *self._others(one.key), one))

    @rule(key=st.sampled_from(["a:default", "b:default"]))
    def remove_service(self, key: str) -> None:
        self.site.becomes(having(self.site.world, *self._others(key)))

    @rule(pod=PODS)
    def toggle_pod(self, pod: LocalEndpoint) -> None:
        local = dict(self.site.world.local)
        if local.pop(pod.key, None) is None:
            local[pod.key] = pod
        self.site.becomes(replace(self.site.world, local=local))

    @rule(pod=PODS, last=st.integers(0, 1), port=PORTS, source_port=st.integers(40000, 40003))
    def ask(self, pod: LocalEndpoint, last: int, port: ServicePort, source_port: int) -> None:
        known = set(self.site.proxy.served)
        before = self._loads()
        response = self.site.asks(pod, VIP + last, port, source_port=source_port)
        if response.name not in known and response.name:
            fresh = self.site.proxy.served[response.name]
            self._has_least(fresh, before)

    @rule(
        pod=PODS,
        address=st.sampled_from(ADDRESSES),
        port=st.sampled_from([ServicePort(6, 8080, 8080), ServicePort(17, 9600, 9600)]),
        source_port=st.integers(40000, 40003),
    )
    def ask_provider(
        self, pod: LocalEndpoint, address: IPv4Address, port: ServicePort, source_port: int
    ) -> None:
        known = set(self.site.proxy.served)
        self.site.asks(pod, address, port, source_port=source_port)
        assert set(self.site.proxy.served) == known, "that makes no pod a client"

    @rule()
    def restart(self) -> None:
        """Begin anew with what the switch has."""
        lines = self.site.lines(3, 6)
        providers = {name: one.provider for name, one in self.site.proxy.served.items()}
        again = Site(Bridge.VXLAN, replace(self.site.world, served={}))
        again.adopts(*self._reported())
        assert {n: one.provider for n, one in again.proxy.served.items()} == {
            name: provider
            for name, provider in providers.items()
            if self.site.proxy.served[name].ports or self.site.proxy.served[name].connections
        }
        assert lines <= again.lines(3, 6)
        self.site = again

    @rule(services=st.lists(SERVICES, max_size=2, unique_by=lambda one: one.key))
    def restart_after_changes(self, services: list[Service]) -> None:
        """Begin anew with what the switch has, where services are others by now."""
        again = Site(Bridge.VXLAN, replace(having(self.site.world, *services), served={}))
        again.adopts(*self._reported())
        self.site = again

    @invariant()
    def answers_are_known_by_ports_that_are_there(self) -> None:
        if not hasattr(self, "site"):
            return
        clients = self.site.proxy._clients
        assert {answer: name for answer, (name, _) in clients._reply_owners.items()} == {
            answer_of(one, port): name for name, one in clients.served.items() for port in one.ports
        }

    @invariant()
    def who_serves_is_there(self) -> None:
        if not hasattr(self, "site"):
            return
        here = {pod.ip for pod in self.site.world.local.values()}
        for one in self.site.proxy.served.values():
            of = self.site.world.services[one.service]
            assert one.provider in of.providers
            assert one.client in here
            assert one.address == of.address
            assert {*one.ports, *(port for port, _ in one.connections)} <= set(of.ports)

    @invariant()
    def loads_are_counted(self) -> None:
        if not hasattr(self, "site"):
            return
        balance, loads = self.site.proxy._clients._assignments, self._loads()
        for key in ("a:default", "b:default"):
            for provider in ADDRESSES:
                assert balance.load(key, provider) == loads[key, str(provider)]

    def _reported(self) -> Iterator[ReportedClient]:
        flows = [f for f in self.site.desired.flows.values() if f.owner is ObjectKind.SERVED]
        found, _ = flow_stats.entries(reply(flows, {}))
        return flow_stats.reported_clients(found)

    def _others(self, key: str) -> list[Service]:
        return [one for one in self.site.world.services.values() if one.key != key]

    def _loads(self) -> Counter[tuple[str, str]]:
        served = self.site.proxy.served.values()
        return Counter((one.service, str(one.provider)) for one in served)

    def _has_least(self, fresh: Served, before: Counter[tuple[str, str]]) -> None:
        if self.start.fwd_mode is FwdMode.BRIDGE:
            return  # it is sent to its own network first
        providers = self.site.world.services[fresh.service].providers
        least = min(before[fresh.service, str(one)] for one in providers)
        assert before[fresh.service, str(fresh.provider)] == least


Serving.TestCase.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)
TestServing = Serving.TestCase
