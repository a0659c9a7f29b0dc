"""The interface of a pipeline: one pure function per kind of object, from that object to its flows.

`ofnet.desired` calls `Pipeline.flows` for each object that changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import TypeVar, assert_never

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import ObjectId, ObjectKind
from ofnet.flows import Flow
from ofnet.pipelines import pod_guard, policy, service_nat
from ofnet.tables import Mode
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


def no_flows_to(_prefix: IPv4Network, _mac: str, _world: World) -> Iterator[Flow]:
    """Yield nothing: this pipeline has no flows for routes."""
    return iter(())


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
    route: Callable[[IPv4Network, str, World], Iterator[Flow]] = no_flows_to
    management: Callable[[IPv4Network | IPv6Network, World], Iterator[Flow]]
    management_port: Callable[[ManagementPort, World], Iterator[Flow]] = pod_guard.port

    def flows(  # noqa: C901, PLR0911, PLR0912 - one return per kind of object
        self, of: ObjectId, world: World
    ) -> Iterator[Flow]:
        """Yield the flows one object of the World owns."""
        match of.kind:
            case ObjectKind.PIPELINE:
                return self.start(world)
            case ObjectKind.UPLINKS:
                return self.uplinks(world)
            case ObjectKind.HOST_PORT:
                return self.host_port(world)
            case ObjectKind.VTEP:
                return _of(self.vtep, world.vteps.get(HostLabel(of.name)), world)
            case ObjectKind.NETWORK:
                return _of(self.network, world.networks.get(NetworkId(of.name)), world)
            case ObjectKind.LOCAL:
                return _of(self.local, world.local.get(EndpointKey(of.name)), world)
            case ObjectKind.REMOTE:
                return _of(self.remote, world.remote.get(EndpointKey(of.name)), world)
            case ObjectKind.FLOOD:
                return _of(self.flood, world.networks.get(NetworkId(of.name)), world)
            case ObjectKind.RULE:
                return _of(self.rule, world.rules.get(of.name), world)
            case ObjectKind.ACCESS:
                return _of(self.access, world.access.get(EndpointKey(of.name)), world)
            case ObjectKind.SERVICE | ObjectKind.SERVED:
                return self._services(of, world)
            case ObjectKind.ROUTER:
                return _of(self.router, world.router, world)
            case ObjectKind.ROUTE:
                prefix = IPv4Network(of.name)
                hop = world.routes.get(prefix)
                return self.route(prefix, hop, world) if hop is not None else iter(())
            case ObjectKind.MANAGEMENT:
                address = world.management.get(of.name)
                return self.management(address, world) if address is not None else iter(())
            case ObjectKind.MANAGEMENT_PORT:
                return _of(self.management_port, world.management_ports.get(of.name), world)
            case ObjectKind.PEER:
                return iter(())
            case _:
                assert_never(of.kind)

    def _services(self, of: ObjectId, world: World) -> Iterator[Flow]:
        if of.kind is ObjectKind.SERVICE:
            return _of(
                partial(service_nat.intercept, self.mode), world.services.get(of.name), world
            )
        return _of(partial(service_nat.nat, self.mode), world.served.get(of.name), world)


def _of(rule: Callable[[T, World], Iterator[Flow]], item: T | None, world: World) -> Iterator[Flow]:
    return rule(item, world) if item is not None else iter(())
