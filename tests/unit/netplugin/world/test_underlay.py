"""What of the underlay this host knows, and what may not take it."""

from dataclasses import replace
from ipaddress import IPv4Interface, IPv6Interface, ip_address

from core.ids import HostLabel
from netplugin.world import underlay
from netplugin.world.underlay import HostUnderlay
from state.records import HostRecord, NetworkRecord
from state.underlay import AddressKind, UnderlayAddress
from tests.unit.netplugin.records import network

STORE = UnderlayAddress(ip_address("192.168.77.254"), AddressKind.STORE, "this host")


def host(label: str, address: str, *further: str) -> HostRecord:
    return HostRecord(
        label=HostLabel(label),
        control_ip=address,
        vtep_ip=address,
        vxlan_port=4789,
        addresses=further,
        next_hops=further,
    )


def of(subnet: str, name: str = "n1") -> NetworkRecord:
    base, _, length = subnet.partition("/")
    one = replace(network(name), subnet=base, subnet_len=int(length), first=base)
    return replace(one, last=str(IPv4Interface(subnet).network.broadcast_address), gateway="")


def test_networks_that_take_what_this_host_needs_are_not_routed() -> None:
    known = HostUnderlay(HostLabel("h1"))
    networks = [of("192.168.77.128/25"), of("10.1.0.0/16", "n2")]
    assert known.routable(networks) is networks, "the same object: it is compared at each pod"
    known.set_needed("store", [STORE])
    assert [one.name for one in known.routable(networks)] == ["n2"]
    (fault,) = underlay.faults(known.findings(networks))
    assert fault == (
        "subnet 192.168.77.128/25 of network n1.default holds 192.168.77.254, the store's address "
        "for this host: this host does not route the network; delete it, or give it another subnet"
    )
    known.set_needed("store", [])
    assert known.routable(networks) is networks


def test_of_another_host_no_more_counts_than_where_it_is_reached() -> None:
    known = HostUnderlay(HostLabel("h1"))
    known.put_host(host("h2", "10.1.0.7", "10.1.0.8"))
    known.put_host(host("h1", "10.1.0.9"))
    assert known.spared == {ip_address("10.1.0.7")}, "no more than two for each host"
    (found,) = known.findings([of("10.1.0.0/16")])
    assert "holds 10.1.0.7, the tunnel address of host h2" in str(found)
    assert known.findings([of("10.2.0.0/16")]) == ()
    known.remove_host(HostLabel("h2"))
    assert known.spared == frozenset()


def test_each_change_is_told_once_and_the_set_is_kept() -> None:
    told: list[int] = []
    known = HostUnderlay(HostLabel("h1"))
    known.observe(lambda: told.append(1))
    for _ in range(2):
        known.put_host(host("h2", "10.1.0.7"))
        known.set_needed("store", [STORE])
        known.remove_host(HostLabel("h3"))
    assert len(told) == 2
    assert known.spared is known.spared
    assert known.knows("store")
    assert not known.knows(underlay.MASTERS)


def test_an_interface_takes_the_ends_of_its_subnet_too() -> None:
    known = HostUnderlay(HostLabel("h1"))
    six = UnderlayAddress(ip_address("2001:db8::"), AddressKind.CONTROL, "host h2")
    known.set_needed("store", [STORE, six])
    for taking in ("192.168.77.254/24", "192.168.77.255/31", "192.168.78.1/23"):
        found = known.taken([IPv4Interface(taking)])
        assert (found == STORE.address) is (taking != "192.168.78.1/23"), taking
    known.set_needed("store", [replace(STORE, address=ip_address("192.168.77.255"))])
    assert known.taken([IPv4Interface("192.168.77.128/25")]) is not None
    assert known.taken([IPv6Interface("2001:db8::1/64")]) is None


def test_what_is_led_elsewhere_is_told_by_link() -> None:
    lost = [(f"10.1.0.{number}", "eth0") for number in range(5)] + [("10.2.0.0/16", "")]
    nowhere, to_card = underlay.elsewhere(lost)
    assert nowhere.startswith("the host's own routing leads 10.2.0.0/16 nowhere, not to pods")
    assert "leads 10.1.0.0, 10.1.0.1, 10.1.0.2 and 2 more to eth0, not" in to_card
