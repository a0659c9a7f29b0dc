"""Leads this host's questions for names to the agent, where it is the cluster's own name server.

In come the address that is the server's (`--dns-address`) and the ports of
`netplugin.dns.host_server`; two rules of iptables translate what the host itself sends there. They
are removed where the cluster has another server. What pods send is the switch's.
"""

from collections.abc import Mapping
from typing import Final

from core.addresses import authority
from netplugin.bridges.host.host_ports import InterfaceContext
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.dns.host_server import LOOPBACK, HostServer
from netplugin.kernel.firewall.families import each_family, raise_any
from netplugin.kernel.firewall.iptables import Chain, Iptables, IptablesRule
from netplugin.kernel.netlink.requests import Address

OUTPUT: Final = {
    version: Chain(table="nat", name="OUTPUT", mark="contiv-names", version=version)
    for version in (4, 6)
}
CHAINS: Final = tuple(OUTPUT.values())
"""The chains that hold this module's rules."""
PORT: Final = 53


def rules(address: Address, ports: Mapping[str, int]) -> list[IptablesRule]:
    """Return the rules that lead to the agent's ports, which are named by transport."""
    there = LOOPBACK[address.version]
    block = f"{address}/{address.max_prefixlen}"
    return [
        IptablesRule(
            chain=OUTPUT[address.version],
            match=("-d", block, "-p", kind, "-m", kind, "--dport", str(PORT)),
            target=("-j", "DNAT", "--to-destination", authority(there, port)),
        )
        for kind, port in ports.items()
    ]


class HostNames:
    """The rules. One per agent; `address` is None where the cluster has another name server."""

    def __init__(
        self,
        context: InterfaceContext,
        iptables: Iptables,
        address: Address | None,
        server: HostServer,
    ) -> None:
        self._iptables = iptables
        self._address = address
        self._server = server
        self._ports: Mapping[str, int] = {}
        self._loop = ReconcileLoop(
            name="names for this host",
            converge=self.converge,
            observe=lambda: None,
            triggers=(),
            interval=context.interval,
            anew=(context.watches.firewall.lost,),
        )

    async def run(self) -> None:
        """Keep the rules, for ever."""
        await self._loop.run()

    async def converge(self) -> object:
        """Open the ports if there are none yet, and set the rules. Raises HostError."""
        if self._address is not None and not self._ports:
            self._ports = await self._server.start(self._address.version)
        wanted = rules(self._address, self._ports) if self._address is not None else []

        async def keep(version: int) -> None:
            await self._iptables.keep(wanted, (version,))

        raise_any(await each_family(keep))
        return None
