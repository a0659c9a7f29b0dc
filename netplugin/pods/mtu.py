"""The MTU of pods: derived from the links that carry their packets, and kept in sync with them.

In come the MTUs of the tunnels' link and of the uplinks, as the kernel has them; out goes the MTU
of each bridge's pods, which `--mtu` may lower. When links change, the links of running pods follow,
and so do the host's own interfaces on the bridges. The original took the lowest MTU of all links at
its start, so that an unrelated bridge decided (docs/original/ofnet-ovsdb.md §5,
docs/original/user-issues.md #21).
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Never

from core.errors import ContivError, HostError, UsageError
from core.logs import fields
from core.retry import Loop, retry
from netplugin.bridges.vxlan.path_mtu import VXLAN_OVERHEAD
from netplugin.kernel.netns import KernelLinks
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from netplugin.world.peers import Address
from ofnet.world import Bridge

log = logging.getLogger(__name__)


NAMED: Final = 3
"""Links that could not be set, in an error."""


@dataclass(frozen=True, slots=True)
class UnderlayMtu:
    """The MTUs of the links that carry pods' packets to other hosts."""

    tunnels: int
    """The lowest of the links of tunnels."""
    uplinks: tuple[int, ...] = ()
    overhead: int = VXLAN_OVERHEAD[4]
    """The bytes of tunnels around a packet of a pod."""

    def carries(self, bridge: Bridge) -> int:
        """Return the size of the longest packet of a pod that is not fragmented."""
        if bridge is Bridge.VXLAN:
            return self.tunnels - self.overhead
        return min(self.uplinks, default=self.tunnels)


async def underlay_of(
    links: KernelLinks, vtep_ips: Sequence[Address], uplinks: Sequence[str]
) -> UnderlayMtu:
    """Return the underlay of a host. Raises HostError where a link is missing."""
    holders, have = [await links.holder(one) for one in vtep_ips], await links.mtus()
    missing = [name for name in (*holders, *uplinks) if name not in have]
    if missing:
        raise HostError(f"this host has no link {missing[0]}: correct --vtep-ip or --vlan-uplinks")
    return UnderlayMtu(
        min(have[name] for name in holders),
        tuple(have[name] for name in uplinks),
        max(VXLAN_OVERHEAD[one.version] for one in vtep_ips),
    )


class PodMtus:
    """The MTUs of this host's pods. One per agent; `read` comes first.

    `wanted` is what the command line says, None for what the links carry.
    """

    def __init__(
        self,
        host: PodHost,
        *,
        vtep_ips: Sequence[Address],
        uplinks: Sequence[str],
        wanted: int | None,
    ) -> None:
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._registry = host.registry
        self._rescan = host.settings.timing.mtu_rescan
        self._vtep_ips = vtep_ips
        self._uplinks = uplinks
        self._wanted = wanted
        self._progress = host.progress
        self.underlay = UnderlayMtu(0)
        self._following = Loop(log, "MTU of links not followed", errors=HostError)
        self._scanning = Loop(log, "MTU of pods not in sync")

    def of(self, bridge: Bridge) -> int:
        """Return the MTU of a bridge's pods."""
        return self._wanted or self.underlay.carries(bridge)

    async def read(self) -> None:
        """Read the links.

        Raises HostError where one is missing, UsageError for a wanted MTU that they do not carry.
        """
        self.underlay = await self._read()
        if faults := self._faults():
            raise UsageError(faults[0])

    async def run(self) -> None:
        """Follow link changes for ever and correct the links of pods."""
        await retry(self._following, self._follow)

    async def _follow(self) -> Never:
        async for _ in self._links.changes():
            self._following.works()
            await retry(self._scanning, self._scan)
            await asyncio.sleep(self._rescan)
        raise HostError("the kernel's events have ended")

    async def _scan(self) -> None:
        """Look once. Raises HostError, once all is set that can be set."""
        found = await self._read()  # a NIC may be being replaced: the last known MTU stays
        if found != self.underlay:
            log.info("MTU of links changed", extra=fields(before=self.underlay, state=found))
            self.underlay = found
        self._progress.set_faults("MTU", self._faults())
        refused = [*await self._correct_pods(), *await self._correct_host_interfaces()]
        if refused:
            raise HostError("; ".join(refused[:NAMED]))

    async def _correct_pods(self) -> list[str]:
        """Set the links of pods that have another MTU; return the failures."""
        have, faults = await self._links.mtus(), []
        for entry in self._registry.idle():
            own = port_names.switch_name(entry.port), entry.spec.ifname, Bridge(entry.bridge)
            access = port_names.access_name(entry.port), port_names.ACCESS_IFNAME, Bridge.VXLAN
            for name, ifname, bridge in (own, access):
                wanted = self.of(bridge)
                if have.get(name, wanted) != wanted:
                    faults += await self._set(entry, name, ifname, wanted)
        return faults

    async def _correct_host_interfaces(self) -> list[str]:
        """Request the MTU of the host's own interfaces on the bridges; return the failures."""
        # Without a request Open vSwitch sets them to the lowest MTU among the bridge's ports.
        faults = []
        for row in self._ovsdb.ports().values():
            if row.type != "internal" or port_names.ENDPOINT_ID not in row.external_ids:
                continue
            mtu = self.of(Bridge(row.bridge))
            if row.mtu_request != mtu:
                try:
                    await self._ovsdb.set_mtu(row.name, mtu)
                except ContivError as exc:
                    faults.append(f"{row.name}: {exc}")
        return faults

    async def _set(self, entry: JournalEntry, name: str, ifname: str, mtu: int) -> list[str]:
        try:
            if entry.spec.handed_over:
                await self._links.set_peer_mtu(name, entry.netns, mtu)
            else:
                await self._links.set_pod_mtu(name, ifname, entry.netns, mtu)
        except HostError as exc:
            return [f"pod {entry.spec.container_id}: {exc}"]
        log.info("MTU of pod set", extra=fields(endpoint=entry.key, port=name, count=mtu))
        return []

    async def _read(self) -> UnderlayMtu:
        return await underlay_of(self._links, self._vtep_ips, self._uplinks)

    def _faults(self) -> list[str]:
        wanted = self._wanted
        if wanted is None:
            return []
        bridges = [Bridge.VXLAN, *([Bridge.VLAN] if self._uplinks else [])]
        return [
            f"pods have an MTU of {wanted}, and links carry {carried} for {bridge}: "
            f"set --mtu to {carried} or less, or raise that of the links"
            for bridge in bridges
            if (carried := self.underlay.carries(bridge)) < wanted
        ]
