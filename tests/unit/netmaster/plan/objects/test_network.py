"""Networks: checks in order, records, gateways."""

import pytest

from contivmodel.objects import Global, Link
from core import keys
from core.addresses import ipv6, ipv6_text, mac6_text
from core.ids import NetworkId
from netmaster.plan.endpoints import endpoint
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import group, network, tenant
from netmaster.plan.show import endpoint_pages, inspect
from netmaster.stored import Write
from state.records import Encap, GrantOwner, GrantRecord
from state.schema import SchemaStamp
from tests.unit.netmaster.scene import NOW, Scene, a_group, a_network, wanted


def _nid(name: str) -> NetworkId:
    return NetworkId(f"{name}.default")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_network_is_object_record_and_gateways(scene: Scene) -> None:
    reply = scene.network(
        "n1", gateway="10.1.1.254", ipv6_subnet="2001:db8::/64", ipv6_gateway="2001:db8:0::1"
    )
    assert reply == scene.view.read("network", "default:n1")
    assert reply.key == "default:n1"
    assert reply.links.tenant == Link(type="tenant", key="default")
    record = scene.view.networks[_nid("n1")]
    assert (record.subnet, record.first, record.last) == ("10.1.1.0", "10.1.1.0", "10.1.1.255")
    assert (record.pkt_tag, record.ext_pkt_tag, record.encap) == (1, 1, Encap.VXLAN)
    assert (record.ipv6_subnet, record.ipv6_subnet_len) == ("2001:db8::", 64)
    assert record.ipv6_gateway == "2001:db8:0::1"
    assert record.network_tag == "n1.default"
    grants = scene.view.addresses[record.id].grants
    assert set(grants) == {"10.1.1.254", "2001:db8::1"}
    assert {grant.owner for grant in grants.values()} == {GrantOwner.GATEWAY}


def test_a_network_cannot_be_changed_even_into_itself(scene: Scene) -> None:
    scene.network("n1")
    text = "Cant change network parameters after its created"
    assert scene.refused(network.update, a_network("n1")) == text
    assert scene.refused(network.create, a_network("n1")) == text
    assert scene.refused(network.update, a_network("n2")) == "network not found"


def test_the_global_object_must_be_ready(scene: Scene) -> None:
    scene.do(settings.delete, "global")
    text = "Global configuration is not ready: global configuration is not ready"
    assert scene.refused(network.create, a_network("n1")) == text
    scene.do(
        settings.create,
        Global(name="global", vlans="1-5", vxlans="1-5", pvt_subnet="172.19.0.0/16"),
    )
    text = "Global configuration is not ready: global forwarding mode is not set"
    assert scene.refused(network.create, a_network("n1")) == text


@pytest.mark.parametrize(
    ("field", "text"),
    [("vlans", "global vlan range is not set"), ("vxlans", "global vxlan range is not set")],
)
def test_the_global_object_must_have_ranges(scene: Scene, field: str, text: str) -> None:
    settings = scene.view.objects["global"]["global"].model_copy(update={field: ""})
    scene.view.apply([Write("/contiv.io/obj/modeldb/global/global", settings, new=False)])
    refusal = scene.refused(network.create, a_network("n1"))
    assert refusal == f"Global configuration is not ready: {text}"


def test_an_unknown_tenant_is_refused(scene: Scene) -> None:
    assert scene.refused(network.create, a_network("n1", tenant_name="x")) == "Tenant not found"
    assert scene.refused(network.create, a_network("n1", tenant_name="")) == "Invalid tenant name"


@pytest.mark.parametrize(
    "subnet",
    [
        "10.1.1.0/24",
        "10.1.1.128/25",
        "10.1.0.0/16",
        "10.0.0.0/1",
        "10.1.1.10-10.1.1.20/24",
        "10.1.1.200/24",
    ],
)
def test_overlap_within_a_tenant_is_refused(scene: Scene, subnet: str) -> None:
    scene.network("n1")
    refusal = scene.refused(network.create, a_network("n2", subnet))
    assert refusal == f"network n1 conflicts with subnet {subnet}"


