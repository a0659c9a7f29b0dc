"""BGP routers of three makes: BIRD, FRR and GoBGP, and a cable with one of them at its end.

In come a make, a namespace and what the router is told; out comes a router that announces a prefix
of each family. What it has learned, it says itself. BIRD and FRR put it into their kernel, too.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace, fresh_name
from tests.bed.physical import plugged

HOST, HOST_AS = "50.1.1.1", 65002
HOST6 = "2001:db8:50::1"
ROUTER, ROUTER_AS = "50.1.1.2", 500
ROUTER6 = "2001:db8:50::2"
PREFIX, PREFIX6 = "198.51.100.0/24", "2001:db8:100::/64"
_FRR = Path("/usr/lib/frr")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a router is told: the AS of each neighbour by its address, and how to speak with them.

    `extended`: IPv4 routes may have IPv6 next hops (RFC 8950).
    """

    neighbours: Mapping[str, int]
    extended: bool = False
    password: str = ""


class BgpPeer(ABC):
    """A router in a namespace; the daemons are started in the order of `daemons`.

    `announcements` are the commands that announce the prefixes, where the configuration cannot.
    """

    announcements: Sequence[list[str]] = ()

    def __init__(
        self, directory: Path, router: Namespace, told: Told, *, keeper: Keeper | None = None
    ) -> None:
        self._router = router
        self._dir = directory
        self._told = told
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
        """Return the text of the routes it has from its neighbours."""

    def start(self) -> None:
        """Start the router; its namespace has its links and addresses."""
        self._dir.mkdir(parents=True, exist_ok=True)
        self.configure()
        for daemon in self._daemons:
            daemon.start()
        for words in self.announcements:
            self._router.run(words)

    def kill(self) -> None:
        """Have its programs end without a word."""
        for daemon in self._daemons:
            daemon.kill()

    def forward(self) -> None:
        """Put what was learned into the kernel, where the programs do not do that themselves."""
        for prefix, hop in self.unforwarded():
            way = ["inet6" if ":" in hop else "inet", hop, "dev", "eth0"]
            self._router.run(["ip", "route", "replace", prefix, "via", *way])

    def unforwarded(self) -> Iterable[tuple[str, str]]:
        """Return the routes that its programs do not put into the kernel, with their next hops."""
        return ()

    def _daemon(self, name: str, command: Sequence[str | Path], ask: Sequence[str]) -> Daemon:
        return Daemon(
            command,
            log=self._dir / f"{name}.log",
            namespace=self._router,
            ready=lambda: bool(self._ask(*ask)),
            keeper=self._keeper,
        )

    def _ask(self, *words: str) -> str:
        done = self._router.run(list(words), check=False)
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
        sessions = "".join(
            self._session(number, *one) for number, one in enumerate(self._told.neighbours.items())
        )
        (self._dir / "bird.conf").write_text(f"""
log stderr all;
router id {ROUTER};
protocol device {{ scan time 1; }}
protocol static {{ ipv4; route {PREFIX} blackhole; }}
protocol static {{ ipv6; route {PREFIX6} blackhole; }}
protocol kernel {{ ipv4 {{ import none; export where source = RTS_BGP; }}; }}
protocol kernel {{ ipv6 {{ import none; export where source = RTS_BGP; }}; }}
{sessions}""")

    def _session(self, number: int, neighbour: str, asn: int) -> str:
        password = f'password "{self._told.password}";' if self._told.password else ""
        hop = "next hop self"
        if ":" in neighbour:
            extended = "extended next hop on; next hop self"
            hop = extended if self._told.extended else f"next hop address {ROUTER}"
        return f"""
protocol bgp host{number} {{
  local {ROUTER6 if ":" in neighbour else ROUTER} as {ROUTER_AS};
  neighbor {neighbour} as {asn};
  direct;
  graceful restart on;
  {password}
  ipv4 {{ {hop}; import all; export where source = RTS_STATIC; }};
  ipv6 {{ next hop self; import all; export where source = RTS_STATIC; }};
}}
"""

    def learned(self) -> str:
        """Return the routes of all sessions."""
        return self._ask(*self._client, "show", "route", "all", "where", "source", "=", "RTS_BGP")


