"""The directory: who has which address, and what is behind a port."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from core.ids import NetworkId
from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.packets.directory import Directory, PortAttachment
from ofnet.world import FwdMode, Router, Uplink
from tests.unit.ofnet.worlds import (
    NET,
    PEER,
    address,
    local,
    network,
    remote,
    with_local,
    without_local,
    world,
)

GATEWAY = IPv4Address("10.1.255.254")
WORLD = world(here=(local(1),), there=(remote(2, v6=True),))


def directory() -> Directory:
    made = Directory()
    made.update(WORLD, EVERYTHING)
    return made


def test_endpoints_are_known_in_their_vrf() -> None:
    known = directory()
    for number in (1, 2):
        assert known.knows(1, address(number))
        assert not known.knows(2, address(number))
    assert known.knows(1, IPv6Address("2001:db8::2"))
    assert known.knows(1, GATEWAY)
    assert not known.knows(1, address(3))


def test_who_has_an_address_is_known_by_it() -> None:
    known = directory()
    assert known.endpoint(1, address(1)) == local(1)
    assert known.endpoint(1, IPv6Address("2001:db8::2")) == remote(2, v6=True)
    assert known.endpoint(1, GATEWAY) is None
    assert known.endpoint(2, address(1)) is None


def test_the_gateway_of_a_bridged_network_is_not_in_the_directory() -> None:
    known = directory()
    known.update(replace(WORLD, fwd_mode=FwdMode.BRIDGE), EVERYTHING)
    assert not known.knows(1, GATEWAY)
    assert known.knows(1, address(1))


def test_ports_have_a_kind() -> None:
    known = directory()
    assert known.attachment(101) == PortAttachment(ObjectKind.LOCAL, local(1), network())
    assert known.attachment(2) == PortAttachment(ObjectKind.VTEP)
    assert known.attachment(1) == PortAttachment(ObjectKind.HOST_PORT)
    assert known.attachment(9) is None
    known.update(
        replace(WORLD, uplinks=(Uplink(ofport=9, mac="52:54:00:00:00:01"),)),
        Changes.of(ObjectKind.UPLINKS),
    )
    assert known.attachment(9) == PortAttachment(ObjectKind.UPLINKS)


def test_the_port_for_bgp_is_known() -> None:
    known = directory()
    own, peer = IPv4Address("50.1.1.1"), IPv4Address("50.1.1.2")
    router = Router(ofport=80, mac="06:02:32:01:01:01", ip=own, peer=peer)
    known.update(replace(WORLD, router=router), Changes.of(ObjectKind.ROUTER))
    assert known.attachment(80) == PortAttachment(ObjectKind.ROUTER)
    known.update(WORLD, Changes.of(ObjectKind.ROUTER))
    assert known.attachment(80) is None


def test_what_is_gone_is_forgotten() -> None:
    known = directory()
    known.update(without_local(WORLD, local(1).key), Changes.of(ObjectKind.LOCAL, {local(1).key}))
    assert not known.knows(1, address(1))
    assert known.attachment(101) is None
    known.update(replace(WORLD, vteps={}), Changes.of(ObjectKind.VTEP, {PEER}))
    assert known.attachment(2) is None
    known.update(replace(WORLD, networks={}), Changes.of(ObjectKind.NETWORK, {NET}))
    assert not known.knows(1, address(2))
    assert not known.knows(1, GATEWAY)


def test_a_port_given_to_another_pod_is_the_other_pods() -> None:
    known = directory()
    blue = NetworkId("net.blue")
    heir = replace(local(5, ofport=101), network=blue)
    networks = {**WORLD.networks, blue: network(blue, vrf=2)}
    after = replace(with_local(without_local(WORLD, local(1).key), heir), networks=networks)
    known.update(
        after,
        Changes.of(ObjectKind.LOCAL, {local(1).key, heir.key})
        | Changes.of(ObjectKind.NETWORK, {blue}),
    )
    assert known.attachment(101) == PortAttachment(ObjectKind.LOCAL, heir, networks[blue])
