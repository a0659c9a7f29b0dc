"""Node ports of Kubernetes' services: forwarded to one pod of this host each.

A service's node port is served by its pods on this host; one of them is chosen and stays chosen as
long as it is ready (`nodeProxy.go`). One iptables rule for each node port
(`netplugin.kernel.iptables`) forwards to the pod's address on the host's private network, which
`ofnet.pipelines.vrouter` translates into its own. The services come from `netplugin.kube.feed`, the
pods from the World.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, NamedTuple

from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.bridges.reconciler import Reconciler
from netplugin.kernel.iptables import Chain, Iptables, IptablesRule
from netplugin.kube.feed import KubeFeed
from netplugin.world.builder import WorldBuilder
from netplugin.world.kube_services import KubeService

PREROUTING: Final = Chain(table="nat", name="PREROUTING")
CHAINS: Final = (PREROUTING,)
_TO_THIS_HOST: Final = ("-m", "addrtype", "--dst-type", "LOCAL")
_PROTOCOLS: Final = frozenset({"tcp", "udp"})


class NodePort(NamedTuple):
    """A port of this host."""

    protocol: str
    number: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The target of a node port: a pod of this host by its private address, and its service."""

    service: str
    address: IPv4Address
    port: int


def choose(
    services: Iterable[KubeService],
    private: Mapping[IPv4Address, IPv4Address],
    before: Mapping[NodePort, Chosen],
) -> dict[NodePort, Chosen]:
    """Return the target of each node port.

    `private` has the private addresses of this host's pods by their own, `before` the targets so
    far. A port that two services want stays with the service that has it; else the first by key
    gets it.
    """
    # A target stays as long as it can: another one would break the connections through it.
    chosen: dict[NodePort, Chosen] = {}
    for port, candidates in _candidates(services, private).items():
        held = before.get(port)
        keeps = held is not None and held.service in candidates
        owner = held.service if held is not None and keeps else min(candidates)
        targets = candidates[owner]
        if targets:
            chosen[port] = held if held in targets else min(targets, key=lambda one: one.address)
    return chosen


def _candidates(
    services: Iterable[KubeService], private: Mapping[IPv4Address, IPv4Address]
) -> dict[NodePort, dict[str, list[Chosen]]]:
    """Return for each node port the services that want it, with their pods on this host."""
    candidates: dict[NodePort, dict[str, list[Chosen]]] = {}
    for service in services:
        for port in service.ports:
            if port.node_port and port.protocol.lower() in _PROTOCOLS:
                here = NodePort(port.protocol.lower(), port.node_port)
                candidates.setdefault(here, {})[service.key] = [
                    Chosen(service.key, private[address], number)
                    for address, number in port.targets
                    if address in private
                ]
    return candidates


def rule(here: NodePort, there: Chosen) -> IptablesRule:
    """Return the rule that forwards a node port to a pod."""
    protocol, number = here
    return IptablesRule(
        chain=PREROUTING,
        match=("-p", protocol, *_TO_THIS_HOST, "-m", protocol, "--dport", str(number)),
        target=("-j", "DNAT", "--to-destination", f"{there.address}:{there.port}"),
    )


class NodePorts:
    """The rules of node ports. One per agent."""

    def __init__(
        self,
        *,
        feed: KubeFeed,
        iptables: Iptables,
        world: WorldBuilder,
        reconciler: Reconciler,
        interval: float,
    ) -> None:
        self._feed = feed
        self._iptables = iptables
        self._world = world
        self._reconciler = reconciler
        self._interval = interval
        self._chosen: dict[NodePort, Chosen] = {}

    async def run(self) -> None:
        """Reconcile the rules, for ever."""
        await ReconcileLoop(
            name="node ports",
            converge=self.converge,
            observe=self._wanted,
            triggers=(self._feed.changed, self._reconciler.ports_changed),
            interval=self._interval,
        ).run()

    async def converge(self) -> object:
        """Add, correct and remove rules, once; return their targets. Raises HostError."""
        wanted = self._wanted()
        if wanted is not None:
            await self._iptables.keep([rule(*one) for one in wanted.items()])
            self._chosen = wanted
        return wanted

    def _wanted(self) -> dict[NodePort, Chosen] | None:
        """Return the targets of the node ports; None before all services have been listed."""
        # Rules of an earlier run are left alone until then: a service that has not been listed yet
        # looks like one that was deleted.
        if not self._feed.complete:
            return None
        world = self._world
        return choose(world.services.kube.values(), world.private_addresses(), self._chosen)
