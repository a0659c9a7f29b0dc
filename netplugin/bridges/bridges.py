"""The two bridges every host has, and which datapath they run on.

`bridge_specs` describes both as docs/original/ofnet-ovsdb.md §1 does, and adds what the
original left out: a fixed datapath id (without it, Open vSwitch derives the id from the ports, and
a new uplink disconnects the controller), out-of-band control, a short back-off, and a port of the
bridge's own. The kernel's datapath is used if the kernel has one, else the userspace datapath;
there is no setting for it.

Open vSwitch makes a device of the bridge's name for each bridge, and adds the port to a bridge that
has none, with a line in its log at each change of its configuration. The names of the bridges are
the original's, and longer than the kernel lets a device's name be: there it fails, with one more
line each time. So each bridge has a port of its name with a device whose name is shorter. The
device is down, and no flow takes packets from it or sends any to it.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from core.ids import HostLabel
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import BridgeSpec, Ovsdb, PortSpec
from netplugin.world.bridges import port_names
from ofnet.world import Bridge

USERSPACE: Final = "netdev"
KERNEL: Final = ""
OWNER: Final = "contiv-owner"
"""The external id of a bridge that names the agent that made it."""


async def choose_datapath(links: KernelLinks) -> str:
    """Return the datapath type for this host's bridges, as OVSDB spells it."""
    return KERNEL if await links.has_kernel_datapath() else USERSPACE


def datapath_id(bridge: Bridge, host: HostLabel) -> int:
    """Return the bridge's datapath id: fixed for a host and bridge, 48 bits, never 0."""
    digest = hashlib.sha256(f"{host}/{bridge}".encode()).digest()
    return int.from_bytes(digest[:6], "big") | 1


def bridge_specs(
    host: HostLabel, datapath: str, controllers: Mapping[Bridge, str], owner: str
) -> list[BridgeSpec]:
    """Return both bridges; `controllers` has the target each connects to, `owner` this agent."""
    return [
        BridgeSpec(
            name=bridge,
            controller=target,
            datapath_type=datapath,
            datapath_id=f"{datapath_id(bridge, host):016x}",
            external_ids={OWNER: owner},
            own_port=PortSpec(
                name=port_names.bridge_device(bridge),
                type="internal",
                ofport_request=port_names.BRIDGE_OFPORT,
            ),
        )
        for bridge, target in controllers.items()
    ]


def owner_of(ovsdb: Ovsdb) -> str:
    """Return what the agent that made the bridges calls itself; "" if it does not."""
    owners = (ovsdb.bridge_external_ids(bridge).get(OWNER) for bridge in Bridge)
    return next(filter(None, owners), "")
