"""`uplink.uplinks` on a real switch: a card, a bond, and which of its cards count.

The bond's partner is another bridge of the same switch, at the other ends of the cards.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.ids import HostLabel
from netplugin.bridges.uplink.uplinks import BOND, Uplinks, usable
from netplugin.ovsdb import BridgeSpec, Ovsdb
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from ofnet.world import Bridge, FwdMode
from tests.bed.ovs import OvsHost

pytestmark = [pytest.mark.ovs]

CARDS = tuple(f"up{number}" for number in range(5))
PATIENCE = 30.0
SPEC = BridgeSpec(name=Bridge.VLAN, controller="tcp:127.0.0.1:6634", datapath_type="netdev")


@pytest.fixture(scope="module")
def cards(ovs_module: OvsHost) -> OvsHost:
    """Give the switch five cards whose other ends are `far-<card>`, and a partner."""
    for name in CARDS:
        link = ["ip", "link", "add", name, "up", "type", "veth", "peer", "name", f"far-{name}"]
        ovs_module.namespace.run(link)
        set_far(ovs_module, name, "up")
    ovs_module.vsctl("add-br", "partner", "--", "set", "bridge", "partner", "datapath_type=netdev")
    return ovs_module


@pytest.fixture
async def ovsdb(cards: OvsHost) -> AsyncIterator[Ovsdb]:
    """Give a connection to the switch, with an empty vlan bridge and a partner without ports."""
    ovsdb = await Ovsdb.connect(f"unix:{cards.db_socket}")
    try:
        await ovsdb.delete_bridge(Bridge.VLAN)
        await ovsdb.ensure_bridge(SPEC)
        for name in cards.vsctl("list-ports", "partner").split():
            cards.vsctl("del-port", name)
        yield ovsdb
    finally:
        await ovsdb.close()


def set_far(ovs: OvsHost, card: str, state: str) -> None:
    ovs.namespace.run(["ip", "link", "set", f"far-{card}", state])


def uplinks(ovsdb: Ovsdb, *names: str) -> Uplinks:
    macs = dict.fromkeys(names, "52:54:00:00:00:01")
    return Uplinks(macs, ovsdb, WorldBuilder(HostLabel("h1"), FwdMode.BRIDGE))


async def in_use(ovsdb: Ovsdb, port: str, expected: set[str]) -> None:
    """Wait until just these cards count."""
    seen: frozenset[str] = frozenset()
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                changed = ovsdb.changed()
                row = ovsdb.ports(Bridge.VLAN).get(port)
                seen = usable(row) if row is not None else frozenset()
                if seen == expected:
                    return
                await changed.wait()
    except TimeoutError:
        pytest.fail(f"cards in use: {sorted(seen)}, not {sorted(expected)}")


async def test_uplinks_come_and_go_whole(cards: OvsHost, ovsdb: Ovsdb) -> None:
    """The original's TestUplinkPortCreateDelete and UplinkUpgrade: a card, a bond, a card, none."""
    await uplinks(ovsdb, "up0").converge()
    assert cards.vsctl("list-ports", Bridge.VLAN).split() == ["up0"]
    assert cards.vsctl("get", "port", "up0", "vlan_mode", "lacp").split() == ["trunk", "[]"]
    await in_use(ovsdb, "up0", {"up0"})
    await uplinks(ovsdb, "up0", "up1").converge()
    assert cards.vsctl("list-ports", Bridge.VLAN).split() == [BOND]
    assert cards.vsctl("list-ifaces", Bridge.VLAN).split() == ["up0", "up1"]
    columns = ("vlan_mode", "bond_mode", "lacp", "other_config", "external_ids")
    assert cards.vsctl("get", "port", BOND, *columns).splitlines() == [
        "trunk",
        "balance-tcp",
        "active",
        '{lacp-fallback-ab="true"}',
        "{endpoint-id=uplinkPort}",
    ]
    await in_use(ovsdb, BOND, {await alone(ovsdb)})
    numbers = ovsdb.ports()[BOND].numbers
    assert len(numbers) == 2
    assert all(number > port_names.LAST_ENDPOINT for number in numbers), "pods have the lower ones"
    await uplinks(ovsdb, "up1").converge()
    assert cards.vsctl("list-ifaces", Bridge.VLAN).split() == ["up1"]
    await in_use(ovsdb, "up1", {"up1"})
    assert all(number > port_names.LAST_ENDPOINT for number in ovsdb.ports()["up1"].numbers)
    await uplinks(ovsdb).converge()
    assert cards.vsctl("list-ifaces", Bridge.VLAN).split() == []


async def test_cards_count_by_link_and_by_lacp(cards: OvsHost, ovsdb: Ovsdb) -> None:
    """The original's TestPortActiveLinksStateChange and TestPortLACPStatusChange, on five cards.

    Without a partner a single card counts. What an administrator sets on the bond stays.
    """
    keeper = uplinks(ovsdb, *CARDS)
    await keeper.converge()
    cards.vsctl("set", "port", BOND, "other_config:lacp-time=fast")
    usual = await alone(ovsdb)
    far = [f"far-{name}" for name in CARDS]
    cards.vsctl(*lag(far))
    await in_use(ovsdb, BOND, set(CARDS))
    set_far(cards, usual, "down")
    await in_use(ovsdb, BOND, {*CARDS} - {usual})
    set_far(cards, usual, "up")
    await in_use(ovsdb, BOND, {*CARDS})
    cards.vsctl("del-port", "lag", "--", *lag(far[3:]))
    await in_use(ovsdb, BOND, {*CARDS[3:]})
    await keeper.converge()
    assert "lacp-time=fast" in cards.vsctl("get", "port", BOND, "other_config")


def lag(cards: list[str]) -> list[str]:
    """Have the partner speak LACP on these cards."""
    return ["add-bond", "partner", "lag", *cards, "lacp=active", "bond_mode=balance-tcp"]


async def alone(ovsdb: Ovsdb) -> str:
    """Wait for the card that is used where nobody speaks LACP."""
    async with asyncio.timeout(PATIENCE):
        while True:
            changed = ovsdb.changed()
            row = ovsdb.ports(Bridge.VLAN)[BOND]
            if len(used := usable(row)) == 1 and not any(one.lacp_current for one in row.members):
                return min(used)
            await changed.wait()
