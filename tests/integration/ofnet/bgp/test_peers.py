"""The speaker and routers of three makes: sessions by both families, passwords, sudden ends.

The speaker runs in this process, inside the namespace of the host.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_network,
)
from pathlib import Path

import pytest

from core.tasks import background
from ofnet.bgp.connection import dial
from ofnet.bgp.peering import Peering
from ofnet.bgp.speaker import Speaker
from tests.bed.bgp_peers import (
    HOST,
    HOST6,
    HOST_AS,
    MAKES,
    PREFIX,
    PREFIX6,
    ROUTER,
    ROUTER6,
    ROUTER_AS,
    BgpPeer,
    Cable,
    Gobgp,
    Told,
)
from tests.bed.waiting import eventually_async

POD, POD6 = IPv4Address("10.1.0.1"), IPv6Address("2001:db8:1::1")
OWN6 = IPv6Address("fe80::402:32ff:fe01:101")
BY_IPV4 = Peering(
    router=IPv4Interface(f"{HOST}/24"),
    asn=HOST_AS,
    peer=IPv4Address(ROUTER),
    peer_asn=ROUTER_AS,
    link_local=OWN6,
)
WITH_GLOBAL = replace(BY_IPV4, router6=IPv6Interface(f"{HOST6}/64"))
BY_IPV6 = replace(WITH_GLOBAL, peer=IPv6Address(ROUTER6))
ALONE = replace(BY_IPV6, router=None)
"""That of a host without an address of IPv4 on the peer's network."""
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
def cable(make: type[BgpPeer], bed_dirs: Iterator[Path]) -> Iterator[Cable]:
    """Run a router that speaks by IPv4, without a password."""
    yield from _running(make, bed_dirs, Told(neighbours={HOST: HOST_AS}))


@pytest.fixture(params=[False, True], ids=["plain", "extended"])
def extended(make: type[BgpPeer], request: pytest.FixtureRequest) -> bool:
    """Say whether the router takes IPv6 next hops of IPv4 (RFC 8950); GoBGP does unasked."""
    return request.param or make is Gobgp


@pytest.fixture
def by_ipv6(make: type[BgpPeer], bed_dirs: Iterator[Path], *, extended: bool) -> Iterator[Cable]:
    """Run a router that speaks by IPv6."""
    told = Told(neighbours={HOST6: HOST_AS}, extended=extended)
    yield from _running(make, bed_dirs, told)


@pytest.fixture(params=[HOST, HOST6], ids=["ipv4", "ipv6"])
def secured(
    make: type[BgpPeer], bed_dirs: Iterator[Path], request: pytest.FixtureRequest
) -> Iterator[Cable]:
    """Run a router with a password."""
    told = Told(neighbours={request.param: HOST_AS}, password=PASSWORD)
    yield from _running(make, bed_dirs, told)


def _running(make: type[BgpPeer], bed_dirs: Iterator[Path], told: Told) -> Iterator[Cable]:
    cable = Cable(next(bed_dirs), make, told)
    try:
        yield cable.start()
    finally:
        cable.stop()


def inside(cable: Cable, scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario in the namespace of the host."""

    async def run() -> None:
        await scenario()

    cable.host.call(lambda: asyncio.run(run()))


@asynccontextmanager
async def speaking(peering: Peering = BY_IPV4, password: bytes = b"") -> AsyncIterator[Speaker]:
    """Run a speaker of a host with a pod; its end is that of a killed agent."""
    speaker = Speaker(peering, lambda: None, connect=partial(dial, password=password))
    speaker.announce(frozenset({POD, POD6}))
    async with background("speaker", speaker.run()):
        yield speaker


async def until(check: Callable[[], bool], what: str, *, within: float = SLOW) -> None:
    async def checked() -> bool:
        return check()

    await eventually_async(checked, what, within=within)


PODS = (str(POD), str(POD6))


@pytest.mark.parametrize("peering", [BY_IPV4, WITH_GLOBAL], ids=["link-local", "global"])
def test_both_families_are_exchanged(cable: Cable, peering: Peering) -> None:
    learned = cable.peer.learned

    async def scenario() -> None:
        async with speaking(peering) as speaker:
            wanted = {ip_network(PREFIX), ip_network(PREFIX6)}
            await until(lambda: speaker.routes.keys() >= wanted, "its routes came")
            assert speaker.routes[ip_network(PREFIX)] == IPv4Address(ROUTER)
            hop = speaker.routes[ip_network(PREFIX6)]
            assert str(hop) in {ROUTER, ROUTER6} or hop.is_link_local
            await until(lambda: all(pod in learned() for pod in PODS), "pods are learned")
            assert any(str(one) in learned() for one in peering.hops6)
            speaker.announce(frozenset())
            await until(lambda: not any(pod in learned() for pod in PODS), "pods are gone")

    inside(cable, scenario)


def test_both_families_are_exchanged_by_ipv6(by_ipv6: Cable, *, extended: bool) -> None:
    """Of IPv4 with IPv6 next hops where the peer takes them, with IPv4 ones elsewhere."""
    learned = by_ipv6.peer.learned

    async def scenario() -> None:
        async with speaking(BY_IPV6) as speaker:
            wanted = {ip_network(PREFIX), ip_network(PREFIX6)}
            await until(lambda: speaker.routes.keys() >= wanted, "its routes came")
            hop = speaker.routes[ip_network(PREFIX)]
            assert hop.version == (6 if extended else 4)
            assert speaker.routes[ip_network(PREFIX6)].version == 6
            await until(lambda: all(pod in learned() for pod in PODS), "pods are learned")
            speaker.announce(frozenset())
            await until(lambda: not any(pod in learned() for pod in PODS), "pods are gone")

    inside(by_ipv6, scenario)


def test_a_host_without_ipv4_exchanges_what_the_peer_agrees_to(
    by_ipv6: Cable, *, extended: bool
) -> None:
    learned = by_ipv6.peer.learned

    async def scenario() -> None:
        async with speaking(ALONE) as speaker:
            await until(lambda: speaker.established, "the session")
            assert (POD in speaker.announced, POD6 in speaker.announced) == (extended, True)
            await until(lambda: str(POD6) in learned(), "the pod is learned")
            await until(lambda: (str(POD) in learned()) == extended, "of IPv4 where both agree")
            await until(lambda: ip_network(PREFIX6) in speaker.routes, "its route came")

    inside(by_ipv6, scenario)


def test_a_session_with_a_password(secured: Cable, request: pytest.FixtureRequest) -> None:
    peering = BY_IPV6 if "ipv6" in request.node.name else BY_IPV4

    async def scenario() -> None:
        async with speaking(peering, b"another") as speaker:
            await until(lambda: speaker.fault is not None, "a wrong password is no session")
            assert not speaker.counts["Established"]
        async with speaking(peering, PASSWORD.encode()) as speaker:
            await until(lambda: speaker.established, "the right one is")
            await until(lambda: str(POD6) in secured.peer.learned(), "the pod is learned")

    inside(secured, scenario)


@pytest.mark.thorough
@pytest.mark.parametrize("at", ["opensent", "established"])
def test_a_killed_host_is_back_in_time(cable: Cable, at: str) -> None:
    """The peer must not count the end of a host as an error that it has to wait after."""

    async def scenario() -> None:
        async with speaking() as speaker:
            await until(lambda: speaker.established, "the first session")
        for _ in range(5):
            async with speaking() as speaker:
                await until(lambda: speaker.state in {at, "established"}, f"it is {at}")
            async with speaking() as speaker:
                await until(lambda: speaker.established, "it is back", within=BACK)

    inside(cable, scenario)
