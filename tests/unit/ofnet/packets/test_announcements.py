"""Who is announced when: on the vlan bridge of bridged networks, on which VLAN, how often."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest

from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.openflow import packets
from ofnet.openflow.actions import PORT_NORMAL, Output, SetField
from ofnet.openflow.packets import Neighbour
from ofnet.packets.announcements import REPEATS, ROUNDS, Announcements
from ofnet.packets.packetin import PacketOut
from ofnet.world import ArpMode, Bridge, FwdMode, LocalEndpoint, Uplink, World
from tests.unit.ofnet.announcements import EMPTY, GROUP_VLAN, UPLINKS, grouped, holding, of
from tests.unit.ofnet.worlds import address, local, mac, with_local, without_local

Heard = tuple[IPv4Address, int, int]
"""Address, VLAN, port."""


def heard(sent: Iterable[PacketOut]) -> set[Heard]:
    return {one(frame) for frame in sent}


def one(sent: PacketOut) -> Heard:
    arp = packets.parse_arp(sent.data)
    assert arp is not None
    (vlan,) = [a.value for a in sent.actions if isinstance(a, SetField) and a.name == "vlan_vid"]
    (port,) = [a.port for a in sent.actions if isinstance(a, Output)]
    assert isinstance(vlan, int)
    return arp.sender_ip, vlan, port


@pytest.fixture
def book() -> Announcements:
    return Announcements(Bridge.VLAN, EMPTY)


def rounds(book: Announcements) -> list[set[Heard]]:
    """Play all rounds that are left."""
    played = []
    while book.rounds_left:
        played.append(heard(book.take_round()))
    return played


def test_a_new_endpoint_is_announced_on_its_networks_vlan(book: Announcements) -> None:
    book.update(holding(local(1)), of(local(1)))
    assert heard(book.take_new().announced) == {(address(1), 1, 30)}
    assert book.take_new() == ([], [])
    assert rounds(book) == []


def test_a_new_endpoint_is_announced_again_while_it_is_there(book: Announcements) -> None:
    book.update(holding(local(1), local(2)), of(local(1), local(2)))
    first = book.take_new()
    assert book.take_repeat() == first
    book.update(holding(local(1)), of(local(2)))
    for _ in range(REPEATS - 1):
        assert book.repeats_left
        assert heard(book.take_repeat().announced) == {(address(1), 1, 30)}
    assert book.take_repeat() == ([], [])
    assert not book.repeats_left


def test_an_endpoint_of_ipv6_alone_advertises_itself(book: Announcements) -> None:
    own = IPv6Address("fd00::5")
    six = replace(local(1), ip=None, ip6=own, mac="02:06:00:00:00:05")
    book.update(holding(six), of(six))
    new = book.take_new()
    (sent,) = new.announced
    assert packets.parse_advertisement(sent.data) == Neighbour(address=own, mac=six.mac)
    assert sent.data[:6].hex(":") == "33:33:00:00:00:01", "to all nodes"
    body = sent.data[54:]
    pseudo = (
        own.packed
        + IPv6Address("ff02::1").packed
        + len(body).to_bytes(4, "big")
        + bytes((0, 0, 0, 58))
    )
    assert packets.checksum(pseudo + body) == 0
    (lesson,) = new.learned
    assert lesson.data[:6] == lesson.data[6:12] == bytes.fromhex("020600000005")


def test_the_switch_learns_the_port_of_a_new_endpoint(book: Announcements) -> None:
    book.update(holding(local(1)), of(local(1)))
    (lesson,) = book.take_new().learned
    assert lesson.in_port == local(1).ofport
    assert lesson.actions == (Output(PORT_NORMAL),)
    arp = packets.parse_arp(lesson.data)
    assert arp is not None
    assert (arp.sender_ip, arp.sender_mac) == (address(1), mac(1))
    assert lesson.data[:6] == lesson.data[6:12], "from its MAC to its MAC: it is not flooded"


def test_an_endpoint_whose_port_has_come_is_announced_again(book: Announcements) -> None:
    book.update(holding(local(1)), of(local(1)))
    first = book.take_new()
    book.repeat(local(1).key)
    assert book.take_new() == first
    book.repeat(local(2).key)
    assert book.take_new() == ([], []), "it is not there"


def test_an_endpoint_that_stays_is_not_announced_again(book: Announcements) -> None:
    book.update(holding(local(1)), of(local(1)))
    book.take_new()
    book.update(holding(replace(local(1), dscp=10)), of(local(1)))
    book.update(holding(replace(local(1), dscp=10)), EVERYTHING)
    assert book.take_new() == ([], [])


@pytest.mark.parametrize("other", [{"mac": "02:02:0a:09:00:01"}, {"ip": address(77)}])
def test_an_endpoint_with_another_address_is_announced(
    book: Announcements, other: dict[str, object]
) -> None:
    book.update(holding(local(1)), of(local(1)))
    book.take_new()
    moved = replace(local(1), **other)  # type: ignore[arg-type]
    book.update(holding(moved), of(local(1)))
    assert heard(book.take_new().announced) == {(moved.ip, 1, 30)}


def test_an_endpoint_that_went_before_its_turn_is_not_announced(book: Announcements) -> None:
    book.update(holding(grouped(1)), of(grouped(1)))
    book.update(EMPTY, of(grouped(1)))
    assert book.take_new() == ([], [])
    assert rounds(book) == [set()] * ROUNDS


def test_a_member_has_its_whole_group_announced_in_rounds(book: Announcements) -> None:
    first, second, stranger = grouped(1), grouped(2), grouped(3, group=6)
    book.update(holding(first, stranger), of(first, stranger))
    rounds(book)
    book.update(holding(first, stranger, second), of(second))
    assert heard(book.take_new().announced) >= {(address(2), 1, 30)}
    both = {(address(1), GROUP_VLAN, 30), (address(2), GROUP_VLAN, 30)}
    assert rounds(book) == [both] * ROUNDS


def test_a_group_that_is_launched_again_meanwhile_starts_anew(book: Announcements) -> None:
    book.update(holding(grouped(1)), of(grouped(1)))
    rounds(book)
    launched = replace(holding(grouped(1)), launches={5: 1})
    book.update(launched, of(grouped(1)))
    book.take_round()
    book.update(launched, of(grouped(1)))
    assert len(rounds(book)) == ROUNDS - 1
    book.update(replace(launched, launches={5: 2}), of(grouped(1)))
    assert len(rounds(book)) == ROUNDS
    assert heard(book.take_new().announced) == {(address(1), 1, 30)}


def test_a_group_whose_vlan_becomes_known_is_announced(book: Announcements) -> None:
    late = replace(grouped(1), group_vlan=0)
    book.update(holding(late), of(late))
    assert rounds(book) == []
    book.update(holding(grouped(1)), of(late))
    assert len(rounds(book)) == ROUNDS


def test_the_first_uplink_to_come_up_has_all_announced(book: Announcements) -> None:
    down = tuple(replace(uplink, up=False) for uplink in UPLINKS)
    quiet = replace(holding(local(1), grouped(2)), uplinks=down)
    book.update(quiet, EVERYTHING)
    assert book.take_new().announced == []
    rounds(book)
    one_up = replace(quiet, uplinks=(down[0], UPLINKS[1]))
    book.update(one_up, Changes.of(ObjectKind.UPLINKS))
    assert heard(book.take_new().announced) == {(address(1), 1, 31), (address(2), 1, 31)}
    assert rounds(book) == [{(address(2), GROUP_VLAN, 31)}] * ROUNDS
    book.update(replace(one_up, uplinks=UPLINKS), Changes.of(ObjectKind.UPLINKS))
    assert book.take_new() == ([], [])
    assert not book.rounds_left


def test_each_endpoint_is_announced_by_the_same_card_of_a_bond(book: Announcements) -> None:
    many = [local(number) for number in range(1, 20)]
    bonded = replace(holding(*many), uplinks=UPLINKS)
    book.update(bonded, of(*many))
    first = heard(book.take_new().announced)
    assert {port for _, _, port in first} == {30, 31}
    assert len(first) == len(many)
    book.update(replace(bonded, arp_mode=ArpMode.FLOOD), EVERYTHING)
    assert heard(book.take_new().announced) == first


class Garps:
    """The original's TestOfnetVlanGArpInject: what is sent in rounds, in units of 15 frames."""

    def __init__(self) -> None:
        self.world = replace(EMPTY, uplinks=())
        self.book = Announcements(Bridge.VLAN, self.world)
        self.sent = 0

    def put(self, *endpoints: LocalEndpoint) -> None:
        self._become(replace(self.world, local={e.key: e for e in endpoints}), of(*endpoints))

    def launch(self, group: int) -> None:
        launches = {group: self.world.launches.get(group, 0) + 1}
        self._become(replace(self.world, launches=launches), Changes())

    def uplinks(self, *up: bool) -> None:
        cards = [Uplink(ofport=30 + n, mac="52:54:00:00:00:0a", up=one) for n, one in enumerate(up)]
        self._become(replace(self.world, uplinks=tuple(cards)), Changes.of(ObjectKind.UPLINKS))

    def cycles(self) -> float:
        while self.book.rounds_left:
            self.sent += len(self.book.take_round())
        return self.sent / ROUNDS

    def _become(self, world: World, changes: Changes) -> None:
        self.world = world
        self.book.update(world, changes)


