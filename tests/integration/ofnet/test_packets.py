"""Packets of real pods: ARP answered by the router's MAC, frames forwarded, DNS answered."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest
from os_ken.lib.packet import ethernet, ipv4, packet, udp

from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.openflow import packets
from ofnet.packets.dns_answers import NameVerdict, Outcome, Question
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from tests.bed.ovs import DATAPATH, OvsHost
from tests.bed.waiting import eventually_async
from tests.integration.ofnet.dialled import Dialled, dialled, running_agent, until
from tests.integration.ofnet.packets import Pod, address6, two_pods
from tests.unit.ofnet.worlds import address, mac, remote

pytestmark = pytest.mark.ovs

GATEWAY = "10.1.255.254"


@pytest.fixture
async def bridge(ovs_module: OvsHost) -> AsyncIterator[Dialled]:
    async with dialled(ovs_module) as bridge:
        yield bridge


async def neighbour(asker: Pod, target: IPv4Address | IPv6Address | str) -> str:
    """Make a pod resolve an address; return its neighbour entry."""
    await run_in(asker, "ping", "-c1", "-W1", str(target))
    return asker.run("ip", "neigh", "show", str(target))


async def resolved(asker: Pod, target: IPv4Address | IPv6Address | str) -> None:
    """Make a pod resolve an address until it has the router's MAC.

    The kernel asks once a second, so that one question may fall between two of its own.
    """
    await eventually_async(
        lambda: _knows_the_router(asker, target), f"{target} is known by the router's MAC"
    )


async def _knows_the_router(asker: Pod, target: IPv4Address | IPv6Address | str) -> bool:
    return ROUTER_MAC in await neighbour(asker, target)


async def run_in(asker: Pod, *command: str) -> str:
    """Run a command in a pod while our own loop goes on answering."""
    process = await asyncio.create_subprocess_exec(
        *asker.namespace.enter, *command, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode()


async def test_arp_is_answered_by_the_router_and_pods_reach_each_other(bridge: Dialled) -> None:
    async with two_pods(bridge) as (one, two, both), running_agent(bridge, both) as agent:
        out = await run_in(one, "ping", "-c3", "-i0.2", "-W30", str(address(2)))
        assert "3 received" in out
        for asker, target in ((one, address(2)), (two, address(1)), (one, address(9))):
            await resolved(asker, target)
        await resolved(one, GATEWAY)
        assert agent.stats["PktRcvd"] == 0, "the switch answers by itself"


async def test_neighbour_discovery_is_answered_by_the_router(bridge: Dialled) -> None:
    async with two_pods(bridge) as (one, two, both), running_agent(bridge, both) as agent:
        out = await run_in(one, "ping", "-6", "-c3", "-i0.2", "-W30", str(address6(2)))
        assert "3 received" in out
        for asker, target in ((one, 2), (two, 1), (one, 9)):
            await resolved(asker, address6(target))
        by_itself = agent.stats["PktRcvd"] == 0
        assert by_itself is (DATAPATH == "netdev"), "the switch answers by itself if it can"


async def test_an_unknown_address_is_not_answered(bridge: Dialled) -> None:
    async with two_pods(bridge) as (one, _, both), running_agent(bridge, both) as agent:
        assert ROUTER_MAC not in await neighbour(one, address(77))
        assert agent.stats["ArpReqUnknownDest"] >= 1
        known = replace(both, remote={**both.remote, remote(77).key: remote(77)})
        await agent.update(known, Changes.of(ObjectKind.REMOTE, {remote(77).key}))
        await resolved(one, address(77))


async def test_a_duplicate_address_probe_is_not_answered(bridge: Dialled) -> None:
    async with two_pods(bridge) as (one, _, both), running_agent(bridge, both) as agent:
        with one.frames() as wire:
            wire.send(request(bytes(4), 1))
            wire.send(request(address(1).packed, 1))
            wire.send(request(address(1).packed, 2))
            received: list[bytes] = []
            await until(lambda: arrived(wire, received), "an answer")
            assert [sender_of(frame) for frame in received] == [(ROUTER_MAC, address(2))]
            assert agent.stats["PktRcvd"] == 0


async def test_a_question_in_anothers_name_is_not_answered(bridge: Dialled) -> None:
    async with two_pods(bridge) as (one, _, both), running_agent(bridge, both) as agent:
        with one.frames() as wire:
            wire.send(request(address(5).packed, 2))
            await until(lambda: agent.stats["ArpReqSpoofed"] == 1, "the agent has seen it")
            wire.send(request(address(1).packed, 9))
            received: list[bytes] = []
            await until(lambda: arrived(wire, received), "an answer")
            assert [sender_of(frame) for frame in received] == [(ROUTER_MAC, address(9))]


@pytest.mark.parametrize(
    ("sender", "source_mac", "port"),
    [(5, mac(1), 4000), (1, mac(5), 4000), (1, mac(1), 67)],
    ids=["address", "MAC", "DHCP server"],
)
async def test_a_pod_sends_in_its_own_name_only(
    bridge: Dialled, sender: int, source_mac: str, port: int
) -> None:
    async with two_pods(bridge) as (one, two, both), running_agent(bridge, both) as agent:
        with two.datagrams(4001) as receiver, one.frames() as wire:
            wire.send(datagram(sender, source_mac, port, b"forged"))
            wire.send(datagram(1, mac(1), 4000, b"honest"))
            received: list[bytes] = []
            await until(lambda: arrived(receiver, received), "the honest one")
            assert received == [b"honest"]
            await agent.update(replace(both, guard=False), EVERYTHING)
            unguarded: list[bytes] = []

            def sent_and_arrived() -> bool:
                wire.send(datagram(sender, source_mac, port, b"forged"))
                return arrived(receiver, unguarded)

            # more than once: the datapath remembers its verdict on the first for a moment
            await until(sent_and_arrived, "the same without a guard")
            assert unguarded == [b"forged"]


async def test_dns_is_answered_or_sent_on_untouched(bridge: Dialled) -> None:
    def resolve(question: Question) -> Outcome:
        if question.message == b"who is contiv":
            return b"a pod of " + question.network.encode()
        return NameVerdict.FORWARD

    async with (
        two_pods(bridge) as (one, two, both),
        running_agent(bridge, both, resolve=resolve) as agent,
    ):
        with one.datagrams(5353) as asker, two.datagrams(53) as server:
            asker.sendto(b"who is contiv", (str(address(2)), 53))
            answers: list[bytes] = []
            await until(lambda: arrived(asker, answers), "an answer")
            assert answers == [b"a pod of net.default"]
            asker.sendto(b"who is anybody", (str(address(2)), 53))
            received: list[bytes] = []
            await until(lambda: arrived(server, received), "the query")
            assert received == [b"who is anybody"]
            assert (agent.stats["dnsPktReply"], agent.stats["dnsPktForward"]) == (1, 1)


async def test_the_agent_answers_as_the_switch_does_where_the_datapath_cannot(
    bridge: Dialled,
) -> None:
    """The same solicitations lead to the same advertisements, byte for byte."""
    heard: dict[str, list[bytes]] = {}
    if DATAPATH == "system":
        pytest.skip("the kernel's datapath has one of both ways alone")
    async with two_pods(bridge) as (one, _, both):
        for extension in ("true", "false"):
            bridge.ovs.appctl("dpif/set-dp-features", bridge.name, "nd_ext", extension)
            try:
                async with running_agent(bridge, both) as agent:
                    assert agent.sync.fully_synced
                    assert agent.world.nd_extension is (extension == "true")
                    heard[extension] = await advertised(one)
                    assert (agent.stats["NdReqRespSent"] == 0) is agent.world.nd_extension
            finally:
                bridge.ovs.appctl("dpif/set-dp-features", bridge.name, "nd_ext", "true")
            bridge.ovs.appctl("dpctl/del-flows")
    assert len(heard["true"]) == 2
    assert heard["false"] == heard["true"]


async def advertised(asker: Pod) -> list[bytes]:
    """Return what the requests of a pod are answered, until a last one is."""
    known, last = packets.solicitation(mac(1), address6(1), address6(2)), address6(9)
    source = slice(22, 38)
    probe = known[: source.start] + bytes(16) + known[source.stop :]
    forged = packets.solicitation(mac(5), address6(1), address6(2))
    unknown = packets.solicitation(mac(1), address6(1), address6(77))
    with asker.frames(0x86DD) as wire:
        for frame in (
            probe,
            forged,
            unknown,
            known,
            packets.solicitation(mac(1), address6(1), last),
        ):
            wire.send(frame)
        received: list[bytes] = []
        found: list[bytes] = []

        def answered() -> bool:
            arrived(wire, received)
            found[:] = [one for one in received if one[54:55] == b"\x88"]
            return any(one[62:78] == last.packed for one in found)

        await until(answered, "an answer")
    return found


def request(sender: bytes, target: int) -> bytes:
    """Return the ARP request of pod 1 for another, from any sender address."""
    own = bytes.fromhex(mac(1).replace(":", ""))
    head = b"\xff" * 6 + own + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1)
    return head + own + sender + bytes(6) + address(target).packed


def sender_of(reply: bytes) -> tuple[str, IPv4Address]:
    """Return the sender of an ARP reply."""
    assert reply[20:22] == b"\x00\x02"
    return reply[22:28].hex(":"), IPv4Address(reply[28:32])


def datagram(sender: int, source_mac: str, port: int, payload: bytes) -> bytes:
    """Return the frame of a datagram to port 4001 of pod 2."""
    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(dst=ROUTER_MAC, src=source_mac, ethertype=0x0800))
    frame.add_protocol(ipv4.ipv4(proto=17, src=str(address(sender)), dst=str(address(2))))
    frame.add_protocol(udp.udp(src_port=port, dst_port=4001))
    frame.add_protocol(payload)
    frame.serialize()
    return bytes(frame.data)


def arrived(end: socket.socket, received: list[bytes]) -> bool:
    """Take what has come in; return whether anything has so far."""
    with suppress(BlockingIOError):
        received.append(end.recv(2048))
    return bool(received)
