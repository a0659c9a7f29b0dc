"""The interface of a pipeline: one pure function per kind of object, from that object to its flows.

`ofnet.desired` calls `Pipeline.flows` for each object that changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import chain
from typing import TypeVar, assert_never

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId
from ofnet.changes import ObjectId, ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import DROP
from ofnet.openflow.match import Match
from ofnet.pipelines import (
    cluster_dns,
    host_forwarding,
    host_paths,
    name_port,
    neighbours,
    network_policy,
    pod_guard,
    policy,
    policy_class,
    service_nat,
)
from ofnet.tables import Mode, Priority, TableId
from ofnet.world import (
    AccessPort,
    LocalEndpoint,
    ManagementPort,
    Network,
    RemoteEndpoint,
    Router,
    Rule,
    Vtep,
    World,
)

T = TypeVar("T")
ForWorld = Callable[[World], Iterator[Flow]]


def no_flows(_world: World) -> Iterator[Flow]:
    """Yield nothing: this pipeline has no flows for such an object."""
    return iter(())


def no_flows_for(_item: object, _world: World) -> Iterator[Flow]:
    """Yield nothing: this pipeline has no flows for such an object."""
    return iter(())


def no_flows_to(_prefix: IPv4Network | IPv6Network, _mac: str, _world: World) -> Iterator[Flow]:
    """Yield nothing: this pipeline has no flows for routes."""
    return iter(())


def barred(ofport: int, _world: World) -> Iterator[Flow]:
    """Yield the flow that drops all that comes by the port of an endpoint which is to get nothing.

    No table may see it: where Open vSwitch bridges, NORMAL would learn from it where the address
    is.
    """
    yield Flow(ObjectKind.BARRED, TableId.INPUT, Priority.BARRED, Match(in_port=ofport), DROP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The functions of one mode; a missing object has no flows."""

    # A function may read the whole World besides its object. Each such read is a dependency, and
    # `ofnet.changes.affected` must name it: else the flows of this object stay as they were when
    # what was read changes. `tests/unit/ofnet/test_desired.py` compares both ways of computing.

    mode: Mode
    start: ForWorld
    uplinks: ForWorld = no_flows
    host_port: ForWorld = no_flows
    vtep: Callable[[Vtep, World], Iterator[Flow]] = no_flows_for
    network: Callable[[Network, World], Iterator[Flow]] = no_flows_for
    local: Callable[[LocalEndpoint, World], Iterator[Flow]] = no_flows_for
    remote: Callable[[RemoteEndpoint, World], Iterator[Flow]] = no_flows_for
    flood: Callable[[Network, World], Iterator[Flow]] = no_flows_for
    access: Callable[[AccessPort, World], Iterator[Flow]] = no_flows_for
    rule: Callable[[Rule, World], Iterator[Flow]] = policy.flows
    router: Callable[[Router, World], Iterator[Flow]] = no_flows_for
    route: Callable[[IPv4Network | IPv6Network, str, World], Iterator[Flow]] = no_flows_to
    management: Callable[[IPv4Network | IPv6Network, World], Iterator[Flow]]
    management_port: Callable[[ManagementPort, World], Iterator[Flow]] = pod_guard.port

    def flows(self, of: ObjectId, world: World) -> Iterator[Flow]:
        """Yield the flows one object of the World owns, in a form the datapath can carry out."""
        wanted = self._flows(of, world)
        return wanted if world.nd_extension else map(neighbours.completed_by_agent, wanted)

    def _flows(  # noqa: C901, PLR0911, PLR0912 - one return per kind of object
        self, of: ObjectId, world: World
    ) -> Iterator[Flow]:
        match of.kind:
            case ObjectKind.PIPELINE:
                return chain(
                    self.start(world),
                    cluster_dns.flows(world),
                    network_policy.states(),
                    host_forwarding.judged(),
                    service_nat.start(self.mode),
                )
            case ObjectKind.UPLINKS:
                return self.uplinks(world)
            case ObjectKind.HOST_PORT:
                paths = host_paths.host_port(self.mode, world)
                return chain(self.host_port(world), paths)
            case ObjectKind.VTEP:
                vtep = world.vteps.get(HostLabel(of.name))
                paths = _of(partial(host_paths.vtep, self.mode), vtep, world)
                return chain(_of(self.vtep, vtep, world), paths)
            case ObjectKind.NETWORK:
                network = world.networks.get(NetworkId(of.name))
                paths = _of(partial(host_paths.network, self.mode), network, world)
                served = self._services_of(network)
                return chain(_of(self.network, network, world), paths, served)
            case ObjectKind.LOCAL:
                pod = world.local.get(EndpointKey(of.name))
                paths = _of(partial(host_paths.local, self.mode), pod, world)
                return chain(_of(self._local, pod, world), paths, self._served(pod, world))
            case ObjectKind.REMOTE:
                far = world.remote.get(EndpointKey(of.name))
                paths = _of(partial(host_paths.remote, self.mode), far, world)
                return chain(_of(self.remote, far, world), paths, self._served(far, world))
            case ObjectKind.BARRED:
                return _of(barred, world.barred.get(EndpointKey(of.name)), world)
            case ObjectKind.FLOOD:
                return _of(self.flood, world.networks.get(NetworkId(of.name)), world)
            case ObjectKind.RULE:
                return _of(self.rule, world.rules.get(of.name), world)
            case ObjectKind.POLICY_CLASS:
                member = world.policy_classes.get(GroupKey(of.name))
                return _of(policy_class.flows, member, world)
            case ObjectKind.ACCESS:
                return _of(self.access, world.access.get(EndpointKey(of.name)), world)
            case ObjectKind.SERVICE:
                service = world.services.get(of.name)
                return _of(partial(service_nat.flows, self.mode), service, world)
            case ObjectKind.ROUTER:
                return _of(self.router, world.router, world)
            case ObjectKind.ROUTE:
                prefix = ip_network(of.name)
                hop = world.routes.get(prefix)
                return self.route(prefix, hop, world) if hop is not None else iter(())
            case ObjectKind.MANAGEMENT:
                address = world.management.get(of.name)
                if address is None:
                    return iter(())
                paths = host_paths.management(self.mode, address, world)
                return chain(self.management(address, world), paths)
            case ObjectKind.MANAGEMENT_PORT:
                return _of(self.management_port, world.management_ports.get(of.name), world)
            case ObjectKind.POLICY_SUBJECT:
                judge = partial(network_policy.subject, self.mode)
                return _of(judge, world.policy_subjects.get(of.name), world)
            case ObjectKind.POLICY_ENTRY:
                match_in = partial(network_policy.entry, self.mode)
                return _of(match_in, world.policy_entries.get(of.name), world)
            case ObjectKind.NAME_PORT:
                return name_port.flows(world)
            case ObjectKind.PEER | ObjectKind.AFFINITY:
                return iter(())
            case _:
                assert_never(of.kind)

    def _local(self, endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
        yield from self.local(endpoint, world)
        yield from name_port.of_pod(endpoint, world)
        yield from cluster_dns.of_pod(self.mode, endpoint, world)

    def _services_of(self, network: Network | None) -> Iterator[Flow]:
        return service_nat.of_network(self.mode, network) if network is not None else iter(())

    def _served(
        self, endpoint: LocalEndpoint | RemoteEndpoint | None, world: World
    ) -> Iterator[Flow]:
        """Yield the flows of an endpoint as a provider of services."""
        if endpoint is None or endpoint.network not in world.networks:
            return
        yield from service_nat.beside(endpoint, world)
        if isinstance(endpoint, LocalEndpoint):
            yield from service_nat.own_provider(self.mode, endpoint, world)


def _of(rule: Callable[[T, World], Iterator[Flow]], item: T | None, world: World) -> Iterator[Flow]:
    return rule(item, world) if item is not None else iter(())
