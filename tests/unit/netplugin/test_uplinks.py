"""Uplinks on the vlan bridge, and whether their links work."""

from dataclasses import replace

from netplugin.ovsdb import PortSpec
from netplugin.uplinks import Uplinks
from netplugin.world import WorldBuilder
from ofnet.world import Bridge, FwdMode, Uplink
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.records import HOST

MACS = {"eth1": "52:54:00:00:00:0a", "eth2": "52:54:00:00:00:0b"}


def seen(world: WorldBuilder) -> list[tuple[str, bool]]:
    return [(uplink.mac, uplink.up) for uplink in uplinks(world)]


def uplinks(world: WorldBuilder) -> tuple[Uplink, ...]:
    return world.take(Bridge.VLAN)[0].uplinks


async def test_cards_are_ports_in_the_order_given_and_up_with_their_links(
    outside: Outside,
) -> None:
    world = WorldBuilder(HOST, FwdMode.BRIDGE)
    outside.links.there.update(dict.fromkeys(MACS))
    keeper = Uplinks(MACS, outside.ovsdb, world)
    await keeper.converge()
    first, second = MACS.values()
    assert seen(world) == [(first, False), (second, False)]
    rows = outside.ovsdb.ports()
    outside.ovsdb.show(ports={**rows, "eth2": replace(rows["eth2"], link_state="up")})
    await keeper.converge()
    assert world.dirty(Bridge.VLAN)
    assert seen(world) == [(first, False), (second, True)]


async def test_a_card_no_longer_named_leaves_and_others_ports_stay(outside: Outside) -> None:
    world = WorldBuilder(HOST, FwdMode.BRIDGE)
    outside.links.there.update(dict.fromkeys(MACS))
    await Uplinks(MACS, outside.ovsdb, world).converge()
    await outside.ovsdb.add_port(Bridge.VLAN, PortSpec(name="tap0", type="internal"))
    await Uplinks({"eth1": MACS["eth1"]}, outside.ovsdb, world).converge()
    assert outside.ovsdb.ports().keys() == {"eth1", "tap0"}
    assert [uplink.mac for uplink in uplinks(world)] == [MACS["eth1"]]