def test_host_bits_do_not_hide_an_overlap(scene: Scene) -> None:
    scene.network("n1", "10.1.1.0-10.1.1.100/24")
    refusal = scene.refused(network.create, a_network("n2", "10.1.1.200/24"))
    assert refusal == "network n1 conflicts with subnet 10.1.1.200/24"


def test_ranges_of_one_subnet_may_lie_side_by_side(scene: Scene) -> None:
    scene.network("n1", "20.1.1.10-20.1.1.45/24")
    scene.network("n2", "20.1.1.46-20.1.1.100/24")
    scene.network("n3", "20.1.1.0-20.1.1.9/24")
    assert scene.endpoint("c", "n2").ip_address == "20.1.1.46"
    assert scene.endpoint("c", "n3").ip_address == "20.1.1.1"


def test_tenants_do_not_see_each_others_subnets(scene: Scene) -> None:
    scene.network("n1")
    scene.tenant("blue")
    scene.network("n1", tenant_name="blue")


def test_overlap_of_ipv6_subnets_is_refused(scene: Scene) -> None:
    scene.network("n1", ipv6_subnet="2001:db8::/64")
    refusal = scene.refused(
        network.create, a_network("n2", "10.2.0.0/24", ipv6_subnet="2001:db8::/32")
    )
    assert refusal == "network n1 conflicts with subnetv6  2001:db8::/32"


def test_a_group_of_that_name_is_in_the_way(scene: Scene) -> None:
    scene.network("n1")
    scene.group("g1")
    refusal = scene.refused(network.create, a_network("g1", "10.2.0.0/24"))
    assert refusal == "EndpointGroup g1 conflicts with the network name"


def test_two_networks_cannot_have_one_id(scene: Scene) -> None:
    scene.tenant("c")
    scene.tenant("b.c")
    scene.network("a.b", tenant_name="c")
    refusal = scene.refused(network.create, a_network("a", tenant_name="b.c"))
    assert refusal == "network id a.b.c is in use by another network"


@pytest.mark.parametrize(
    ("subnet", "text"),
    [
        ("10.2.1.20-10.2.1.10/24", "Network subnet format not valid"),
        ("10.2.1.10-10.2.2.20/24", "Network subnet format not valid"),
        ("10.1.1.0/1", "subnet length 1 not supported"),
        ("10.2.1.300/24", "subnet string invalid format"),
        ("0.0.0.0/24", "subnet 0.0.0.0/24 has no addresses that endpoints could use"),
        ("127.0.0.0/24", "subnet 127.0.0.0/24 has no addresses that endpoints could use"),
        ("224.1.0.0/16", "subnet 224.1.0.0/16 has no addresses that endpoints could use"),
    ],
)
def test_subnets_that_cannot_be(scene: Scene, subnet: str, text: str) -> None:
    assert scene.refused(network.create, a_network("n1", subnet)) == text


@pytest.mark.parametrize(
    ("subnet", "text"),
    [
        ("2001::/8", "subnet length 8 not supported"),
        ("2001:db8::/128", "subnet length 128 not supported"),
        ("1:/64", "ipv6Subnet string invalid format"),
    ],
)
def test_ipv6_subnets_that_cannot_be(scene: Scene, subnet: str, text: str) -> None:
    assert scene.refused(network.create, a_network("n1", ipv6_subnet=subnet)) == text


@pytest.mark.parametrize(
    ("gateway", "text"),
    [
        ("10.3.1.1", "hostIP 10.3.1.1 is exceeding beyond subnet 10.1.1.0/24, hostID 131073"),
        ("10.1.1.0", "gateway 10.1.1.0 is not a host address of subnet 10.1.1.0/24"),
        ("10.1.1.255", "gateway 10.1.1.255 is not a host address of subnet 10.1.1.0/24"),
        ("abc", "unable to convert hostIP abc to uint32"),
    ],
)
def test_gateways_that_cannot_be(scene: Scene, gateway: str, text: str) -> None:
    assert scene.refused(network.create, a_network("n1", gateway=gateway)) == text


def test_an_ipv6_gateway_must_be_in_the_subnet(scene: Scene) -> None:
    asked = a_network("n1", ipv6_subnet="2001:db9::/64", ipv6_gateway="2001:dead::1")
    refusal = scene.refused(network.create, asked)
    assert refusal == "hostIP 2001:dead::1 is exceeding beyond subnet 2001:db9::/64"
    refusal = scene.refused(network.create, a_network("n1", ipv6_gateway="2001:db8::1"))
    assert refusal == "ipv6Gateway 2001:db8::1 has no ipv6Subnet to be in"


