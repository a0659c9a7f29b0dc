"""Watches of the kernel that it refuses: an error of the host, counted, until they work.

The kernel refuses as it does where a process has no open file left.
"""

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

import pytest

from core.retry import Loops, begin_loops
from core.tasks import background
from netplugin.kernel.address_watch import AddressWatch
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.routes.route_watch import RouteWatch
from netplugin.masters.progress import Progress
from tests.bed.netns import Namespace
from tests.bed.waiting import WITHIN, eventually_async

pytestmark = pytest.mark.ovs

Watching = Coroutine[Any, Any, None]

ROUTING, FIREWALL, ADDRESSES = (
    "events of routing not followed",
    "events of the firewall not followed",
    "addresses of this host not followed",
)


@contextmanager
def no_open_files() -> Iterator[None]:
    """Let the kernel give this process no further open file, until the body ends."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [socket.socket()]
    # the number behind the highest that is in use, or so: what is free below is taken, too
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0].fileno() + 8, limits[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(socket.socket())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in taken:
            one.close()


def watch_routes() -> Watching:
    return RouteWatch(lambda _link: False).run()


def watch_rules() -> Watching:
    return FirewallWatch().run()


def watch_addresses() -> Watching:
    return AddressWatch(KernelLinks()).run()


@pytest.mark.parametrize(
    ("watch", "name"),
    [(watch_routes, ROUTING), (watch_rules, FIREWALL), (watch_addresses, ADDRESSES)],
)
async def test_a_refused_watch_is_an_error_of_the_host_until_it_works(
    host: Namespace,  # noqa: ARG001 - the watch runs there
    watch: Callable[[], Watching],
    name: str,
) -> None:
    loops, progress = begin_loops(), Progress({}, {})
    loops.report_to(progress.set_faults)
    async with AsyncExitStack() as stack:
        with no_open_files():
            await stack.enter_async_context(background("watch", watch()))
            await eventually_async(_failed_twice(loops, name), "it is tried again")
            (error,) = progress.standing.errors
        assert error.startswith(f"{name}: ")
        assert "Too many open files" in error
        assert progress.fault_counts()[name] == 1
        await eventually_async(_is_well(progress), "it works")


async def test_what_happened_while_routing_was_not_followed_is_made_up_for(
    host: Namespace,  # noqa: ARG001 - the watch runs there
) -> None:
    loops, watch = begin_loops(), RouteWatch(lambda _link: False)
    lost = watch.lost()
    async with AsyncExitStack() as stack:
        with no_open_files():
            await stack.enter_async_context(background("watch", watch.run()))
            await eventually_async(_failed_twice(loops, ROUTING), "it is tried again")
            assert not lost.is_set()
        async with asyncio.timeout(WITHIN):
            await lost.wait()


def _failed_twice(loops: Loops, name: str) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return loops.failures[name] >= 2

    return asked


def _is_well(progress: Progress) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return not progress.standing.errors

    return asked