def test_the_originals_announcements_of_groups_and_uplinks() -> None:
    """Two groups, a third endpoint, one that goes; a bond, its cards by turns; a single uplink.

    Nothing is sent into the void, so an uplink is there from the beginning.
    """
    garps = Garps()
    garps.uplinks(True)
    five, six, seven = grouped(5, group=5), grouped(6, group=6), grouped(7, group=6)
    garps.put(five, six)
    assert garps.cycles() == 2
    garps.put(five, six, seven)
    assert garps.cycles() == 4, "the group's first endpoint once more"
    garps.put(five, seven)
    garps.launch(6)
    assert garps.cycles() == 5
    garps.uplinks()
    garps.uplinks(True, True, True)
    assert garps.cycles() == 7, "a bond of three comes"
    garps.uplinks(False, True, True)
    garps.uplinks(True, True, True)
    assert garps.cycles() == 7, "one of its cards went and came"
    garps.uplinks(False, False, False)
    garps.uplinks(True, False, False)
    assert garps.cycles() == 9, "the first card after none"
    garps.uplinks(True, True, True)
    assert garps.cycles() == 9, "the others"
    garps.uplinks()
    garps.uplinks(True)
    assert garps.cycles() == 11, "another uplink"
    garps.uplinks(False)
    garps.uplinks(True)
    assert garps.cycles() == 13, "which went and came"


