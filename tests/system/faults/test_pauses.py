"""A leader stopped for twice its lease in the middle of a commit: one truth, whatever became of it.

A relay between the leader and its store loses the store's answer, so that the commit is made and
its maker does not know it; or it keeps the commit back, and delivers it when there is another
leader, or never.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import pytest

from core import ids, keys
from core.ids import NetworkId
from tests.bed.master import MODES, Answer, Master, assert_not_done, is_unknown
from tests.bed.store import Store
from tests.bed.waiting import WITHIN, eventually_async
from tests.integration.objdb.conftest import endpoint
from tests.integration.objdb.relay import Relay, relay
from tests.system.faults.cluster import LEASE
from tests.system.faults.stores import Reached

pytestmark = [pytest.mark.system, pytest.mark.store, pytest.mark.stores("etcd", "consul")]

NID: Final = NetworkId("n.default")
NETWORK: Final = {
    "tenantName": "default",
    "networkName": "n",
    "encap": "vxlan",
    "subnet": "10.1.0.0/24",
    "gateway": "10.1.0.254",
}
FIRST, SECOND, THIRD = "10.1.0.1", "10.1.0.2", "10.1.0.3"
REFUSED: Final = {"etcd": keys.LEADER_LOCK.encode(), "consul": b"HTTP/1.1 409"}
"""What is in an answer that refuses a commit: etcd shows the lock, consul compresses its words."""
LATE: Final = b"n.default-late"
"""What is in the commit that is kept back."""
NO_LEADER: Final = (500, "Leader not found")


@dataclass(slots=True)
class Pair:
    """A leader behind a relay, the one that comes after it, and their store."""

    relay: Relay
    old: Master
    new: Master
    store: Store
    paused: float = 0.0
    sent: list["Sent"] = field(default_factory=list)

    def stored(self) -> dict[str, bytes]:
        """Return what the store holds of the leader's."""
        entries = self.store.entries(keys.ROOT).items()
        return {key: value for key, value in entries if key.startswith(keys.LEADER_PREFIXES)}

    def address(self, name: str) -> str | None:
        """Return the address that the store says an endpoint has."""
        record = self.stored().get(keys.endpoint(ids.endpoint_key(NID, name)))
        return None if record is None else json.loads(record)["ipAddress"]

    async def depose(self) -> None:
        """Stop the leader until another leads, and for twice its lease."""
        self.old.pause()
        self.paused = time.monotonic()
        await eventually_async(lambda: asyncio.to_thread(leads, self.new), "the new leader leads")
        await asyncio.sleep(self.paused + 2 * LEASE - time.monotonic())

    async def agree(self) -> None:
        """Wait until the old leader follows, and see that both tell the same."""

        async def follows() -> bool:
            return (await asyncio.to_thread(self.old.ask, "GET", "/version")).status == 200

        await eventually_async(follows, "the old leader follows")
        assert await asyncio.to_thread(leads, self.new)
        for path in ("/api/v1/inspect/networks/default:n/", "/api/v1/networks/"):
            through = await asyncio.to_thread(self.old.ask, "GET", path)
            direct = await asyncio.to_thread(self.new.ask, "GET", path)
            assert (through.status, through.body) == (200, direct.body)


