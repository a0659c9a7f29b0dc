"""Facts in, one World per bridge out: what is local, remote, or nothing."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest

from core.errors import Invalid
from core.ids import EndpointKey, GroupName, NetworkId, TenantName
from netplugin.kube.services import KubePort, KubeService
from netplugin.translation import LocalPort, kube_service_of
from netplugin.world import MAX_VRF, WorldBuilder
from ofnet.changes import Changes
from ofnet.world import ArpMode, Bridge, FwdMode, HostPort, Vtep, World
from state.intents import Fact, Launch, Profile
from state.records import Encap, EndpointRecord, GlobalRecord
from tests.unit.netplugin.records import (
    HOST,
    NET,
    PEER,
    endpoint,
    group,
    host,
    key,
    network,
    nid_of,
)
from tests.unit.netplugin.test_namebook import service


def built(**vrfs: int) -> WorldBuilder:
    return WorldBuilder(HOST, FwdMode.ROUTING, {TenantName(t): i for t, i in vrfs.items()})


@pytest.fixture
def builder() -> WorldBuilder:
    """Give a builder that knows one network, with nothing to take."""
    builder = built()
    builder.put_network(network())
    drain(builder)
    return builder


def drain(builder: WorldBuilder) -> None:
    for bridge in Bridge:
        builder.take(bridge)


def now(builder: WorldBuilder, bridge: Bridge = Bridge.VXLAN) -> World:
    return builder.take(bridge)[0]


def changed(builder: WorldBuilder, bridge: Bridge = Bridge.VXLAN) -> Changes:
    return builder.take(bridge)[1]


def port(record: EndpointRecord, ofport: int = 5) -> LocalPort:
    return LocalPort(record=record, ofport=ofport)


def settings(arp_mode: str = "", pvt_subnet: str = "") -> GlobalRecord:
    return GlobalRecord(infra_type="", fwd_mode="routing", arp_mode=arp_mode, pvt_subnet=pvt_subnet)


# -- endpoints ---------------------------------------------------------------------------------


def test_an_endpoint_with_a_port_here_is_local(builder: WorldBuilder) -> None:
    builder.put_port(key("c1"), port(endpoint(v6=True)))
    world, changes = builder.take(Bridge.VXLAN)
    local = world.local[key("c1")]
    assert (local.ofport, local.ip, local.ip6) == (
        5,
        IPv4Address("10.1.0.1"),
        IPv6Address("2001:db8::1"),
    )
    assert world.remote == {}
    assert changes == Changes(local=frozenset({key("c1")}))


def test_an_endpoint_of_another_host_is_remote(builder: WorldBuilder) -> None:
    builder.put_endpoint(endpoint(host=PEER))
    world, changes = builder.take(Bridge.VXLAN)
    assert world.remote[key("c1")].host == PEER
    assert world.local == {}
    assert changes == Changes(remote=frozenset({key("c1")}))


def test_a_record_of_this_host_without_a_port_is_nothing(builder: WorldBuilder) -> None:
    builder.put_endpoint(endpoint())
    assert not builder.dirty(Bridge.VXLAN)


@pytest.mark.parametrize("missing", ["ip_address", "mac_address"])
@pytest.mark.parametrize("where", [HOST, PEER])
def test_an_endpoint_without_an_address_is_nothing(
    builder: WorldBuilder, missing: str, where: str
) -> None:
    record = replace(endpoint(), homing_host=where, **{missing: ""})  # type: ignore[arg-type]
    builder.put_endpoint(record)
    if where == HOST:
        builder.put_port(key("c1"), port(record))
    world = now(builder)
    assert not world.local
    assert not world.remote


def test_an_endpoint_that_comes_here_is_local_once_it_has_its_port(builder: WorldBuilder) -> None:
    builder.put_endpoint(endpoint(host=PEER))
    builder.put_endpoint(endpoint())
    world = now(builder)
    assert not world.remote
    assert not world.local
    builder.put_port(key("c1"), port(endpoint()))
    assert now(builder).local.keys() == {key("c1")}


def test_an_endpoint_that_leaves_is_remote_once_its_port_is_gone(builder: WorldBuilder) -> None:
    builder.put_port(key("c1"), port(endpoint()))
    builder.put_endpoint(endpoint(host=PEER))
    world = now(builder)
    assert (set(world.local), set(world.remote)) == ({key("c1")}, set())
    builder.remove_port(key("c1"))
    world, changes = builder.take(Bridge.VXLAN)
    assert (set(world.local), set(world.remote)) == (set(), {key("c1")})
    assert changes == Changes(local=frozenset({key("c1")}), remote=frozenset({key("c1")}))


def test_an_endpoint_that_moves_between_other_hosts_stays_remote(builder: WorldBuilder) -> None:
    builder.put_endpoint(endpoint(host=PEER))
    drain(builder)
    builder.put_endpoint(replace(endpoint(host=PEER), homing_host="h3"))  # type: ignore[arg-type]
    world, changes = builder.take(Bridge.VXLAN)
    assert world.remote[key("c1")].host == "h3"
    assert changes == Changes(remote=frozenset({key("c1")}))


def test_a_new_record_of_a_local_endpoint_keeps_its_port(builder: WorldBuilder) -> None:
    builder.put_port(key("c1"), replace(port(endpoint()), number=5))
    builder.put_endpoint(replace(endpoint(), ip_address="10.1.9.9"))
    local = now(builder).local[key("c1")]
    assert (local.ofport, str(local.ip)) == (5, "10.1.9.9")
    kept = builder.port(key("c1"))
    assert kept is not None
    assert kept.number == 5
    assert builder.port(key("c2")) is None


def test_a_local_endpoint_outlives_its_record(builder: WorldBuilder) -> None:
    builder.put_endpoint(endpoint())
    builder.put_port(key("c1"), port(endpoint()))
    builder.remove_endpoint(key("c1"))
    assert now(builder).local.keys() == {key("c1")}
    builder.remove_port(key("c1"))
    assert now(builder).local == {}


def test_what_is_not_known_can_be_removed(builder: WorldBuilder) -> None:
    builder.remove_endpoint(key("never"))
    builder.remove_port(key("never"))
    builder.remove_network(NetworkId("never.default"))
    builder.remove_group(group().key)
    builder.remove_host(PEER)
    assert not builder.dirty(Bridge.VXLAN)


def test_an_unchanged_fact_changes_nothing(builder: WorldBuilder) -> None:
    facts = [
        lambda: builder.put_network(network()),
        lambda: builder.put_endpoint(endpoint(2, host=PEER)),
        lambda: builder.put_port(key("c1"), port(endpoint())),
        lambda: builder.put_group(group()),
        lambda: builder.put_global(settings("flood")),
        builder.set_complete,
    ]
    for fact in facts:
        fact()
    drain(builder)
    for fact in facts:
        fact()
    assert not any(builder.dirty(bridge) for bridge in Bridge)


# -- networks ----------------------------------------------------------------------------------


def test_a_network_may_come_after_its_endpoints() -> None:
    builder = built()
    builder.put_endpoint(endpoint(1, host=PEER))
    builder.put_port(key("c2"), port(endpoint(2)))
    world = now(builder)
    assert not world.remote
    assert not world.local
    builder.put_network(network())
    world, changes = builder.take(Bridge.VXLAN)
    assert (set(world.local), set(world.remote)) == ({key("c2")}, {key("c1")})
    assert changes == Changes(
        networks=frozenset({NET}), local=frozenset({key("c2")}), remote=frozenset({key("c1")})
    )


def test_a_network_takes_its_endpoints_with_it(builder: WorldBuilder) -> None:
    builder.put_endpoint(endpoint(1, host=PEER))
    builder.put_port(key("c2"), port(endpoint(2)))
    drain(builder)
    builder.remove_network(NET)
    world, changes = builder.take(Bridge.VXLAN)
    assert not world.networks
    assert not world.local
    assert not world.remote
    assert changes.local == {key("c2")}
    builder.put_network(network())
    world = now(builder)
    assert (set(world.local), set(world.remote)) == ({key("c2")}, {key("c1")})


def test_a_network_belongs_to_the_bridge_of_its_encapsulation(builder: WorldBuilder) -> None:
    builder.put_endpoint(endpoint(host=PEER))
    drain(builder)
    builder.put_network(network(encap=Encap.VLAN))
    vxlan, vlan = now(builder), now(builder, Bridge.VLAN)
    assert not vxlan.networks
    assert not vxlan.remote
    assert (set(vlan.networks), set(vlan.remote)) == ({NET}, {key("c1")})


def test_an_endpoint_that_changes_its_network_leaves_the_old_one(builder: WorldBuilder) -> None:
    builder.put_network(network("n2", encap=Encap.VLAN))
    builder.put_endpoint(endpoint(host=PEER))
    drain(builder)
    builder.put_endpoint(replace(endpoint(host=PEER), network=nid_of("n2")))
    assert not now(builder).remote
    assert now(builder, Bridge.VLAN).remote[key("c1")].network == "n2.default"
    builder.remove_network(NET)
    assert not builder.dirty(Bridge.VLAN)
    builder.remove_network(nid_of("n2"))
    assert not now(builder, Bridge.VLAN).remote


def test_a_network_says_what_its_record_says(builder: WorldBuilder) -> None:
    builder.put_network(network("six", tag=7, v6=True))
    found = now(builder).networks[nid_of("six")]
    assert (found.vlan, found.vni) == (7, 10_007)
    assert (str(found.gateway), str(found.gateway6)) == ("10.1.255.254", "2001:db8::1")
    builder.put_network(network("six", tag=8, gateway=""))
    found = now(builder).networks[nid_of("six")]
    assert (found.vlan, found.gateway, found.gateway6) == (8, None, None)
    assert builder.network(nid_of("six")) == network("six", tag=8, gateway="")


# -- records that cannot be read ---------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        replace(endpoint(), network=NetworkId("n1")),
        replace(endpoint(), ip_address="10.1"),
        replace(endpoint(), ipv6_address="10.1.0.1"),
        replace(endpoint(), mac_address="02:02:0a:01:00"),
        replace(endpoint(), mac_address="02:02:0a:01:00:zz"),
    ],
)
def test_an_endpoint_that_cannot_be_read_changes_nothing(
    builder: WorldBuilder, bad: EndpointRecord
) -> None:
    with pytest.raises(Invalid, match=r"n1\.default-c1"):
        builder.put_endpoint(bad)
    with pytest.raises(Invalid):
        builder.put_port(key("c1"), port(bad))
    assert builder.endpoint(key("c1")) is None
    assert builder.names.lookup(TenantName("default"), "c1", IPv4Address) is None
    assert not builder.dirty(Bridge.VXLAN)


def test_names_are_those_of_endpoints_anywhere_and_of_services(builder: WorldBuilder) -> None:
    facts: list[Fact] = [endpoint(1), endpoint(2, host=PEER, group="web"), service()]

    def known(name: str) -> bool:
        return builder.names.lookup(TenantName("default"), name, IPv4Address) is not None

    for fact in facts:
        builder.put(fact)
    assert all(map(known, ("c1", "c2", "web", "shop")))
    with pytest.raises(Invalid, match="shop:default"):
        builder.put(service(ip="10.1"))
    for fact in facts:
        builder.remove(fact)
    assert not any(map(known, ("c1", "c2", "web", "shop")))


def test_both_bridges_serve_services_of_kubernetes(builder: WorldBuilder) -> None:
    target = frozenset({(IPv4Address("10.1.0.1"), 8080)})
    served = KubeService(
        namespace="shop",
        name="web",
        address=IPv4Address("10.96.0.10"),
        ports=(KubePort(protocol="TCP", port=80, targets=target),),
    )
    for bridge in Bridge:
        builder.take(bridge)
    builder.put_kube_service(served)
    for bridge in Bridge:
        world, changes = builder.take(bridge)
        assert world.services == {"shop/web": kube_service_of(served)}
        assert changes.services == {"shop/web"}
    builder.put_kube_service(served)
    assert not any(builder.dirty(bridge) for bridge in Bridge)
    builder.remove_kube_service("shop/web")
    for bridge in Bridge:
        world, changes = builder.take(bridge)
        assert not world.services
        assert changes.services == {"shop/web"}


def test_pods_have_private_addresses_where_we_route(builder: WorldBuilder) -> None:
    builder.put_network(network())
    builder.put_port(key("c1"), LocalPort(record=endpoint(), ofport=5, number=258))
    assert builder.private_addresses() == {}
    subnet = IPv4Network("172.19.0.0/16")
    builder.set_host_port(HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=subnet))
    private = {IPv4Address("10.1.0.1"): IPv4Address("172.19.1.2")}
    assert builder.private_addresses() == private
    builder.fwd_mode = FwdMode.BRIDGE
    assert builder.private_addresses() == {}


def test_a_network_or_host_that_cannot_be_read_changes_nothing(builder: WorldBuilder) -> None:
    with pytest.raises(Invalid, match=r"n2\.default"):
        builder.put_network(network("n2", gateway="x"))
    with pytest.raises(Invalid, match="h2"):
        builder.put_host(host(vtep_ip="::1"))
    assert builder.network(nid_of("n2")) is None
    assert builder.hosts == {}
    assert not builder.dirty(Bridge.VXLAN)


# -- groups and settings -----------------------------------------------------------------------


def test_a_groups_dscp_reaches_its_endpoints_here(builder: WorldBuilder) -> None:
    builder.put_port(key("c1"), port(endpoint(1, group="web", group_id=7)))
    builder.put_port(key("c2"), port(endpoint(2)))
    assert now(builder).local[key("c1")].dscp == 0
    builder.put_group(group(dscp=10))
    world, changes = builder.take(Bridge.VXLAN)
    assert (world.local[key("c1")].dscp, world.local[key("c1")].group_id) == (10, 7)
    assert world.local[key("c2")].dscp == 0
    assert changes == Changes(local=frozenset({key("c1")}))
    builder.put_group(group(dscp=20))
    assert now(builder).local[key("c1")].dscp == 20
    builder.put_group(group(tenant="blue", dscp=30))
    assert not builder.dirty(Bridge.VXLAN)
    builder.remove_group(group().key)
    assert now(builder).local[key("c1")].dscp == 0


@pytest.mark.parametrize(
    ("mode", "means"),
    [("flood", ArpMode.FLOOD), ("proxy", ArpMode.PROXY), ("", ArpMode.PROXY), ("x", ArpMode.PROXY)],
)
def test_anything_but_flood_is_proxied(builder: WorldBuilder, mode: str, means: ArpMode) -> None:
    assert now(builder).arp_mode is ArpMode.PROXY
    builder.put_global(settings(mode))
    for bridge in Bridge:
        world, changes = builder.take(bridge)
        assert world.arp_mode is means
        assert changes.everything is (means is ArpMode.FLOOD)


# -- launches of an ACI fabric -------------------------------------------------------------------


def launching(infra_type: str) -> WorldBuilder:
    """Return a builder with a pod of a group on a vlan network, and the group's profile."""
    builder = built()
    builder.put_global(replace(settings(""), infra_type=infra_type, fwd_mode="bridge"))
    builder.put_network(network(encap=Encap.VLAN))
    builder.put_group(replace(group(tag=700), encap=Encap.VLAN))
    builder.put_port(key("c1"), port(endpoint(group="web", group_id=7)))
    builder.put(PROFILE)
    return builder


