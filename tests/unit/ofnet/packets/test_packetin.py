"""What packets lead to: who is answered, who is not, and what is counted."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofnet.changes import EVERYTHING
from ofnet.channel.wire import PacketIn
from ofnet.openflow import packets
from ofnet.openflow.actions import (
    PORT_CONTROLLER,
    PORT_TABLE,
    Action,
    Load,
    Lookup,
    Output,
    SetField,
    tag,
)
from ofnet.openflow.fields import VRF
from ofnet.openflow.packets import Neighbour
from ofnet.packets.directory import Directory
from ofnet.packets.dns_answers import Outcome, Question
from ofnet.packets.packetin import PacketOut, Reaction, react
from ofnet.packets.uplink_choice import choose_uplink
from ofnet.tables import Mode, TableId
from ofnet.world import FwdMode, Router, Uplink, World, private6
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import HOST_PORT, address, ip_of, local, mac, remote, world

GATEWAY = IPv4Address("10.1.255.254")
POD, VTEP, HOST, UPLINK, UNKNOWN = 101, 2, 1, 30, 99


UPLINKS = (Uplink(ofport=UPLINK, mac="52:54:00:00:00:0a"),)
FULL = replace(world(here=(local(1), local(2)), there=(remote(3),)), uplinks=UPLINKS)
GUARDED = replace(FULL, guard=True)
BRIDGED = replace(FULL, fwd_mode=FwdMode.BRIDGE)
GATEWAY = IPv4Address("10.1.255.254")
OUTSIDER = address(200)


def directory_of(world: World) -> Directory:
    made = Directory()
    made.update(world, EVERYTHING)
    return made


@pytest.fixture(scope="module")
def directory() -> Directory:
    return directory_of(FULL)


@pytest.fixture(scope="module")
def bridged() -> Directory:
    return directory_of(BRIDGED)


def arp(target: IPv4Address, *, port: int = POD, **more: bytes) -> PacketIn:
    return PacketIn(0, port, None, frames.arp(1, target.packed, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("packet", "counter"),
    [
        (arp(address(9)), "ArpReqUnknownDest"),
        (arp(address(2), port=UNKNOWN), "ArpReqInvalidPortVlan"),
        (arp(address(2), port=VTEP), "ArpReqInvalidPortVlan"),
        (arp(address(2), port=UPLINK), "ArpReqUnknownDest"),
        (arp(address(2), sender_ip=frames.UNSET), "ArpProbe"),
        (arp(address(1)), "ArpProbe"),
    ],
)
@pytest.mark.parametrize("mode", [Mode.VROUTER, Mode.VLROUTER])
def test_routed_networks_leave_unanswered_what_the_switch_does_not_answer(
    directory: Directory, mode: Mode, packet: PacketIn, counter: str
) -> None:
    expected = Reaction(("ArpPktRcvd", "ArpReqRcvd", counter))
    assert react(packet, mode, directory, GUARDED) == expected


def test_bridged_networks_send_unknown_requests_beyond_this_host(directory: Directory) -> None:
    question = arp(address(9))
    through_tunnels = (SetField("tunnel_id", 10001), Output(VTEP))
    on_the_wire = (*tag(1), Output(UPLINK))
    for mode, actions in ((Mode.VXLAN, through_tunnels), (Mode.VLAN, on_the_wire)):
        reaction = react(question, mode, directory, GUARDED)
        assert reaction.counters[-1] == "ArpReqReinject"
        assert reaction.send == PacketOut(data=question.data, actions=actions, in_port=POD)
        alone = replace(GUARDED, vteps={}, uplinks=())
        assert react(question, mode, directory, alone).counters[-1] == "ArpReqUnknownDest"


def test_a_request_of_a_group_with_its_own_vlan_leaves_on_it() -> None:
    asker = replace(local(1), group_id=5, group_vlan=700)
    of = replace(BRIDGED, local={asker.key: asker})
    known = directory_of(of)
    on_the_wire, through_tunnels = (
        react(arp(address(9)), mode, known, of).send for mode in (Mode.VLAN, Mode.VXLAN)
    )
    assert on_the_wire is not None
    assert on_the_wire.actions == (*tag(700), Output(UPLINK))
    assert through_tunnels is not None
    assert through_tunnels.actions == (SetField("tunnel_id", 10001), Output(VTEP))


def test_the_gateway_of_a_bridged_network_is_beyond_this_host(bridged: Directory) -> None:
    for mode in (Mode.VXLAN, Mode.VLAN):
        reaction = react(arp(GATEWAY), mode, bridged, BRIDGED)
        assert reaction.counters[-1] == "ArpReqReinject"
        assert reaction.send is not None


def from_outside(mode: Mode, sender: IPv4Address, target: IPv4Address) -> PacketIn:
    """Return an ARP request from beyond this host, on the pods' network."""
    frame = frames.arp(77, target.packed, sender_ip=sender.packed)
    if mode is Mode.VXLAN:
        return PacketIn(0, VTEP, 10001, frame)
    return PacketIn(0, UPLINK, None, packets.tagged(frame, 1))


