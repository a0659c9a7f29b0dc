"""Top-of-rack routers that speak BGP, with a host behind each.

A router is where frames of a `PhysicalNetwork` have no tag. In come its neighbours; out come its
routes, as it says them itself: what it learns it puts into its kernel, and forwards by. Must not
know what runs on the hosts.
"""

from collections.abc import Mapping
from ipaddress import ip_interface
from pathlib import Path

from tests.bed.bgp_peers import BgpPeer, Told
from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace
from tests.bed.physical import PhysicalNetwork, plugged

ADDRESS = "50.1.1.2"
BEHIND = "198.51.100.2"
EXTRA = "203.0.113.1"
"""Another address of the host behind the router; its route can be withdrawn."""
HOLD_TIME = 9
RESTART_TIME = 5
"""Seconds its neighbours give it to come back."""
ADDRESS6 = "2001:db8:50::2"
"""BIRD announces IPv6 routes only if its own link has such an address."""
BEHIND6 = "2001:db8:100::2"
_PORT = "bgp-router"
_TOWARDS_BEHIND = "198.51.100.1"
_TOWARDS_BEHIND6 = "2001:db8:100::1"


class Rack:
    """The router's namespace and that of the host behind it, on the physical network."""

    def __init__(
        self, name: str, network: PhysicalNetwork, *, keeper: Keeper | None = None
    ) -> None:
        self.namespace = Namespace(name, keeper=keeper)
        self.behind = Namespace(f"{name}-behind", keeper=keeper)
        self._network = network

    def build(self) -> None:
        """Make both, with addresses and routes."""
        self.namespace.create()
        self.behind.create()
        # link-local addresses are of use at once, as those of a router that runs for long
        for setting in (
            *("ipv4/ip_forward=1", "ipv6/conf/all/forwarding=1"),
            *("ipv6/conf/all/accept_dad=0", "ipv6/conf/default/accept_dad=0"),
        ):
            file, _, value = setting.partition("=")
            self.namespace.run(["sh", "-c", f"echo {value} > /proc/sys/net/{file}"])
        self._network.attach(self.namespace, "eth0", _PORT)
        plugged(self.behind, "eth0", self.namespace, "out0")
        addresses = (
            (self.namespace, "eth0", f"{ADDRESS}/24"),
            (self.namespace, "out0", f"{_TOWARDS_BEHIND}/24"),
            (self.behind, "eth0", f"{BEHIND}/24"),
            (self.behind, "eth0", f"{EXTRA}/32"),
            (self.namespace, "eth0", f"{ADDRESS6}/64"),
            (self.namespace, "out0", f"{_TOWARDS_BEHIND6}/64"),
            (self.behind, "eth0", f"{BEHIND6}/64"),
        )
        for namespace, link, address in addresses:
            nodad = ["nodad"] if ip_interface(address).version == 6 else []
            namespace.run(["ip", "address", "add", address, "dev", link, *nodad])
        for via in (_TOWARDS_BEHIND, _TOWARDS_BEHIND6):
            self.behind.run(["ip", "route", "add", "default", "via", via])

    def remove(self) -> None:
        """Remove both."""
        self._network.detach(_PORT)
        for namespace in (self.behind, self.namespace):
            namespace.delete()

    def reaches(self, address: str) -> bool:
        """Tell whether an address answers the host behind the router."""
        family = "-6" if ":" in address else "-4"
        ask = ["ping", family, "-q", "-n", "-c", "1", "-W", "1", address]
        return self.behind.run(ask, check=False).returncode == 0


class AnyRouter(Rack):
    """A router of some make, which announces `PREFIX` and `PREFIX6` of `tests.bed.bgp_peers`."""

    def __init__(
        self,
        name: str,
        directory: Path,
        network: PhysicalNetwork,
        make: type[BgpPeer],
        told: Told,
        *,
        keeper: Keeper | None = None,
    ) -> None:
        super().__init__(name, network, keeper=keeper)
        self.peer = make(directory, self.namespace, told, keeper=keeper)

    def start(self) -> "AnyRouter":
        """Make the router and the host behind it."""
        self.build()
        self.peer.start()
        return self

    def stop(self) -> None:
        """Remove all of it."""
        self.peer.kill()
        self.remove()