PROFILE = Profile(TenantName("default"), "shop", (GroupName("web"), GroupName("unknown")))


def test_a_launch_that_ends_concerns_the_groups_endpoints() -> None:
    builder = launching("aci")
    before = now(builder, Bridge.VLAN)
    assert before.local[key("c1")].group_vlan == 700
    builder.put(Launch(PROFILE.key))
    assert not builder.dirty(Bridge.VLAN)
    builder.remove(Launch(PROFILE.key))
    world, changes = builder.take(Bridge.VLAN)
    assert world.launches[7] == before.launches[7] + 1
    assert changes == Changes(local=frozenset({key("c1")}))
    builder.remove(PROFILE)
    builder.remove(Launch(PROFILE.key))
    assert not builder.dirty(Bridge.VLAN)


def test_elsewhere_nothing_is_launched() -> None:
    builder = launching("default")
    builder.remove(Launch(PROFILE.key))
    assert now(builder, Bridge.VLAN).launches == {}


# -- VRF ids -----------------------------------------------------------------------------------


def test_a_vrf_id_stays_while_the_tenant_has_a_network() -> None:
    builder = built()
    builder.set_complete()
    for number in range(3):
        builder.put_network(network(f"n{number}", f"t{number}"))
    assert builder.vrfs == {"t0": 1, "t1": 2, "t2": 3}
    builder.put_network(network("more", "t1"))
    builder.remove_network(nid_of("n1", "t1"))
    assert builder.vrfs == {"t0": 1, "t1": 2, "t2": 3}
    builder.remove_network(nid_of("more", "t1"))
    assert builder.vrfs == {"t0": 1, "t2": 3}
    builder.put_network(network("n3", "t3"))
    assert builder.vrfs == {"t0": 1, "t2": 3, "t3": 2}