@pytest.mark.parametrize("mode", [Mode.VLAN, Mode.VXLAN])
@pytest.mark.parametrize(
    ("sender", "target", "counter"),
    [
        (OUTSIDER, address(201), "ArpRequestUnknownSrcDst"),
        (address(1), address(201), "ArpReqUnknownDestFrom{}"),
        (address(1), address(3), "ArpReqNonLocalDestFrom{}"),
        (OUTSIDER, address(3), "ArpReqNonLocalDestFrom{}"),
        (address(1), GATEWAY, "ArpReqUnknownDestFrom{}"),
    ],
)
def test_requests_from_outside_for_remote_pods_are_not_answered(
    bridged: Directory, mode: Mode, sender: IPv4Address, target: IPv4Address, counter: str
) -> None:
    outside = "Vtep" if mode is Mode.VXLAN else "Uplink"
    expected = Reaction(("ArpPktRcvd", "ArpReqRcvd", counter.format(outside)))
    assert react(from_outside(mode, sender, target), mode, bridged, BRIDGED) == expected


@pytest.mark.parametrize(
    ("mode", "back"),
    [
        (Mode.VLAN, (*tag(1), Output(UPLINK))),
        (Mode.VXLAN, (SetField("tunnel_id", 10001), Output(VTEP))),
    ],
)
def test_requests_from_outside_for_local_pods_are_answered(
    bridged: Directory, mode: Mode, back: tuple[Action, ...]
) -> None:
    question = from_outside(mode, OUTSIDER, address(1))
    reaction = react(question, mode, bridged, BRIDGED)
    assert reaction.counters[-1] == "ArpReqRespSent"
    assert reaction.send is not None
    assert reaction.send.actions == back
    assert packets.parse_arp(reaction.send.data) == packets.Arp(
        operation=packets.ARP_REPLY,
        sender_mac=mac(1),
        sender_ip=address(1),
        target_ip=OUTSIDER,
    )


@pytest.mark.parametrize("mode", [Mode.VLAN, Mode.VXLAN])
def test_requests_on_an_unknown_network_are_ignored(bridged: Directory, mode: Mode) -> None:
    frame = frames.arp(77, address(1).packed, sender_ip=OUTSIDER.packed)
    port = VTEP if mode is Mode.VXLAN else UPLINK
    strange = [
        PacketIn(0, port, None, frame),
        PacketIn(0, port, 10002, packets.tagged(frame, 2)),
        PacketIn(0, port, 0, packets.tagged(frame, 0)),
    ]
    for packet in strange:
        assert react(packet, mode, bridged, BRIDGED) == Reaction(
            ("ArpPktRcvd", "ArpReqRcvd", "ArpReqInvalidPortVlan")
        )


def test_a_request_leaves_by_one_working_nic_of_a_bond(directory: Directory) -> None:
    question = arp(address(9))
    cards = [Uplink(ofport=UPLINK + n, mac="52:54:00:00:00:0a") for n in range(3)]
    for broken in range(4):
        uplinks = tuple(replace(card, up=n >= broken) for n, card in enumerate(cards))
        sent = react(question, Mode.VLAN, directory, replace(FULL, uplinks=uplinks)).send
        way = choose_uplink(uplinks, local(1).mac)
        actions = (*tag(1), Output(way.ofport)) if way is not None else None
        assert (sent.actions if sent is not None else None) == actions
        assert (way is None) == (broken == len(cards))


def test_a_question_in_anothers_name_goes_nowhere(directory: Directory) -> None:
    spoofed = arp(address(9), sender_ip=address(2).packed)
    for mode in Mode:
        reaction = react(spoofed, mode, directory, GUARDED)
        assert reaction == Reaction(("ArpPktRcvd", "ArpReqRcvd", "ArpReqSpoofed"))
    assert react(spoofed, Mode.VXLAN, directory, FULL).counters[-1] == "ArpReqReinject"


def test_the_host_gets_the_routers_mac_for_any_address(directory: Directory) -> None:
    reaction = react(arp(address(77), port=HOST), Mode.VROUTER, directory, FULL)
    assert reaction.counters[-1] == "ArpReqRespSent"
    assert reaction.send is not None
    assert (reaction.send.actions, reaction.send.in_port) == ((Output(HOST),), PORT_CONTROLLER)
    reply = packets.parse_arp(reaction.send.data)
    assert reply is not None
    assert (reply.sender_mac, reply.sender_ip) == ("00:00:11:11:11:11", address(77))


