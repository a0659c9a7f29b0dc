"""The time in which a leader grants addresses to running pods alone."""

import json
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from contivmodel.wire import dumps
from core.errors import StoreUnavailable
from netmaster.api.http.server import RestServer
from netmaster.api.v1.agent_calls import CallContext, allocate_address, create_endpoint
from netmaster.hosts.claim_window import ClaimWindow
from objdb.memory import MemoryStore
from ofnet.rpc.control import AgentReport, Node
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.leadership import Master, candidate
from tests.unit.netmaster.scene import NOW, Scene, wanted

WINDOW = CallContext(NOW, "kubernetes", claims_only=True)
RESTORED = "hosts are claiming the endpoints of their running pods, retry"
ONE, OTHER = Node("192.0.2.1", 9002), Node("192.0.2.2", 9002)


class Scenes:
    """A window, its clock and what agents reported."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reports: dict[Node, AgentReport] = {}
        self.window = ClaimWindow(self.reports, 3.0, lambda: self.now)

    def begins(self, history: str, *agents: Node, restored: bool = False) -> None:
        self.window.term_begins(history, restored=restored, agents=agents)

    def says(self, agent: Node, history: str | None) -> None:
        self.reports[agent] = AgentReport(node=agent, host="h", history=history)

    def lasts(self) -> float:
        """Let the time of the window pass; return how long it was, at most 9 seconds."""
        began = self.now
        while self.window.is_open() and self.now < began + 9:
            self.now += 0.125
        return self.now - began


@pytest.fixture
def scene() -> Scenes:
    return Scenes()


def test_it_opens_when_the_store_went_back_and_again_when_a_term_begins(scene: Scenes) -> None:
    scene.begins("t1")
    assert not scene.window.is_open()
    scene.window.store_went_back()
    assert scene.lasts() == 3.0
    scene.now += 60.0
    scene.begins("t2")
    assert scene.lasts() == 3.0
    scene.begins("t3")
    assert not scene.window.is_open()


def test_it_opens_on_a_store_that_shows_that_it_was_restored(scene: Scenes) -> None:
    scene.says(ONE, "t1")
    scene.begins("t1", ONE, restored=True)
    assert scene.lasts() == 3.0, "whoever else has pods is not registered yet"


def test_a_master_that_knows_nothing_waits_for_the_word_of_each_agent(scene: Scenes) -> None:
    scene.says(ONE, "t0")
    scene.begins("t1", ONE, OTHER)
    scene.now += 1.0
    scene.says(ONE, "t1")
    assert scene.window.is_open()
    scene.says(OTHER, "t1")
    assert not scene.window.is_open()
    scene.says(OTHER, "")
    assert not scene.window.is_open(), "once closed it is closed"


def test_it_does_not_wait_for_long_for_an_agent_that_says_nothing(scene: Scenes) -> None:
    scene.says(ONE, None)
    scene.begins("t1", ONE, OTHER)
    assert scene.lasts() == 3.0


def test_a_master_that_saw_another_lead_does_not_wait(scene: Scenes) -> None:
    scene.window.lock_held(7)
    scene.now += 6.0
    scene.window.lock_held(None)
    scene.window.lock_held(9)
    scene.begins("t2", ONE)
    assert not scene.window.is_open()


def test_leaders_that_were_short_lived_have_not_waited(scene: Scenes) -> None:
    for holding in range(9):
        scene.window.lock_held(holding)
        scene.now += 2.0
    scene.begins("t9", ONE)
    assert scene.lasts() == 3.0


def test_what_was_seen_before_the_store_went_back_counts_no_more(scene: Scenes) -> None:
    scene.window.lock_held(7)
    scene.now += 6.0
    scene.window.store_went_back()
    scene.begins("t2", ONE)
    assert scene.lasts() == 3.0
    scene.begins("t3", ONE)
    assert scene.lasts() == 3.0, "the holder has not led for long in this history"


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
