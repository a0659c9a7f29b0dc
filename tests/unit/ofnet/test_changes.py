"""A change touches its own objects and those that depend on them, no others."""

from dataclasses import replace
from ipaddress import IPv4Address

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import EVERYTHING, Changes, ObjectId, ObjectKind, affected, objects
from ofnet.world import AccessPort, FwdMode
from tests.unit.ofnet.worlds import NET, PEER, local, remote, world

WORLD = world(here=(local(1), local(2)), there=(remote(3),))
POD1, POD2, POD3 = (EndpointKey(f"{NET}-pod{number}") for number in (1, 2, 3))


def test_an_endpoint_concerns_itself_alone() -> None:
    assert affected(WORLD, Changes(local=frozenset({POD1})), ()) == {
        ObjectId(ObjectKind.LOCAL, POD1)
    }


def test_a_network_concerns_its_endpoints() -> None:
    assert affected(WORLD, Changes(networks=frozenset({NET})), ()) == {
        ObjectId(ObjectKind.NETWORK, NET),
        ObjectId(ObjectKind.FLOOD, NET),
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.LOCAL, POD2),
        ObjectId(ObjectKind.REMOTE, POD3),
    }
    assert affected(WORLD, Changes(networks=frozenset({NetworkId("other.default")})), ()) == {
        ObjectId(ObjectKind.NETWORK, "other.default"),
        ObjectId(ObjectKind.FLOOD, "other.default"),
    }


def test_a_tunnel_concerns_the_networks_and_the_endpoints_behind_it() -> None:
    assert affected(WORLD, Changes(vteps=frozenset({PEER})), ()) == {
        ObjectId(ObjectKind.VTEP, PEER),
        ObjectId(ObjectKind.NETWORK, NET),
        ObjectId(ObjectKind.FLOOD, NET),
        ObjectId(ObjectKind.REMOTE, POD3),
    }
    other = Changes(vteps=frozenset({HostLabel("other")}))
    assert ObjectId(ObjectKind.REMOTE, POD3) not in affected(WORLD, other, ())


def test_a_bridged_endpoint_concerns_the_flooding() -> None:
    bridged = replace(WORLD, fwd_mode=FwdMode.BRIDGE)
    assert affected(bridged, Changes(local=frozenset({POD1})), ()) == {
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.FLOOD, NET),
    }


def test_a_peer_and_the_uplink_concern_the_endpoints_behind_them() -> None:
    peer = affected(WORLD, Changes(peer_macs=frozenset({PEER})), ())
    assert peer == {ObjectId(ObjectKind.REMOTE, POD3)}
    assert affected(WORLD, Changes(uplinks=True), ()) == {
        ObjectId(ObjectKind.UPLINKS),
        ObjectId(ObjectKind.ROUTER),
        ObjectId(ObjectKind.NETWORK, NET),
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.LOCAL, POD2),
        ObjectId(ObjectKind.REMOTE, POD3),
    }


def test_a_rule_concerns_itself_alone() -> None:
    rule = ObjectId(ObjectKind.RULE, "r")
    assert affected(WORLD, Changes(rules=frozenset({"r"})), ()) == {rule}


def test_the_host_port_concerns_the_local_endpoints() -> None:
    assert affected(WORLD, Changes(host_port=True), ()) == {
        ObjectId(ObjectKind.HOST_PORT),
        ObjectId(ObjectKind.LOCAL, POD1),
        ObjectId(ObjectKind.LOCAL, POD2),
    }


def test_a_pods_interface_to_the_host_concerns_itself_and_follows_the_hosts_port() -> None:
    key = EndpointKey("ann")
    port = AccessPort(ofport=9, mac="02:02:ac:13:00:09", ip=IPv4Address("172.19.0.9"))
    world = replace(WORLD, access={key: port})
    own = ObjectId(ObjectKind.ACCESS, key)
    assert affected(world, Changes(access=frozenset({key})), ()) == {own}
    assert own in affected(world, Changes(host_port=True), ())
    assert own in set(objects(world))
    both = Changes(access=frozenset({key})) | Changes()
    assert both.access == {key}


def test_everything_includes_what_is_gone() -> None:
    gone = ObjectId(ObjectKind.LOCAL, "gone")
    assert affected(WORLD, EVERYTHING, [gone]) == {*objects(WORLD), gone}


def test_changes_add_up() -> None:
    both = Changes(local=frozenset({POD1}), uplinks=True) | Changes(remote=frozenset({POD3}))
    assert both == Changes(local=frozenset({POD1}), remote=frozenset({POD3}), uplinks=True)
    assert not Changes()
    assert both
    assert (both | EVERYTHING).everything
