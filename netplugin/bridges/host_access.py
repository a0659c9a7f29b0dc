"""The host's own port for its pods: `contivh0`, its address, and masquerading for pods.

The cluster's settings name a private network (`pvtSubnet`, the same on every host). Its last
address is the host's, on `contivh0` (`netplugin.bridges.host_ports`). The host reaches the pod
behind port N at address N of that network (`netplugin.world.port_names`); the flows of
`ofnet.pipelines.vrouter` translate it. Traffic from pods to addresses outside the host leaves with
the host's address, by one iptables rule (`netplugin.kernel.iptables`). Once the port exists it is
set on the World.
"""

import logging
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from core.logs import fields
from netplugin.bridges.host_ports import HostInterface, InterfaceContext
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.kernel.host_links import HostRoute
from netplugin.kernel.iptables import Chain, Iptables, IptablesRule
from netplugin.world import port_names
from ofnet.world import Bridge, HostPort

log = logging.getLogger(__name__)

HOST_VLAN: Final = 2
"""The port's tag, as in the original; no flow matches on it."""
POSTROUTING: Final = Chain(table="nat", name="POSTROUTING")
FORWARD: Final = Chain(table="filter", name="FORWARD")
"""Traffic from pods to the outside passes it; this agent adds no rule to it."""
CHAINS: Final = (POSTROUTING,)
"""The chains that hold this module's rules."""
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")


def masquerade(private: IPv4Network) -> IptablesRule:
    """Return the rule that replaces a pod's address by the host's when it leaves the host."""
    return IptablesRule(
        chain=POSTROUTING,
        match=("-s", str(private), "!", "-o", port_names.HOST_PORT),
        target=("-j", "MASQUERADE"),
    )


def host_interface(private: IPv4Network, address: IPv4Address) -> HostInterface:
    """Return the host's interface on a private network.

    Connections from the host to its pods have the source `address`, one of the host's. Answers to
    its private address would be dropped: pods must not reach the other addresses of that network.
    """
    return HostInterface(
        bridge=Bridge.VXLAN,
        name=port_names.HOST_PORT,
        owner=port_names.HOST_ENDPOINT_ID,
        tag=HOST_VLAN,
        ofport=port_names.HOST_OFPORT,
        mac=port_names.private_mac(private, port_names.HOST_NUMBER),
        addresses=[port_names.private_address(private, port_names.HOST_NUMBER)],
        routes=[HostRoute(subnet=private, source=address)],
    )


class HostAccess:
    """The host's port, its routes and rules. One per agent; `address` is one of the host's."""

    def __init__(
        self, context: InterfaceContext, *, iptables: Iptables, address: IPv4Address
    ) -> None:
        self._context = context
        self._ovsdb = context.ovsdb
        self._world = context.world
        self._iptables = iptables
        self._address = address

    async def run(self) -> None:
        """Reconcile port and rules, for ever."""
        await ReconcileLoop(
            name="host access",
            converge=self.converge,
            observe=self._observe,
            triggers=(self._ovsdb.changed, self._context.records.settings_changed),
            interval=self._context.interval,
        ).run()

    def _observe(self) -> object:
        return self._world.forwarding.private_subnet, self._ovsdb.ports().get(port_names.HOST_PORT)

    async def converge(self) -> object:
        """Create or correct port and rules, once; return what `observe` then returns.

        Raises ContivError.
        """
        private = self._world.forwarding.private_subnet
        if private is None:
            return self._observe()
        wanted = host_interface(private, self._address)
        row = await self._context.host_ports.ensure(wanted)
        port = HostPort(ofport=row.ofport or 0, mac=wanted.mac, subnet=private)
        self._world.endpoints.set_host_port(port)
        if await self._iptables.keep([masquerade(private)]):
            log.info("host access rules added", extra=fields(subnet=private))
        return private, row


def forwards(switch: Path = FORWARDING) -> bool:
    """Return whether this host forwards packets."""
    return switch.read_text(encoding="ascii").strip() != "0"


def warn_unless_forwarding(switch: Path = FORWARDING) -> None:
    """Log a warning if this host does not forward packets, which cuts its pods off outside."""
    if not forwards(switch):
        log.warning("pods cannot reach addresses outside: net.ipv4.ip_forward is 0 on this host")