def test_ipv6_subnet_text_is_kept_unless_it_has_host_bits(scene: Scene) -> None:
    scene.network("n1", "10.1.0.0/16", ipv6_subnet="2016:0617::/120")
    assert scene.view.networks[_nid("n1")].ipv6_subnet == "2016:0617::"
    scene.network("n2", "10.2.0.0/16", ipv6_subnet="2016:618::5/120")
    assert scene.view.networks[_nid("n2")].ipv6_subnet == "2016:618::"


def test_a_tag_names_one_network(scene: Scene) -> None:
    scene.network("n1", cfgd_tag="web")
    assert scene.view.networks[_nid("n1")].network_tag == "web"
    refusal = scene.refused(network.create, a_network("n2", "10.2.0.0/24", cfgd_tag="web"))
    assert refusal == "network tag web is in use by network n1.default"
    scene.do(network.delete, "default:n1")
    scene.network("n2", "10.2.0.0/24", cfgd_tag="web")


def test_a_refused_tag_takes_nothing(scene: Scene) -> None:
    scene.network("n1", encap="vlan", pkt_tag=100)
    refusal = scene.refused(
        network.create, a_network("n2", "10.2.0.0/24", encap="vlan", pkt_tag=100)
    )
    assert refusal == "requested vlan not available - vlan:100"
    assert scene.network("n2", "10.2.0.0/24", encap="vlan").key == "default:n2"
    assert scene.view.networks[_nid("n2")].pkt_tag == 1


@pytest.mark.parametrize(
    ("subnet", "gateway", "allocated", "available"),
    [
        ("10.2.1.0/24", "", "", "10.2.1.1-10.2.1.254"),
        ("10.2.1.0/24", "10.2.1.254", "10.2.1.254", "10.2.1.1-10.2.1.253"),
        ("10.2.1.77/24", "10.2.1.1", "", "10.2.1.2-10.2.1.254"),
        ("10.2.1.10-10.2.1.20/24", "10.2.1.254", "", "10.2.1.10-10.2.1.20"),
        (
            "10.2.1.10-10.2.1.20/24",
            "10.2.1.15",
            "10.2.1.15",
            "10.2.1.10-10.2.1.14, 10.2.1.16-10.2.1.20",
        ),
        ("10.2.1.0/31", "", "", ""),
        ("10.2.1.0/30", "", "", "10.2.1.1-10.2.1.2"),
        ("10.2.1.0-10.2.1.0/24", "", "", ""),
        ("10.2.1.1-10.2.1.255/24", "", "", "10.2.1.1-10.2.1.254"),
        ("10.2.1.7-10.2.1.255/24", "", "", "10.2.1.7-10.2.1.254"),
        ("10.2.1.2-10.2.1.255/24", "", "", "10.2.1.2-10.2.1.254"),
        ("10.2.1.3/24", "10.2.1.2", "", "10.2.1.1, 10.2.1.3-10.2.1.254"),
    ],
)
def test_a_fresh_networks_addresses(
    scene: Scene, subnet: str, gateway: str, allocated: str, available: str
) -> None:
    scene.network("n1", subnet, gateway=gateway)
    assert scene.lists() == (allocated, available, 0)


def test_host_bits_do_not_bound_a_network(scene: Scene) -> None:
    scene.network("n1", "10.2.1.77/24", gateway="10.2.1.1")
    assert scene.endpoint("c").ip_address == "10.2.1.2"


def test_delete_gives_everything_back(scene: Scene) -> None:
    before = dict(scene.store)
    scene.network("n1", gateway="10.1.1.1", ipv6_subnet="2001:db8::/64", ipv6_gateway="2001:db8::1")
    scene.allocate()
    assert scene.do(network.delete, "default:n1") == "default:n1"
    assert scene.store == before
    assert scene.refused(network.delete, "default:n1") == "network not found"
    scene.network("n1")
    assert scene.endpoint("c").ip_address == "10.1.1.1"