def test_vrf_ids_of_the_agent_before_are_taken_over() -> None:
    builder = built(default=9, gone=1)
    builder.put_network(network())
    builder.put_network(network("n2", "new"))
    assert {n.vrf for n in now(builder).networks.values()} == {9, 2}
    assert builder.vrfs == {"default": 9, "gone": 1, "new": 2}, "not all has been read yet"
    builder.set_complete()
    assert builder.vrfs == {"default": 9, "new": 2}


def test_no_vrf_id_is_freed_before_everything_is_read() -> None:
    builder = built()
    builder.put_network(network())
    builder.remove_network(NET)
    assert builder.vrfs == {"default": 1}
    builder.set_complete()
    assert builder.vrfs == {}


def test_networks_without_a_vrf_id_wait_for_one() -> None:
    builder = built()
    builder.set_complete()
    for number in range(MAX_VRF):
        builder.put_network(network("n", f"t{number}"))
    builder.put_network(network())
    builder.put_endpoint(endpoint(host=PEER))
    world = now(builder)
    assert len(world.networks) == MAX_VRF
    assert not world.remote
    assert not builder.realised(NET)
    builder.remove_network(nid_of("n", "t7"))
    world, changes = builder.take(Bridge.VXLAN)
    assert world.networks[NET].vrf == 8
    assert world.remote.keys() == {key("c1")}
    assert changes.networks == {NET, nid_of("n", "t7")}
    assert builder.realised(NET)


