"""Real firewalls on a simulated host: ufw and firewalld as their packages bring them.

In come a namespace and a directory; out come firewalls that can be enabled, reloaded and ended.
Each has a copy of the machine's settings, and firewalld a message bus of its own. Must not know
whose rules are beside theirs.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bed.daemon import Daemon
from tests.bed.netns import Namespace

PROGRAMS = ("ufw", "firewalld", "firewall-cmd", "dbus-daemon")
_UFW_SETTINGS, _FIREWALLD_SETTINGS = Path("/etc/ufw"), Path("/etc/firewalld")
_ALONE = f'mount --bind "$0" {_UFW_SETTINGS} && exec ufw "$@"'
_BUS = """\
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
  </policy>
</busconfig>
"""


def missing() -> list[str]:
    """Return which programs of the firewalls this machine lacks."""
    return [one for one in PROGRAMS if shutil.which(one) is None]


class Ufw:
    """The ufw of a host."""

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        self._namespace = namespace
        self._settings = directory / "ufw"
        shutil.copytree(_UFW_SETTINGS, self._settings)

    def run(self, *words: str) -> str:
        """Run its command; return what it says."""
        alone = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ALONE]
        return self._namespace.run([*alone, self._settings, *words]).stdout

    @contextmanager
    def enabled(self) -> Iterator["Ufw"]:
        """Enable it with its defaults; at the end it stops to filter."""
        self.run("--force", "enable")
        try:
            yield self
        finally:
            self.run("disable")


class Firewalld:
    """The firewalld of a host, on a bus of its own."""

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        settings, socket = directory / "firewalld", directory / "bus"
        shutil.copytree(_FIREWALLD_SETTINGS, settings)
        bus = directory / "bus.conf"
        bus.write_text(_BUS.format(socket=socket))
        self._namespace = namespace
        self._env = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={socket}"}
        self._bus = Daemon(
            ["dbus-daemon", "--nofork", f"--config-file={bus}"],
            log=directory / "bus.log",
            namespace=namespace,
            ready=socket.is_socket,
        )
        alone = ["--nofork", "--nopid", "--log-target=console", f"--system-config={settings}"]
        self.daemon = Daemon(
            ["firewalld", *alone],
            log=directory / "firewalld.log",
            namespace=namespace,
            env=self._env,
            ready=lambda: self._run("--state").returncode == 0,
        )

    def command(self, *words: str) -> str:
        """Run its command; return what it says."""
        done = self._run(*words)
        if done.returncode:
            raise RuntimeError(f"firewall-cmd {' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    @contextmanager
    def running(self) -> Iterator["Firewalld"]:
        """Run it with its defaults; at the end its table is gone."""
        self._bus.start()
        try:
            self.daemon.start()
            yield self
        finally:
            self.daemon.stop()
            self._bus.kill()

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self._namespace.run(["firewall-cmd", *words], check=False, env=self._env)
