"""BGP routers of three makes on a cable: BIRD, FRR and GoBGP.

In comes a make; out comes a router of AS 500 at one end of a cable, which announces a prefix of
each family, and the namespace of a host at the other end. What it has learned, it says itself. The
router of the tests with hosts and packets is `tests.bed.bgp_router`.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace, fresh_name
from tests.bed.physical import plugged

HOST, HOST_AS = "50.1.1.1", 65002
ROUTER, ROUTER_AS = "50.1.1.2", 500
ROUTER6 = "2001:db8:50::2"
PREFIX, PREFIX6 = "198.51.100.0/24", "2001:db8:64::/48"
_FRR = Path("/usr/lib/frr")


class BgpPeer(ABC):
    """A router; the daemons are started in the order of `daemons`.

    `announcements` are the commands that announce the prefixes, where the configuration cannot.
    """

    announcements: Sequence[list[str]] = ()

    def __init__(
        self, directory: Path, *, password: str = "", keeper: Keeper | None = None
    ) -> None:
        self.host = Namespace(fresh_name("host"), keeper=keeper)
        self.router = Namespace(fresh_name("router"), keeper=keeper)
        self._dir = directory
        self._password = password
        self._keeper = keeper
        self._daemons = self.daemons()

    @abstractmethod
    def daemons(self) -> Sequence[Daemon]:
        """Return the programs of this make."""

    @abstractmethod
    def configure(self) -> None:
        """Write the configuration."""

    @abstractmethod
    def learned(self) -> str:
        """Return the text of the routes it has from the host."""

    def start(self) -> "BgpPeer":
        """Make both ends of the cable, and the router."""
        self._dir.mkdir(parents=True, exist_ok=True)
        self.host.create()
        self.router.create()
        # a router that runs has link-local addresses; one that just began still probes for them
        for conf in ("all", "default"):
            probes = f"/proc/sys/net/ipv6/conf/{conf}/accept_dad"
            self.router.run(["sh", "-c", f"echo 0 > {probes}"])
        plugged(self.host, "eth0", self.router, "eth0")
        for namespace, *addresses in (
            (self.host, f"{HOST}/24"),
            (self.router, f"{ROUTER}/24", f"{ROUTER6}/64"),
        ):
            for address in addresses:
                nodad = ["nodad"] if ":" in address else []
                namespace.run(["ip", "address", "add", address, "dev", "eth0", *nodad])
        self.configure()
        for daemon in self._daemons:
            daemon.start()
        for words in self.announcements:
            self.router.run(words)
        return self

    def stop(self) -> None:
        """Remove all of it."""
        for daemon in self._daemons:
            daemon.kill()
        for namespace in (self.host, self.router):
            namespace.delete()

    def _daemon(self, name: str, command: Sequence[str | Path], ask: Sequence[str]) -> Daemon:
        return Daemon(
            command,
            log=self._dir / f"{name}.log",
            namespace=self.router,
            ready=lambda: bool(self._ask(*ask)),
            keeper=self._keeper,
        )

    def _ask(self, *words: str) -> str:
        done = self.router.run(list(words), check=False)
        return done.stdout if done.returncode == 0 else ""


class Bird(BgpPeer):
    """BIRD 2."""

    def daemons(self) -> Sequence[Daemon]:
        """Return BIRD."""
        control = self._dir / "bird.ctl"
        command: list[str | Path] = ["bird", "-f", "-c", self._dir / "bird.conf", "-s", control]
        self._client = ["birdc", "-s", str(control)]
        ready = [*self._client, "show", "status"]
        return [self._daemon("bird", [*command, "-P", self._dir / "bird.pid"], ready)]

    def configure(self) -> None:
        """Write the configuration."""
        password = f'password "{self._password}";' if self._password else ""
        (self._dir / "bird.conf").write_text(f"""