def test_replies_are_counted_only(directory: Directory) -> None:
    reply = PacketIn(0, POD, None, frames.arp(1, address(2).packed, operation=2))
    assert react(reply, Mode.VROUTER, directory, FULL) == Reaction(("ArpPktRcvd", "ArpRespRcvd"))


def parrot(question: Question) -> Outcome:
    """Answer a message with its network and its text."""
    return f"{question.network} asks ".encode() + question.message


@pytest.mark.parametrize("mode", Mode)
def test_a_dns_request_is_answered_where_it_came_from(directory: Directory, mode: Mode) -> None:
    query = frames.udp(1, 2, 53, b"who?")
    reply = packets.udp_reply(query, b"net.default asks who?")
    assert react(PacketIn(0, POD, None, query), mode, directory, FULL, parrot) == Reaction(
        ("dnsPktRcvd", "dnsPktReply"), PacketOut(data=reply, actions=(Output(POD),))
    )


@pytest.mark.parametrize("mode", Mode)
def test_dns_goes_on_untouched_through_the_tables(directory: Directory, mode: Mode) -> None:
    query = frames.udp(1, 2, 53)
    assert react(PacketIn(0, POD, None, query), mode, directory, FULL) == Reaction(
        ("dnsPktRcvd", "dnsPktForward"),
        PacketOut(data=packets.tagged(query, 4093), actions=(Output(PORT_TABLE),), in_port=POD),
    )


def test_dns_in_anothers_name_goes_nowhere(directory: Directory) -> None:
    own, spoofed = frames.udp(1, 2, 53), frames.udp(2, 1, 53)
    for query, counter in ((own, "dnsPktReply"), (spoofed, "dnsPktSpoofed-ERROR")):
        packet = PacketIn(0, POD, None, query)
        assert react(packet, Mode.VROUTER, directory, GUARDED, parrot).counters[-1] == counter
    nobodys = PacketIn(0, UNKNOWN, None, own)
    assert react(nobodys, Mode.VROUTER, directory, GUARDED).counters == ("dnsPktSpoofed-ERROR",)


def test_dns_from_outside_is_dropped(directory: Directory) -> None:
    query = frames.udp(1, 2, 53)
    from_tunnel = PacketIn(0, VTEP, 10001, query)
    assert react(from_tunnel, Mode.VROUTER, directory, FULL) == Reaction(("dnsPktVtep-ERROR",))
    tagged = PacketIn(0, UPLINK, None, packets.tagged(query, 5))
    assert react(tagged, Mode.VLAN, directory, FULL) == Reaction(("dnsPktUplink-ERROR",))


@given(
    st.integers(0, 200),
    st.sampled_from(Mode),
    st.binary(max_size=100),
    st.sampled_from([b"\x08\x06", b"\x08\x00", b"\x86\xdd", b"\x81\x00\x00\x05\x08\x06"]),
)
def test_no_packet_raises(port: int, mode: Mode, noise: bytes, ethertype: bytes) -> None:
    packet = PacketIn(0, port, None, bytes(12) + ethertype + noise)
    react(packet, mode, directory_of(FULL), FULL, parrot)


OWN = address(250)
ROUTER = Router(ofport=80, mac="06:02:32:01:01:01", ip=OWN, peer=OUTSIDER)
SPEAKING = replace(FULL, router=ROUTER)
HOP6 = IPv6Address("fe80::2")


@pytest.mark.parametrize("operation", [1, 2])
def test_arp_from_the_bgp_peers_network_is_reported(operation: int) -> None:
    frame = frames.arp(200, OWN.packed, operation=operation)
    for of, heard in ((SPEAKING, True), (FULL, False)):
        said = react(
            PacketIn(0, UPLINK, None, frame), Mode.VLROUTER, directory_of(of), of, parrot
        ).neighbour
        assert said == (Neighbour(address=OUTSIDER, mac=mac(200)) if heard else None)


@pytest.mark.parametrize(
    "packet",
    [
        PacketIn(0, POD, None, frames.arp(200, OWN.packed, operation=2)),
        PacketIn(0, ROUTER.ofport, None, frames.arp(200, OWN.packed, operation=2)),
        PacketIn(0, UPLINK, None, packets.tagged(frames.arp(200, OWN.packed), 5)),
    ],
)
def test_other_arp_is_not_reported(packet: PacketIn) -> None:
    assert react(packet, Mode.VLROUTER, directory_of(SPEAKING), SPEAKING, parrot).neighbour is None