def test_a_network_in_use_stays_whole(scene: Scene) -> None:
    scene.network("n1")
    scene.group("g1")
    refusal = scene.refused(network.delete, "default:n1")
    assert refusal == "cannot delete n1 has 1 endpoint groups"
    scene.network("n2", "10.2.0.0/24")
    scene.endpoint("c", "n2")
    assert scene.refused(network.delete, "default:n2") == "Error: Network has active endpoints"
    # the original forgets a network whose deletion was refused
    refusal = scene.refused(network.create, a_network("n3", "10.2.0.0/24"))
    assert refusal == "network n2 conflicts with subnet 10.2.0.0/24"
    assert scene.refused(tenant.delete, "default") == "cannot delete default has 1 endpoint groups"


def test_infra_networks_go_with_endpoints_that_are_released_later(scene: Scene) -> None:
    scene.network("contivh1", nw_type="infra")
    scene.endpoint("h1", "contivh1")
    scene.do(network.delete, "default:contivh1")
    scene.network("contivh1", nw_type="infra")
    assert scene.endpoint("h2", "contivh1").ip_address == "10.1.1.2"
    scene.delete_endpoint("h1", "contivh1")
    assert scene.endpoint("h3", "contivh1").ip_address == "10.1.1.1"


def test_a_gateway_does_not_take_the_address_of_an_endpoint_left_behind(scene: Scene) -> None:
    scene.network("contivh1", nw_type="infra")
    scene.endpoint("h1", "contivh1")
    scene.do(network.delete, "default:contivh1")
    refusal = scene.refused(
        network.create, a_network("contivh1", nw_type="infra", gateway="10.1.1.1")
    )
    assert refusal == "ip address 10.1.1.1 is not available"
    scene.delete_endpoint("h1", "contivh1")
    scene.network("contivh1", nw_type="infra", gateway="10.1.1.1")


def test_a_large_number_of_reservations_does_not_make_a_large_change(scene: Scene) -> None:
    scene.network("n1", gateway="10.1.1.254")
    for _ in range(100):
        scene.view.apply(_reservation(scene))
    plan = network.delete(scene.view, "default:n1")
    assert len(plan.writes) <= 100
    scene.view.apply(plan.writes)
    assert len(scene.view.reservations) == 100 - network.SWEEP


def _reservation(scene: Scene) -> list[Write]:
    addresses = scene.view.addresses[_nid("n1")]
    assert addresses.v4 is not None
    lowest = addresses.v4.lowest()
    assert lowest is not None
    key = f"/contiv.io/ipam/n1.default/{addresses.v4.subnet.text(lowest)}"
    grant = GrantRecord(
        owner=GrantOwner.RESERVATION, owner_id="", seq=scene.view.next_seq, granted_at=NOW
    )
    return [Write(key, grant, new=True)]


def test_inspect_shows_tags_counts_and_endpoints(scene: Scene) -> None:
    scene.network("n1", gateway="10.1.1.254")
    scene.group("g1")
    scene.endpoint("c1", service_name="g1")
    oper = inspect.network(scene.view, "default:n1")
    assert list(oper["endpoints"]) == [
        {
            "containerID": "",
            "containerName": "cn-c1",
            "endpointGroupId": 1,
            "endpointGroupKey": "g1:default",
            "endpointID": "c1",
            "homingHost": "h1",
            "intfName": "",
            "ipAddress": ["10.1.1.1", ""],
            "labels": "map[]",
            "macAddress": "02:02:0a:01:01:01",
            "network": "n1.default",
            "serviceName": "g1",
            "vtepIP": "",
        }
    ]
    del oper["endpoints"]
    assert oper == {
        "allocatedAddressesCount": 1,
        "allocatedIPAddresses": "10.1.1.1, 10.1.1.254",
        "availableIPAddresses": "10.1.1.2-10.1.1.253",
        "externalPktTag": 1,
        "networkTag": "n1.default",
        "numEndpoints": 1,
        "pktTag": 1,
    }


SIX = {"ipv6_subnet": "fd00:3::/64", "ipv6_gateway": "fd00:3::1"}


