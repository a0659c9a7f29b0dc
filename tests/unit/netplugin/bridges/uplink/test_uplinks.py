"""Uplinks: one card is a trunk of the vlan bridge, several are a bond; the World knows the cards.

The original's tests: TestUplinkPortCreateDelete, TestPortActiveLinksStateChange,
TestPortLACPStatusChange, UplinkUpgrade.
"""

from dataclasses import replace

import pytest

from core.errors import SwitchUnavailable
from netplugin.bridges.uplink.uplinks import BOND, UPLINK_ENDPOINT_ID, Uplinks, unusable, usable
from netplugin.ovsdb import BondMember, PortRow, PortSpec
from netplugin.world.builder import WorldBuilder
from ofnet.world import Bridge, FwdMode, Uplink
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.port_rows import port_row
from tests.unit.netplugin.records import HOST
from tests.unit.netplugin.worlds import altered

MACS = {"eth1": "52:54:00:00:00:01", "eth2": "52:54:00:00:00:02"}
NUMBERS = {"eth1": 7, "eth2": 8}


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
    outside.ovsdb.given.update(NUMBERS)
    return outside


def of(outside: Outside, world: WorldBuilder, *names: str) -> Uplinks:
    return Uplinks({name: MACS[name] for name in names}, outside.ovsdb, world)


def linked(outside: Outside, *, lacp: bool = True, **states: str) -> None:
    """Have the kernel say whether cards have a link; LACP has found a partner on all or none."""
    row = rows(outside)[BOND]
    known = {card.name: card.link_state for card in row.members} | states
    members = tuple(
        replace(card, link_state=known[card.name], mac_in_use=MACS[card.name], lacp_current=lacp)
        for card in row.members
    )
    bond = replace(row, members=members, active_mac=MACS["eth1"])
    outside.ovsdb.show(ports={**rows(outside), BOND: bond})


@pytest.mark.parametrize("name", list(MACS))
async def test_one_card_becomes_a_trunk_of_its_name(
    cards: Outside, world: WorldBuilder, name: str
) -> None:
    await of(cards, world, name).converge()
    (row,) = rows(cards).values()
    assert (row.name, row.tag, row.type, row.members) == (name, 0, "", ())
    assert row.external_ids["endpoint-id"] == UPLINK_ENDPOINT_ID
    assert uplinks_of(world) == (Uplink(ofport=NUMBERS[name], mac=MACS[name], up=False),)


async def test_several_cards_become_one_bond(cards: Outside, world: WorldBuilder) -> None:
    await of(cards, world, "eth2", "eth1").converge()
    (row,) = rows(cards).values()
    assert (row.name, row.tag, {card.name for card in row.members}) == (BOND, 0, set(MACS))
    assert row.external_ids["endpoint-id"] == UPLINK_ENDPOINT_ID
    mac = MACS["eth2"]
    assert uplinks_of(world) == (
        Uplink(ofport=8, mac=mac, up=False),
        Uplink(ofport=7, mac=mac, up=False),
    ), "in the command line's order, all with the first one's address"


@pytest.mark.parametrize("names", [("eth1",), ("eth1", "eth2"), ("eth2", "eth1")])
async def test_once_more_and_after_a_restart_nothing_changes(
    cards: Outside, world: WorldBuilder, names: tuple[str, ...]
) -> None:
    uplinks = of(cards, world, *names)
    await uplinks.converge()
    before, asked = rows(cards), cards.faults.reached.copy()
    world.take(Bridge.VLAN)
    await uplinks.converge()
    await of(cards, world, *names).converge()
    assert rows(cards) == before
    assert cards.faults.reached == asked
    assert Bridge.VLAN not in altered(world)


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (("eth1",), ("eth1", "eth2"), {BOND}),
        (("eth1", "eth2"), ("eth2",), {"eth2"}),
        (("eth1",), ("eth2",), {"eth2"}),
        (("eth1", "eth2"), (), set()),
        (("eth1",), (), set()),
    ],
)
async def test_another_list_of_cards_replaces_the_port(
    cards: Outside,
    world: WorldBuilder,
    before: tuple[str, ...],
    after: tuple[str, ...],
    left: set[str],
) -> None:
    await of(cards, world, *before).converge()
    await of(cards, world, *after).converge()
    assert set(rows(cards)) == left
    assert [uplink.ofport for uplink in uplinks_of(world)] == [NUMBERS[name] for name in after]


