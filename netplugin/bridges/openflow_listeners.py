"""Where a bridge's OpenFlow connection comes in: a unix socket, or a port of this host's loopback.

In come the address of OVSDB and a port, if the settings name one; out comes a bound socket, with
the target that Open vSwitch is to connect to and the users that may. `ofnet.channel.switch` listens
on it. A unix socket is the default, because any local user can connect to a port.
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import HostError
from core.net import unix_socket
from netplugin.ovsdb.control_socket import rundir_of, vswitchd_rundir
from ofnet.world import Bridge

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class OpenflowListener:
    """A bound socket and the target of Open vSwitch's controller.

    `users` are the ids of the users that may connect, None for all. `path` is a unix socket's.
    """

    socket: socket.socket
    target: str
    users: frozenset[int] | None = None
    path: Path | None = None

    def close(self) -> None:
        """End it, and remove a unix socket's file."""
        self.socket.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def openflow_socket(rundir: Path, bridge: Bridge) -> Path:
    """Return the path of a bridge's unix socket."""
    # Open vSwitch connects to sockets in its own run directory only (bridge.c:
    # bridge_configure_remotes). Beside it are the sockets that it listens on itself:
    # <bridge>.mgmt and <bridge>.snoop.
    return rundir / f"{bridge}.openflow"


def open_listener(ovsdb: str, bridge: Bridge, port: int | None) -> OpenflowListener:
    """Return a bridge's listener: on a port of loopback, or with None on a unix socket.

    Raises HostError, with the remedy.
    """
    if port is not None:
        return _on_loopback(bridge, port)
    rundir = rundir_of(ovsdb)
    path = openflow_socket(rundir, bridge)
    owner = _owner(ovsdb)
    listener = unix_socket.listen(path, "OpenFlow", owner=owner)
    target = openflow_socket(vswitchd_rundir(rundir), bridge)
    return OpenflowListener(listener, f"unix:{target}", frozenset({0, owner}), path)


def left_sockets(ovsdb: str, bridges: Iterable[Bridge] = Bridge) -> list[Path]:
    """Return the unix sockets that an agent may have left."""
    return [openflow_socket(rundir_of(ovsdb), bridge) for bridge in bridges]


def _on_loopback(bridge: Bridge, port: int) -> OpenflowListener:
    try:
        listener = socket.create_server((LOOPBACK, port))
    except OSError as exc:
        raise HostError(
            f"cannot listen for bridge {bridge} on {LOOPBACK}:{port}: {exc.strerror or exc}: end "
            "what uses the port, or name another (--vxlan-openflow-port, --vlan-openflow-port)"
        ) from exc
    return OpenflowListener(listener, f"tcp:{LOOPBACK}:{listener.getsockname()[1]}")


def _owner(ovsdb: str) -> int:
    """Return the user that Open vSwitch runs as: that of its database's socket."""
    path = Path(ovsdb.removeprefix("unix:"))
    try:
        return path.stat().st_uid
    except OSError as exc:
        raise HostError(f"Open vSwitch's socket {path}: {exc.strerror or exc}") from exc
