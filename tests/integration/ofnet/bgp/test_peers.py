"""The speaker and routers of three makes: both families, passwords, and ends without a goodbye.

The speaker runs in this process, inside the namespace of the host.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, ip_network
from pathlib import Path

import pytest

from core.tasks import background
from ofnet.bgp.connection import dial
from ofnet.bgp.peering import Peering
from ofnet.bgp.speaker import Speaker
from tests.bed.bgp_peers import (
    HOST,
    HOST_AS,
    MAKES,
    PREFIX,
    PREFIX6,
    ROUTER,
    ROUTER6,
    ROUTER_AS,
    BgpPeer,
)
from tests.bed.waiting import eventually_async

POD, POD6 = IPv4Address("10.1.0.1"), IPv6Address("2001:db8:1::1")
OWN6 = IPv6Address("fe80::402:32ff:fe01:101")
PEERING = Peering(
    router=IPv4Interface(f"{HOST}/24"),
    asn=HOST_AS,
    peer=IPv4Address(ROUTER),
    peer_asn=ROUTER_AS,
    next_hop6=OWN6,
)
PASSWORD = "a-secret-of-two"
SLOW = 60.0
BACK = 25.0
"""Seconds after which the session of a killed host must be back: a peer that counts its end
as an error waits for 30 s or more."""


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> type[BgpPeer]:
    """Pick a make of router."""
    return MAKES[request.param]


@pytest.fixture
def peer(make: type[BgpPeer], bed_dirs: Iterator[Path]) -> Iterator[BgpPeer]:
    """Run a router without a password."""
    yield from _running(make(next(bed_dirs)))


@pytest.fixture
def secured(make: type[BgpPeer], bed_dirs: Iterator[Path]) -> Iterator[BgpPeer]:
    """Run a router with a password."""
    yield from _running(make(next(bed_dirs), password=PASSWORD))


def _running(peer: BgpPeer) -> Iterator[BgpPeer]:
    try:
        yield peer.start()
    finally:
        peer.stop()


def inside(peer: BgpPeer, scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario in the namespace of the host."""

    async def run() -> None:
        await scenario()

    peer.host.call(lambda: asyncio.run(run()))


@asynccontextmanager
async def speaking(password: bytes = b"") -> AsyncIterator[Speaker]:
    """Run a speaker of a host with a pod; its end is that of a killed agent."""
    speaker = Speaker(PEERING, lambda: None, connect=partial(dial, password=password))
    speaker.announce(frozenset({POD, POD6}))
    async with background("speaker", speaker.run()):
        yield speaker


async def until(check: Callable[[], bool], what: str, *, within: float = SLOW) -> None:
    async def checked() -> bool:
        return check()

    await eventually_async(checked, what, within=within)


def test_both_families_are_exchanged(peer: BgpPeer) -> None:
    async def scenario() -> None:
        async with speaking() as speaker:
            wanted = {ip_network(PREFIX), ip_network(PREFIX6)}
            await until(lambda: speaker.routes.keys() >= wanted, "its routes came")
            assert speaker.routes[ip_network(PREFIX)] == IPv4Address(ROUTER)
            hop = speaker.routes[ip_network(PREFIX6)]
            assert str(hop) in {ROUTER, ROUTER6} or hop.is_link_local
            pods = (str(POD), str(POD6))
            await until(lambda: all(pod in peer.learned() for pod in pods), "pods are learned")
            assert str(OWN6) in peer.learned()
            speaker.announce(frozenset())
            await until(lambda: not any(pod in peer.learned() for pod in pods), "pods are gone")

    inside(peer, scenario)


def test_a_session_with_a_password(secured: BgpPeer) -> None:
    async def scenario() -> None:
        async with speaking(b"another") as speaker:
            await until(lambda: speaker.fault is not None, "a wrong password is no session")
            assert not speaker.counts["Established"]
        async with speaking(PASSWORD.encode()) as speaker:
            await until(lambda: speaker.established, "the right one is")
            await until(lambda: str(POD) in secured.learned(), "the pod is learned")

    inside(secured, scenario)


@pytest.mark.parametrize("at", ["opensent", "established"])
def test_a_killed_host_is_back_in_time(peer: BgpPeer, at: str) -> None:
    """The peer must not count the end of a host as an error that it has to wait after."""

    async def scenario() -> None:
        async with speaking() as speaker:
            await until(lambda: speaker.established, "the first session")
        for _ in range(5):
            async with speaking() as speaker:
                await until(lambda: speaker.state in {at, "established"}, f"it is {at}")
            async with speaking() as speaker:
                await until(lambda: speaker.established, "it is back", within=BACK)

    inside(peer, scenario)
