"""Endpoints as this host has them: what is local, remote, or nothing."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest

from core.errors import Invalid
from core.ids import NetworkId, TenantName
from netplugin.world.builder import WorldBuilder
from netplugin.world.dns.dns_records import Asker
from ofnet.changes import Changes, ObjectKind
from ofnet.world import Bridge, HostPort
from state.records import Encap, EndpointRecord
from tests.unit.netplugin.records import HOST, NET, PEER, endpoint, group, key, network, nid_of
from tests.unit.netplugin.worlds import altered, built, drain, now, port


def test_an_endpoint_with_a_port_here_is_local(builder: WorldBuilder) -> None:
    builder.endpoints.put_port(key("c1"), port(endpoint(v6=True)))
    world, changes = builder.take(Bridge.VXLAN)
    local = world.local[key("c1")]
    assert (local.ofport, local.ip, local.ip6) == (
        5,
        IPv4Address("10.1.0.1"),
        IPv6Address("2001:db8::1"),
    )
    assert world.remote == {}
    assert changes == Changes.of(ObjectKind.LOCAL, {key("c1")})


def test_an_endpoint_of_another_host_is_remote(builder: WorldBuilder) -> None:
    builder.put(endpoint(host=PEER))
    world, changes = builder.take(Bridge.VXLAN)
    assert world.remote[key("c1")].host == PEER
    assert world.local == {}
    assert changes == Changes.of(ObjectKind.REMOTE, {key("c1")})


def test_a_record_of_this_host_without_a_port_is_nothing(builder: WorldBuilder) -> None:
    builder.put(endpoint())
    assert Bridge.VXLAN not in altered(builder)


@pytest.mark.parametrize("missing", ["ip_address", "mac_address"])
@pytest.mark.parametrize("where", [HOST, PEER])
def test_an_endpoint_without_an_address_is_nothing(
    builder: WorldBuilder, missing: str, where: str
) -> None:
    record = replace(endpoint(), homing_host=where, **{missing: ""})  # type: ignore[arg-type]
    builder.put(record)
    if where == HOST:
        builder.endpoints.put_port(key("c1"), port(record))
    world = now(builder)
    assert not world.local
    assert not world.remote


def test_an_endpoint_that_comes_here_is_local_once_it_has_its_port(builder: WorldBuilder) -> None:
    builder.put(endpoint(host=PEER))
    builder.put(endpoint())
    world = now(builder)
    assert not world.remote
    assert not world.local
    builder.endpoints.put_port(key("c1"), port(endpoint()))
    assert now(builder).local.keys() == {key("c1")}


def test_an_endpoint_that_leaves_is_remote_once_its_port_is_gone(builder: WorldBuilder) -> None:
    builder.endpoints.put_port(key("c1"), port(endpoint()))
    builder.put(endpoint(host=PEER))
    world = now(builder)
    assert (set(world.local), set(world.remote)) == ({key("c1")}, set())
    builder.endpoints.remove_port(key("c1"))
    world, changes = builder.take(Bridge.VXLAN)
    assert (set(world.local), set(world.remote)) == (set(), {key("c1")})
    assert changes == Changes.of(ObjectKind.LOCAL, {key("c1")}) | Changes.of(
        ObjectKind.REMOTE, {key("c1")}
    )


def test_an_endpoint_that_moves_between_other_hosts_stays_remote(builder: WorldBuilder) -> None:
    builder.put(endpoint(host=PEER))
    drain(builder)
    builder.put(replace(endpoint(host=PEER), homing_host="h3"))  # type: ignore[arg-type]
    world, changes = builder.take(Bridge.VXLAN)
    assert world.remote[key("c1")].host == "h3"
    assert changes == Changes.of(ObjectKind.REMOTE, {key("c1")})


def test_a_new_record_of_a_local_endpoint_keeps_its_port(builder: WorldBuilder) -> None:
    builder.endpoints.put_port(key("c1"), replace(port(endpoint()), number=5))
    builder.put(replace(endpoint(), ip_address="10.1.9.9"))
    local = now(builder).local[key("c1")]
    assert (local.ofport, str(local.ip)) == (5, "10.1.9.9")
    kept = builder.endpoints.port(key("c1"))
    assert kept is not None
    assert kept.number == 5
    assert builder.endpoints.port(key("c2")) is None


def test_a_local_endpoint_outlives_its_record(builder: WorldBuilder) -> None:
    builder.put(endpoint())
    builder.endpoints.put_port(key("c1"), port(endpoint()))
    assert builder.endpoints.revoked() == frozenset()
    builder.remove(endpoint())
    assert now(builder).local.keys() == {key("c1")}
    assert builder.endpoints.revoked() == {key("c1")}
    builder.endpoints.remove_port(key("c1"))
    assert now(builder).local == {}
    assert builder.endpoints.revoked() == frozenset()


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
        builder.put(bad)
    with pytest.raises(Invalid):
        builder.endpoints.put_port(key("c1"), port(bad))
    assert builder.endpoint_records.get(key("c1")) is None
    assert builder.names.lookup(Asker(TenantName("default")), "c1", IPv4Address) is None
    assert Bridge.VXLAN not in altered(builder)


# -- with their networks, groups and private addresses ------------------------------------------


def test_an_endpoint_that_changes_its_network_leaves_the_old_one(builder: WorldBuilder) -> None:
    builder.put(network("n2", encap=Encap.VLAN))
    builder.put(endpoint(host=PEER))
    drain(builder)
    builder.put(replace(endpoint(host=PEER), network=nid_of("n2")))
    assert not now(builder).remote
    assert now(builder, Bridge.VLAN).remote[key("c1")].network == "n2.default"
    builder.remove(network())
    assert Bridge.VLAN not in altered(builder)
    builder.remove(network("n2"))
    assert not now(builder, Bridge.VLAN).remote


def test_a_network_may_come_after_its_endpoints() -> None:
    builder = built()
    builder.put(network("n2"))
    builder.put(endpoint(1, host=PEER))
    builder.endpoints.put_port(key("c2"), port(endpoint(2)))
    world = now(builder)
    assert not world.remote
    assert not world.local
    builder.put(network())
    world, changes = builder.take(Bridge.VXLAN)
    assert (set(world.local), set(world.remote)) == ({key("c2")}, {key("c1")})
    assert changes == Changes.of(ObjectKind.NETWORK, {NET}) | Changes.of(
        ObjectKind.LOCAL, {key("c2")}
    ) | Changes.of(ObjectKind.REMOTE, {key("c1")})


def test_a_network_takes_its_endpoints_with_it(builder: WorldBuilder) -> None:
    builder.put(endpoint(1, host=PEER))
    builder.endpoints.put_port(key("c2"), port(endpoint(2)))
    drain(builder)
    builder.remove(network())
    world, changes = builder.take(Bridge.VXLAN)
    assert not world.networks
    assert not world.local
    assert not world.remote
    assert changes.names(ObjectKind.LOCAL) == {key("c2")}
    builder.put(network())
    world = now(builder)
    assert (set(world.local), set(world.remote)) == ({key("c2")}, {key("c1")})


def test_a_groups_dscp_reaches_its_endpoints_here(builder: WorldBuilder) -> None:
    builder.endpoints.put_port(key("c1"), port(endpoint(1, group="web", group_id=7)))
    builder.endpoints.put_port(key("c2"), port(endpoint(2)))
    assert now(builder).local[key("c1")].dscp == 0
    builder.put(group(dscp=10))
    world, changes = builder.take(Bridge.VXLAN)
    assert (world.local[key("c1")].dscp, world.local[key("c1")].group_id) == (10, 7)
    assert world.local[key("c2")].dscp == 0
    assert changes == Changes.of(ObjectKind.LOCAL, {key("c1")})
    builder.put(group(dscp=20))
    assert now(builder).local[key("c1")].dscp == 20
    builder.put(group(tenant="blue", dscp=30))
    assert Bridge.VXLAN not in altered(builder)
    builder.remove(group())
    assert now(builder).local[key("c1")].dscp == 0


def test_the_hosts_port_comes_and_goes(builder: WorldBuilder) -> None:
    own = HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
    builder.endpoints.set_host_port(own)
    world, changes = builder.take(Bridge.VXLAN)
    assert (world.host_port, changes) == (own, Changes.of(ObjectKind.HOST_PORT))
    builder.endpoints.set_host_port(None)
    assert now(builder).host_port is None


def test_pods_have_addresses_of_the_hosts_private_network(builder: WorldBuilder) -> None:
    builder.put(network())
    builder.endpoints.put_port(key("c1"), replace(port(endpoint()), number=7))
    assert now(builder).local[key("c1")].nat_ip is None
    for subnet, private in (("172.19.0.0/16", "172.19.0.7"), ("172.22.0.0/16", "172.22.0.7")):
        own = HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=IPv4Network(subnet))
        builder.endpoints.set_host_port(own)
        world, changes = builder.take(Bridge.VXLAN)
        assert world.local[key("c1")].nat_ip == IPv4Address(private)
        assert changes.names(ObjectKind.LOCAL) == {key("c1")}