class BgpRouter(Rack):
    """BIRD, of AS `asn`. `neighbours` has the AS number of each by its address."""

    def __init__(
        self,
        name: str,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        network: PhysicalNetwork,
        *,
        asn: int,
        neighbours: Mapping[str, int],
        keeper: Keeper | None = None,
    ) -> None:
        super().__init__(name, network, keeper=keeper)
        self._dir = dir
        self._asn = asn
        self._neighbours = neighbours
        self._control = dir / "bird.ctl"
        self._password = ""
        self.daemon = Daemon(
            ["bird", "-f", "-c", dir / "bird.conf", "-s", self._control, "-P", dir / "bird.pid"],
            log=dir / "bird.log",
            namespace=self.namespace,
            ready=lambda: bool(self.say("show", "status")),
            keeper=keeper,
        )

    def start(self) -> "BgpRouter":
        """Make the router and the host behind it."""
        self._dir.mkdir(parents=True)
        self.build()
        self._configure()
        self.daemon.start()
        return self

    def stop(self) -> None:
        """Remove all of it."""
        self.daemon.kill()
        self.remove()

    def say(self, *words: str) -> str:
        """Ask or tell the router something; its answer, empty while it is away."""
        done = self.namespace.run(["birdc", "-s", str(self._control), *words], check=False)
        return done.stdout if done.returncode == 0 else ""

    def established(self, neighbour: str) -> bool:
        """Tell whether there is a session with a neighbour."""
        return "Established" in self.say("show", "protocols", _name(neighbour))

    def learned(self, neighbour: str) -> set[str]:
        """Return the prefixes a neighbour has told of."""
        told = self.say("show", "route", "protocol", _name(neighbour)).splitlines()
        return {line.split()[0] for line in told if "unicast" in line}

    def withdraw(self) -> None:
        """Take the route to `EXTRA` back."""
        self.say("disable", "extra")

    def restore(self) -> None:
        """Tell of it again."""
        self.say("enable", "extra")

    def set_password(self, password: str) -> None:
        """Ask all neighbours for a TCP-MD5 password from now on, for none if it is empty."""
        self._password = password
        self._configure()
        self.say("configure")

    def _configure(self) -> None:
        (self._dir / "bird.conf").write_text(self._configuration())

    def _configuration(self) -> str:
        password = f'password "{self._password}";' if self._password else ""
        sessions = "".join(
            f"""
protocol bgp {_name(address)} {{
  local {ADDRESS} as {self._asn};
  neighbor {address} as {asn};
  direct;
  graceful restart on;
  graceful restart time {RESTART_TIME};
  hold time {HOLD_TIME};
  {password}
  connect retry time 1; connect delay time 1; error wait time 1, 2;
  ipv4 {{ next hop self; import all; export where source ~ [RTS_DEVICE, RTS_STATIC]; }};
  ipv6 {{ next hop self; import all; export where source ~ [RTS_DEVICE, RTS_STATIC]; }};
}}
"""
            for address, asn in self._neighbours.items()
        )
        return f"""
log stderr all;
router id {ADDRESS};
protocol device {{ scan time 1; }}
protocol direct {{ ipv4; ipv6; interface "out0"; }}
protocol static extra {{ ipv4; route {EXTRA}/32 via {BEHIND}; }}
protocol kernel {{ ipv4 {{ export where source ~ [RTS_BGP, RTS_STATIC]; }}; persist; }}
protocol kernel {{ ipv6 {{ export where source ~ [RTS_BGP, RTS_STATIC]; }}; persist; }}
{sessions}"""


def _name(neighbour: str) -> str:
    return "n" + neighbour.replace(".", "_")
