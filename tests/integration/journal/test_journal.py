"""`netplugin.pods.registry.journal` on a real file system."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.pods.registry.journal import Journal
from netplugin.pods.registry.journal_entry import EntryState
from tests.unit.netplugin.records import journal_entry as entry


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "run" / "endpoints"


@pytest.fixture
def journal(directory: Path) -> Iterator[Journal]:
    journal = Journal(directory)
    yield journal
    journal.close()


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_entries_survive_the_agent(journal: Journal, directory: Path) -> None:
    assert await journal.load() == []
    await asyncio.gather(*(journal.write(entry(f"c{n}")) for n in range(20)))
    await journal.write(replace(entry("c3"), state=EntryState.PRESENT))
    await journal.remove(entry("c4").key)
    await journal.remove(entry("c4").key)
    another = Journal(directory)
    found = {e.spec.container_id: e for e in await another.load()}
    another.close()
    assert set(found) == {f"c{n}" for n in range(20)} - {"c4"}
    assert found["c3"].state is EntryState.PRESENT
    assert found["c5"] == entry("c5")


async def test_the_last_write_of_a_pod_does_not_wait_for_the_first_ones_of_many(
    journal: Journal,
) -> None:
    await journal.load()
    await journal.write(entry("first"))
    done: list[str] = []

    async def note(name: str, work: Coroutine[None, None, None]) -> None:
        await work
        done.append(name)

    others = [note("another", journal.write(entry(f"c{n}"))) for n in range(50)]
    present = replace(entry("first"), state=EntryState.PRESENT)
    await asyncio.gather(*others, note("first", journal.stage(present)))
    assert done[-1] == "another"
    await journal.commit(present.key)
    assert present in await journal.load()


async def test_a_call_that_is_cancelled_is_not_done_later(
    journal: Journal, directory: Path
) -> None:
    await journal.load()
    async with asyncio.TaskGroup() as group:
        writes = [group.create_task(journal.write(entry(f"c{n}"))) for n in range(50)]
        await asyncio.sleep(0)
        writes[-1].cancel()
    assert len(files(directory)) == 49
    await journal.write(entry("c49"))
    assert len(files(directory)) == 50


@pytest.mark.parametrize("container", ["../../etc/passwd", "a/b", "x" * 4000, "ü", "."])
async def test_a_container_id_cannot_leave_the_directory(
    journal: Journal, directory: Path, container: str
) -> None:
    await journal.load()
    await journal.write(entry(container))
    (path,) = files(directory)
    assert path.parent == directory
    assert await journal.load() == [entry(container)]
    await journal.remove(entry(container).key)
    assert files(directory) == []


async def test_only_root_can_look(journal: Journal, directory: Path) -> None:
    await journal.load()
    assert mode(directory) == 0o700


async def test_what_cannot_be_read_is_put_aside(
    journal: Journal, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await journal.load()
    await journal.write(entry("good"))
    (directory / "bad.json").write_bytes(b"\xff{")
    (directory / "empty.json").write_text("")
    (directory / "half.tmp").write_text("{")
    (directory / "stranger.txt").write_text("hello")
    with caplog.at_level(logging.ERROR):
        assert await journal.load() == [entry("good")]
    assert len(caplog.records) == 2
    names = {path.name for path in files(directory)}
    assert {"bad.unreadable", "empty.unreadable", "stranger.txt"} < names
    assert "half.tmp" not in names
    caplog.clear()
    assert await journal.load() == [entry("good")]
    assert caplog.records == []


async def test_a_disk_that_fails_is_a_host_error() -> None:
    journal = Journal(Path("/dev/null/endpoints"))
    with pytest.raises(HostError, match=r"journal /dev/null/endpoints: Not a directory"):
        await journal.load()
    with pytest.raises(HostError, match="Not a directory"):
        await journal.write(entry())
    journal.close()


async def test_a_write_is_synced_before_it_is_seen(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal.load()
    steps: list[str] = []
    fsync, rename = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        steps.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().suffix)
        fsync(descriptor)

    def watched_rename(source: str, target: str) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_rename)
    await journal.write(entry())
    assert steps == ["sync .tmp", "rename", "sync "]


async def test_a_staged_entry_holds_once_it_is_committed(journal: Journal, directory: Path) -> None:
    await journal.load()
    await journal.write(entry())
    present = replace(entry(), state=EntryState.PRESENT)
    await journal.stage(present)
    another = Journal(directory)  # as the next agent, after a kill at this point
    assert await another.load() == [entry()]
    another.close()
    with pytest.raises(HostError, match="No such file"):
        await journal.commit(entry().key)  # the other agent discarded it
    await journal.stage(present)
    await journal.commit(entry().key)
    assert await journal.load() == [present]
    await journal.stage(entry())
    await journal.write(replace(entry(), state=EntryState.REMOVING))
    assert [entry.state for entry in await journal.load()] == [EntryState.REMOVING]
    assert [path.suffix for path in files(directory)] == [".json"]


_FULL = """
import asyncio, dataclasses, sys
from pathlib import Path
from core.errors import HostError
from netplugin.pods.registry.journal import EntryState, Journal
from tests.unit.netplugin.records import journal_entry as entry

async def main(directory):
    journal, removing = Journal(directory), dataclasses.replace(entry(), state=EntryState.REMOVING)
    await journal.load()
    await journal.write(entry())
    filler = (directory.parent / "filler").open("wb", buffering=0)
    try:
        while filler.write(bytes(4096)):
            pass
    except OSError:
        pass
    try:
        await journal.write(dataclasses.replace(entry(), key="n1.default-other"))
    except HostError as exc:
        print(exc)
    try:
        await journal.probe()
    except HostError as exc:
        print(exc)
    await journal.write(removing)
    print(*(path.suffix for path in directory.iterdir()))
    journal.close()
    journal = Journal(directory)
    print(await journal.load() == [removing])
    await journal.write(removing)
    await journal.remove(entry().key)
    print(await journal.load())
    journal.close()

asyncio.run(main(Path(sys.argv[1]) / "endpoints"))
"""


def test_an_entry_can_be_removed_on_a_full_disk(tmp_path: Path) -> None:
    """The finding of docs/notes/trust.md §13."""
    mounted = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    place = str(tmp_path)
    script = ["unshare", "--mount", "sh", "-c", mounted, place, sys.executable, "-c", _FULL, place]
    done = subprocess.run(script, check=True, capture_output=True, text=True)
    full = f"journal {tmp_path}/endpoints: No space left on device"
    assert done.stdout.splitlines() == [full, full, ".removing", "True", "[]"]


async def test_a_probe_leaves_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "endpoints")
    with pytest.raises(HostError, match="No such file or directory"):
        await journal.probe()
    await journal.load()
    await journal.probe()
    assert [*(tmp_path / "endpoints").iterdir()] == []
    journal.close()
