"""The host's own ports for its pods: `contivh0`, `contivv0`, routes, and masquerading for pods.

The cluster's settings name a private network (`pvtSubnet`, the same on every host). Its last
address is the host's, on `contivh0` (`netplugin.bridges.host.host_ports`). The host reaches the pod
behind port N at address N of that network (`netplugin.world.bridges.port_names`); the flows of
`ofnet.pipelines.features.host_exit` translate it. Traffic from pods to addresses outside the host
leaves with the host's address, by an iptables rule (`netplugin.kernel.firewall.iptables`). The same
holds for IPv6 where routed networks have it, with the private addresses of `ofnet.world.PRIVATE6`.

At their own addresses the host reaches its pods in all modes (`netplugin.bridges.host.host_routes`,
`ofnet.pipelines.features.host_paths`): those of the vxlan bridge by `contivh0`, those of the vlan
bridge by `contivv0`. Once the ports exist they are set on the World.

By these ports the host also forwards: connections to node ports, external addresses and ports of
the host. They keep their source, by which policies judge them
(`ofnet.pipelines.features.host_forwarding`); those of pods get one that stands for pods.
"""

# The routes to pods are the host's. A packet that the host only forwards takes one if its target
# was translated here (node ports, ports of the host), and is dropped by the rules of `guards`
# otherwise: neither a machine beside the host nor a pod of another tenant, whose packets to
# addresses unknown to its tenant go to the host, may reach a pod past the policies that way. The
# chain is the one of the table `mangle`, since others may accept such packets in `filter`.
#
# What has an address of this host as source passes the policies as the host's own. So a forwarded
# packet with such a source is forged, and dropped (of IPv4 the kernel drops it itself); and nothing
# here gives an address of the host to what is forwarded to a pod. A pod's private address is no
# target of others: its packets would pass Contiv's rules as answers to the pod.

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from pathlib import Path
from typing import Final

from core.collections.latest import Latest
from core.errors import HostError
from core.logs import fields
from netplugin.bridges.host import host_routes
from netplugin.bridges.host.host_ports import HostInterface, InterfaceContext
from netplugin.bridges.host.host_routes import PodRoutes, Subnet
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.bridges.reconciler import Reconciler
from netplugin.bridges.services.service_rules import MARK
from netplugin.kernel.firewall.families import each_family, raise_any
from netplugin.kernel.firewall.iptables import LAST_MARK, Chain, Iptables, IptablesRule
from netplugin.kernel.netlink.requests import Address
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.ovsdb import PortRow
from netplugin.world import underlay
from netplugin.world.bridges import port_names
from ofnet.pipelines.packet_path import stages
from ofnet.world import (
    FORWARDED_SOURCE6,
    PRIVATE6,
    TUNNEL_SOURCES4,
    Bridge,
    FwdMode,
    HostPort,
    tunnel_source6,
)
from state.records import Encap, NetworkRecord, NetworkType

log = logging.getLogger(__name__)

HOST_VLAN: Final = 2
"""The tag of `contivh0`, as in the original; no flow matches on it."""
VLAN_HOST_VLAN: Final = stages.DNS_RETURN_VLAN
"""The tag of `contivv0`: a VLAN that no network may have, since NORMAL floods to its ports."""
POSTROUTING: Final = Chain(table="nat", name="POSTROUTING")
POSTROUTING6: Final = Chain(table="nat", name="POSTROUTING", version=6)
FORWARD: Final = Chain(table="filter", name="FORWARD", mark=LAST_MARK)
FORWARD6: Final = replace(FORWARD, version=6)
"""What the host forwards for pods passes it. Docker, ufw and others have it drop by default."""
GUARD: Final = Chain(table="mangle", name="FORWARD")
GUARD6: Final = Chain(table="mangle", name="FORWARD", version=6)
LEAVING: Final = Chain(table="mangle", name="POSTROUTING")
LEAVING6: Final = Chain(table="mangle", name="POSTROUTING", version=6)
CHAINS: Final = (
    *(POSTROUTING, POSTROUTING6, GUARD, GUARD6, LEAVING, LEAVING6),
    *(FORWARD, FORWARD6),
)
"""The chains that hold this module's rules."""
_PORTS: Final = port_names.HOST_LINKS
_TO_PODS: Final = port_names.OWN_LINKS
_TRANSLATED: Final = ("-m", "conntrack", "--ctstate", "DNAT")
_NO_MARK: Final = "0x0/0xffffffff"
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
FORWARDING6: Final = Path("/proc/sys/net/ipv6/conf/all/forwarding")
FORWARDING_OFF: Final = (
    "net.ipv4.ip_forward is 0: pods cannot reach addresses outside the cluster: "
    "sysctl net.ipv4.ip_forward=1, also after a reboot"
)
FORWARDING6_OFF: Final = (
    "net.ipv6.conf.all.forwarding is 0: pods cannot reach addresses outside the cluster by IPv6: "
    "sysctl net.ipv6.conf.all.forwarding=1, also after a reboot"
)


