"""Which addresses networks, services and settings must not take."""

from dataclasses import replace
from ipaddress import IPv6Address

import pytest

from contivmodel.objects import Global
from contivmodel.rpc import AddressBlocksRequest
from core import keys
from core.addresses import tunnel_source4
from core.ids import HostLabel
from netmaster.plan import address_space
from netmaster.plan.endpoints import address_blocks, endpoint
from netmaster.plan.endpoints.address_blocks import Renewal
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import group, network, service
from netmaster.view import View
from state import codec
from state.records import HostRecord, ServiceInstance
from tests.unit.netmaster.scene import NOW, Scene, a_group, a_network, a_service, wanted

HOST = HostRecord(
    label=HostLabel("h1"),
    control_ip="192.168.77.1",
    vtep_ip="192.168.77.1",
    vxlan_port=4789,
    addresses=("10.55.0.1", "fd00:77::1"),
    next_hops=("192.168.77.126",),
)
MASTER = ServiceInstance(
    service="netmaster", address="192.168.77.254", port=9999, store=("192.168.79.9",)
)


def register(view: View, *records: HostRecord | ServiceInstance) -> None:
    """Have hosts and masters in the store, newer than what they had before."""
    for record in records:
        key = (
            keys.host(record.label)
            if isinstance(record, HostRecord)
            else keys.service(record.service, record.address, record.port)
        )
        view.underlay.put(key, hash(record), codec.encode(record))


@pytest.fixture
def scene() -> Scene:
    """Give a cluster with one host and one master."""
    found = Scene()
    register(found.view, HOST, MASTER)
    return found


@pytest.mark.parametrize(
    ("subnet", "named"),
    [
        ("192.168.77.128/25", "subnet 192.168.77.128/25 holds 192.168.77.254, the control address"),
        ("192.168.77.0/24", "192.168.77.1, the tunnel address of host h1, and 2 more addresses"),
        ("192.168.77.252/30", "192.168.77.254, the control address of master 192.168.77.254:9999"),
        ("192.168.77.254-192.168.77.254/24", "192.168.77.1, the tunnel address of host h1"),
        ("192.168.77.2/31", ""),
        ("192.168.77.0/31", "192.168.77.1, the tunnel address of host h1"),
        ("192.168.77.64/26", "192.168.77.126, a next hop of host h1"),
        ("192.168.79.0/24", "192.168.79.9, the store's address for master 192.168.77.254:9999"),
        ("10.55.0.0/16", "10.55.0.1, an address of host h1"),
        ("172.19.0.0/24", "overlaps 172.19.0.0/16, the private subnet of all hosts (pvtSubnet)"),
        ("172.0.0.0/8", "overlaps 172.19.0.0/16"),
        ("169.254.0.0/16", "subnet 169.254.0.0/16 has no addresses that endpoints could use"),
        ("255.0.0.0/8", "has no addresses that endpoints could use"),
        ("247.1.0.0/16", "overlaps 240.0.0.0/5, which hosts use themselves"),
        ("248.1.0.0/16", ""),
    ],
)
@pytest.mark.parametrize("kind", ["data", "infra"])
def test_a_network_that_takes_what_hosts_need_is_refused(
    scene: Scene, subnet: str, named: str, kind: str
) -> None:
    posted = a_network("n1", subnet, nw_type=kind)
    if named:
        assert named in scene.refused(network.create, posted)
    else:
        scene.do(network.create, posted)


def test_subnets_of_ipv6_are_compared_as_well(scene: Scene) -> None:
    for six, named in (
        ("fd00:77::/64", "fd00:77::1, an address of host h1"),
        ("fd63:6f6e:7469:7600::/64", "which hosts use themselves"),
        ("fd63:6f6e:7469:7602::/64", "which hosts use themselves"),
        ("fe80::/64", "has no addresses"),
    ):
        assert named in scene.refused(network.create, a_network("n1", ipv6_subnet=six))
    scene.network("n1", ipv6_subnet="fd00:78::/64")


