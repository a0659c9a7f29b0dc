"""Uplinks: the cards of the command line are trunks of the vlan bridge, known to the World."""

from dataclasses import replace

import pytest

from core.errors import SwitchUnavailable
from netplugin.ovsdb import PortRow, PortSpec
from netplugin.uplinks import UPLINK_ENDPOINT_ID, Uplinks
from netplugin.world import WorldBuilder
from ofnet.world import Bridge, FwdMode, Uplink
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.records import HOST

MACS = {"eth1": "52:54:00:00:00:01", "eth2": "52:54:00:00:00:02"}


def uplinks_of(world: WorldBuilder) -> tuple[Uplink, ...]:
    return world.take(Bridge.VLAN)[0].uplinks


def rows(outside: Outside) -> dict[str, PortRow]:
    return dict(outside.ovsdb.ports(Bridge.VLAN))


@pytest.fixture
def world() -> WorldBuilder:
    return WorldBuilder(HOST, FwdMode.BRIDGE)


@pytest.fixture
def cards(outside: Outside) -> Outside:
    """Return a host with both cards; the switch numbers their ports 7 and 8."""
    outside.links.there.update(dict.fromkeys(MACS))
    outside.ovsdb.given.update(eth1=7, eth2=8)
    return outside


def of(outside: Outside, world: WorldBuilder, *names: str) -> Uplinks:
    return Uplinks({name: MACS[name] for name in names}, outside.ovsdb, world)


async def test_the_cards_become_trunks_in_their_order(cards: Outside, world: WorldBuilder) -> None:
    await of(cards, world, "eth2", "eth1").converge()
    made = rows(cards)
    assert {name: (row.tag, row.type) for name, row in made.items()} == dict.fromkeys(MACS, (0, ""))
    assert all(row.external_ids["endpoint-id"] == UPLINK_ENDPOINT_ID for row in made.values())
    assert uplinks_of(world) == (
        Uplink(ofport=8, mac=MACS["eth2"], up=False),
        Uplink(ofport=7, mac=MACS["eth1"], up=False),
    )


async def test_once_more_changes_nothing(cards: Outside, world: WorldBuilder) -> None:
    uplinks = of(cards, world, "eth1", "eth2")
    await uplinks.converge()
    before, asked = rows(cards), cards.faults.reached.copy()
    world.take(Bridge.VLAN)
    await uplinks.converge()
    assert rows(cards) == before
    assert cards.faults.reached == asked
    assert not world.dirty(Bridge.VLAN)


async def test_a_card_no_longer_named_leaves(cards: Outside, world: WorldBuilder) -> None:
    await of(cards, world, "eth1", "eth2").converge()
    await of(cards, world, "eth2").converge()
    assert set(rows(cards)) == {"eth2"}
    assert [uplink.mac for uplink in uplinks_of(world)] == [MACS["eth2"]]


async def test_other_ports_are_left_alone(cards: Outside, world: WorldBuilder) -> None:
    foreign = PortSpec(name="vvport1", external_ids={"endpoint-id": "n1.default-c1"})
    await cards.ovsdb.add_port(Bridge.VLAN, foreign)
    await of(cards, world, "eth1").converge()
    await of(cards, world).converge()
    assert set(rows(cards)) == {"vvport1"}
    assert uplinks_of(world) == ()


async def test_a_card_that_is_not_there_yet_is_no_way_out(
    cards: Outside, world: WorldBuilder
) -> None:
    del cards.links.there["eth1"]
    uplinks = of(cards, world, "eth1", "eth2")
    await uplinks.converge()
    assert [uplink.ofport for uplink in uplinks_of(world)] == [8]
    cards.links.there["eth1"] = None
    for watcher in cards.links.watchers:
        watcher()
    await uplinks.converge()
    assert [uplink.ofport for uplink in uplinks_of(world)] == [7, 8]


async def test_a_card_taken_off_by_hand_comes_back(cards: Outside, world: WorldBuilder) -> None:
    uplinks = of(cards, world, "eth1")
    await uplinks.converge()
    cards.ovsdb.lose("eth1")
    await uplinks.converge()
    assert set(rows(cards)) == {"eth1"}


async def test_a_database_that_does_not_answer_is_told(cards: Outside, world: WorldBuilder) -> None:
    cards.faults.failing["row"] = SwitchUnavailable("no answer")
    with pytest.raises(SwitchUnavailable):
        await of(cards, world, "eth1").converge()
    assert uplinks_of(world) == ()


async def test_a_card_is_up_with_its_link(cards: Outside, world: WorldBuilder) -> None:
    keeper = of(cards, world, "eth1", "eth2")
    await keeper.converge()
    cards.ovsdb.show(ports={**rows(cards), "eth2": replace(rows(cards)["eth2"], link_state="up")})
    await keeper.converge()
    assert [uplink.up for uplink in uplinks_of(world)] == [False, True]
