"""One label belongs to one host."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core import keys
from core.errors import Conflict, StoreDenied
from core.ids import HostLabel
from core.tasks import background
from netplugin.masters.label_claim import LabelTiming, claim_label, keep_label
from netplugin.masters.registration import host_record, instances
from objdb.api import Change, Delete, Put
from objdb.memory import LostAnswer, MemoryBackend
from state import codec
from state.records import HostRecord
from tests.bed.waiting import WITHIN
from tests.unit.netplugin.agent import eventually, stays
from tests.unit.netplugin.starts import SETTINGS

LABEL = HostLabel("label")
KEY = keys.host(LABEL)
OWN = host_record(SETTINGS, [], "1", "own")
OTHER = replace(OWN, host_id="other", control_ip="192.0.2.9")
TIMING = LabelTiming(patience=0.05, interval=0.005)


@pytest.fixture
async def backend() -> AsyncIterator[MemoryBackend]:
    backend = MemoryBackend()
    yield backend
    await backend.close()


def stored(backend: MemoryBackend) -> HostRecord | None:
    entry = backend.store.get(KEY)
    return None if entry is None else codec.decode_host(entry.key, entry.value)


async def put(backend: MemoryBackend, record: HostRecord) -> None:
    await backend.commit([Change((), (Put(KEY, codec.encode(record)),))])


async def register(backend: MemoryBackend) -> str:
    one = instances(SETTINGS, [40001, 40002], "1")[0]
    key = keys.service(one.service, one.address, one.port)
    await backend.commit([Change((), (Put(key, codec.encode(one)),))])
    return key


@pytest.mark.parametrize(
    "before", [None, OWN, replace(OWN, version="0"), replace(OTHER, host_id="")]
)
async def test_a_label_that_is_free_or_ones_own_is_claimed(
    backend: MemoryBackend, before: HostRecord | None
) -> None:
    if before is not None:
        await put(backend, before)
        await register(backend)
    await claim_label(backend, OWN, timing=TIMING)
    assert stored(backend) == OWN


async def test_a_record_that_is_there_already_is_not_written_again(
    backend: MemoryBackend,
) -> None:
    await put(backend, OWN)
    before = backend.store.get(KEY)
    await claim_label(backend, OWN, timing=TIMING)
    assert before is not None
    assert backend.store.get(KEY) == before


async def test_garbage_of_another_host_does_not_keep_an_agent_from_starting(
    backend: MemoryBackend,
) -> None:
    await put(backend, OTHER)
    foreign = keys.service(keys.SERVICE_NETPLUGIN, "192.0.2.66", 1)
    await backend.commit([Change((), (Put(foreign, b"garbage"),))])
    await claim_label(backend, OWN, timing=TIMING)
    assert stored(backend) == OWN
    await backend.commit([Change((), (Put(KEY, b"garbage"),))])
    await claim_label(backend, OWN, timing=TIMING)
    assert stored(backend) == OWN


async def test_the_label_of_a_host_whose_agent_is_gone_is_claimed(backend: MemoryBackend) -> None:
    await put(backend, OTHER)
    await claim_label(backend, OWN, timing=TIMING)
    assert stored(backend) == OWN


async def test_the_label_of_another_host_is_refused(backend: MemoryBackend) -> None:
    await put(backend, OTHER)
    await register(backend)
    with pytest.raises(Conflict, match=r"label belongs to another host, at 192.0.2.9 .*--host"):
        await claim_label(backend, OWN, timing=TIMING)
    assert stored(backend) == OTHER


async def test_the_registrations_of_a_killed_agent_are_waited_for(backend: MemoryBackend) -> None:
    await put(backend, OTHER)
    key = await register(backend)
    claimed = asyncio.gather(claim_label(backend, OWN, timing=replace(TIMING, patience=60)))
    await stays(lambda: not claimed.done(), 0.03)
    await backend.commit([Change((), (Delete(key),))])
    await claimed
    assert stored(backend) == OWN


async def test_a_label_is_taken_over_where_that_is_asked_for(backend: MemoryBackend) -> None:
    await put(backend, OTHER)
    await register(backend)
    await claim_label(backend, OWN, takeover=True, timing=TIMING)
    assert stored(backend) == OWN


async def test_the_host_record_is_written_when_the_store_is_there(backend: MemoryBackend) -> None:
    backend.faults.lost_answers.append(LostAnswer.NOT_APPLIED)
    backend.faults.reachable.clear()
    written = asyncio.gather(claim_label(backend, OWN, timing=TIMING))
    await stays(lambda: not written.done(), 0.01)
    backend.faults.reachable.set()
    await written
    assert stored(backend) == OWN


async def test_a_store_that_refuses_is_no_outage(
    backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise StoreDenied("no permission")

    monkeypatch.setattr(backend, "commit", refuse)
    with pytest.raises(StoreDenied):
        await claim_label(backend, OWN, timing=TIMING)


async def test_a_host_record_that_was_removed_is_written_again(backend: MemoryBackend) -> None:
    async with background(
        "host record", keep_label(backend, lambda: OWN, lambda: stored(backend), interval=0.005)
    ):
        await eventually(lambda: stored(backend) == OWN)
        written = backend.store.get(KEY)
        await stays(lambda: backend.store.get(KEY) == written, 0.02)
        await backend.commit([Change((), (Delete(KEY),))])
        await eventually(lambda: stored(backend) == OWN)


async def test_a_label_that_was_taken_over_ends_its_former_host(backend: MemoryBackend) -> None:
    await put(backend, OTHER)
    with pytest.raises(Conflict, match=r"192.0.2.9 has taken over the host label label"):
        async with asyncio.timeout(WITHIN):
            await keep_label(backend, lambda: OWN, lambda: stored(backend), interval=0.005)
    assert stored(backend) == OTHER