def masquerade(private: Subnet) -> IptablesRule:
    """Return the rule that replaces a pod's address by the host's when it leaves the host."""
    return IptablesRule(
        chain=POSTROUTING if private.version == 4 else POSTROUTING6,
        match=("-s", str(private), "!", "-o", _TO_PODS),
        target=("-j", "MASQUERADE"),
    )


def returned(private: IPv4Network, blocks: Iterable[Subnet]) -> Iterator[IptablesRule]:
    """Yield the rules for pods' packets that the host translated and sends to a pod.

    They get an address that stands for all pods, by which policies judge them: under the pod's own
    its receiver would answer the pod itself. `blocks` are addresses of pods.
    """
    for block in sorted({private, *blocks}, key=str):
        source = port_names.private_address(private, port_names.HOST_NUMBER).ip
        to = str(source if block.version == 4 else FORWARDED_SOURCE6)
        chain = POSTROUTING if block.version == 4 else POSTROUTING6
        for port in _PORTS:
            yield IptablesRule(
                chain=chain,
                match=("-s", str(block), "-o", port, *_TRANSLATED),
                target=("-j", "SNAT", "--to-source", to),
            )


def sources_kept(*chains: Chain) -> Iterator[IptablesRule]:
    """Yield the rules that keep others from giving the host's address to what is for pods.

    kube-proxy, of either mode, marks what it gives an address of the link that it leaves by. That
    of `contivh0` is the same on every host, so that answers of pods elsewhere would go to their own
    host; and policies could not tell an address of this host from the host's own. So the marks are
    taken off before any translation of sources, whichever their number, which kube-proxy is told.
    The answers come back by the switch.
    """
    for chain in chains:
        for port in _PORTS:
            yield IptablesRule(
                chain=chain,
                match=("-o", port),
                target=("-j", "MARK", "--set-xmark", _NO_MARK),
            )


def from_loopback(address: IPv4Address) -> Iterator[IptablesRule]:
    """Yield the rules that give the host's address to what it sends to pods from its loopback."""
    for port in _PORTS:
        yield IptablesRule(
            chain=POSTROUTING,
            match=("-s", "127.0.0.0/8", "-o", port, *_TRANSLATED),
            target=("-j", "SNAT", "--to-source", str(address)),
        )


def guards(*chains: Chain) -> list[IptablesRule]:
    """Return the rules that keep what the host merely forwards from its routes to pods."""
    fresh = ("-m", "conntrack", "--ctstate", "NEW")
    untranslated = ("-m", "conntrack", "!", "--ctstate", "DNAT")
    forged = ("-m", "addrtype", "--src-type", "LOCAL")
    return [
        IptablesRule(chain=chain, match=("-o", port, *kind), target=("-j", "DROP"))
        for chain in chains
        for port in _PORTS
        for kind in ((*fresh, *untranslated), forged)
    ]


def private_guard(private: Subnet) -> IptablesRule:
    """Return the rule that keeps what the host forwards from pods' private addresses."""
    return IptablesRule(
        chain=GUARD if private.version == 4 else GUARD6,
        match=("-d", str(private), "-o", port_names.HOST_PORT, *_TRANSLATED, "--ctdir", "ORIGINAL"),
        target=("-j", "DROP"),
    )


