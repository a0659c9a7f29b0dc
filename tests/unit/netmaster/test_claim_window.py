"""The time in which a leader grants addresses to running pods alone."""

import json
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from contivmodel.wire import dumps
from core.errors import StoreUnavailable
from netmaster.api.endpoints import CallContext, allocate_address, create_endpoint
from netmaster.api.server import RestServer
from netmaster.claim_window import ClaimWindow
from objdb.memory import MemoryStore
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.scene import NOW, Scene, wanted
from tests.unit.netmaster.test_leadership import Master, candidate

WINDOW = CallContext(NOW, "kubernetes", claims_only=True)
RESTORED = "the store was restored; hosts are claiming their endpoints, retry"


def test_it_opens_when_the_store_went_back_and_again_when_a_term_begins() -> None:
    now = [100.0]
    window = ClaimWindow(3.0, lambda: now[0])
    window.term_begins()
    assert not window.is_open()
    window.store_went_back()
    now[0] += 60.0
    assert not window.is_open()
    window.term_begins()
    now[0] += 2.9
    assert window.is_open()
    now[0] += 0.2
    assert not window.is_open()
    window.term_begins()
    assert not window.is_open()


def test_claims_and_what_exists_are_answered_and_new_addresses_are_not() -> None:
    scene = Scene()
    scene.network("n1")
    existing = scene.endpoint("c1")

    def create(container: str, **more: str) -> object:
        asked = wanted(container, **more)
        body = dumps(asked.model_copy(update={"claim": "true"} if more else {}))
        return scene.do(create_endpoint(body, WINDOW).decide)

    assert create("c1") == existing
    with pytest.raises(StoreUnavailable, match=RESTORED):
        create("c2")
    assert create("c3", ip_address="10.1.1.7").ip_address == "10.1.1.7"  # type: ignore[attr-defined]
    body = json.dumps({"NetworkID": "n1.default"}).encode()
    with pytest.raises(StoreUnavailable, match=RESTORED):
        allocate_address(body, WINDOW).decide(scene.view)


async def test_a_leader_of_a_restored_store_grants_claims_alone() -> None:
    store = MemoryStore()
    async with candidate(store) as master:
        await master.until_leading()
        saved = store.save()
        assert await allocated(master) != RESTORED
        first = master.server.role
        store.restore(saved)

        async def leads_anew() -> bool:
            return master.leads() and master.server.role != first

        await eventually_async(leads_anew, "another term began")
        assert await allocated(master) == RESTORED


async def allocated(master: Master) -> str:
    """Ask for an address on a network that does not exist; the refusal."""
    body = StreamReader(Mock(_reading_paused=False), 1 << 16)
    body.feed_data(b'{"NetworkID":"n.t"}')
    body.feed_eof()
    headers = {"Content-Type": "application/json"}
    server = RestServer()
    server.role = master.server.role
    answer = await server._handle(
        make_mocked_request("POST", "/plugin/allocAddress", headers=headers, payload=body)
    )
    assert isinstance(answer, web.Response)
    return str(answer.text).strip()
