"""A change touches its own objects and those that depend on them, no others."""

import dataclasses
from dataclasses import replace
from ipaddress import IPv4Address

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import EVERYTHING, KINDS, Changes, ObjectId, ObjectKind, affected, objects
from ofnet.world import AccessPort, FwdMode, World
from tests.unit.ofnet.worlds import NET, PEER, local, remote, world

WORLD = world(here=(local(1), local(2)), there=(remote(3),))
POD1, POD2, POD3 = (EndpointKey(f"{NET}-pod{number}") for number in (1, 2, 3))


def test_an_endpoint_concerns_itself_alone() -> None:
    assert affected(WORLD, Changes.of(ObjectKind.LOCAL, {POD1}), ()) == {
        ObjectId(ObjectKind.LOCAL, POD1)
    }


def test_a_network_concerns_its_endpoints() -> None:
    assert affected(WORLD, Changes.of(ObjectKind.NETWORK, {NET}), ()) == {
        ObjectId(ObjectKind.NETWORK, NET),
        ObjectId(ObjectKind.FLOOD, NET),
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.LOCAL, POD2),
        ObjectId(ObjectKind.REMOTE, POD3),
    }
    assert affected(WORLD, Changes.of(ObjectKind.NETWORK, {NetworkId("other.default")}), ()) == {
        ObjectId(ObjectKind.NETWORK, "other.default"),
        ObjectId(ObjectKind.FLOOD, "other.default"),
    }


def test_a_tunnel_concerns_the_networks_and_the_endpoints_behind_it() -> None:
    assert affected(WORLD, Changes.of(ObjectKind.VTEP, {PEER}), ()) == {
        ObjectId(ObjectKind.VTEP, PEER),
        ObjectId(ObjectKind.NETWORK, NET),
        ObjectId(ObjectKind.FLOOD, NET),
        ObjectId(ObjectKind.REMOTE, POD3),
    }
    other = Changes.of(ObjectKind.VTEP, {HostLabel("other")})
    assert ObjectId(ObjectKind.REMOTE, POD3) not in affected(WORLD, other, ())


def test_a_bridged_endpoint_concerns_the_flooding() -> None:
    bridged = replace(WORLD, fwd_mode=FwdMode.BRIDGE)
    assert affected(bridged, Changes.of(ObjectKind.LOCAL, {POD1}), ()) == {
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.FLOOD, NET),
    }


def test_a_peer_and_the_uplink_concern_the_endpoints_behind_them() -> None:
    peer = affected(WORLD, Changes.of(ObjectKind.PEER, {PEER}), ())
    assert peer == {ObjectId(ObjectKind.REMOTE, POD3)}
    assert affected(WORLD, Changes.of(ObjectKind.UPLINKS), ()) == {
        ObjectId(ObjectKind.UPLINKS),
        ObjectId(ObjectKind.ROUTER),
        ObjectId(ObjectKind.NETWORK, NET),
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.LOCAL, POD2),
        ObjectId(ObjectKind.REMOTE, POD3),
    }


def test_a_rule_concerns_itself_alone() -> None:
    rule = ObjectId(ObjectKind.RULE, "r")
    assert affected(WORLD, Changes.of(ObjectKind.RULE, {"r"}), ()) == {rule}


def test_the_host_port_concerns_all_that_hosts_and_pods_say_to_each_other() -> None:
    assert affected(WORLD, Changes.of(ObjectKind.HOST_PORT), ()) == {
        ObjectId(ObjectKind.HOST_PORT),
        ObjectId(ObjectKind.VTEP, PEER),
        ObjectId(ObjectKind.NETWORK, NET),
        ObjectId(ObjectKind.REMOTE, POD3),
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.LOCAL, POD2),
    }


def test_a_pods_interface_to_the_host_concerns_itself_and_follows_the_hosts_port() -> None:
    key = EndpointKey("ann")
    port = AccessPort(ofport=9, mac="02:02:ac:13:00:09", ip=IPv4Address("172.19.0.9"))
    world = replace(WORLD, access={key: port})
    own = ObjectId(ObjectKind.ACCESS, key)
    assert affected(world, Changes.of(ObjectKind.ACCESS, {key}), ()) == {own}
    assert own in affected(world, Changes.of(ObjectKind.HOST_PORT), ())
    assert own in set(objects(world))
    both = Changes.of(ObjectKind.ACCESS, {key}) | Changes()
    assert both.names(ObjectKind.ACCESS) == {key}


def test_everything_includes_what_is_gone() -> None:
    gone = ObjectId(ObjectKind.LOCAL, "gone")
    assert affected(WORLD, EVERYTHING, [gone]) == {*objects(WORLD), gone}


def test_changes_add_up() -> None:
    both = (
        Changes.of(ObjectKind.LOCAL, {POD1})
        | Changes.of(ObjectKind.UPLINKS)
        | Changes.of(ObjectKind.REMOTE, {POD3})
    )
    assert both == Changes.of(ObjectKind.LOCAL, {POD1}) | Changes.of(
        ObjectKind.REMOTE, {POD3}
    ) | Changes.of(ObjectKind.UPLINKS)
    assert not Changes()
    assert both
    assert (both | EVERYTHING).everything


def test_each_kind_is_declared_with_a_field_of_the_world() -> None:
    assert KINDS.keys() == set(ObjectKind)
    fields = {field.name for field in dataclasses.fields(World)}
    assert {spec.field for spec in KINDS.values() if spec.field is not None} <= fields


def test_names_are_those_of_one_kind() -> None:
    both = Changes.of(ObjectKind.LOCAL, {POD1}) | Changes.of(ObjectKind.REMOTE, {POD3})
    assert both.names(ObjectKind.LOCAL) == {POD1}
    assert not Changes.of(ObjectKind.LOCAL, ())