def accepted(*chains: Chain) -> list[IptablesRule]:
    """Return the rules by which the host forwards for pods where it drops by default.

    What pods send, what the host translated, and answers: no more than `guards` let pass, and what
    others' rules before these refuse stays refused.
    """
    known = ("-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED,DNAT")
    answers = ("-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED")
    matches = [
        *(("-i", link, "!", "-o", port_names.OWN_LINKS) for link in port_names.HOST_LINKS),
        *(("-o", link, *known) for link in port_names.HOST_LINKS),
        # a node port's connection to a target that is no pod, or is reached by a router
        ("-m", "mark", "--mark", MARK),
        (*_TRANSLATED, *answers),
    ]
    return [
        IptablesRule(chain=chain, match=one, target=("-j", "ACCEPT"))
        for chain in chains
        for one in matches
    ]


def host_interface(
    private: IPv4Network,
    address: IPv4Address,
    networks: Collection[Subnet] = (),
    privates6: Iterable[IPv6Network] = (),
) -> HostInterface:
    """Return `contivh0`, the host's interface on its private network and to pods on vxlan networks.

    `privates6` are where pods have private addresses of IPv6: none without networks that have it.
    `with_pods` adds the routes to pods. Connections from the host to them have the source
    `address`, one of the host's. Answers to its private address would be dropped: pods must not
    reach the other addresses of that network. The link has `address` where it is made of one of
    IPv6 (`ofnet.world.tunnel_source4`).
    """
    of_tunnels = [IPv4Interface(address)] if address in TUNNEL_SOURCES4 else []
    return HostInterface(
        bridge=Bridge.VXLAN,
        name=port_names.HOST_PORT,
        owner=port_names.HOST_ENDPOINT_ID,
        tag=HOST_VLAN,
        ofport=port_names.HOST_OFPORT,
        mac=port_names.private_mac(private, port_names.HOST_NUMBER),
        addresses=[port_names.private_address(private, port_names.HOST_NUMBER), *of_tunnels],
        routes=[
            HostRoute(subnet=private, source=address),
            *host_routes.network_routes(networks, private, address),
            *host_routes.private_routes(privates6),
        ],
        neighbours=host_routes.neighbours(networks, private),
        source6=tunnel_source6(address) if any(one.version == 6 for one in networks) else None,
    )


def vlan_host_interface(private: IPv4Network) -> HostInterface:
    """Return `contivv0`, the host's interface to pods on vlan networks; it has no address.

    `with_pods` adds the routes to them.
    """
    return HostInterface(
        bridge=Bridge.VLAN,
        name=port_names.VLAN_HOST_PORT,
        owner=port_names.VLAN_HOST_ENDPOINT_ID,
        tag=VLAN_HOST_VLAN,
        ofport=port_names.VLAN_HOST_OFPORT,
        mac=port_names.private_mac(private, port_names.PEER_NUMBER),
        addresses=[],
        routes=[],
    )


def with_pods(interface: HostInterface, pods: PodRoutes) -> HostInterface:
    """Return an interface of the host with the routes to this host's pods by it."""
    hops = host_routes.neighbours(pods.addresses, pods.private)
    return replace(interface, pods=pods, neighbours={**interface.neighbours, **hops})