# -- the rest ----------------------------------------------------------------------------------


def test_tunnel_ports_are_replaced_as_a_whole(builder: WorldBuilder) -> None:
    one = Vtep(host=PEER, ip=IPv4Address("192.0.2.2"), ofport=7)
    builder.set_vteps({PEER: one})
    world, changes = builder.take(Bridge.VXLAN)
    assert world.vteps == {PEER: one}
    assert changes == Changes(vteps=frozenset({PEER}))
    builder.set_vteps({PEER: one})
    assert not builder.dirty(Bridge.VXLAN)
    builder.set_vteps({})
    world, changes = builder.take(Bridge.VXLAN)
    assert world.vteps == {}
    assert changes == Changes(vteps=frozenset({PEER}))
    assert not builder.dirty(Bridge.VLAN)


def test_the_hosts_port_comes_and_goes(builder: WorldBuilder) -> None:
    own = HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
    builder.set_host_port(own)
    world, changes = builder.take(Bridge.VXLAN)
    assert (world.host_port, changes) == (own, Changes(host_port=True))
    builder.set_host_port(None)
    assert now(builder).host_port is None


def test_pods_have_addresses_of_the_hosts_private_network(builder: WorldBuilder) -> None:
    builder.put_network(network())
    builder.put_port(key("c1"), replace(port(endpoint()), number=7))
    assert now(builder).local[key("c1")].nat_ip is None
    for subnet, private in (("172.19.0.0/16", "172.19.0.7"), ("172.22.0.0/16", "172.22.0.7")):
        own = HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=IPv4Network(subnet))
        builder.set_host_port(own)
        world, changes = builder.take(Bridge.VXLAN)
        assert world.local[key("c1")].nat_ip == IPv4Address(private)
        assert changes.local == {key("c1")}


