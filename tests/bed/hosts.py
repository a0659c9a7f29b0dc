"""Simulated hosts: namespaces with an Open vSwitch each, joined by an underlay.

In come numbers; out come hosts that reach each other at 192.168.77.<number>, or at fd77::<number>.
The address of a host
is on a bridge (`br-phy`) of its Open vSwitch, for in the userspace datapath tunnels leave only
through such a bridge. A second card (`up0`) can tie each host to a bridge that carries every VLAN,
a simple physical network; `tests.bed.physical` is a better one. Must not know what runs on the
hosts: `tests.bed.cluster` does.
"""

from pathlib import Path

from tests.bed.janitor import Keeper, detach_mounts
from tests.bed.netns import Namespace, tx_checksum_off
from tests.bed.ovs import DATAPATH, OvsHost

UNDERLAY = "192.168.77"
PREFIX_LENGTH = 24
PREFIX_LENGTH6 = 64
UPLINK = "up0"
FABRIC_ADDRESS = f"{UNDERLAY}.254"
UNDERLAY6 = "fd77::"
_SWITCH_MAC = "02:00:c0:a8:4d:fe"


def with_prefix(address: str) -> list[str]:
    """Return the words of ip-address(8) for an address of the underlay, usable at once."""
    six = ":" in address
    return [f"{address}/{PREFIX_LENGTH6 if six else PREFIX_LENGTH}", *(["nodad"] if six else [])]


class Fabric:
    """The switch between the hosts; it has an address of its own for what serves all of them.

    `six`: it has an address of IPv6 alone.
    """

    address6 = f"{UNDERLAY6}fe"

    def __init__(self, name: str, *, keeper: Keeper | None = None, six: bool = False) -> None:
        self.namespace = Namespace(name, keeper=keeper)
        self.address = self.address6 if six else FABRIC_ADDRESS

    def start(self) -> "Fabric":
        """Make the namespace and its bridge."""
        self.namespace.create()
        # a MAC of its own: a bridge takes the lowest of its ports otherwise, so that one who joins
        # or leaves later may change it, and hosts would send to the former one for up to a minute
        self._ip("link", "add", "sw", "address", _SWITCH_MAC, "type", "bridge")
        self._ip("address", "add", *with_prefix(self.address), "dev", "sw")
        self._ip("link", "set", "sw", "up")
        self._ip("link", "add", "phys", "type", "bridge")
        self._ip("link", "set", "phys", "up")
        return self

    def stop(self) -> None:
        """Remove the namespace."""
        self.namespace.delete()

    def join(
        self, namespace: Namespace, link: str, *, card: str = "eth0", switch: str = "sw"
    ) -> None:
        """Join a namespace to a bridge: its `card`, and a link of that name at this end."""
        peer = ["peer", "name", link, "netns", self.namespace.name]
        namespace.run(["ip", "link", "add", card, "type", "veth", *peer])
        tx_checksum_off(namespace, card)
        namespace.run(["ip", "link", "set", card, "up"])
        self._ip("link", "set", link, "master", switch, "up")
        tx_checksum_off(self.namespace, link)

    def cut(self, link: str) -> None:
        """Cut what is behind a link off from everything else."""
        self._ip("link", "set", link, "down")

    def heal(self, link: str) -> None:
        """Join what was cut off."""
        self._ip("link", "set", link, "up")

    def _ip(self, *words: str) -> None:
        self.namespace.run(["ip", *words])


class Host:
    """One host: namespace, underlay link, Open vSwitch.

    It forwards packets unless another is to have it do so: docker drops what a host forwards if it
    is the one that has it forward. `six`: it has an address of IPv6 alone.
    """

    def __init__(
        self,
        number: int,
        name: str,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        *,
        keeper: Keeper | None = None,
        forwards: bool = True,
        six: bool = False,
    ) -> None:
        self._forwards = forwards
        self.label = f"h{number}"
        self.address6 = f"{UNDERLAY6}{number}"
        self.address = self.address6 if six else f"{UNDERLAY}.{number}"
        self.link = f"u{self.label}"
        self.dir = dir
        self.namespace = Namespace(name, keeper=keeper)
        self.ovs = OvsHost(self.namespace, dir / "ovs", keeper=keeper)

    def start(self, fabric: Fabric) -> "Host":
        """Make the host and plug it into the fabric."""
        self.namespace.create()
        if self._forwards:
            forwards = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]
            self.namespace.run(["sysctl", "-q", "-w", *forwards])
        self.ovs.start()
        fabric.join(self.namespace, self.link)
        # The kernel's stack on the card hears ARP requests for the bridge's address too. If it
        # answered with the card's MAC, the peer could send tunnel packets there. Open vSwitch
        # decapsulates only what is sent to its bridge, so the lane would stay closed.
        self.namespace.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/eth0/arp_ignore"])
        if DATAPATH == "netdev":
            bridge = ["--", "set", "bridge", "br-phy", "datapath_type=netdev"]
            self.ovs.vsctl("add-br", "br-phy", *bridge, "--", "add-port", "br-phy", "eth0")
        else:
            # the kernel's tunnels leave by any link that has the address
            self.namespace.run(["ip", "link", "add", "br-phy", "type", "bridge"])
            self.namespace.run(["ip", "link", "set", "eth0", "master", "br-phy"])
        address = with_prefix(self.address)
        self.namespace.run(["ip", "address", "add", *address, "dev", "br-phy"])
        self.namespace.run(["ip", "link", "set", "br-phy", "up"])
        return self

    def stop(self) -> None:
        """End the Open vSwitch and remove the namespace."""
        self.ovs.kill()
        detach_mounts(self.dir)
        self.namespace.delete()
