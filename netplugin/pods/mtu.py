"""The MTU of pods: derived from the links that carry their packets, and kept in sync with them.

In come the MTUs of the tunnels' link and of the uplinks, as the kernel has them; out goes the MTU
of each bridge's pods, which `--mtu` may lower. When links change, the links of running pods follow,
and so do the host's own interfaces on the bridges. The original took the lowest MTU of all links at
its start, so that an unrelated bridge decided (docs/original/ofnet-ovsdb.md §5,
docs/original/user-issues.md #21).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, Never

from core.errors import ContivError, HostError, UsageError
from core.logs import fields
from core.retry import Loop, retry
from netplugin.kernel.netns import KernelLinks
from netplugin.pods.host import PodHost
from netplugin.pods.journal_entry import JournalEntry
from netplugin.world import port_names
from ofnet.world import Bridge

log = logging.getLogger(__name__)

VXLAN_OVERHEAD: Final = 50
"""Bytes of Ethernet, IPv4, UDP and VXLAN headers around a pod's packet."""

NAMED: Final = 3
"""Links that could not be set, in an error."""


@dataclass(frozen=True, slots=True)
class Underlay:
    """The MTUs of the links that carry pods' packets to other hosts."""

    tunnels: int
    uplinks: tuple[int, ...] = ()

    def carries(self, bridge: Bridge) -> int:
        """Return the size of the longest packet of a pod that is not fragmented."""
        if bridge is Bridge.VXLAN:
            return self.tunnels - VXLAN_OVERHEAD
        return min(self.uplinks, default=self.tunnels)


async def underlay_of(links: KernelLinks, vtep_ip: IPv4Address, uplinks: Sequence[str]) -> Underlay:
    """Return the underlay of a host. Raises HostError where a link is missing."""
    holder, have = await links.holder(vtep_ip), await links.mtus()
    missing = [name for name in (holder, *uplinks) if name not in have]
    if missing:
        raise HostError(f"this host has no link {missing[0]}: correct --vtep-ip or --vlan-uplinks")
    return Underlay(have[holder], tuple(have[name] for name in uplinks))


class PodMtus:
    """The MTUs of this host's pods. One per agent; `read` comes first.

    `wanted` is what the command line says, None for what the links carry. `report_faults` is
    called with all present faults, which replace those of the call before.
    """

    def __init__(
        self,
        host: PodHost,
        *,
        vtep_ip: IPv4Address,
        uplinks: Sequence[str],
        wanted: int | None,
        report_faults: Callable[[Sequence[str]], None],
    ) -> None:
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._registry = host.registry
        self._rescan = host.timing.mtu_rescan
        self._vtep_ip = vtep_ip
        self._uplinks = uplinks
        self._wanted = wanted
        self._report_faults = report_faults
        self.underlay = Underlay(0)
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
        self._report_faults(self._faults())
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

    async def _read(self) -> Underlay:
        return await underlay_of(self._links, self._vtep_ip, self._uplinks)

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