class HostAccess:
    """The host's ports, their routes and rules. One per agent; `address` is one of the host's."""

    def __init__(
        self,
        context: InterfaceContext,
        *,
        iptables: Iptables,
        address: IPv4Address,
        reconciler: Reconciler,
    ) -> None:
        self._context = context
        self._ovsdb = context.ovsdb
        self._world = context.world
        self._iptables = iptables
        self._kept_rules: dict[int, list[IptablesRule]] = {}
        self._address = address
        self._reconciler = reconciler
        # Both are asked for at each change of a pod, and subnets take long to be made.
        self._subnets = Latest(_pod_subnets)
        self._without_pods = Latest(self._host_interfaces)

    async def run(self) -> None:
        """Reconcile ports, rules and routes, for ever."""
        settings, interval = self._context.records.settings_changed, self._context.interval
        ports = ReconcileLoop(
            name="host access",
            converge=self.converge,
            observe=self._observe,
            triggers=(
                self._ovsdb.changed,
                settings,
                self._context.records.records_changed,
                self._context.underlay.changed,
            ),
            interval=interval,
            # flows name the addresses of this host: an old one would stay a source for pods
            anew=(
                self._context.watches.firewall.lost,
                self._context.watches.routes.lost,
                self._context.watches.addresses.changed,
            ),
        )
        # Apart from the ports: a pod that comes or goes changes routes alone, many times a minute.
        routes = ReconcileLoop(
            name="host routes",
            converge=self.converge_routes,
            observe=self._observe_routes,
            triggers=(
                self._reconciler.ports_changed,
                self._ovsdb.changed,
                self._context.underlay.changed,
                self._context.records.records_changed,
            ),
            interval=interval,
        )
        async with asyncio.TaskGroup() as loops:
            loops.create_task(ports.run())
            loops.create_task(routes.run())

    def _observe(self) -> object:
        blocks, spared = frozenset(self._vlan_blocks()), self._world.underlay.spared
        private = self._world.forwarding.private_subnet
        networks6 = self._has_networks6(), self._privates6()
        return private, self._rows(), networks6, blocks, spared

    def _rows(self) -> list[PortRow | None]:
        ports = self._ovsdb.ports()
        return [ports.get(port_names.HOST_PORT), ports.get(port_names.VLAN_HOST_PORT)]

    async def converge(self) -> object:
        """Create or correct ports, routes and rules, once; return what `observe` then returns.

        Raises ContivError.
        """
        private = self._world.forwarding.private_subnet
        if private is None:
            return self._observe()
        await self._context.underlay.settle()
        networks6 = self._has_networks6()
        privates6 = self._privates6()
        privates: list[Subnet] = [private, *privates6]
        blocks, spared = frozenset(self._vlan_blocks()), self._world.underlay.spared
        sources, others = await self._sources()
        rows: list[PortRow | None] = []
        for bridge in Bridge:
            current = partial(self._interface, bridge, private)
            row = await self._context.host_ports.ensure(current)
            rows.append(row)
            port = HostPort(
                ofport=row.ofport or 0,
                mac=current().mac,
                subnet=private,
                sources=sources,
                others=others,
            )
            self._world.endpoints.set_host_port(port, bridge)
        rules = [
            *map(masquerade, privates),
            *returned(private, {*privates6, *blocks}),
            *from_loopback(self._address),
            *guards(GUARD, *self._of_ipv6(GUARD6)),
            *map(private_guard, privates),
            *sources_kept(LEAVING, *self._of_ipv6(LEAVING6)),
            *accepted(FORWARD, *self._of_ipv6(FORWARD6)),
        ]

        async def keep(version: int) -> None:
            if await self._iptables.keep(rules, (version,)):
                about = fields(subnet=private, family=version)
                if self._kept_rules.get(version) == rules:
                    log.warning("somebody deleted host access rules, added again", extra=about)
                else:
                    log.info("host access rules added", extra=about)
            self._kept_rules[version] = rules

        failures = await each_family(keep)
        if networks6 and 6 not in failures:
            failures = {**failures, **await each_family(self._require_ipv6, (6,))}
        raise_any(failures)
        return private, rows, (networks6, privates6), blocks, spared

    async def _require_ipv6(self, _version: int) -> None:
        """Raise HostError if this host has no IPv6, which pods' networks have."""
        for name in port_names.HOST_LINKS:
            if not await self._context.host_ports.has_ipv6(name):
                raise HostError(
                    f"link {name} has no IPv6, by which this host reaches pods: "
                    f"sysctl net.ipv6.conf.{name}.disable_ipv6=0, or boot without ipv6.disable=1"
                )

    def _interface(self, bridge: Bridge, private: IPv4Network) -> HostInterface:
        one = self._without_pods(private, self._networks())[bridge]
        return with_pods(one, PodRoutes(self._reached(bridge), private, self._address))

    def _reached(self, bridge: Bridge) -> frozenset[Address]:
        """Return the addresses of pods to which the host has routes by its port on a bridge."""
        routed, spared = self._world.endpoints.routed(bridge), self._world.underlay.spared
        # the same object as long as no pod comes or goes: several loops compare it at each change
        return routed if routed.isdisjoint(spared) else routed - spared

    def _host_interfaces(
        self, private: IPv4Network, networks: Sequence[Subnet]
    ) -> dict[Bridge, HostInterface]:
        return {
            Bridge.VXLAN: host_interface(private, self._address, networks, self._privates6()),
            Bridge.VLAN: vlan_host_interface(private),
        }

    def _networks(self) -> list[Subnet]:
        networks = self._world.underlay.routable(self._world.networks.all())
        return self._subnets(networks, self._world.forwarding.fwd_mode)

    def _has_networks6(self) -> bool:
        return any(one.version == 6 for one in self._networks())

    def _privates6(self) -> list[IPv6Network]:
        """Return where pods have private addresses of IPv6; a bridged pod has none."""
        routing = self._world.forwarding.fwd_mode is FwdMode.ROUTING
        return [PRIVATE6] if routing and self._has_networks6() else []

    def _vlan_blocks(self) -> Iterator[Subnet]:
        """Yield the subnets of vlan networks, whose pods come to the host under their addresses."""
        for one in self._world.networks.all():
            if one.encap is Encap.VLAN and one.type is not NetworkType.INFRA:
                yield from (subnet for subnet, _ in subnets(one))

    async def _sources(self) -> tuple[frozenset[Address], frozenset[Address]]:
        """Return the addresses under which this host connects to pods, and its other ones."""
        # IPv4: the one that the routes name. IPv6: whichever the kernel chooses, for its own pods.
        held = {ip_address(one) for one in await self._context.links.own_addresses()}
        six = [one for one in held if isinstance(one, IPv6Address)]
        named = [tunnel_source6(self._address)] if self._has_networks6() else []
        sources: frozenset[Address] = frozenset((self._address, *six, *named))
        return sources, frozenset(held - sources)

    def _of_ipv6(self, chain: Chain) -> tuple[Chain, ...]:
        """Return a chain of IPv6, if a route to a pod needs it."""
        routed = [self._world.endpoints.routed(bridge) for bridge in Bridge]
        here = any(one.version == 6 for pods in routed for one in pods)
        return (chain,) if here or self._has_networks6() else ()

    def _observe_routes(self) -> object:
        endpoints, private = self._world.endpoints, self._world.forwarding.private_subnet
        routed = [endpoints.routed(bridge) for bridge in Bridge]
        networks = self._networks()
        return (
            private,
            routed,
            networks,
            self._world.underlay.spared,
            endpoints.contested(),
            [row is not None for row in self._rows()],
        )

    async def converge_routes(self) -> object:
        """Correct the routes to pods, once; return what `observe` then returns.

        Raises HostError.
        """
        observed = self._observe_routes()
        taking = self._world.underlay.findings(self._world.networks.all())
        contested = self._world.endpoints.contested()
        self._context.board.set_faults(
            "host routes", [*underlay.faults(taking), *host_routes.faults(contested)]
        )
        await self._context.underlay.settle()
        private = self._world.forwarding.private_subnet
        if private is None:
            return observed
        for bridge, row in zip(Bridge, self._rows(), strict=True):
            if row is not None:
                await self._context.host_ports.follow(partial(self._interface, bridge, private))
        return observed