def test_flooding_has_all_announced(book: Announcements) -> None:
    book.update(holding(local(1), grouped(2)), EVERYTHING)
    book.take_new()
    rounds(book)
    flooding = replace(holding(local(1), grouped(2)), arp_mode=ArpMode.FLOOD)
    book.update(flooding, EVERYTHING)
    assert {who for who, _, _ in heard(book.take_new().announced)} == {address(1), address(2)}
    assert len(rounds(book)) == ROUNDS
    book.update(with_local(flooding, local(3)), of(local(3)))
    assert heard(book.take_new().announced) == {(address(3), 1, 30)}
    book.update(replace(flooding, arp_mode=ArpMode.PROXY), EVERYTHING)
    assert book.take_new() == ([], [])


@pytest.mark.parametrize(
    ("bridge", "mode"),
    [
        (Bridge.VLAN, FwdMode.ROUTING),
        (Bridge.VXLAN, FwdMode.BRIDGE),
        (Bridge.VXLAN, FwdMode.ROUTING),
    ],
)
def test_other_bridges_and_modes_announce_nothing(bridge: Bridge, mode: FwdMode) -> None:
    book = Announcements(bridge, replace(EMPTY, fwd_mode=mode, uplinks=()))
    book.update(replace(holding(grouped(1)), fwd_mode=mode), EVERYTHING)
    book.repeat(grouped(1).key)
    assert book.take_new() == ([], [])
    assert not book.rounds_left


def test_without_an_uplink_nothing_is_announced(book: Announcements) -> None:
    book.update(replace(EMPTY, uplinks=()), Changes.of(ObjectKind.UPLINKS))
    lonely = replace(holding(grouped(1)), uplinks=())
    book.update(lonely, of(grouped(1)))
    book.update(without_local(lonely, local(9).key), Changes())
    assert book.take_new().announced == []
    assert rounds(book) == [set()] * ROUNDS
