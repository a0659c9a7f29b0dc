"""Node ports of Kubernetes' services: what comes to the host's port goes to a pod of this host.

A service's node port is served by those of its pods that are here; one of them is chosen and stays
chosen as long as it serves (`nodeProxy.go`). One rule of iptables for each
(`netplugin.kernel.iptables`) sends to the pod's address on the host's private network, which
`ofnet.pipelines.vrouter` translates into its own. Services are `netplugin.kube.feed`'s, pods the
World's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, NamedTuple

from netplugin.bridges.reconcile_loop import ReconcileLoop, keep
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
    """Where a node port leads: a pod of this host, by its private address, for a service."""

    service: str
    address: IPv4Address
    port: int


def choose(
    services: Iterable[KubeService],
    private: Mapping[IPv4Address, IPv4Address],
    before: Mapping[NodePort, Chosen],
) -> dict[NodePort, Chosen]:
    """Return where each node port leads; `private` has the pods of this host.

    A port that two services want is the one's that has it, else the first's by key.
    """
    chosen: dict[NodePort, Chosen] = {}
    for here, offers in _offers(services, private).items():
        held = before.get(here)
        owner = held.service if held is not None and held.service in offers else min(offers)
        there = offers[owner]
        if there:
            chosen[here] = held if held in there else min(there, key=lambda one: one.address)
    return chosen


def _offers(
    services: Iterable[KubeService], private: Mapping[IPv4Address, IPv4Address]
) -> dict[NodePort, dict[str, list[Chosen]]]:
    """Return who wants each node port, with the pods of this host that serve it."""
    offers: dict[NodePort, dict[str, list[Chosen]]] = {}
    for service in services:
        for port in service.ports:
            if port.node_port and port.protocol.lower() in _PROTOCOLS:
                here = NodePort(port.protocol.lower(), port.node_port)
                offers.setdefault(here, {})[service.key] = [
                    Chosen(service.key, private[address], number)
                    for address, number in port.targets
                    if address in private
                ]
    return offers


def rule(here: NodePort, there: Chosen) -> IptablesRule:
    """Return the rule that has a node port lead to a pod."""
    protocol, number = here
    return IptablesRule(
        chain=PREROUTING,
        match=("-p", protocol, *_TO_THIS_HOST, "-m", protocol, "--dport", str(number)),
        target=("-j", "DNAT", "--to-destination", f"{there.address}:{there.port}"),
    )


class NodePorts:
    """Keeps the rules. One per agent."""

    def __init__(
        self,
        *,
        feed: KubeFeed,
        firewall: Iptables,
        world: WorldBuilder,
        reconciler: Reconciler,
        interval: float,
    ) -> None:
        self._feed = feed
        self._firewall = firewall
        self._world = world
        self._reconciler = reconciler
        self._interval = interval
        self._chosen: dict[NodePort, Chosen] = {}

    async def run(self) -> None:
        """Keep them, for ever; rules are looked at on the interval."""
        await keep(
            ReconcileLoop(
                name="node ports",
                converge=self.converge,
                facts=self._wanted,
                news=(self._feed.changed, self._reconciler.ports_changed),
                interval=self._interval,
            )
        )

    async def converge(self) -> object:
        """Make the rules as they should be, once; return what they are for. Raises HostError."""
        wanted = self._wanted()
        if wanted is not None:
            await self._firewall.keep([rule(*one) for one in wanted.items()])
            self._chosen = wanted
        return wanted

    def _wanted(self) -> dict[NodePort, Chosen] | None:
        """Return where node ports are to lead; None until Kubernetes has told of all services."""
        if not self._feed.complete:
            return None
        world = self._world
        return choose(world.services.kube.values(), world.private_addresses(), self._chosen)