async def test_a_bond_of_the_originals_is_taken_over(cards: Outside, world: WorldBuilder) -> None:
    await cards.ovsdb.add_port(Bridge.VLAN, PortSpec(name=BOND, members=("eth1", "eth2")))
    before = rows(cards)
    await of(cards, world, "eth1", "eth2").converge()
    assert rows(cards) == before
    await of(cards, world, "eth1").converge()
    assert set(rows(cards)) == {"eth1"}


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
    assert set(rows(cards)) == {BOND}
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
    keeper = of(cards, world, "eth1")
    await keeper.converge()
    for state, up in (("up", True), ("down", False), ("up", True)):
        row = replace(rows(cards)["eth1"], link_state=state)
        cards.ovsdb.show(ports={"eth1": row})
        await keeper.converge()
        assert [uplink.up for uplink in uplinks_of(world)] == [up]


async def test_the_cards_of_a_bond_are_up_one_by_one(cards: Outside, world: WorldBuilder) -> None:
    keeper = of(cards, world, "eth1", "eth2")
    await keeper.converge()
    for first, second in (("down", "up"), ("up", "up"), ("up", "down"), ("down", "down")):
        linked(cards, eth1=first, eth2=second)
        await keeper.converge()
        up = [uplink.up for uplink in uplinks_of(world)]
        assert up == [first == "up", second == "up"]


# -- which cards of a bond count -----------------------------------------------------------------

FIVE = tuple(f"eth{number}" for number in range(5))


def card(name: str, *, link: str = "up", lacp: bool | None = True) -> BondMember:
    mac = f"52:54:00:00:00:{int(name[3:]):02x}"
    return BondMember(name=name, ofport=1, mac_in_use=mac, link_state=link, lacp_current=lacp)


def bond(*changed: BondMember, active: str | None = "52:54:00:00:00:00") -> PortRow:
    """Return a bond of five cards, all in order but those given."""
    members = {name: card(name) for name in FIVE} | {one.name: one for one in changed}
    ports = tuple(members.values())
    return port_row(BOND, bridge=Bridge.VLAN, members=ports, active_mac=active)


def all_but(*names: str) -> set[str]:
    return set(FIVE) - set(names)


def why(*changed: BondMember) -> dict[str, str]:
    row = bond(*changed)
    return unusable(row, usable(row))


def test_active_links_follow_their_state() -> None:
    """Of five: one goes down and comes back."""
    assert usable(bond()) == all_but()
    assert usable(bond(card("eth0", link="down"))) == all_but("eth0")
    assert why(card("eth0", link="down")) == {"eth0": "no link"}
    assert usable(bond()) == all_but()


def test_active_links_follow_lacp() -> None:
    """Of five: LACP loses one and finds it again, then loses three at once."""
    assert usable(bond(card("eth0", lacp=False))) == all_but("eth0")
    assert why(card("eth0", lacp=False)) == {"eth0": "no LACP partner"}
    assert usable(bond()) == all_but()
    lost = [card(name, lacp=False) for name in FIVE[:3]]
    assert usable(bond(*lost)) == all_but(*FIVE[:3])


def test_without_a_partner_the_first_counts_where_flows_choose() -> None:
    """The `bundle` action knows of links and of LACP, not of the card that a bond falls back to."""
    order = ["eth2", *FIVE]
    alone = [card(name, lacp=False) for name in FIVE]
    assert usable(bond(*alone, active="52:54:00:00:00:03"), order) == {"eth2"}
    alone[2] = card("eth2", lacp=False, link="down")
    assert usable(bond(*alone, active="52:54:00:00:00:03"), order) == {"eth0"}
    assert usable(bond(*alone[:4], active="52:54:00:00:00:03"), order) == {"eth4"}, "LACP knows"


@pytest.mark.parametrize(
    ("fwd_mode", "used"), [(FwdMode.BRIDGE, "eth1"), (FwdMode.ROUTING, "eth2")]
)
async def test_agent_and_switch_use_the_same_card(
    cards: Outside, fwd_mode: FwdMode, used: str
) -> None:
    """The bond falls back to eth1, flows try eth2 first."""
    world = WorldBuilder(HOST, fwd_mode)
    uplinks = of(cards, world, "eth2", "eth1")
    await uplinks.converge()
    linked(cards, lacp=False, eth1="up", eth2="up")
    await uplinks.converge()
    assert [one.ofport for one in uplinks_of(world) if one.up] == [NUMBERS[used]]
    assert uplinks.faults == {name: "no LACP partner" for name in MACS if name != used}


@pytest.mark.parametrize("lacp", [False, None])
def test_without_a_partner_the_one_open_vswitch_uses_counts(lacp: bool | None) -> None:
    alone = [card(name, lacp=lacp) for name in FIVE]
    assert usable(bond(*alone, active="52:54:00:00:00:03")) == {"eth3"}
    alone[3] = card("eth3", lacp=lacp, link="down")
    assert usable(bond(*alone, active="52:54:00:00:00:03")) == set()


@pytest.mark.parametrize("active", [None, "00:00:00:00:00:00"])
def test_before_a_bond_has_found_out_nobody_counts(active: str | None) -> None:
    assert usable(bond(active=active)) == set()
