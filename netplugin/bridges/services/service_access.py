"""Keeps the rules by which this host and the outside reach services of Kubernetes.

In come the services (`netplugin.kube.feed`) and this host's pods (the World); out go the chains of
`netplugin.bridges.services.service_rules`, the rules that lead to them, and answers to health
checks (`netplugin.bridges.services.health_checks`). Beside kube-proxy all of this is left to
kube-proxy, and what an earlier run made is removed.
"""

# Rules of an earlier run are left alone until all services have been listed: a service that has
# not been listed yet looks like one that was deleted.

import asyncio
import ipaddress
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, Protocol

from core.errors import HostError
from core.logs import fields
from core.retry import FaultBoard
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.bridges.reconciler import Reconciler
from netplugin.bridges.services.health_checks import HealthChecks, ServiceHealth
from netplugin.bridges.services.service_rules import (
    NODE_PORTS,
    REFUSED,
    SERVICES,
    SOURCES,
    Address,
    Here,
    ServiceRules,
    rules,
)
from netplugin.bridges.services.stale_datagrams import StaleDatagrams, Ways
from netplugin.kernel.firewall.families import each_family, raise_any
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.firewall.iptables import Chain, Iptables, IptablesRule
from netplugin.kernel.firewall.iptables_chains import OwnChains
from netplugin.kube.feed import KubeFeed
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from netplugin.world.kubernetes.kube_services import KubeService
from ofnet.world import Bridge

log = logging.getLogger(__name__)

MARK: Final = "contiv-services"
TABLES: Final = ("nat", "filter")
_OWNER: Final = "services"
_LOOPBACK: Final = "127.0.0.0/8"
_ALL_LINKS: Final = "all"
"""The kernel's name for the setting of all links."""
_SETTINGS: Final = Path("/proc/sys/net/ipv4/conf")


def _chain(version: int, table: str, name: str) -> Chain:
    return Chain(table=table, name=name, version=version, mark=MARK)


_FROM: Final = {
    ("nat", "PREROUTING"): SERVICES,
    ("nat", "OUTPUT"): SERVICES,
    ("nat", "POSTROUTING"): SOURCES,
    ("filter", "INPUT"): REFUSED,
    ("filter", "FORWARD"): REFUSED,
    ("filter", "OUTPUT"): REFUSED,
}
"""Which of the agent's chains the kernel's chains lead to."""

_RAW: Final = _chain(4, "raw", "PREROUTING")
CHAINS: Final = (_RAW, *(_chain(version, *where) for version in (4, 6) for where in _FROM))


def hooks(version: int) -> list[IptablesRule]:
    """Return the rules that lead to the agent's chains of a family."""
    new = ("-m", "conntrack", "--ctstate", "NEW")
    return [
        IptablesRule(
            chain=_chain(version, table, name),
            match=new if table == "filter" else (),
            target=("-j", target),
        )
        for (table, name), target in _FROM.items()
    ]


def loopback_guards() -> list[IptablesRule]:
    """Return the rules that keep everybody but the host from loopback addresses.

    The host's own connections from such an address to a node port leave by its ports for pods,
    which therefore route these addresses (`route_localnet`). The kernel would take pods' packets to
    them too, and from them. No other link routes them: others may remove these rules at any time,
    and neighbours of the host must not reach its loopback then.
    """
    return [
        IptablesRule(chain=_RAW, match=(end, _LOOPBACK, "!", "-i", "lo"), target=("-j", "DROP"))
        for end in ("-d", "-s")
    ]


class RouteLocalnet(Protocol):
    """Has a link of the host route loopback addresses, or not."""

    async def __call__(self, link: str, *, wanted: bool = True) -> None:
        """Set it. Raises HostError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """The clients that rules and answers are made by, and the file to set for a link's loopback."""

    iptables: Iptables
    chains: OwnChains
    health: HealthChecks
    datagrams: StaleDatagrams
    route_localnet: RouteLocalnet


