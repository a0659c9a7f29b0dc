"""Whom a follower asks; how it asks is tested with real masters."""

import pytest
from aiohttp.test_utils import make_mocked_request

from core.errors import NotLeader
from netmaster.api.proxy import Proxy

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
