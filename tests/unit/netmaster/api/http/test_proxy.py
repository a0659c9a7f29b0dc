"""Whom a follower asks; how it asks is tested with real masters."""

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from core.errors import NotLeader, StoreUnavailable
from netmaster.api.http.proxy import Proxy, ProxyTiming
from tests.bed.waiting import WITHIN

OWN = "10.0.0.1:9999"


@pytest.mark.parametrize("holder", [None, OWN])
async def test_a_master_never_asks_itself(holder: str | None) -> None:
    async def leader() -> str | None:
        return holder

    proxy = Proxy(leader, OWN)
    try:
        with pytest.raises(NotLeader, match=r"^Leader not found$"):
            await proxy.answer(make_mocked_request("GET", "/info"))
    finally:
        await proxy.close()


async def test_a_silent_store_is_not_waited_for_long() -> None:

    async def leader() -> str | None:
        await asyncio.Event().wait()
        return None

    proxy = Proxy(leader, OWN, ProxyTiming(leader_known=0.01))
    try:
        async with asyncio.timeout(WITHIN):
            with pytest.raises(StoreUnavailable, match="try again"):
                await proxy.answer(make_mocked_request("GET", "/info"))
    finally:
        await proxy.close()
