"""Leads this host's questions for names to the agent, where it is the cluster's own name server.

In come the address that is the server's (`--dns-address`) and the ports of
`netplugin.dns.host_server`; two rules of iptables translate what the host itself sends there. They
are removed where the cluster has another server. What pods send is the switch's.
"""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address
from typing import Final

from netplugin.bridges.host_ports import InterfaceContext
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.dns.host_server import LOOPBACK
from netplugin.kernel.iptables import Chain, Iptables, IptablesRule

OUTPUT: Final = Chain(table="nat", name="OUTPUT", mark="contiv-names")
CHAINS: Final = (OUTPUT,)
"""The chains that hold this module's rules."""
PORT: Final = 53


def rules(address: IPv4Address, ports: Mapping[str, int]) -> list[IptablesRule]:
    """Return the rules that lead to the agent's ports, which are named by transport."""
    return [
        IptablesRule(
            chain=OUTPUT,
            match=("-d", f"{address}/32", "-p", kind, "-m", kind, "--dport", str(PORT)),
            target=("-j", "DNAT", "--to-destination", f"{LOOPBACK}:{port}"),
        )
        for kind, port in ports.items()
    ]


class HostNames:
    """The rules. One per agent; `address` is None where the cluster has another name server.

    `serve` opens the ports, once.
    """

    def __init__(
        self,
        context: InterfaceContext,
        iptables: Iptables,
        address: IPv4Address | None,
        serve: Callable[[], Awaitable[Mapping[str, int]]],
    ) -> None:
        self._iptables = iptables
        self._address = address
        self._serve = serve
        self._ports: Mapping[str, int] = {}
        self._loop = ReconcileLoop(
            name="names for this host",
            converge=self.converge,
            observe=lambda: None,
            triggers=(),
            interval=context.interval,
            anew=(context.firewall_lost,),
        )

    async def run(self) -> None:
        """Keep the rules, for ever."""
        await self._loop.run()

    async def converge(self) -> object:
        """Open the ports if there are none yet, and set the rules. Raises HostError."""
        if self._address is not None and not self._ports:
            self._ports = await self._serve()
        wanted = rules(self._address, self._ports) if self._address is not None else []
        await self._iptables.keep(wanted, (4,))
        return None