@pytest.mark.parametrize(
    ("port", "tagged", "heard"),
    [(UPLINK, False, True), (UPLINK, True, False), (POD, False, False)],
)
def test_advertisements_from_the_bgp_peers_network_are_reported(
    *, port: int, tagged: bool, heard: bool
) -> None:
    frame = frames.advertisement(mac(200), HOP6)
    packet = PacketIn(0, port, None, packets.tagged(frame, 5) if tagged else frame)
    said = react(packet, Mode.VLROUTER, directory_of(SPEAKING), SPEAKING, parrot)
    expected = Neighbour(address=HOP6, mac=mac(200)) if heard else None
    assert said == Reaction(neighbour=expected)
    assert react(packet, Mode.VLROUTER, directory_of(FULL), FULL, parrot) == Reaction()


def test_requests_of_the_bgp_port_for_unknown_addresses_are_not_answered() -> None:
    packet = PacketIn(0, ROUTER.ofport, None, frames.arp(200, address(99).packed))
    reaction = react(packet, Mode.VLROUTER, directory_of(SPEAKING), SPEAKING, parrot)
    assert (reaction.counters[-1], reaction.send) == ("ArpReqUnknownDest", None)


PRIVATE = IPv4Address("172.19.0.1")
OUTSIDE = IPv4Address("192.0.2.1")
POD6, OUTSIDE6 = IPv6Address("2001:db8::1:1"), IPv6Address("2001:db8:113::7")
TRANSLATED = replace(
    FULL,
    local={pod.key: pod for pod in (replace(local(1, nat=True), ip6=POD6), local(2))},
)


def error(frame: bytes) -> Reaction:
    packet = PacketIn(TableId.INGRESS_GROUP, HOST, None, frame)
    return react(packet, Mode.VROUTER, directory_of(TRANSLATED), TRANSLATED)


@pytest.mark.parametrize("sender", [OUTSIDE, HOST_PORT.address], ids=str)
def test_an_error_from_outside_goes_on_to_its_pod(sender: IPv4Address) -> None:
    """The host itself sends some, under its address there."""
    (pod,) = [one for one in TRANSLATED.local.values() if one.nat_ip == PRIVATE]
    reaction = error(frames.error(sender, PRIVATE))
    assert reaction.send == PacketOut(
        data=frames.error(sender, ip_of(pod)),
        actions=(Load(VRF, 1), Lookup(TableId.SRV_PROXY_SNAT)),
        in_port=HOST,
    )


@pytest.mark.parametrize(
    ("sender", "to"),
    [(PRIVATE + 1, PRIVATE), (OUTSIDE, PRIVATE + 7)],
    ids=["the host routes back what a pod sent", "nobody is there"],
)
def test_other_errors_go_nowhere(sender: IPv4Address, to: IPv4Address) -> None:
    assert error(frames.error(sender, to)) == Reaction(("IcmpErrorInvalid-ERROR",))


def test_an_error_of_ipv6_goes_on_to_its_pod() -> None:
    reaction = error(frames.error6(OUTSIDE6, private6(PRIVATE)))
    assert reaction.send == PacketOut(
        data=frames.error6(OUTSIDE6, POD6),
        actions=(Load(VRF, 1), Lookup(TableId.SRV_PROXY_SNAT)),
        in_port=HOST,
    )
    for sender, to in ((private6(PRIVATE + 1), PRIVATE), (OUTSIDE6, PRIVATE + 7)):
        assert error(frames.error6(sender, private6(to))).send is None


def test_an_answer_that_the_switch_has_chosen_is_completed_and_returned() -> None:
    asked = packets.solicitation(mac(2), IPv6Address("2001:db8::2"), IPv6Address("2001:db8::1"))
    sender, receiver = IPv6Address("2001:db8::2").packed, IPv6Address("2001:db8::1").packed
    begun = asked[:22] + sender + receiver + asked[54:62] + sender + asked[78:]
    directory = directory_of(FULL)
    packet = PacketIn(TableId.NEIGHBOUR_REPLY, POD, None, begun)
    reaction = react(packet, Mode.VROUTER, directory, FULL)
    assert reaction.counters == ("NdReqRcvd", "NdReqRespSent")
    assert reaction.send is not None
    assert reaction.send.actions == (Output(POD),)
    told = Neighbour(address=IPv6Address("2001:db8::2"), mac=mac(2))
    assert packets.parse_advertisement(reaction.send.data) == told
    broken = PacketIn(TableId.NEIGHBOUR_REPLY, POD, None, begun[:-1])
    assert react(broken, Mode.VROUTER, directory, FULL) == Reaction(
        ("NdReqRcvd", "NdReqInvalid-ERROR")
    )