def _pod_subnets(networks: Sequence[NetworkRecord], mode: FwdMode) -> list[Subnet]:
    """Return the subnets of vxlan networks, whose pods other hosts have too.

    A bridged pod answers by its gateway.
    """
    routing = mode is FwdMode.ROUTING
    return [
        subnet
        for one in networks
        if one.encap is Encap.VXLAN and one.type is not NetworkType.INFRA
        for subnet, gateway in subnets(one)
        if routing or gateway
    ]


def subnets(network: NetworkRecord) -> Iterator[tuple[Subnet, str]]:
    """Yield the subnets of a network, each with its gateway."""
    if network.subnet:
        yield IPv4Network((network.subnet, network.subnet_len), strict=False), network.gateway
    if network.ipv6_subnet:
        six = IPv6Network((network.ipv6_subnet, network.ipv6_subnet_len), strict=False)
        yield six, network.ipv6_gateway


def unheard_advertisements(links: Sequence[str]) -> str:
    """Return what is wrong with links that hear no router advertisements on a host that forwards.

    "" if there are none (`netplugin.kernel.routes.router_advertisements`).
    """
    remedies = " ".join(f"net.ipv6.conf.{link}.accept_ra=2" for link in links)
    if not remedies:
        return ""
    return (
        f"on a host that forwards IPv6 {', '.join(links)} hears router advertisements no more, and "
        f"loses what it has of them: sysctl {remedies}, also after a reboot"
    )


def forwards(switch: Path = FORWARDING) -> bool:
    """Return whether this host forwards packets. Raises HostError."""
    try:
        return switch.read_text(encoding="ascii").strip() != "0"
    except OSError as exc:
        raise HostError(f"{switch} cannot be read: {exc.strerror}") from exc
