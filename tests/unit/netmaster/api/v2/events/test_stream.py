"""Streams of changes: what a client gets, from where, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest

from contivmodel.objects import AciGw, Netprofile, RestObject, Tenant
from core import keys
from core.errors import Malformed
from daemons.listen_address import ListenAddress
from netmaster import codec
from netmaster.api.http.server import RestServer
from netmaster.api.v2.events.log import EventLog
from netmaster.api.v2.events.stream import LAST_EVENT_ID, PATH, EventStreams, StreamLimits, Watch
from objdb.api import Delta, Entry, Snapshot
from state.lineage import Lineage, Term
from tests.bed.waiting import WITHIN

TERM = "8f3a"
OBJECTS: list[RestObject] = [
    Tenant(key="blue", tenant_name="blue"),
    Netprofile(key="red:p", tenant_name="red", profile_name="p"),
    AciGw(key="aciGw", name="aciGw"),
]


def put(rev: int, *objects: RestObject) -> Delta:
    entries = (Entry(keys.obj(o.kind, o.key), codec.encode(o), rev) for o in objects)
    return Delta(rev, tuple(entries), ())


@dataclass
class Served:
    """A server of one log."""

    log: EventLog
    session: aiohttp.ClientSession
    url: str

    @asynccontextmanager
    async def stream(self, query: str = "", **headers: str) -> AsyncIterator[aiohttp.StreamReader]:
        url = f"{self.url}{PATH}?{query}"
        async with self.session.get(url, headers=headers) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert await answer.content.readuntil(b"\n\n") == b"retry: 1000\n\n"
            yield answer.content


@asynccontextmanager
async def serving(limits: StreamLimits | None = None) -> AsyncIterator[Served]:
    log = EventLog(most_events=5)
    log.take(Snapshot(10, {}), Lineage((Term(TERM, 3),)))
    server = RestServer()
    server.own[PATH] = EventStreams(log, None, limits).answer
    address = await server.listen(ListenAddress("127.0.0.1", 0))
    try:
        async with aiohttp.ClientSession() as session:
            yield Served(log, session, f"http://{address}")
    finally:
        await server.close()


async def told(stream: aiohttp.StreamReader) -> tuple[str, int]:
    """Return name and id of the next event."""
    async with asyncio.timeout(WITHIN):
        lines = (await stream.readuntil(b"\n\n")).decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines if line)
    term, _, revision = fields["id"].rpartition(".")
    assert term == TERM
    return fields.get("event", ""), int(revision)


async def test_a_watch_begins_now_and_goes_on() -> None:
    async with serving() as served, served.stream() as stream:
        assert await told(stream) == ("ready", 10)
        for revision in (11, 13):
            served.log.take(put(revision, *OBJECTS))
            assert await told(stream) == ("changes", revision)


async def test_a_watch_goes_on_behind_what_was_seen() -> None:
    async with serving() as served:
        for revision in range(11, 14):
            served.log.take(put(revision, *OBJECTS))
        async with served.stream(**{LAST_EVENT_ID: f"{TERM}.11"}) as stream:
            assert [await told(stream), await told(stream)] == [("changes", 12), ("changes", 13)]
        async with served.stream(f"after={TERM}.12") as stream:
            assert await told(stream) == ("changes", 13)


async def test_what_another_master_has_seen_is_waited_for() -> None:
    async with serving() as served, served.stream(**{LAST_EVENT_ID: f"{TERM}.12"}) as stream:
        served.log.take(put(11, *OBJECTS))
        served.log.take(put(12, *OBJECTS))
        served.log.take(put(13, *OBJECTS))
        assert await told(stream) == ("changes", 13)


@pytest.mark.parametrize("seen", [f"{TERM}.9", f"{TERM}.99", "10", ".10", "other.10"])
async def test_what_is_not_there_is_to_be_read_again(seen: str) -> None:
    limits, last = StreamLimits(catch_up=0.01), {LAST_EVENT_ID: seen}
    async with serving(limits) as served, served.stream(**last) as stream:
        assert await told(stream) == ("reset", 10)
        served.log.take(put(11, *OBJECTS))
        assert await told(stream) == ("changes", 11)


async def test_a_store_that_went_back_is_read_again() -> None:
    async with serving() as served, served.stream() as stream:
        assert await told(stream) == ("ready", 10)
        served.log.take(Snapshot(4, {}, rewound=True))
        assert await told(stream) == ("reset", 4)
        served.log.take(put(5, *OBJECTS))
        assert await told(stream) == ("changes", 5)


async def test_an_id_of_another_history_is_told_from_one_of_this() -> None:
    """The store was restored, and its next leader passed the revision that the client has seen."""
    async with serving() as served:
        log = served.log
        log.take(put(11, *OBJECTS))
        restored = Lineage((Term(TERM, 3), Term("9b1c", 11)))
        log.take(put(13, *OBJECTS), restored)
        for seen, expected in ((f"{TERM}.11", b"changes"), (f"{TERM}.12", b"reset")):
            async with served.stream(**{LAST_EVENT_ID: seen}) as stream:
                lines = await stream.readuntil(b"\n\n")
                assert lines.startswith(b"event: %b\nid: 9b1c.13\n" % expected)


async def test_a_client_moves_on_with_what_is_not_for_it() -> None:
    limits = StreamLimits(idle=0.01)
    async with serving(limits) as served, served.stream("kind=networks") as stream:
        assert await told(stream) == ("ready", 10)
        served.log.take(put(11, *OBJECTS))
        seen = {await told(stream) for _ in range(50)}
        assert seen <= {("", 10), ("", 11)}
        assert ("", 11) in seen


async def touched(stream: aiohttp.StreamReader) -> bytes:
    """Return the data of the next event `touched`, which has to be the next of all."""
    async with asyncio.timeout(WITHIN):
        text = await stream.readuntil(b"\n\n")
    assert text.startswith(b"event: touched\ndata: "), text
    return text.removeprefix(b"event: touched\ndata: ").strip()


async def test_a_client_is_told_which_lists_have_changed() -> None:
    limits = StreamLimits(gather=0.05)
    async with serving(limits) as served, served.stream("lists=hosts,endpoints") as stream:
        assert await told(stream) == ("ready", 10)
        served.log.touch("hosts")
        assert await touched(stream) == b'{"lists":["hosts"]}'
        # within the pause: told together
        served.log.touch("endpoints")
        served.log.touch("hosts")
        assert await touched(stream) == b'{"lists":["endpoints","hosts"]}'
        served.log.take(put(11, *OBJECTS))
        assert await told(stream) == ("changes", 11)


async def test_who_did_not_ask_for_lists_is_not_told() -> None:
    async with serving(StreamLimits(gather=0)) as served, served.stream() as stream:
        assert await told(stream) == ("ready", 10)
        served.log.touch("hosts")
        served.log.take(put(11, *OBJECTS))
        assert await told(stream) == ("changes", 11)


async def test_a_stream_ends_with_its_time() -> None:
    limits = StreamLimits(lifetime=0.05, idle=0.01)
    async with serving(limits) as served, served.stream() as stream:
        async with asyncio.timeout(WITHIN):
            assert (await stream.read()).startswith(b"event: ready\nid: %b.10\n" % TERM.encode())


async def test_the_number_of_watches_is_limited() -> None:
    async with serving(StreamLimits(per_peer=1)) as served, served.stream() as stream:
        assert await told(stream) == ("ready", 10)
        async with served.session.get(f"{served.url}{PATH}") as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            assert (await refused.json(content_type=None))["type"].endswith(":too-many-watches")


async def test_a_log_that_was_not_read_yet_serves_none() -> None:
    async with serving() as served:
        server = RestServer()
        server.own[PATH] = EventStreams(EventLog(), None).answer
        address = await server.listen(ListenAddress("127.0.0.1", 0))
        try:
            async with served.session.get(f"http://{address}{PATH}") as refused:
                assert refused.status == 503
        finally:
            await server.close()


@pytest.mark.parametrize(
    ("query", "tenants", "keys_shown"),
    [
        ("", None, ["blue", "red:p", "aciGw"]),
        ("kind=tenants,aciGws", None, ["blue", "aciGw"]),
        ("tenantName=red", None, ["red:p"]),
        ("", frozenset({"blue"}), ["blue"]),
        ("tenantName=red", frozenset({"blue"}), []),
    ],
)
def test_a_client_is_told_of_what_it_asked_for_and_may_see(
    query: str, tenants: frozenset[str] | None, keys_shown: list[str]
) -> None:
    log = EventLog()
    log.take(Snapshot(1, {}))
    log.take(put(2, *OBJECTS))
    watch = Watch.of(query, None, None)
    watch = Watch(after=None, plurals=watch.plurals, tenant=watch.tenant, tenants=tenants)
    (event,) = log.behind(1)
    assert [change.key for change in event.changes if watch.shows(change)] == keys_shown


@pytest.mark.parametrize(
    ("query", "last"),
    [
        ("kind=nope", None),
        ("lists=networks", None),
        ("x=1", None),
        ("after=-1", None),
        ("", "t." + "1" * 19),
        ("", "t" * 65 + ".1"),
        ("", "t."),
    ],
)
def test_bad_watches_are_refused(query: str, last: str | None) -> None:
    with pytest.raises(Malformed):
        Watch.of(query, last, None)
