"""What tests of speaker share."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from core.tasks import background
from ofnet.bgp.peering import Peering
from ofnet.bgp.speaker import Speaker
from ofnet.bgp.timing import SessionTiming
from tests.unit.bgp_router import ROUTER_AS, FakeRouter
from tests.unit.ofnet.conditions import until

OWN_AS = 65002


PEERING = Peering(
    router=IPv4Interface("50.1.1.1/24"),
    asn=OWN_AS,
    peer=IPv4Address("50.1.1.2"),
    peer_asn=ROUTER_AS,
)


NET, SECOND = "60.1.1.0/24", "0.0.0.0/0"


POD, OTHER = IPv4Address("10.1.0.1"), IPv4Address("10.1.0.2")


QUICK = SessionTiming(first_pause=0.001)


async def eventually(holds: Callable[[], bool]) -> None:
    await until(holds, "the speaker's state")


@asynccontextmanager
async def speaking(router: FakeRouter, **options: Any) -> AsyncIterator[Speaker]:
    """Run the speaker of a host with one pod."""
    options = {"timing": QUICK, **options}
    host = Speaker(options.pop("peering", PEERING), lambda: None, connect=router.connect, **options)
    host.announce(frozenset({POD}))
    async with background("speaker", host.run()):
        yield host


@asynccontextmanager
async def established(
    router: FakeRouter, *, restart: int | None = None, **options: Any
) -> AsyncIterator[Speaker]:
    """Establish a session in which the router has announced a route."""
    async with speaking(router, **options) as host:
        await router.greet(restart=restart)
        router.announce(NET)
        await eventually(lambda: bool(host.routes))
        yield host
