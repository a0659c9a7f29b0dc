"""What packets lead to: who is answered, who is not, and what is counted."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofnet import packets
from ofnet.actions import PORT_CONTROLLER, PORT_TABLE
from ofnet.changes import EVERYTHING
from ofnet.directory import Directory
from ofnet.packetin import PacketOut, Reaction, react
from ofnet.tables import Mode
from ofnet.wire import PacketIn
from ofnet.world import Uplink
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import address, local, remote, world

POD, VTEP, HOST, UPLINK, UNKNOWN = 101, 2, 1, 30, 99


@pytest.fixture(scope="module")
def directory() -> Directory:
    made = Directory()
    full = world(here=(local(1), local(2)), there=(remote(3),))
    uplink = Uplink(ofport=UPLINK, mac="52:54:00:00:00:0a")
    made.update(replace(full, uplinks=(uplink,)), EVERYTHING)
    return made


def arp(target: IPv4Address, *, port: int = POD, **more: bytes) -> PacketIn:
    return PacketIn(0, port, None, frames.arp(1, target.packed, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [address(2), address(3), IPv4Address("10.1.255.254")])
def test_known_addresses_and_gateways_are_answered(
    directory: Directory, target: IPv4Address
) -> None:
    reaction = react(arp(target), Mode.VROUTER, directory)
    assert reaction.counters == ("ArpPktRcvd", "ArpReqRcvd", "ArpReqRespSent")
    assert reaction.send is not None
    assert (reaction.send.port, reaction.send.in_port) == (POD, PORT_CONTROLLER)
    reply = packets.parse_arp(reaction.send.data)
    assert reply is not None
    assert reply.operation == packets.ARP_REPLY
    assert (reply.sender_mac, reply.sender_ip) == ("00:00:11:11:11:11", target)


@pytest.mark.parametrize(
    ("packet", "counter"),
    [
        (arp(address(9)), "ArpReqUnknownDest"),
        (arp(address(2), port=UNKNOWN), "ArpReqInvalidPortVlan"),
        (arp(address(2), port=VTEP), "ArpReqInvalidPortVlan"),
        (arp(address(2), sender_ip=frames.UNSET), "ArpProbe"),
        (arp(address(1)), "ArpProbe"),
    ],
)
def test_others_are_not_answered(directory: Directory, packet: PacketIn, counter: str) -> None:
    expected = Reaction(("ArpPktRcvd", "ArpReqRcvd", counter))
    assert react(packet, Mode.VROUTER, directory) == expected


def test_the_host_is_told_the_router_for_any_address(directory: Directory) -> None:
    reaction = react(arp(address(77), port=HOST), Mode.VROUTER, directory)
    assert reaction.send is not None
    assert reaction.send.port == HOST


def test_replies_are_counted_only(directory: Directory) -> None:
    reply = PacketIn(0, POD, None, frames.arp(1, address(2).packed, operation=2))
    assert react(reply, Mode.VROUTER, directory) == Reaction(("ArpPktRcvd", "ArpRespRcvd"))


@pytest.mark.parametrize(
    ("mode", "counter"),
    [
        (Mode.VLAN, "ArpRequestUnknownSrcDst"),
        (Mode.VXLAN, "ArpRequestUnknownSrcDst"),
        (Mode.VLROUTER, "ArpReqUnknownDest"),
    ],
)
def test_modes_without_endpoints_answer_nobody(
    directory: Directory, mode: Mode, counter: str
) -> None:
    reaction = react(arp(address(2)), mode, directory)
    assert reaction == Reaction(("ArpPktRcvd", "ArpReqRcvd", counter))


def test_dns_goes_on_untouched_through_the_tables(directory: Directory) -> None:
    query = frames.udp(1, 2, 53)
    assert react(PacketIn(0, POD, None, query), Mode.VROUTER, directory) == Reaction(
        ("dnsPktForward",),
        PacketOut(data=packets.tagged(query, 4093), port=PORT_TABLE, in_port=POD),
    )


def test_dns_from_outside_is_dropped(directory: Directory) -> None:
    query = frames.udp(1, 2, 53)
    from_tunnel = PacketIn(0, VTEP, 10001, query)
    assert react(from_tunnel, Mode.VROUTER, directory) == Reaction(("dnsPktVtep-ERROR",))
    tagged = PacketIn(0, UPLINK, None, packets.tagged(query, 5))
    assert react(tagged, Mode.VLAN, directory) == Reaction(("dnsPktUplink-ERROR",))


@given(
    st.integers(0, 200),
    st.sampled_from(Mode),
    st.binary(max_size=100),
    st.sampled_from([b"\x08\x06", b"\x08\x00", b"\x86\xdd", b"\x81\x00\x00\x05\x08\x06"]),
)
def test_no_packet_raises(port: int, mode: Mode, noise: bytes, ethertype: bytes) -> None:
    react(PacketIn(0, port, None, bytes(12) + ethertype + noise), mode, Directory())
