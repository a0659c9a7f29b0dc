"""Bodies of requests: those that have arrived, and those that do not."""

import asyncio
from unittest import mock

import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from netmaster.api.http.bodies import BodiesTooMany, BodyBudget, BodyLimits, BodyTooSlow

PEER = "192.0.2.1"


def request(*, whole: bool) -> web.Request:
    """Return a request of which `body` has been received, and its end if it is `whole`."""
    protocol = mock.Mock(spec=BaseProtocol, _reading_paused=False)
    content = StreamReader(protocol, 1 << 16, loop=asyncio.get_running_loop())
    content.feed_data(b"body")
    if whole:
        content.feed_eof()
    return make_mocked_request("POST", "/x", payload=content)


async def test_a_body_that_has_arrived_needs_no_time() -> None:
    budget = BodyBudget(BodyLimits(arrival=0.0))
    with budget.share(PEER) as share:
        assert await share.read(request(whole=True)) == b"body"


async def test_one_that_does_not_end_is_given_up() -> None:
    budget = BodyBudget(BodyLimits(arrival=0.01))
    with budget.share(PEER) as share, pytest.raises(BodyTooSlow):
        await share.read(request(whole=False))


async def test_memory_is_given_back_in_the_end() -> None:
    budget = BodyBudget(BodyLimits(in_memory=6))
    for _ in range(2):
        with budget.share(PEER) as one, budget.share(PEER) as other:
            assert await one.read(request(whole=True)) == b"body"
            with pytest.raises(BodiesTooMany):
                await other.read(request(whole=True))
