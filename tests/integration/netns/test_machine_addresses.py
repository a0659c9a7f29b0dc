"""The addresses of a machine that has interfaces on networks of Contiv as well."""

from daemons import machine_addresses
from tests.bed.netns import Namespace


def test_an_endpoints_interface_is_none_of_the_machine(host: Namespace) -> None:
    links = {
        "mgmt": ("02:02:0a:05:00:02", "10.5.0.2/24", "fd00:5::2/64"),
        "lan": ("02:02:0a:05:00:03", "10.6.0.2/24", "fd00:6::2/64"),
    }
    for name, (mac, *addresses) in links.items():
        peer = f"{name}-peer"
        host.run(["ip", "link", "add", name, "address", mac, "type", "veth", "peer", peer])
        for end in (name, peer):
            host.run(["ip", "link", "set", end, "addrgenmode", "none", "up"])
        for address in addresses:
            nodad = ["nodad"] if ":" in address else []
            host.run(["ip", "address", "add", address, "dev", name, *nodad])
    for net, via in (("10.7.0.0/24", "10.5.0.9"), ("10.8.0.0/24", "10.6.0.9")):
        host.run(["ip", "route", "add", net, "via", via])
    found = machine_addresses.read(lambda _link: False)
    assert found.addresses == ("10.6.0.2", "fd00:6::2")
    assert found.next_hops == ("10.6.0.9",)
