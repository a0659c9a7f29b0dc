"""Files that tell a host's network managers to leave the agent's links and routes alone.

Out come their texts, each for a path below `/etc`, or below `/run` where `/etc` cannot be written.
`netplugin.commands.cni_files` and `make install` write them. Pure. Without them a manager whose
configuration matches every link asks for addresses by the pods' links, and systemd-networkd may
remove the agent's routes and rules when it starts (networkd.conf(5), ManageForeignRoutes=).
"""

from pathlib import Path
from typing import Final

from netplugin.world.bridges import port_names

_NAMES: Final = (
    *(f"{prefix}*" for prefix in port_names.POD_LINKS),
    port_names.container_name(0).replace("0", "*"),
    port_names.OWN_LINKS.replace("+", "*"),
    port_names.ROUTER_PORT,
)
"""Patterns of all links that the agent makes in the host's namespace, the bridges' own too."""

_WHY: Final = "# These links are those of contiv's agent: netplugin(8)\n"

FILES: Final = {
    Path("NetworkManager/conf.d/90-contiv.conf"): _WHY
    + "[keyfile]\nunmanaged-devices+="
    + ";".join(f"interface-name:{name}" for name in _NAMES)
    + "\n",
    Path("systemd/network/10-contiv.network"): _WHY
    + f"[Match]\nName={' '.join(_NAMES)}\n\n[Link]\nUnmanaged=yes\n",
    Path("systemd/network/10-contiv.link"): _WHY
    + f"[Match]\nOriginalName={' '.join(_NAMES)}\n\n[Link]\nNamePolicy=\nMACAddressPolicy=none\n",
    Path("systemd/networkd.conf.d/90-contiv.conf"): (
        "# Routes and rules that networkd did not make may be the agent's: netplugin(8)\n"
        "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"
    ),
    # holds at once, without a reload: for NetworkManager, and for networkd since 256
    Path("udev/rules.d/90-contiv.rules"): _WHY
    + f'SUBSYSTEM=="net", KERNEL=="{"|".join(_NAMES)}", '
    + 'ENV{NM_UNMANAGED}="1", ENV{ID_NET_MANAGED_BY}="io.contiv"\n',
}
"""Text by path."""