def test_a_vlan_network_beside_the_hosts_needs_a_range_without_them(scene: Scene) -> None:
    whole = a_network("n1", "192.168.77.0/24", encap="vlan", gateway="192.168.77.126")
    assert "192.168.77.1, the tunnel address" in scene.refused(network.create, whole)
    part = whole.model_copy(update={"subnet": "192.168.77.100-192.168.77.200/24"})
    scene.do(network.create, part)


def test_a_network_may_not_take_what_an_infra_network_gave_to_hosts(scene: Scene) -> None:
    scene.tenant("blue")
    scene.network("infra", "10.40.0.0/24", nw_type="infra")
    scene.endpoint("h1", "infra", host="h1")
    other = a_network("n1", "10.40.0.0/25", tenant_name="blue")
    assert "10.40.0.1, an address of host h1" in scene.refused(network.create, other)
    # The host registers it as well, and it is no fault of the infra network's.
    register(scene.view, replace(HOST, addresses=("10.40.0.1",)))
    assert address_space.faults(scene.view) == {}
    assert scene.endpoint("h2", "infra", host="h2").ip_address == "10.40.0.2"


def test_routed_vlan_networks_of_tenants_have_one_address_space() -> None:
    scene = Scene()
    for name in ("red", "blue"):
        scene.tenant(name)
    scene.network("n1", "10.30.0.0/24", encap="vlan", tenant_name="red", ipv6_subnet="fd00:3::/64")
    for subnet, six in (
        ("10.30.0.0/24", ""),
        ("10.0.0.0/8", ""),
        ("10.30.0.200-10.30.0.210/24", ""),
        ("10.31.0.0/24", "fd00:3::/60"),
    ):
        other = a_network("n2", subnet, encap="vlan", tenant_name="blue", ipv6_subnet=six)
        text = scene.refused(network.create, other)
        assert "overlaps a network of another tenant" in text
        assert "red" not in text
    scene.network("n2", "10.31.0.0/24", encap="vlan", tenant_name="blue")
    scene.network("n3", "10.30.0.0/24", tenant_name="blue")  # vxlan: a space for each tenant


def test_the_private_subnet_may_not_take_what_others_have(scene: Scene) -> None:
    current = scene.read(Global.kind, "global")
    for private, named in (
        ("192.168.0.0/16", "private subnet 192.168.0.0/16 holds 192.168.77.1, the tunnel address"),
        ("247.255.0.0/16", "private subnet 247.255.0.0/16 overlaps 240.0.0.0/5, which hosts use"),
        ("127.0.0.0/16", "no addresses that endpoints could use"),
    ):
        asked = current.model_copy(update={"pvt_subnet": private})
        assert named in scene.refused(settings.update, asked)
    scene.network("n1", "10.1.1.0/24")
    scene.do(settings.delete, "global")
    asked = current.model_copy(update={"pvt_subnet": "10.1.0.0/16"})
    assert "overlaps network n1.default" in scene.refused(settings.create, asked)
    scene.do(settings.create, current)


def test_routing_may_not_begin_while_tenants_overlap_in_vlans() -> None:
    scene = Scene()
    current = scene.read(Global.kind, "global")
    scene.do(settings.update, current.model_copy(update={"fwd_mode": "bridge"}))
    scene.tenant("blue")
    scene.network("n1", "10.30.0.0/24", encap="vlan")
    scene.network("n1", "10.30.0.0/25", encap="vlan", tenant_name="blue")
    assert address_space.faults(scene.view) == {}
    scene.do(settings.delete, "global")
    assert "network n1.default overlaps network blue:n1 of another tenant" in scene.refused(
        settings.create, current
    )


