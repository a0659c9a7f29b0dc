"""Room in the store: what happens when etcd is full, and that the leader keeps it from growing."""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from core import keys
from core.errors import StoreFull
from objdb.api import Backend, Change, Delete, Entry, Put
from objdb.connect import connect, parse_endpoints
from objdb.etcd.compaction import Checkpoint, decode, encode
from tests.bed.etcd import Etcd
from tests.bed.master import MODES, Master
from tests.bed.netns import http_request
from tests.bed.waiting import eventually
from tests.contract.following import following

pytestmark = pytest.mark.store

JUNK = "/junk/"
SMALL = 200_000
NETWORK = {
    "tenantName": "default",
    "networkName": "n",
    "encap": "vxlan",
    "subnet": "10.1.0.0/16",
    "gateway": "10.1.0.1",
}


@pytest.fixture
def small(bed_dir: Path) -> Iterator[Etcd]:
    """Run an etcd that is soon full."""
    etcd = Etcd(bed_dir)
    etcd.command += ["--quota-backend-bytes", "3000000"]
    etcd.start()
    yield etcd
    etcd.kill()


async def fill(etcd: Etcd) -> None:
    """Write until the store refuses, and delete it again, which does not make room yet."""
    backend = connect(parse_endpoints("netmaster", etcd.url, ""))
    with pytest.raises(StoreFull, match=r"NOSPACE.*etcdctl defrag.*etcdctl alarm disarm"):
        await put_junk(backend)
    junk = await backend.snapshot(JUNK)
    assert junk.entries
    for key in junk.entries:
        await backend.commit([Change((), (Delete(key),))], writer="junk")
    await backend.close()


async def put_junk(backend: Backend) -> None:
    # etcd looks at its size as of its last write to the disk, so it may take more than its quota
    for number in range(1_000):
        await backend.commit([Change((), (Put(f"{JUNK}{number}", b"x" * 50_000),))], writer="junk")


def make_room(etcd: Etcd) -> None:
    """Do what the error says."""
    etcd.compact()
    for words in (("defrag",), ("alarm", "disarm")):
        command = ["etcdctl", "--endpoints", etcd.url, *words]
        subprocess.run(["env", "ETCDCTL_API=3", *command], check=True, capture_output=True)


def endpoint(name: str) -> dict[str, object]:
    return {
        "TenantName": "default",
        "NetworkName": "n",
        "EndpointID": name,
        "ConfigEP": {"Container": name, "Host": "h1"},
    }


def test_a_full_store_refuses_writes_and_takes_deletes(small: Etcd, bed_dir: Path) -> None:
    master = Master(bed_dir, small)
    master.start()
    try:
        assert master.ask("POST", "/api/v1/networks/default:n/", NETWORK).status == 200
        for name in ("a", "b", "c"):
            assert master.ask("POST", "/plugin/createEndpoint", endpoint(name)).status == 200
        asyncio.run(fill(small))
        for _ in range(2):
            refused = master.ask("POST", "/plugin/createEndpoint", endpoint("d"))
            assert refused.status == 500
            assert "NOSPACE" in refused.text
            assert "etcdctl alarm disarm" in refused.text
        assert master.ask("GET", "/api/v1/inspect/endpoints/a/").status == 200
        for name in ("a", "b"):
            answer = master.ask("POST", "/plugin/deleteEndpoint", endpoint(name))
            assert answer.status == 200, answer.text
            assert keys.ENDPOINTS + f"n.default-{name}" not in small.entries(keys.ENDPOINTS)
        assert len(small.entries(keys.ENDPOINTS)) == 1
        make_room(small)
        eventually(
            lambda: master.ask("POST", "/plugin/createEndpoint", endpoint("d")).status == 200,
            "writes are served again",
        )
        assert len(small.entries(keys.ENDPOINTS)) == 2
        assert master.log_text().count("netmaster started") == 1
        assert "internal error" not in master.log_text()
    finally:
        master.kill()


