"""Who answers ARP for the tunnels' address."""

from pathlib import Path

import pytest

from netplugin.commands.underlay_checks import BridgeCard, arp_fault, arp_ignore, devices
from netplugin.ovsdb import BondMember, PortRow
from tests.unit.netplugin.port_rows import port_row

BRIDGE, CARD = "0a:00:00:00:00:01", "0a:00:00:00:00:02"


@pytest.mark.parametrize(
    ("cards", "named"),
    [
        ([], None),
        ([BridgeCard("eth0", CARD, 0)], "eth0"),
        ([BridgeCard("eth0", CARD, 1)], None),
        ([BridgeCard("eth0", CARD, 8)], None),
        ([BridgeCard("eth0", BRIDGE, 0)], None),
        ([BridgeCard("eth0", CARD, 1), BridgeCard("eth1", CARD, 0)], "eth1"),
    ],
)
def test_a_card_with_another_mac_must_not_answer(
    cards: list[BridgeCard], named: str | None
) -> None:
    fault = arp_fault("br-phy", BRIDGE, cards)
    assert (fault is None) == (named is None)
    assert fault is None or fault.startswith(f"card {named} of bridge br-phy answers ARP")


@pytest.mark.parametrize(
    ("everywhere", "card", "effective"), [(0, 0, 0), (1, 0, 1), (0, 2, 2), (1, 2, 2)]
)
def test_the_larger_setting_is_in_force(
    tmp_path: Path, everywhere: int, card: int, effective: int
) -> None:
    for name, value in (("all", everywhere), ("eth0", card)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "arp_ignore").write_text(f"{value}\n")
    assert arp_ignore("eth0", tmp_path) == effective


def port(name: str, type: str = "", *members: str) -> PortRow:  # noqa: A002 - the column's name
    cards = tuple(
        BondMember(name=one, ofport=1, mac_in_use=None, link_state=None, lacp_current=None)
        for one in members
    )
    return port_row(name, bridge="br-phy", type=type, ofport=1, members=cards)


def test_cards_are_the_ports_that_the_switch_did_not_make() -> None:
    ports = [
        port("br-phy", "internal"),
        port("vx0", "vxlan"),
        port("eth0"),
        port("b", "", "a", "c"),
    ]
    assert devices(ports) == ["a", "c", "eth0"]
