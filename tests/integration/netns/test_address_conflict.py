"""Another machine on the segment of a host says that it has the host's address."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

import pytest

from core.errors import HostError
from netplugin.kernel.packets import neighbour_frames
from netplugin.kernel.packets.address_conflict import KEPT, NAMED, AddressConflict
from tests.bed.netns import Namespace, fresh_name

ADDRESS = IPv4Address("192.0.2.7")
ADDRESS6 = IPv6Address("fd77::7")
OTHER = IPv4Address("192.0.2.8")


@pytest.fixture
def thief(host: Namespace) -> Iterator[Namespace]:
    """Put another machine on the host's segment."""
    other = Namespace(fresh_name("thief")).create()
    try:
        for link, peer in (("eth0", "one"), ("eth1", "two")):
            host.run(["ip", "link", "add", link, "type", "veth", "peer", peer, "netns", other.name])
            host.run(["ip", "link", "set", link, "up"])
            other.run(["ip", "link", "set", peer, "up"])
        host.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "eth0"])
        yield other
    finally:
        other.delete()


async def test_another_machines_claim_is_told_until_it_is_over(thief: Namespace) -> None:
    now = 100.0
    conflict = AddressConflict(ADDRESS, clock=lambda: now)
    try:
        await conflict.look()
        neighbour_frames.announce("eth0", ADDRESS)
        thief.call(lambda: neighbour_frames.announce("one", OTHER))
        thief.call(lambda: neighbour_frames.announce("two", ADDRESS))  # by another link of the host
        await conflict.look()
        thief.call(lambda: neighbour_frames.announce("one", ADDRESS))
        mac = thief.call(lambda: neighbour_frames.mac_of("one"))
        with pytest.raises(HostError, match=f"another machine .* {ADDRESS}.* MAC is {mac}$"):
            await conflict.look()
        now += KEPT / 2
        with pytest.raises(HostError):
            await conflict.look()
        now += KEPT / 2
        await conflict.look()
    finally:
        conflict.close()


async def test_another_machines_claim_of_an_address_of_ipv6_is_told(
    host: Namespace, thief: Namespace
) -> None:
    host.run(["ip", "address", "add", f"{ADDRESS6}/64", "dev", "eth0", "nodad"])
    conflict = AddressConflict(ADDRESS6)
    try:
        await conflict.look()
        neighbour_frames.announce("eth0", ADDRESS6)
        for other in (IPv6Address("fd77::8"), IPv6Address("fd77:0:1::7"), IPv6Address("fd78::7")):
            thief.call(lambda one=other: neighbour_frames.announce("one", one))  # type: ignore[misc]
        thief.call(lambda: neighbour_frames.ask("one", IPv6Address("fd77::8"), ADDRESS6))
        thief.call(lambda: neighbour_frames.announce("one", ADDRESS))
        await conflict.look()
        thief.call(lambda: neighbour_frames.announce("one", ADDRESS6))
        mac = thief.call(lambda: neighbour_frames.mac_of("one"))
        with pytest.raises(HostError, match=f"another machine .* {ADDRESS6}.* MAC is {mac}$"):
            await conflict.look()
    finally:
        conflict.close()


async def test_a_machine_of_many_macs_does_not_fill_the_error(thief: Namespace) -> None:
    conflict = AddressConflict(ADDRESS)
    door = thief.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    told = set()
    try:
        await conflict.look()
        door.bind(("one", 0))
        for turn in range(3):
            for number in range(100):
                door.send(
                    neighbour_frames.request(bytes((2, 0, 0, 0, turn, number)), ADDRESS, ADDRESS)
                )
            with pytest.raises(HostError) as failed:
                await conflict.look()
            told.add(str(failed.value))
    finally:
        conflict.close()
        door.close()
    (text,) = told  # the same each time, so that it is reported once
    assert text.count("02:00:00:00:") == NAMED


async def test_the_address_is_watched_on_the_link_that_has_it(
    host: Namespace, thief: Namespace
) -> None:
    conflict = AddressConflict(ADDRESS)
    try:
        await conflict.look()
        host.run(["ip", "address", "del", f"{ADDRESS}/24", "dev", "eth0"])
        with pytest.raises(HostError, match="no link of this host has the address"):
            await conflict.look()
        host.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "eth1"])
        await conflict.look()
        thief.call(lambda: neighbour_frames.announce("two", ADDRESS))
        with pytest.raises(HostError, match="another machine"):
            await conflict.look()
        host.run(["ip", "link", "del", "eth1"])
        with pytest.raises(HostError, match="no link of this host has the address"):
            await conflict.look()
    finally:
        conflict.close()
