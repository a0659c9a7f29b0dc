"""The host's own port for its pods: `contivh0`, its address, and the masquerading behind it.

The cluster's settings name a private network (`pvtSubnet`, the same on every host). Its last
address is the host's, on `contivh0` (`netplugin.bridges.host_ports`); a pod behind port N is
address N of it to its host (`netplugin.world.port_names`; the flows that translate are
`ofnet.pipelines.vrouter`'s). What pods send beyond the host leaves under its own address by one
rule of iptables (`netplugin.kernel.iptables`). The World is told once the port is there.
"""

import logging
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from core.logs import fields
from netplugin.bridges.host_ports import HostInterface, HostPorts
from netplugin.bridges.reconcile_loop import ReconcileLoop, keep
from netplugin.bridges.reconciler import Reconciler
from netplugin.kernel.host_links import HostRoute
from netplugin.kernel.iptables import Chain, Iptables, IptablesRule
from netplugin.ovsdb import Ovsdb
from netplugin.world import port_names
from netplugin.world.builder import WorldBuilder
from ofnet.world import Bridge, HostPort

log = logging.getLogger(__name__)

HOST_VLAN: Final = 2
"""The port's tag, as in the original; its flows do not ask for it."""
POSTROUTING: Final = Chain(table="nat", name="POSTROUTING")
FORWARD: Final = Chain(table="filter", name="FORWARD")
"""What pods send beyond the host passes it; no rule of ours is in it."""
CHAINS: Final = (POSTROUTING,)
"""The chains that hold its rules."""
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")


def masquerade(private: IPv4Network) -> IptablesRule:
    """Return the rule that has pods leave the host under its own address."""
    return IptablesRule(
        chain=POSTROUTING,
        match=("-s", str(private), "!", "-o", port_names.HOST_PORT),
        target=("-j", "MASQUERADE"),
    )


def host_interface(private: IPv4Network, address: IPv4Address) -> HostInterface:
    """Return the host's port on a private network.

    Pods see their host speak under `address`: answers to its private one are dropped, lest a pod
    reach what else that network stands for.
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
    """The host's port and what belongs to it. One per agent; `address` is one of the host's."""

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        host_ports: HostPorts,
        firewall: Iptables,
        world: WorldBuilder,
        reconciler: Reconciler,
        address: IPv4Address,
        interval: float,
    ) -> None:
        self._ovsdb = ovsdb
        self._host_ports = host_ports
        self._firewall = firewall
        self._world = world
        self._reconciler = reconciler
        self._address = address
        self._interval = interval

    async def run(self) -> None:
        """Keep all of it, for ever; link and rules are looked at on the interval."""
        await keep(
            ReconcileLoop(
                name="host access",
                converge=self.converge,
                facts=self._facts,
                news=(self._ovsdb.changed, self._reconciler.settings_changed),
                interval=self._interval,
            )
        )

    def _facts(self) -> object:
        return self._world.forwarding.private_subnet, self._ovsdb.ports().get(port_names.HOST_PORT)

    async def converge(self) -> object:
        """Make the port and what belongs to it as they should be, once; return how it is then.

        Raises ContivError.
        """
        private = self._world.forwarding.private_subnet
        if private is None:
            return self._facts()
        wanted = host_interface(private, self._address)
        row = await self._host_ports.ensure(wanted)
        port = HostPort(ofport=row.ofport or 0, mac=wanted.mac, subnet=private)
        self._world.endpoints.set_host_port(port)
        if await self._firewall.keep([masquerade(private)]):
            log.info("host access rules made", extra=fields(subnet=private))
        return private, row


def forwards(switch: Path = FORWARDING) -> bool:
    """Tell whether this host forwards packets."""
    return switch.read_text(encoding="ascii").strip() != "0"


def warn_unless_forwarding(switch: Path = FORWARDING) -> None:
    """Say so if this host forwards no packets: its pods reach nobody beyond it then."""
    if not forwards(switch):
        log.warning("pods reach nobody outside: net.ipv4.ip_forward is 0 on this host")