def test_a_private_network_that_cannot_be_read_is_refused(builder: WorldBuilder) -> None:
    builder.put_global(settings(pvt_subnet="172.22.5.0/16"))
    for wrong in ("172.22/16x", "172.23.0.0/24"):
        with pytest.raises(Invalid):
            builder.put_global(settings(pvt_subnet=wrong))
    assert builder.private_subnet == IPv4Network("172.22.0.0/16")


def test_completeness_is_said_once_and_to_both_bridges(builder: WorldBuilder) -> None:
    assert not now(builder).complete
    builder.set_complete()
    assert builder.complete
    for bridge in Bridge:
        world, changes = builder.take(bridge)
        assert world.complete
        assert changes.everything


def test_a_world_that_was_taken_does_not_change(builder: WorldBuilder) -> None:
    world = now(builder)
    builder.put_endpoint(endpoint(host=PEER))
    builder.remove_network(NET)
    assert world.networks.keys() == {NET}
    assert world.remote == {}


def test_the_forwarding_mode_is_the_builders() -> None:
    builder = WorldBuilder(HOST, FwdMode.BRIDGE)
    assert {now(builder, bridge).fwd_mode for bridge in Bridge} == {FwdMode.BRIDGE}
    assert builder.endpoint(EndpointKey("none")) is None
