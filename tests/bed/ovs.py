"""An Open vSwitch of its own for a simulated host: ovsdb-server and ovs-vswitchd in its namespace.

In come a namespace and a run directory (keep its path short: unix sockets live in it); out come the
database socket and the three command-line tools, pointed at this switch. No bridge is made here:
whoever makes one chooses its datapath type.
"""

import os
import re
import subprocess
from pathlib import Path

from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace
from tests.bed.waiting import PATIENCE

DATAPATH = os.environ.get("BED_DATAPATH", "netdev")
"""The datapath of the bridges that tests make; "system" is the kernel's (`make kernel-check`)."""

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
QUIET = ["--no-chdir", "-vconsole:off", "--log-file"]
ND_EXTENSION = re.compile(r"^IPv6 ND Extension: +Yes$", re.MULTILINE)


def without_link(port: str) -> list[str]:
    """Return the words that take away the link of an internal port.

    By the kernel's datapath it goes with the port alone: `ip link delete` is refused.
    """
    if DATAPATH == "system":
        return ["ovs-vsctl", "del-port", port]
    return ["ip", "link", "delete", port]


class OvsHost:
    """ovsdb-server and ovs-vswitchd of one host; each is a `Daemon` of its own."""

    def __init__(
        self,
        namespace: Namespace,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        *,
        keeper: Keeper | None = None,
    ) -> None:
        self.namespace = namespace
        self.rundir = dir
        self.db_socket = dir / "db.sock"
        self._database = dir / "conf.db"
        self.environment = dict.fromkeys(
            ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"), str(dir)
        )
        self.server = self._daemon(
            ["ovsdb-server", str(self._database), f"--remote=punix:{self.db_socket}"],
            ready=["ovsdb-client", "list-dbs", f"unix:{self.db_socket}"],
            keeper=keeper,
        )
        self.vswitchd = self._daemon(
            ["ovs-vswitchd", f"unix:{self.db_socket}"],
            ready=["ovs-vsctl", _limit(5), "init"],
            keeper=keeper,
        )

    def start(self) -> "OvsHost":
        """Start both daemons, with an empty database the first time."""
        if not self._database.exists():
            self.rundir.mkdir(parents=True, exist_ok=True)
            self._tool("ovsdb-tool", "create", str(self._database), SCHEMA)
        self.server.start()
        self._tool("ovs-vsctl", "--no-wait", "init")
        self.vswitchd.start()
        return self

    def stop(self) -> None:
        """End both daemons."""
        self.vswitchd.stop()
        self.server.stop()

    def kill(self) -> None:
        """End both daemons at once."""
        self.vswitchd.kill()
        self.server.kill()

    def vsctl(self, *words: str) -> str:
        """Run ovs-vsctl."""
        return self._tool("ovs-vsctl", _limit(60), *words)

    def ofctl(self, *words: str) -> str:
        """Run ovs-ofctl in OpenFlow 1.3; a bridge is given by its name."""
        return self._tool("ovs-ofctl", "-O", "OpenFlow13", _limit(60), *words)

    def appctl(self, *words: str) -> str:
        """Run ovs-appctl against ovs-vswitchd."""
        return self._tool("ovs-appctl", _limit(60), *words)

    def has_nd_extension(self, bridge: str) -> bool:
        """Say whether a bridge's datapath can make answers to neighbour solicitations.

        Without it the agent completes them (ADR 39).
        """
        return bool(ND_EXTENSION.search(self.appctl("dpif/show-dp-features", bridge)))

    def state(self) -> str:
        """Say what becomes of packets in the datapath, as far as the switch answers."""
        asked = ("dpctl/dump-flows", "tnl/neigh/show", "tnl/ports/show", "ovs/route/show")
        answers = [self._run(["ovs-appctl", _limit(60), word]) for word in asked]
        return "\n".join(f"{done.stdout}{done.stderr}" for done in answers)

    def _daemon(self, command: list[str], *, ready: list[str], keeper: Keeper | None) -> Daemon:
        name = command[0]
        return Daemon(
            [*command, f"--pidfile={self.rundir}/{name}.pid", *QUIET],
            log=self.rundir / f"{name}.out",
            namespace=self.namespace,
            env=self.environment,
            ready=lambda: self._run(ready).returncode == 0,
            keeper=keeper,
        )

    def _tool(self, *command: str) -> str:
        done = self._run([*command])
        if done.returncode:
            raise RuntimeError(f"{self.namespace.name}: {' '.join(command)}: {done.stderr}")
        return done.stdout

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return self.namespace.run(command, check=False, env=self.environment)


def _limit(seconds: float) -> str:
    return f"--timeout={seconds * PATIENCE:.0f}"