def test_what_a_host_that_registers_later_needs_is_given_to_nobody() -> None:
    scene = Scene()
    scene.network("n1", "10.55.0.0/24", ipv6_subnet="fd00:77::/64")
    register(scene.view, HOST)
    assert scene.endpoint("c1").ip_address == "10.55.0.2"
    assert scene.endpoint("c2").ipv6_address == "fd00:77::3"
    asked = wanted("c3", ip_address="10.55.0.1")
    assert "ip address 10.55.0.1 is not available: a host or master needs it" in scene.refused(
        endpoint.create, asked, NOW
    )
    assert "needs it" in scene.refused(service.create, a_service("s1", ip_address="10.55.0.1"))
    ahead_of = AddressBlocksRequest(host="h2", wanted={"n1.default": "3"})
    ahead = scene.do(address_blocks.renew, ahead_of, Renewal(new_lease="l", seconds=60.0, now=NOW))
    assert [one.ipv4 for one in ahead.granted] == ["10.55.0.4", "10.55.0.5", "10.55.0.6"]
    assert address_space.faults(scene.view)[HostLabel("h1")] == [
        f"{part} of network n1.default holds {address}, an address of host h1; "
        "delete that network, or give the machine another address"
        for part, address in (
            ("subnet 10.55.0.0/24", "10.55.0.1"),
            ("subnet fd00:77::/64", "fd00:77::1"),
        )
    ]


def test_a_master_and_the_private_subnet_are_compared_later_too() -> None:
    scene = Scene()
    scene.network("n1", "192.168.77.0/24")
    register(
        scene.view, MASTER, replace(HOST, addresses=("172.19.0.1",), control_ip="", vtep_ip="")
    )
    found = address_space.faults(scene.view)
    assert [one.partition(" of network")[0] for one in found[None]] == ["subnet 192.168.77.0/24"]
    assert found[HostLabel("h1")][-1] == (
        "the private subnet 172.19.0.0/16 holds 172.19.0.1, an address of host h1; change pvtSubnet"
    )


def test_a_record_that_cannot_be_read_takes_nothing() -> None:
    scene = Scene()
    scene.view.underlay.put(keys.host(HostLabel("h1")), 1, b"garbage")
    scene.network("n1", "192.168.77.0/24")
    assert address_space.faults(scene.view) == {}


def test_a_host_is_named_whose_record_has_addresses_of_no_use_or_of_others() -> None:
    scene = Scene()
    register(scene.view, HOST, replace(HOST, label=HostLabel("h2"), control_ip="127.0.0.1"))
    found = address_space.faults(scene.view)
    shared = "its tunnel address 192.168.77.1 is that of host h1 as well"
    assert found[HostLabel("h2")] == [
        "its controlIP 127.0.0.1 is no address at which other hosts could reach it",
        f"{shared}; start the agent of one of them with its own --vtep-ip",
    ]
    assert len(found[HostLabel("h1")]) == 1
    scene.view.underlay.remove(keys.host(HostLabel("h2")))
    assert address_space.faults(scene.view) == {}


def test_hosts_are_named_of_whose_tunnels_one_address_of_ipv4_is_made() -> None:
    scene = Scene()
    here, other = int(IPv6Address("2001:db8::1")), int(IPv6Address("2001:db8:0:1::"))
    there = IPv6Address(other + (tunnel_source4(here) ^ tunnel_source4(other)))
    for label, end in (("h1", IPv6Address(here)), ("h2", there)):
        record = replace(HOST, label=HostLabel(label), control_ip=str(end), vtep_ip=str(end))
        register(scene.view, record)
    found = address_space.faults(scene.view)
    shared = f"its tunnel address {there} is made the same address of IPv4 as that of host h1 as"
    assert [text.startswith(shared) for text in found[HostLabel("h2")]] == [True]
    assert len(found[HostLabel("h1")]) == 1


def test_whose_a_tag_is_is_told_to_nobody_else() -> None:
    scene = Scene()
    scene.tenant("blue")
    scene.network("n1", cfgd_tag="web")
    scene.group("g1", cfgd_tag="tag")
    other = a_network("n2", "10.2.0.0/16", cfgd_tag="web", tenant_name="blue")
    assert scene.refused(network.create, other) == "network tag web is in use"
    own = a_network("n2", "10.2.0.0/16", cfgd_tag="web")
    assert scene.refused(network.create, own) == "network tag web is in use by network n1.default"
    scene.network("n3", "10.3.0.0/16", tenant_name="blue")
    asked = a_group("g2", "n3", cfgd_tag="tag", tenant_name="blue")
    assert scene.refused(group.create, asked) == "group tag tag is in use"