class Sent:
    """A request that lies before a master that is stopped."""

    def __init__(self, master: Master, method: str, path: str, body: object = None) -> None:
        self._connection = HTTPConnection(master.host, master.port, timeout=WITHIN)
        payload = None if body is None else json.dumps(body)
        self._connection.request(method, path, payload, {"Content-Type": "application/json"})

    def close(self) -> None:
        """Wait for no answer any more."""
        self._connection.close()

    async def answer(self) -> Answer:
        """Return the answer, once it comes."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Answer:
        answer = self._connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())


@pytest.fixture
async def pair(store: Store, bed_dir: Path) -> AsyncIterator[Pair]:
    """Run a leader behind a relay, and another master beside it."""
    flags = (*MODES, "--lease-ttl", str(LEASE))
    async with relay(endpoint(store)) as one:
        old = Master(
            bed_dir, Reached(store.kind, f"http://{one.endpoint}"), name="old", flags=flags
        )
        new = Master(bed_dir, store, name="new", flags=flags, leads=False)
        try:
            for master in (old, new):
                await asyncio.to_thread(master.start)
            made = await asyncio.to_thread(old.ask, "POST", "/api/v1/networks/default:n/", NETWORK)
            assert made.status == 200
            pair = Pair(one, old, new, store)
            yield pair
            for request in pair.sent:
                request.close()
        finally:
            old.kill()
            new.kill()


def leads(master: Master) -> bool:
    """Say whether a master answers as the leader."""
    answer = master.ask("GET", "/info")
    return answer.status == 200 and f'"leader-ip":"{master.address}"' in answer.text


def wanted(name: str, address: str = "") -> dict[str, object]:
    """Return the body that asks for an endpoint, with some address or a certain one."""
    return {
        "TenantName": "default",
        "NetworkName": "n",
        "ConfigEP": {"Container": name, "Host": "nowhere", "IPAddress": address},
    }


async def created(master: Master, name: str, address: str = "") -> str:
    """Create an endpoint; its address."""
    body = wanted(name, address)
    answer = await asyncio.to_thread(master.ask, "POST", "/plugin/createEndpoint", body)
    assert answer.status == 200, answer.text
    return address_in(answer)


def address_in(answer: Answer) -> str:
    return str(json.loads(answer.body)["EndpointConfig"]["ipAddress"])


def sent_to_the_sleeper(pair: Pair) -> tuple[list[Sent], Sent]:
    """Ask the stopped leader for what only its successor knows, and for one more endpoint."""
    reads = [Sent(pair.old, "GET", "/api/v1/inspect/endpoints/next/") for _ in range(8)]
    tardy = Sent(pair.old, "POST", "/plugin/createEndpoint", wanted("tardy"))
    pair.sent += [*reads, tardy]
    return reads, tardy


async def judge_answers(
    pair: Pair, reads: list[Sent], tardy: Sent, truth: dict[str, bytes]
) -> None:
    """See that the woken leader told nothing stale, and wrote nothing by itself."""
    for read in reads:
        answer = await read.answer()
        if answer.status == 200:
            assert json.loads(answer.body)["Oper"]["ipAddress"][0] == pair.address("next")
        else:
            assert (answer.status, answer.text) == NO_LEADER
    answer = await tardy.answer()
    await pair.agree()
    if answer.status == 200:  # then it had passed the request on
        assert pair.address("tardy") == address_in(answer)
        assert truth.items() <= pair.stored().items()
    else:
        if not is_unknown(answer):
            assert_not_done(answer)
        assert pair.stored() == truth


async def test_a_leader_that_did_nothing_tells_nothing_stale(pair: Pair) -> None:
    await pair.depose()
    assert await created(pair.new, "next") == FIRST
    reads, tardy = sent_to_the_sleeper(pair)
    truth = pair.stored()
    pair.old.resume()
    await judge_answers(pair, reads, tardy, truth)


async def test_a_commit_that_was_made_and_not_answered_holds(pair: Pair) -> None:
    pair.relay.drop_answers = True
    async with asyncio.TaskGroup() as group:
        late = group.create_task(asked(pair.old, "late"))

        async def made() -> bool:
            return pair.address("late") is not None

        await eventually_async(made, "the commit is made")
        await pair.depose()
        assert pair.address("late") == FIRST
        assert await created(pair.new, "next") == SECOND
        reads, tardy = sent_to_the_sleeper(pair)
        truth = pair.stored()
        pair.relay.drop_answers = False
        pair.relay.cut()
        pair.old.resume()
        await judge_answers(pair, reads, tardy, truth)
    answer = late.result()
    if answer.status == 200:
        assert address_in(answer) == FIRST
    else:
        assert is_unknown(answer), answer.text
    for master in (pair.old, pair.new):
        assert await created(master, "late") == FIRST


@pytest.mark.parametrize("delivered", [True, False], ids=["delivered late", "lost"])
async def test_a_commit_that_was_not_made_in_time_never_is(pair: Pair, delivered: bool) -> None:
    pair.relay.hold_requests = True
    async with asyncio.TaskGroup() as group:
        late = group.create_task(asked(pair.old, "late"))

        async def held() -> bool:
            return pair.relay.holds(LATE)

        await eventually_async(held, "the commit is on its way")
        await pair.depose()
        assert pair.address("late") is None
        # the address that is on its way stays free: nothing but the fence stands against it
        assert await created(pair.new, "next", SECOND) == SECOND
        reads, tardy = sent_to_the_sleeper(pair)
        truth = pair.stored()
        if delivered:
            await refused_by_the_store(pair)
        pair.relay.hold_requests = False
        pair.relay.cut()
        pair.old.resume()
        await judge_answers(pair, reads, tardy, truth)
    answer = late.result()
    assert is_unknown(answer) or (answer.status, answer.text) == NO_LEADER
    assert pair.address("late") is None
    assert await created(pair.old, "late") in {FIRST, THIRD}
    await pair.agree()


async def asked(master: Master, name: str) -> Answer:
    """Ask for an endpoint, whatever the answer."""
    return await asyncio.to_thread(master.ask, "POST", "/plugin/createEndpoint", wanted(name))


async def refused_by_the_store(pair: Pair) -> None:
    """Deliver what was held back, and wait until the store has refused it."""
    before = len(pair.relay.answers)
    await pair.relay.release(LATE)

    async def answered() -> bool:
        return REFUSED[pair.store.kind] in pair.relay.answers[before:]

    await eventually_async(answered, "the store refuses the old leader's commit")