def test_a_master_that_starts_on_a_full_store_says_what_to_do(small: Etcd, bed_dir: Path) -> None:
    asyncio.run(fill(small))
    master = Master(bed_dir, small)
    master.spawn()
    try:
        eventually(lambda: "etcdctl alarm disarm" in master.log_text(), "it says what to do")
        make_room(small)
        master.await_ready()
    finally:
        master.kill()


async def test_the_leader_keeps_the_store_from_growing(etcd: Etcd, bed_dir: Path) -> None:
    master = Master(bed_dir, etcd, flags=(*MODES, "--store-history", "1"))
    await asyncio.to_thread(master.start)
    backend = connect(parse_endpoints("netmaster", etcd.url, ""))
    try:
        assert master.ask("POST", "/api/v1/networks/default:n/", NETWORK).status == 200
        async with following(backend, keys.ENDPOINTS) as agent:
            for number in range(4):
                await asyncio.to_thread(churn, master, 400)
                await asyncio.to_thread(await_forgotten, etcd, etcd.revision())
                await asyncio.to_thread(await_small, etcd)
                await asyncio.to_thread(
                    master.ask, "POST", "/plugin/createEndpoint", endpoint(f"kept{number}")
                )
                kept = {f"kept{last}" for last in range(number + 1)}
                await agent.until(partial(holds, names=kept))
    finally:
        await backend.close()
        master.kill()


def test_leaders_that_are_replaced_within_the_period_compact(etcd: Etcd, bed_dir: Path) -> None:
    master = Master(bed_dir, etcd, flags=(*MODES, "--store-history", "600"))
    master.start()
    try:
        noted = await_checkpoint(etcd)
        assert master.ask("POST", "/api/v1/networks/default:n/", NETWORK).status == 200
        master.kill()
        etcd.put(keys.COMPACTION, encode(replace(noted, time=noted.time - 600)))
        master.start()
        await_forgotten(etcd, noted.revision)
        next_one = eventually(partial(other_checkpoint, etcd, noted), "the next one is noted")
        assert not etcd.is_compacted(noted.revision)
        assert next_one is not None
        assert next_one.time > noted.time
    finally:
        master.kill()


def await_checkpoint(etcd: Etcd) -> Checkpoint:
    found = eventually(lambda: etcd.entries(keys.COMPACTION), "the first revision is noted")
    checkpoint = decode(found[keys.COMPACTION])
    assert checkpoint is not None
    return checkpoint


def other_checkpoint(etcd: Etcd, noted: Checkpoint) -> Checkpoint | None:
    found = await_checkpoint(etcd)
    return found if found.revision > noted.revision else None


def holds(world: Mapping[str, Entry], names: set[str]) -> bool:
    """Say whether these endpoints are there and no other."""
    return {key.rpartition("-")[2] for key in world} == names


def churn(master: Master, rounds: int) -> None:
    """Create and delete endpoints, each ten times."""
    for number in range(rounds):
        body = endpoint(f"c{number % 10}")
        for verb in ("create", "delete"):
            assert master.ask("POST", f"/plugin/{verb}Endpoint", body).status == 200


def await_forgotten(etcd: Etcd, revision: int) -> None:
    eventually(lambda: etcd.is_compacted(revision - 1), "history is dropped")


def await_small(etcd: Etcd) -> None:
    """Wait until the database holds hardly more than what is there; a round writes a megabyte.

    The database's file counts pages as used until a write after the one that freed them.
    """

    def written_and_small() -> bool:
        etcd.put(f"{JUNK}write", b"")
        return size(etcd) < SMALL

    eventually(written_and_small, "room is made")


def size(etcd: Etcd) -> int:
    """Return how many bytes of the database are in use."""
    _, answer = http_request(f"{etcd.url}/v3/maintenance/status", method="POST", body=b"{}")
    return int(json.loads(answer)["dbSizeInUse"])