class Frr(BgpPeer):
    """FRR: bgpd, and zebra, which knows the addresses of the links."""

    def daemons(self) -> Sequence[Daemon]:
        """Return zebra and bgpd."""
        self._client = ["vtysh", "--vty_socket", str(self._dir)]
        return [self._frr("zebra"), self._frr("bgpd", "-p", "179")]

    def configure(self) -> None:
        """Write the configuration."""
        shutil.chown(self._dir, "frr", "frr")  # whom FRR's daemons run as
        (self._dir / "zebra.conf").write_text("hostname zebra\n")
        sessions = "\n".join(f" neighbor {words}" for words in self._of_neighbours())
        active = "\n".join(f"  neighbor {one} activate" for one in self._told.neighbours)
        (self._dir / "bgpd.conf").write_text(f"""
router bgp {ROUTER_AS}
 bgp router-id {ROUTER}
 no bgp ebgp-requires-policy
 no bgp network import-check
{sessions}
 address-family ipv4 unicast
  network {PREFIX}
{active}
 exit-address-family
 address-family ipv6 unicast
  network {PREFIX6}
{active}
 exit-address-family
""")

    def _of_neighbours(self) -> Iterator[str]:
        for neighbour, asn in self._told.neighbours.items():
            yield f"{neighbour} remote-as {asn}"
            if self._told.password:
                yield f"{neighbour} password {self._told.password}"
            if self._told.extended:
                yield f"{neighbour} capability extended-nexthop"

    def learned(self) -> str:
        """Return the routes of all sessions."""
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
        password = {"auth-password": self._told.password} if self._told.password else {}
        known = [
            {"neighbor-address": address, "peer-as": asn, **password}
            for address, asn in self._told.neighbours.items()
        ]
        neighbours = [{"config": one, "afi-safis": families} for one in known]
        own = {"config": {"as": ROUTER_AS, "router-id": ROUTER}}
        text = json.dumps({"global": own, "neighbors": neighbours})
        (self._dir / "gobgpd.json").write_text(text)

    def learned(self) -> str:
        """Return the routes of all sessions."""
        return "".join(
            self._ask("gobgp", "neighbor", neighbour, "adj-in", "-a", family)
            for neighbour in self._told.neighbours
            for family in ("ipv4", "ipv6")
        )

    def unforwarded(self) -> Iterable[tuple[str, str]]:
        """Return all that was learned: GoBGP has no part that puts it into the kernel."""
        for family in ("ipv4", "ipv6"):
            found = json.loads(self._ask("gobgp", "-j", "global", "rib", "-a", family) or "{}")
            for prefix, (path, *_) in found.items():
                hop = next(one["nexthop"] for one in path["attrs"] if "nexthop" in one)
                if prefix not in {PREFIX, PREFIX6}:
                    yield prefix, hop


MAKES: dict[str, type[BgpPeer]] = {"bird": Bird, "frr": Frr, "gobgp": Gobgp}


class Cable:
    """A cable with a host at one end, and a router of some make at the other."""

    def __init__(
        self, directory: Path, make: type[BgpPeer], told: Told, *, keeper: Keeper | None = None
    ) -> None:
        self.host = Namespace(fresh_name("host"), keeper=keeper)
        self._router = Namespace(fresh_name("router"), keeper=keeper)
        self.peer = make(directory, self._router, told, keeper=keeper)

    def start(self) -> "Cable":
        """Make both ends of the cable, and the router."""
        self.host.create()
        self._router.create()
        # a router that runs has link-local addresses; one that just began still probes for them
        for conf in ("all", "default"):
            probes = f"/proc/sys/net/ipv6/conf/{conf}/accept_dad"
            self._router.run(["sh", "-c", f"echo 0 > {probes}"])
        plugged(self.host, "eth0", self._router, "eth0")
        for namespace, *addresses in (
            (self.host, f"{HOST}/24", f"{HOST6}/64"),
            (self._router, f"{ROUTER}/24", f"{ROUTER6}/64"),
        ):
            for address in addresses:
                nodad = ["nodad"] if ":" in address else []
                namespace.run(["ip", "address", "add", address, "dev", "eth0", *nodad])
        self.peer.start()
        return self

    def stop(self) -> None:
        """Remove all of it."""
        self.peer.kill()
        for namespace in (self.host, self._router):
            namespace.delete()