class ServiceAccess:
    """The rules of services. One per agent; `replace`: in the place of kube-proxy."""

    def __init__(
        self,
        *,
        feed: KubeFeed,
        host_rules: HostRules,
        world: WorldBuilder,
        reconciler: Reconciler,
        address: IPv4Address,
        own: Iterable[Address],
        interval: float,
        replace: bool,
        board: FaultBoard,
        firewall: FirewallWatch,
    ) -> None:
        self._feed = feed
        self._host = host_rules
        self._world = world
        self._reconciler = reconciler
        self._address = address
        self._own = frozenset(own)
        self._interval = interval
        self._replace = replace
        self._board = board
        self._firewall = firewall
        self._refused: list[str] = []
        self._known_before: set[int] = set()

    async def run(self) -> None:
        """Reconcile the rules, for ever; beside kube-proxy remove them once."""
        await ReconcileLoop(
            name="services",
            converge=self.converge if self._replace else self._withdraw,
            observe=self._observe if self._replace else _nothing,
            triggers=(
                self._feed.changed,
                self._reconciler.ports_changed,
                self._reconciler.records.management_changed,
            ),
            interval=self._interval,
            anew=(self._firewall.lost,),
        ).run()

    async def _withdraw(self) -> object:
        await each_family(self._remember)  # `withdraw` says what is wrong with a family
        await withdraw(self._host.iptables, self._host.chains)
        await self._host.datagrams.follow(_OWNER, Ways())
        return _nothing()

    async def _remember(self, version: int) -> None:
        """Note what the rules of an earlier run lead from, before they are replaced."""
        if version not in self._known_before:
            for chain in (SERVICES, NODE_PORTS):
                found = await self._host.chains.rules(version, "nat", chain)
                self._host.datagrams.remember(found)
            self._known_before.add(version)

    def _observe(self) -> object:
        if not self._feed.complete:
            return None
        return dict(self._world.services.kube), self._here(), self._links()

    def _links(self) -> object:
        """Return the host's ports for pods, as far as they are there."""
        return [state.host_port for state in (self._world.vxlan, self._world.vlan)]

    def _here(self) -> Here:
        endpoints = self._world.endpoints
        pods = endpoints.routed(Bridge.VXLAN) | endpoints.routed(Bridge.VLAN)
        return Here(
            address=self._address,
            own=self._own,
            targets=pods | self._own,
            private=self._world.forwarding.private_subnet,
            known=self._world.management.known,
            closed=self._world.management.closed,
        )

    async def converge(self) -> object:
        """Replace the chains, once; return what `observe` then returns. Raises HostError."""
        observed = self._observe()
        if observed is None:
            return observed
        services, here = list(self._world.services.kube.values()), self._here()
        versions = [4, 6] if any(_has6(service) for service in services) else [4]
        refused: list[str] = []
        datagrams = Ways()

        async def keep(version: int) -> None:
            wanted: list[IptablesRule] = []
            if version in versions:
                await self._remember(version)
                made: ServiceRules = rules(services, version, here, datagrams)
                refused.extend(made.refused)
                await self._host.chains.replace(version, {"nat": made.nat, "filter": made.filter})
                wanted += hooks(version)
            if version == 4:
                wanted += loopback_guards()
            if await self._host.iptables.keep(wanted, (version,)):
                log.info("rules of services added", extra=fields(count=len(services)))

        failures = await each_family(keep)
        if 4 not in failures:
            # After the guards: without these pods could reach what listens on the loopback.
            for link in port_names.HOST_LINKS:
                await self._host.route_localnet(link)
            # kube-proxy and earlier releases of the agent have all links route them, guarded by
            # rules: a flush of these would let the host's neighbours in.
            await self._host.route_localnet(_ALL_LINKS, wanted=False)
        await self._host.health.keep(health_checks(services, here))
        self._name(refused)
        await self._host.datagrams.follow(_OWNER, datagrams)
        raise_any(failures)
        return observed

    def _name(self, refused: list[str]) -> None:
        for fault in refused:
            if fault not in self._refused:
                log.warning("service refused", extra=fields(error=fault))
        self._refused = refused
        self._board.set_faults("refused services", refused)


def health_checks(services: Iterable[KubeService], here: Here) -> dict[int, ServiceHealth]:
    """Return what is to be answered at the health check ports of services."""
    return {
        service.health_check_node_port: ServiceHealth(
            service.namespace,
            service.name,
            len(_on_host(service, here)),
        )
        for service in services
        if service.health_check_node_port and not service.left_alone
    }


def _on_host(service: KubeService, here: Here) -> set[str]:
    """Return the ready targets here: a balancer shall send nothing new to one that terminates."""
    targets = (target for port in service.ports for target in port.targets - port.draining)
    return {str(one.address) for one in targets if one.address in here.targets}


async def withdraw(iptables: Iptables, chains: OwnChains) -> None:
    """Remove all rules of services. Raises HostError."""

    async def remove(version: int) -> None:
        await iptables.keep((), (version,))
        await chains.remove(TABLES, (version,))

    raise_any(await each_family(remove))


async def route_localnet(link: str, *, wanted: bool = True) -> None:
    """Have a link of the host route loopback addresses, or not. Raises HostError.

    A link that is not there yet is passed over: who makes it makes others look again.
    """
    switch, value = _SETTINGS / link / "route_localnet", "1" if wanted else "0"
    try:
        if await asyncio.to_thread(_is_another, switch, value):
            log.info("route_localnet set", extra=fields(link=link, value=value))
    except FileNotFoundError:
        return
    except OSError as exc:
        raise HostError(f"{switch}: {exc.strerror}") from exc


def _is_another(switch: Path, value: str) -> bool:
    """Set a switch of the kernel; return whether it had another value."""
    if switch.read_text(encoding="ascii").strip() == value:
        return False
    switch.write_text(value, encoding="ascii")
    return True


def _has6(service: KubeService) -> bool:
    named = (*service.addresses, *service.external_ips, *service.load_balancer_ips)
    return any(isinstance(address, ipaddress.IPv6Address) for address in named)


def _nothing() -> object:
    return None