def test_a_network_of_ipv6_alone(scene: Scene) -> None:
    scene.network("six", "", **SIX)
    record = scene.view.networks[_nid("six")]
    assert (record.subnet, record.subnet_len, record.first, record.last) == ("", 0, "", "")
    assert (record.v4, str(record.v6)) == (None, "fd00:3::/64")
    assert set(scene.view.addresses[record.id].grants) == {"fd00:3::1"}
    one, two = scene.endpoint("c1", "six"), scene.endpoint("c2", "six")
    assert (one.ip_address, one.ipv6_address, two.ipv6_address) == ("", "fd00:3::2", "fd00:3::3")
    assert one.mac_address != two.mac_address
    assert {mac[:6] for mac in (one.mac_address, two.mac_address)} == {"02:06:"}
    scene.reload()
    assert scene.view.networks[_nid("six")] == record
    oper = inspect.network(scene.view, "default:six")
    assert "availableIPAddresses" not in oper or not oper["availableIPAddresses"]
    scene.delete_endpoint("c1", "six")
    assert set(scene.view.addresses[record.id].grants) == {"fd00:3::1", "fd00:3::3"}


def test_two_endpoints_of_ipv6_alone_never_have_one_mac_address(scene: Scene) -> None:
    scene.network("six", "", **SIX)
    scene.endpoint("c1", "six", ipv6_address="fd00:3::1:0:0:5")
    twin = ipv6_text(ipv6_of_same_mac("fd00:3::1:0:0:5", "fd00:3::2:0:0:0"))
    text = scene.refused(endpoint.create, wanted("c2", "six", ipv6_address=twin), NOW)
    assert text.endswith(f"which goes with {twin}, is in use")


def ipv6_of_same_mac(address: str, block: str) -> int:
    """Return the address of a /96 that has the MAC address of another one."""
    wanted_mac, base = mac6_text(ipv6(address)), ipv6(block)
    low = int(wanted_mac.replace(":", "")[4:], 16) ^ int(mac6_text(base).replace(":", "")[4:], 16)
    return base + low


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"gateway": "10.1.1.1"}, "gateway 10.1.1.1 has no subnet to be in"),
        ({"nw_type": "infra"}, "infra network six needs a subnet of IPv4"),
        ({"ipv6_subnet": ""}, "subnet string invalid format"),
    ],
)
def test_what_a_network_of_ipv6_alone_has_not(
    scene: Scene, asked: dict[str, str], text: str
) -> None:
    assert scene.refused(network.create, a_network("six", "", **(SIX | asked))) == text


def test_no_network_of_ipv6_alone_while_older_daemons_read_the_store(scene: Scene) -> None:
    scene.view.apply([Write(keys.SCHEMA, SchemaStamp(1), new=False)])
    assert "upgrade them" in scene.refused(network.create, a_network("six", "", **SIX))


def test_networks_of_ipv6_alone_do_not_overlap(scene: Scene) -> None:
    scene.network("six", "", **SIX)
    asked = a_network("wide", "", ipv6_subnet="fd00:3::/48")
    assert scene.refused(network.create, asked) == (
        "network six conflicts with subnetv6  fd00:3::/48"
    )


def test_what_needs_ipv4_is_refused_on_a_network_of_ipv6_alone(scene: Scene) -> None:
    scene.network("six", "", **SIX)
    asked = a_group("g", "six", ip_pool="10.1.1.5-10.1.1.9")
    assert "has no IPv4 subnet" in scene.refused(group.create, asked)
    scene.service_lb("web", "six")
    (service,) = scene.view.services.values()
    assert service.ip_address == "fd00:3::2"


def test_a_network_says_which_family_comes_first(scene: Scene) -> None:
    scene.network("dual", **SIX, first_family="ipv6")
    scene.endpoint("c1", "dual")
    scene.reload()
    assert scene.view.networks[_nid("dual")].ipv6_first
    (endpoint_of,) = scene.view.endpoints.values()
    shown = endpoint_pages.shown(scene.view, endpoint_of)
    assert shown["addresses"] == ["fd00:3::2", "10.1.1.1"]
    asked = a_network("n2", "10.2.1.0/24", first_family="ipv6")
    assert scene.refused(network.create, asked) == (
        "firstFamily is ipv6, and network n2 has no ipv6Subnet"
    )
