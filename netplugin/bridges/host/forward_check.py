"""Says what other programs' rules drop of what this host forwards for its pods.

In come the World's networks and the private network; out go faults of the host, one for each rule,
with the remedy. Nothing is changed: the agent's own rules make the host forward
(`netplugin.bridges.host.host_access`), but whatever another chain on the way drops stays dropped.
`netplugin.kernel.firewall.foreign_rules` reads and follows the chains.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import product
from typing import Final

from netplugin.bridges.host.host_access import subnets
from netplugin.bridges.host.host_ports import InterfaceContext
from netplugin.bridges.host.host_routes import Subnet
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.kernel.firewall.foreign_rules import FindRefusals, Refusal, outside_links
from netplugin.kernel.firewall.packet_rules import Way
from netplugin.world.bridges import port_names
from ofnet.world import PRIVATE6

NAME: Final = "firewall"
SPACING: Final = 2.0
"""Seconds between two readings at least: a proxy for services changes rules all the time."""
PROTOCOLS: Final = ("tcp", "udp")
_NEW: Final = frozenset({"NEW"})
_ANSWERS: Final = frozenset({"ESTABLISHED", "SNAT"})
_TRANSLATED: Final = frozenset({"NEW", "DNAT"})
_BACK: Final = frozenset({"ESTABLISHED", "DNAT"})


def ways(
    blocks: Collection[Subnet],
    versions: Iterable[int],
    outside: Callable[[int], tuple[str, ...]] = outside_links,
) -> Iterator[Way]:
    """Yield what a host forwards for pods with addresses of some blocks; none is not known.

    `outside` returns the links by which the host reaches the outside.
    """
    kinds = (
        ("what pods send to the outside", True, _NEW),
        ("answers to pods from the outside", False, _ANSWERS),
        ("what comes to node ports and host ports", False, _TRANSLATED),
        ("pods' answers by node ports and host ports", True, _BACK),
    )
    for version in versions:
        far = outside(version)
        pods = tuple(one for one in blocks if one.version == version)
        for (title, sends, states), link, protocol in product(
            kinds, port_names.HOST_LINKS, PROTOCOLS
        ):
            yield Way(
                title=title,
                version=version,
                protocol=protocol,
                into=(link,) if sends else far,
                out=far if sends else (link,),
                pods=pods or None,
                from_pods=sends,
                states=states,
            )


def fault(refusal: Refusal) -> str:
    """Return what a rule of others means for pods, with the remedy."""
    return (
        f"{refusal.where} drops what this host forwards for its pods ({refusal.what}): "
        f"{refusal.remedy}"
    )


class ForwardCheck:
    """Looks at the rules of others whenever one has changed. One per agent."""

    def __init__(
        self,
        context: InterfaceContext,
        find: FindRefusals,
        *,
        spacing: float = SPACING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world = context.world
        self._board = context.board
        self._find = find
        self._spacing = spacing
        self._clock = clock
        self._looked: float | None = None
        self._loop = ReconcileLoop(
            name="look at firewalls",
            converge=self.converge,
            observe=self._blocks,
            triggers=(context.records.settings_changed, context.records.records_changed),
            interval=context.interval,
            anew=(context.watches.firewall.changed,),
        )

    async def run(self) -> None:
        """Look, for ever."""
        await self._loop.run()

    async def converge(self) -> object:
        """Look once, and tell what was found; return for which addresses. Raises HostError."""
        if self._looked is not None:
            await asyncio.sleep(self._looked + self._spacing - self._clock())
        blocks = self._blocks()
        found: list[Refusal] = []
        if blocks:
            versions = sorted({one.version for one in blocks})
            wanted = [*ways(blocks, versions)]
            found = await self._find(wanted, port_names.HOST_LINKS)
        self._looked = self._clock()
        self._board.set_faults(NAME, map(fault, found))
        return blocks

    def _blocks(self) -> tuple[Subnet, ...]:
        """Return the addresses of pods, the private ones too; nothing is forwarded without."""
        private = self._world.forwarding.private_subnet
        if private is None:
            return ()
        held = {one for record in self._world.networks.all() for one, _ in subnets(record)}
        if any(one.version == 6 for one in held):
            held.add(PRIVATE6)
        return private, *sorted(held, key=str)
