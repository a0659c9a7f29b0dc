"""`netmaster import`: what it writes, refuses and prints."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from core import keys
from core.errors import Conflict, ContivError, StoreUnavailable, UsageError
from daemons import flags
from netmaster.commands import importing
from netmaster.commands.dispatch import REPLACE
from netmaster.takeover.translation import translate
from netmaster.view import View
from objdb.api import Change, Put
from objdb.memory import MemoryBackend, MemoryStore
from state import lineage, schema
from tests.golden.stores import recorded
from tests.unit.netmaster.term import term

STORE = "agent-routing-end"
REFUSED = keys.ENDPOINTS + "nvlan6.default-cid-sixvlan"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Save a recorded store as consul would."""
    path = tmp_path / "original.json"
    entries = [
        {"key": key.lstrip("/"), "flags": 0, "value": b64encode(value).decode()}
        for key, value in recorded(STORE).items()
    ]
    path.write_text(json.dumps(entries))
    return path


async def run(store: MemoryStore, *arguments: str) -> None:
    values = flags.read("netmaster", (*flags.STORE, *importing.FLAGS, REPLACE), arguments, {}, "1")
    assert values is not None
    await importing.run(MemoryBackend(store), values)


def held(store: MemoryStore) -> dict[str, bytes]:
    return {key: entry.value for key, entry in store.snapshot(keys.ROOT).entries.items()}


async def test_it_is_what_a_leader_reads(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore()
    await run(store, "--from-file", str(saved), "--leave-out", REFUSED)
    values = held(store)
    view = View.load(values)
    assert len(view.endpoints) == 25
    assert not lineage.decode(values[keys.LINEAGE]).was_loaded, "no agent has pods to claim"
    assert {key for key in values if key.startswith(keys.HOSTS)} == {
        keys.HOSTS + "host1",
        keys.HOSTS + "host12",
    }
    printed = capsys.readouterr().out
    assert "to import: 25 endpoints" in printed
    assert f"left out: {REFUSED}: left out, as asked" in printed
    assert printed.endswith("imported\n")


async def test_what_is_refused_is_named_and_nothing_is_written(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    with pytest.raises(importing.ImportRefused, match="1 keys are refused"):
        await run(store, "--from-file", str(saved))
    assert f"--leave-out {REFUSED}" in capsys.readouterr().out
    assert held(store) == {}


async def test_a_dry_run_writes_nothing(saved: Path) -> None:
    store = MemoryStore()
    await run(store, "--from-file", str(saved), "--leave-out", REFUSED, "--dry-run")
    assert held(store) == {}


async def test_the_second_time_nothing_changes(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    for _ in range(2):
        await run(store, "--from-file", str(saved), "--leave-out", REFUSED)
    assert capsys.readouterr().out.endswith("imported already, nothing was changed\n")
    before = held(store)
    await run(store, "--from-file", str(saved), "--leave-out", REFUSED)
    assert held(store) == before


async def test_a_store_in_use_is_refused(saved: Path) -> None:
    store = MemoryStore()
    async with term(store) as leading:
        await leading.network("n1")
        store.apply([Change((), (Put(keys.SCHEMA, schema.encode(schema.CURRENT)),))])
    before = held(store)
    with pytest.raises(Conflict, match="--replace"):
        await run(store, "--from-file", str(saved), "--leave-out", REFUSED)
    assert held(store) == before
    await run(store, "--from-file", str(saved), "--leave-out", REFUSED, "--replace")
    assert len(View.load(held(store)).endpoints) == 25
    assert lineage.decode(held(store)[keys.LINEAGE]).was_loaded, "agents may have pods to claim"


async def test_the_originals_own_keys_are_never_given_up(saved: Path) -> None:
    store = MemoryStore()
    before = {key: value for key, value in recorded(STORE).items() if "/lock/" not in key}
    store.apply([Change((), (Put(key, value),)) for key, value in before.items()])
    with pytest.raises(Conflict, match="consul kv export"):
        await run(store, "--from-file", str(saved), "--leave-out", REFUSED, "--replace")
    assert held(store) == before


async def test_an_import_that_was_cut_off_keeps_masters_from_leading() -> None:
    store = MemoryStore()
    translation = translate(recorded(STORE), {REFUSED})
    backend = MemoryBackend(store)
    committed = backend.commit
    count = 0

    async def cut_off(*arguments: object, **more: object) -> object:
        nonlocal count
        count += 1
        if count > 2:
            raise StoreUnavailable("gone")
        return await committed(*arguments, **more)  # type: ignore[arg-type]

    backend.commit = cut_off  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreUnavailable):
        await importing.write(backend, translation, replace=False)
    with pytest.raises(ContivError, match="netmaster import --replace"):
        View.load(held(store))
    assert await importing.write(MemoryBackend(store), translation, replace=True)
    assert len(View.load(held(store)).endpoints) == 25


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--from-file", "a", "--from-etcd", "http://127.0.0.1:1"),
        ("--from-file", "/nowhere/at/all"),
        ("--from-file", "SAVED", "--uplink-mac", "host1"),
    ],
)
async def test_wrong_words_are_refused(saved: Path, arguments: tuple[str, ...]) -> None:
    words = [str(saved) if word == "SAVED" else word for word in arguments]
    with pytest.raises(UsageError):
        await run(MemoryStore(), *words)


async def test_a_key_to_leave_out_must_be_there(saved: Path) -> None:
    with pytest.raises(UsageError, match="no such key"):
        await run(MemoryStore(), "--from-file", str(saved), "--leave-out", "/contiv.io/x")


async def test_nothing_of_the_originals_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("[]")
    with pytest.raises(Conflict, match="no keys under"):
        await run(MemoryStore(), "--from-file", str(path))
