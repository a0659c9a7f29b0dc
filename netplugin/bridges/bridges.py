"""The two bridges every host has, and which datapath they run on.

`ensure_bridges` makes both as docs/original/ofnet-ovsdb.md §1 describes them, and adds what the
original left out: a fixed datapath id (without it, Open vSwitch derives the id from the ports, and
a new uplink disconnects the controller), out-of-band control and a short back-off. The kernel's
datapath is used if the kernel has one, else the userspace datapath; there is no setting for it.
"""

import hashlib
from typing import Final

from core.ids import HostLabel
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import BridgeSpec, Ovsdb
from ofnet.world import Bridge

USERSPACE: Final = "netdev"
KERNEL: Final = ""


async def choose_datapath(links: KernelLinks) -> str:
    """Return the datapath type for this host's bridges, as OVSDB spells it."""
    return KERNEL if await links.has_kernel_datapath() else USERSPACE


def datapath_id(bridge: Bridge, host: HostLabel) -> int:
    """Return the bridge's datapath id: fixed for a host and bridge, 48 bits, never 0."""
    digest = hashlib.sha256(f"{host}/{bridge}".encode()).digest()
    return int.from_bytes(digest[:6], "big") | 1


async def ensure_bridges(
    ovsdb: Ovsdb, host: HostLabel, datapath: str, controllers: dict[Bridge, int]
) -> None:
    """Create or correct both bridges; `controllers` has the OpenFlow port each connects to.

    Raises SwitchUnavailable or SwitchRefused.
    """
    for bridge, port in controllers.items():
        await ovsdb.ensure_bridge(
            BridgeSpec(
                name=bridge,
                controller=f"tcp:127.0.0.1:{port}",
                datapath_type=datapath,
                datapath_id=f"{datapath_id(bridge, host):016x}",
            )
        )