log stderr all;
router id {ROUTER};
protocol device {{ scan time 1; }}
protocol static {{ ipv4; route {PREFIX} blackhole; }}
protocol static {{ ipv6; route {PREFIX6} blackhole; }}
protocol bgp host {{
  local {ROUTER} as {ROUTER_AS};
  neighbor {HOST} as {HOST_AS};
  direct;
  graceful restart on;
  {password}
  ipv4 {{ next hop self; import all; export where source = RTS_STATIC; }};
  ipv6 {{ next hop self; import all; export where source = RTS_STATIC; }};
}}
""")

    def learned(self) -> str:
        """Return the routes of the session."""
        return self._ask(*self._client, "show", "route", "protocol", "host", "all")


class Frr(BgpPeer):
    """FRR: bgpd, and zebra, which knows the addresses of the links."""

    def daemons(self) -> Sequence[Daemon]:
        """Return zebra and bgpd."""
        self._client = ["vtysh", "--vty_socket", str(self._dir)]
        return [self._frr("zebra"), self._frr("bgpd", "-p", "179")]

    def configure(self) -> None:
        """Write the configuration."""
        password = f"neighbor {HOST} password {self._password}" if self._password else ""
        shutil.chown(self._dir, "frr", "frr")  # whom FRR's daemons run as
        (self._dir / "zebra.conf").write_text("hostname zebra\n")
        (self._dir / "bgpd.conf").write_text(f"""
router bgp {ROUTER_AS}
 bgp router-id {ROUTER}
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor {HOST} remote-as {HOST_AS}
 {password}
 address-family ipv4 unicast
  network {PREFIX}
 exit-address-family
 address-family ipv6 unicast
  network {PREFIX6}
  neighbor {HOST} activate
 exit-address-family
""")

    def learned(self) -> str:
        """Return the routes of the session."""
        families = ("ipv4", "ipv6")
        return "".join(
            self._ask(*self._client, "-c", f"show bgp {family} unicast") for family in families
        )

    def _frr(self, name: str, *more: str) -> Daemon:
        command: list[str | Path] = [_FRR / name, "-f", self._dir / f"{name}.conf", "-P", "0"]
        command += ["-i", self._dir / f"{name}.pid", "-z", self._dir / "zserv.api"]
        command += ["--vty_socket", self._dir, *more]
        return self._daemon(name, command, [*self._client, "-d", name, "-c", "show version"])


class Gobgp(BgpPeer):
    """GoBGP, the original's own."""

    announcements = (
        ["gobgp", "global", "rib", "add", PREFIX],
        ["gobgp", "global", "rib", "add", "-a", "ipv6", PREFIX6],
    )

    def daemons(self) -> Sequence[Daemon]:
        """Return gobgpd."""
        command: list[str | Path] = [
            "gobgpd",
            "-f",
            self._dir / "gobgpd.json",
            "-t",
            "json",
            "--api-hosts",
        ]
        ready = ["gobgp", "-j", "global"]
        return [self._daemon("gobgpd", [*command, "127.0.0.1:50051", "--pprof-disable"], ready)]

    def configure(self) -> None:
        """Write the configuration."""
        families = [
            {"config": {"afi-safi-name": f"{family}-unicast"}} for family in ("ipv4", "ipv6")
        ]
        password = {"auth-password": self._password} if self._password else {}
        neighbor = {
            "config": {"neighbor-address": HOST, "peer-as": HOST_AS, **password},
            "afi-safis": families,
        }
        own = {"config": {"as": ROUTER_AS, "router-id": ROUTER}}
        text = json.dumps({"global": own, "neighbors": [neighbor]})
        (self._dir / "gobgpd.json").write_text(text)

    def learned(self) -> str:
        """Return the routes of the session."""
        ask = ["gobgp", "neighbor", HOST, "adj-in", "-a"]
        return self._ask(*ask, "ipv4") + self._ask(*ask, "ipv6")


MAKES: dict[str, type[BgpPeer]] = {"bird": Bird, "frr": Frr, "gobgp": Gobgp}
