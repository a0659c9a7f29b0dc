"""The physical network of vlan networks: a VLAN switch, a router on its VLANs, a host behind that.

In come hosts' cards and VLANs; out comes a network whose cables can be pulled one by one. The
switch is an Open vSwitch of its own, for kernels need not have bonds, VLANs or bridges that know
them. One card of a host is plugged into a trunk, several into ports that become a bond, which
insists on LACP. Must not know what runs on the hosts.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_interface
from pathlib import Path

from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace, tx_checksum_off
from tests.bed.ovs import OvsHost

SWITCH = "phys"
OUTSIDE = "198.51.100.2"
_TOWARDS_OUTSIDE = "198.51.100.1"


class PhysicalNetwork:
    """The switch; with `route`, a router at the VLANs' gateways, and `OUTSIDE` behind it."""

    def __init__(
        self,
        name: str,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        *,
        keeper: Keeper | None = None,
    ) -> None:
        self.namespace = Namespace(name, keeper=keeper)
        self.ovs = OvsHost(self.namespace, dir, keeper=keeper)
        self.router = Namespace(f"{name}-router", keeper=keeper)
        self.outside = Namespace(f"{name}-outside", keeper=keeper)

    def start(self) -> "PhysicalNetwork":
        """Make the switch."""
        self.namespace.create()
        self.ovs.start()
        userspace = ["--", "set", "bridge", SWITCH, "datapath_type=netdev"]
        self.ovs.vsctl("add-br", SWITCH, *userspace)
        return self

    def stop(self) -> None:
        """Remove all of it."""
        self.ovs.kill()
        for namespace in (self.outside, self.router, self.namespace):
            namespace.delete()

    def plug(self, namespace: Namespace, label: str, cards: Sequence[str]) -> None:
        """Plug the cards of a host in; several are of no use before `aggregate`."""
        for card in cards:
            plugged(namespace, card, self.namespace, cable(label, card))
        if len(cards) == 1:
            self.ovs.vsctl("add-port", SWITCH, cable(label, cards[0]))

    def attach(self, namespace: Namespace, card: str, port: str) -> None:
        """Plug something in that is on every VLAN, and on none with what has no tag."""
        plugged(namespace, card, self.namespace, port)
        self.ovs.vsctl("add-port", SWITCH, port)

    def detach(self, port: str) -> None:
        """Unplug what `attach` plugged in; another may then be at its port."""
        self.ovs.vsctl("--if-exists", "del-port", SWITCH, port)
        self.namespace.run(["ip", "link", "delete", port], check=False)

    def aggregate(self, label: str, cards: Sequence[str]) -> None:
        """Make a bond of a host's cards, which speaks LACP, and quickly."""
        ports = [cable(label, card) for card in cards]
        lacp = ["bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast"]
        self.ovs.vsctl("add-bond", SWITCH, lag(label), *ports, *lacp)

    def separate(self, label: str, cards: Sequence[str]) -> None:
        """Make the bond's ports trunks that know nothing of each other, nor of LACP."""
        self.ovs.vsctl("del-port", SWITCH, lag(label))
        for card in cards:
            self.ovs.vsctl("add-port", SWITCH, cable(label, card))

    def rejoin(self, label: str, cards: Sequence[str]) -> None:
        """Make them a bond again."""
        for card in cards:
            self.ovs.vsctl("del-port", SWITCH, cable(label, card))
        self.aggregate(label, cards)

    def route(self, gateways: Mapping[int, Sequence[str]]) -> None:
        """Put the router on VLANs, with the gateway's addresses of each, and a host behind it."""
        self.router.create()
        self.outside.create()
        for family in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            self.router.run(["sh", "-c", f"echo 1 > /proc/sys/net/{family}"])
        for vlan, addresses in gateways.items():
            leg = f"vlan{vlan}"
            plugged(self.router, leg, self.namespace, f"r-{leg}")
            self.ovs.vsctl("add-port", SWITCH, f"r-{leg}", f"tag={vlan}")
            for address in addresses:
                add = ["ip", "address", "add", address, "dev", leg]
                self.router.run([*add, "nodad"] if ip_interface(address).version == 6 else add)
        plugged(self.outside, "eth0", self.router, "out0")
        self.router.run(["ip", "address", "add", f"{_TOWARDS_OUTSIDE}/24", "dev", "out0"])
        self.outside.run(["ip", "address", "add", f"{OUTSIDE}/24", "dev", "eth0"])
        self.outside.run(["ip", "route", "add", "default", "via", _TOWARDS_OUTSIDE])

    def reached_from_outside(self, address: str) -> bool:
        """Tell whether an address answers the host behind the router."""
        ask = ["ping", "-q", "-n", "-c", "1", "-W", "1", address]
        return self.outside.run(ask, check=False).returncode == 0

    def pull(self, label: str, card: str) -> None:
        """Take the switch's end of a card's link down."""
        self.namespace.run(["ip", "link", "set", cable(label, card), "down"])

    def push(self, label: str, card: str) -> None:
        """Put it back up."""
        self.namespace.run(["ip", "link", "set", cable(label, card), "up"])

    def misplace(self, label: str, card: str) -> None:
        """Have a card's port be in one VLAN of its own, no trunk."""
        self.ovs.vsctl("set", "port", cable(label, card), "tag=4000", "vlan_mode=access")

    def place_back(self, label: str, card: str) -> None:
        """Make it a trunk again."""
        for column in ("tag", "vlan_mode"):
            self.ovs.vsctl("clear", "port", cable(label, card), column)

    def forget(self, label: str, card: str) -> None:
        """Have the switch speak LACP no more on a card, whose link stays."""
        interface = self.ovs.vsctl("get", "interface", cable(label, card), "_uuid").strip()
        self.ovs.vsctl("remove", "port", lag(label), "interfaces", interface)

    def remember(self, label: str, card: str) -> None:
        """Have the switch speak LACP again."""
        made = ["--id=@card", "create", "interface", f"name={cable(label, card)}"]
        self.ovs.vsctl(*made, "--", "add", "port", lag(label), "interfaces", "@card")

    def learnt(self, mac: str) -> set[int]:
        """Return the VLANs on which the switch has seen a MAC address."""
        return {int(vlan) for _port, vlan, seen, _age in self._table() if seen == mac}

    def behind(self, mac: str, label: str, cards: Sequence[str]) -> set[str]:
        """Return which cards of a host, each a trunk of its own, a MAC address was last seen on."""
        numbers = {
            card: self.ovs.vsctl("get", "interface", cable(label, card), "ofport").strip()
            for card in cards
        }
        last = {port for port, _vlan, seen, _age in self._table() if seen == mac}
        return {card for card, number in numbers.items() if number in last}

    def _table(self) -> list[list[str]]:
        return [row.split() for row in self.ovs.appctl("fdb/show", SWITCH).splitlines()[1:]]


def cable(label: str, card: str) -> str:
    """Name the switch's end of a card's link."""
    return f"{label}-{card}"


def lag(label: str) -> str:
    """Name the switch's bond towards a host."""
    return f"lag-{label}"


def plugged(near: Namespace, card: str, far: Namespace, port: str) -> None:
    """Join two namespaces by a cable, with a card at either end."""
    peer = ["peer", "name", port, "netns", far.name]
    near.run(["ip", "link", "add", card, "type", "veth", *peer])
    for namespace, link in ((near, card), (far, port)):
        tx_checksum_off(namespace, link)
        namespace.run(["ip", "link", "set", link, "up"])
