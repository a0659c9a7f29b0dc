"""Facts in, one World per bridge out: who hears of what."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import get_args

import pytest

from core.errors import Invalid
from core.ids import EndpointKey, GroupName, TenantName
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from netplugin.world.dns.dns_records import Asker
from netplugin.world.kubernetes.kube_services import KubeService
from ofnet.changes import Changes, ObjectKind
from ofnet.world import Bridge, FwdMode, HostPort
from state.intents import Fact, Launch, Profile
from state.records import Encap, Record, TagRangesRecord
from tests.unit.netplugin.records import HOST, NET, PEER, endpoint, group, host, key, network
from tests.unit.netplugin.world.dns_records import service
from tests.unit.netplugin.worlds import altered, built, drain, now, port, settings


def test_what_is_not_known_can_be_removed(builder: WorldBuilder) -> None:
    builder.remove(endpoint(99))
    builder.endpoints.remove_port(key("never"))
    builder.remove(network("never"))
    builder.remove(group())
    builder.remove(host())
    assert Bridge.VXLAN not in altered(builder)


def test_each_type_of_record_has_a_handler(builder: WorldBuilder) -> None:
    assert builder.record_types == {*get_args(Fact), KubeService}
    assert set(get_args(Record)) < builder.record_types
    for record in (TagRangesRecord(vlans="1-2", vxlans="3-4"), Launch("never")):
        builder.put(record)
        builder.remove(record)
    assert not altered(builder)


def test_an_unchanged_fact_changes_nothing(builder: WorldBuilder) -> None:
    facts = [
        lambda: builder.put(network()),
        lambda: builder.put(endpoint(2, host=PEER)),
        lambda: builder.endpoints.put_port(key("c1"), port(endpoint())),
        lambda: builder.put(group()),
        lambda: builder.put(settings("flood")),
        builder.set_complete,
    ]
    for fact in facts:
        fact()
    drain(builder)
    for fact in facts:
        fact()
    assert not altered(builder)


def test_names_are_those_of_endpoints_anywhere_and_of_services(builder: WorldBuilder) -> None:
    facts: list[Fact] = [endpoint(1), endpoint(2, host=PEER, group="web"), service()]

    def known(name: str) -> bool:
        return builder.names.lookup(Asker(TenantName("default")), name, IPv4Address) is not None

    for fact in facts:
        builder.put(fact)
    assert all(map(known, ("c1", "c2", "web", "shop")))
    with pytest.raises(Invalid, match="shop:default"):
        builder.put(service(ip="10.1"))
    for fact in facts:
        builder.remove(fact)
    assert not any(map(known, ("c1", "c2", "web", "shop")))


def test_pods_have_private_addresses_where_we_route(builder: WorldBuilder) -> None:
    builder.put(network())
    builder.endpoints.put_port(key("c1"), LocalPort(record=endpoint(), ofport=5, number=258))
    assert builder.private_addresses() == {}
    subnet = IPv4Network("172.19.0.0/16")
    builder.endpoints.set_host_port(HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=subnet))
    private = {IPv4Address("10.1.0.1"): IPv4Address("172.19.1.2")}
    assert builder.private_addresses() == private
    builder.forwarding.fwd_mode = FwdMode.BRIDGE
    assert builder.private_addresses() == {}


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
    builder.put(endpoint(host=PEER))
    builder.remove(network())
    assert world.networks.keys() == {NET}
    assert world.remote == {}


def test_the_forwarding_mode_is_the_builders() -> None:
    builder = WorldBuilder(HOST, FwdMode.BRIDGE)
    assert {now(builder, bridge).fwd_mode for bridge in Bridge} == {FwdMode.BRIDGE}
    assert builder.endpoint_records.get(EndpointKey("none")) is None


# -- launches of an ACI fabric -------------------------------------------------------------------


def launching(infra_type: str) -> WorldBuilder:
    """Return a builder with a pod of a group on a vlan network, and the group's profile."""
    builder = built()
    builder.put(replace(settings(""), infra_type=infra_type, fwd_mode="bridge"))
    builder.put(network(encap=Encap.VLAN))
    builder.put(replace(group(tag=700), encap=Encap.VLAN))
    builder.endpoints.put_port(key("c1"), port(endpoint(group="web", group_id=7)))
    builder.put(PROFILE)
    return builder


PROFILE = Profile(TenantName("default"), "shop", (GroupName("web"), GroupName("unknown")))


def test_a_launch_that_ends_concerns_the_groups_endpoints() -> None:
    builder = launching("aci")
    before = now(builder, Bridge.VLAN)
    assert before.local[key("c1")].group_vlan == 700
    builder.put(Launch(PROFILE.key))
    assert Bridge.VLAN not in altered(builder)
    builder.remove(Launch(PROFILE.key))
    world, changes = builder.take(Bridge.VLAN)
    assert world.launches[7] == before.launches[7] + 1
    assert changes == Changes.of(ObjectKind.LOCAL, {key("c1")})
    builder.remove(PROFILE)
    builder.remove(Launch(PROFILE.key))
    assert Bridge.VLAN not in altered(builder)


def test_elsewhere_nothing_is_launched() -> None:
    builder = launching("default")
    builder.remove(Launch(PROFILE.key))
    assert now(builder, Bridge.VLAN).launches == {}
