"""`netmaster dump` and `netmaster load`, and masters on stores of other releases, on real store."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core import keys
from objdb.api import Change, Put
from state import schema
from state.schema import OLDEST, VERSION, SchemaStamp
from tests.bed.master import MODES, PROGRAM, Master
from tests.bed.store import Store, client, store_url

pytestmark = pytest.mark.store


@pytest.fixture
def master(bed_dir: Path, store: Store) -> Iterator[Master]:
    """Run a master with something of each sort in its store."""
    master = Master(bed_dir, store)
    master.start()
    for path, body in (
        ("api/v1/tenants/t/", {"tenantName": "t"}),
        (
            "api/v1/networks/t:n/",
            {"tenantName": "t", "networkName": "n", "encap": "vxlan", "subnet": "10.1.0.0/16"},
        ),
        (
            "api/v1/endpointGroups/t:g/",
            {"tenantName": "t", "networkName": "n", "groupName": "g"},
        ),
        (
            "plugin/createEndpoint",
            {
                "TenantName": "t",
                "NetworkName": "n",
                "EPCommonName": "c",
                "ConfigEP": {"Container": "c", "Host": "h", "ServiceName": "g"},
            },
        ),
    ):
        answer = master.ask("POST", f"/{path}", body)
        assert answer.status == 200, answer.text
    yield master
    master.kill()


def run(
    store: Store, *words: str, text: str = "", older: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run one of the commands on a store."""
    named = ("--cluster-store", store_url(store)) if older else (f"--{store.kind}", store.url)
    return command(*words, *named, text=text)


def command(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run netmaster to its end."""
    return subprocess.run(
        [PROGRAM, *words], check=False, input=text, capture_output=True, text=True, timeout=30
    )


async def stored(store: Store) -> dict[str, bytes]:
    """Return what the store holds of the leader's; the lineage is the store's own."""
    backend = client(store)
    try:
        snapshot = await backend.snapshot(keys.ROOT)
    finally:
        await backend.close()
    return {
        key: entry.value
        for key, entry in snapshot.entries.items()
        if key.startswith(keys.LEADER_PREFIXES) and key != keys.LINEAGE
    }


async def put(store: Store, key: str, value: bytes) -> None:
    """Write one key."""
    backend = client(store)
    try:
        await backend.commit([Change((), (Put(key, value),))])
    finally:
        await backend.close()


async def test_a_dump_is_loaded_into_another_store(
    master: Master, store: Store, new_store: Callable[[], Store], bed_dirs: Iterator[Path]
) -> None:
    dumped = run(store, "dump")
    assert (dumped.returncode, dumped.stderr) == (0, "")
    directory = next(bed_dirs)
    directory.mkdir()
    other = new_store()
    other.start()
    heir = Master(directory, other)
    try:
        loaded = run(other, "load", text=dumped.stdout, older=True)
        assert (loaded.returncode, loaded.stdout) == (0, "")
        assert await stored(other) == await stored(store)
        assert run(other, "dump").stdout == dumped.stdout
        heir.start()
        for path in ("/api/v1/inspect/networks/t:n/", "/api/v1/inspect/endpointGroups/t:g/"):
            assert heir.ask("GET", path).json() == master.ask("GET", path).json()
    finally:
        heir.kill()
        other.kill()


async def test_a_load_is_refused_while_a_master_leads(master: Master, store: Store) -> None:
    text = run(store, "dump").stdout
    before = await stored(store)
    refused = run(store, "load", "--replace", text=text)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"{master.address} leads: stop every netmaster before a backup is loaded\n"
    )
    assert await stored(store) == before


async def test_a_store_in_use_is_replaced_only_when_asked(master: Master, store: Store) -> None:
    text = run(store, "dump").stdout
    before = await stored(store)
    assert master.ask("POST", "/api/v1/tenants/u/", {"tenantName": "u"}).status == 200
    master.stop()
    refused = run(store, "load", text=text)
    assert refused.returncode == 1
    assert "--replace" in refused.stderr
    assert keys.obj("tenant", "u") in await stored(store)
    assert run(store, "load", "--replace", text=text).returncode == 0
    assert await stored(store) == before
    master.start()
    assert master.ask("GET", "/api/v1/tenants/u/").text == "tenant not found"


async def test_a_dump_of_another_release_is_refused(store: Store) -> None:
    refused = run(store, "load", text=f'{{"schema":{VERSION + 1},"release":"9.9","keys":{{}}}}')
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.endswith("load it with the release that wrote it, 9.9\n")
    assert not await stored(store)


def test_a_wrong_word_ends_a_command_with_22(store: Store) -> None:
    refused = run(store, "load", "--force")
    assert refused.returncode == 22
    assert refused.stderr.startswith("Incorrect Usage. ")
    assert "--replace" in run(store, "load", "--help").stdout


async def test_the_first_leader_stamps_the_store(master: Master, store: Store) -> None:
    assert master.running
    assert (await stored(store))[keys.SCHEMA] == schema.encode(schema.CURRENT)


@pytest.mark.parametrize(
    ("stamp", "advice"),
    [
        (SchemaStamp(VERSION + 1), "run the newer release that wrote the store"),
        (SchemaStamp(OLDEST - 1), "run an older release"),
        (SchemaStamp(VERSION, loading=True), "run `netmaster load --replace`"),
    ],
)
async def test_a_master_ends_at_a_store_of_another_release(
    store: Store, stamp: SchemaStamp, advice: str
) -> None:
    await put(store, keys.SCHEMA, schema.encode(stamp))
    ended = command(
        *(*MODES, f"--{store.kind}", store.url, "--ofnet-port", "0"),
        *("--external-address", "127.0.0.1:0", "--internal-address", "127.0.0.1:0"),
    )
    assert ended.returncode == 1
    assert advice in ended.stderr.splitlines()[-1]
    assert set(await stored(store)) == {keys.SCHEMA}
