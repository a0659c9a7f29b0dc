"""What is exported, when, and what is counted where a sink does not take it."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from core.ids import HostLabel
from core.tasks import background
from netplugin.flow_records.export import FlowExporter
from netplugin.flow_records.ipfix import Portion
from netplugin.flow_records.ring import Ring
from netplugin.flow_records.sinks import FileSink, SocketSink, lines
from state.flow_records import FlowRecord
from tests.unit.state.flow_records import RECORD

HOST = HostLabel("h1")


@dataclass
class Sink:
    """A sink that can be away."""

    away: bool = False
    got: list[list[Portion]] = field(default_factory=list)
    closed: bool = False

    async def send(self, batch: Sequence[Portion]) -> None:
        if self.away:
            raise ConnectionRefusedError("nobody there")
        self.got.append(list(batch))

    def close(self) -> None:
        self.closed = True


def record(number: int, packets: int = 0, size: int = 0) -> FlowRecord:
    return replace(RECORD, number=number, packets=packets, bytes=size)


async def test_a_record_is_told_when_it_ends_with_all_it_counted() -> None:
    ring, sink = Ring(10), Sink()
    exporter = FlowExporter(ring, {"a": sink})
    one = record(1, packets=3, size=300)
    ring.add(one)
    await exporter.export(0.0)
    assert sink.got == []
    one.packets, one.answer_packets = 7, 2
    ring.end(one)
    await exporter.export(5.0)
    await exporter.export(10.0)
    assert sink.got == [[Portion(one, 7, 300, 2, 0)]]
    assert (exporter.sent, exporter.lost) == ({"a": 1}, {"a": 0})


async def test_what_goes_on_is_told_each_minute_and_counts_nothing_twice() -> None:
    ring, sink = Ring(10), Sink()
    exporter = FlowExporter(ring, {"a": sink})
    one = record(1, packets=3)
    ring.add(one)
    for now in (0.0, 59.0):
        await exporter.export(now)
    assert sink.got == []
    await exporter.export(60.0)
    await exporter.export(120.0)  # nothing more was sent
    one.packets = 10
    await exporter.export(125.0)
    ring.end(one)
    await exporter.export(130.0)
    assert [[portion.packets for portion in batch] for batch in sink.got] == [[3], [7], [0]]


async def test_a_sink_that_is_away_loses_what_others_get(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ring, near, far = Ring(10), Sink(), Sink(away=True)
    exporter = FlowExporter(ring, {"near": near, "far": far}, waiting=2)
    for number in range(3):
        ring.add(one := record(number))
        ring.end(one)
    await exporter.export(0.0)
    assert [len(batch) for batch in near.got] == [2]
    assert exporter.lost == {"near": 1, "far": 3}
    assert exporter.sent == {"near": 2, "far": 0}
    assert "flow records not exported" in caplog.text
    far.away = False
    ring.add(one := record(9))
    ring.end(one)
    await exporter.export(5.0)
    assert exporter.sent == {"near": 3, "far": 1}


async def test_sinks_are_closed_in_the_end() -> None:
    sink = Sink()
    exporter = FlowExporter(Ring(), {"a": sink}, interval=0.0)
    async with background("export", exporter.run()):
        await asyncio.sleep(0.01)
        assert not sink.closed
    assert sink.closed


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records in each file of a folder."""
    return {
        one.name: [json.loads(line) for line in one.read_text().splitlines()]
        for one in folder.iterdir()
    }


BATCH = [Portion(RECORD, 1, 60, 0, 0)]


async def test_a_file_is_put_aside_when_it_is_large_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "flows.jsonl"
    sink = FileSink(path, HOST, largest=1, kept=2)
    for number in range(4):
        await sink.send([Portion(record(number), 1, 60, 0, 0)])
    kept = {name: [one["number"] for one in found] for name, found in read(tmp_path).items()}
    assert kept == {"flows.jsonl.1": [3], "flows.jsonl.2": [2]}
    small = FileSink(path, HOST)
    await small.send(BATCH)
    await small.send(BATCH)
    assert read(tmp_path)["flows.jsonl"] == [{"host": "h1", **RECORD.shown()}] * 2
    assert path.stat().st_mode & 0o777 == 0o640
    small.close()


async def test_a_file_that_grows_by_little_is_put_aside_too(tmp_path: Path) -> None:
    path = tmp_path / "flows.jsonl"
    size = len(lines(HOST, BATCH))
    sink = FileSink(path, HOST, largest=3 * size, kept=2)
    for _ in range(20):
        await sink.send(BATCH)
    # what is left of twenty batches
    assert {name: len(kept) for name, kept in read(tmp_path).items()} == {
        "flows.jsonl": 2,
        "flows.jsonl.1": 3,
        "flows.jsonl.2": 3,
    }


async def test_a_pipe_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flows.jsonl"
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"):
        await FileSink(path, HOST).send(BATCH)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="no regular file"):
            await FileSink(path, HOST).send(BATCH)
    finally:
        os.close(reader)


async def test_a_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "flows.jsonl"
    path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        await FileSink(path, HOST).send(BATCH)
    assert not (tmp_path / "other").exists()


async def test_a_socket_gets_lines_also_from_a_reader_that_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.put_nowait(await reader.readline())
        writer.close()

    sink = SocketSink(path, HOST)
    with pytest.raises(OSError, match="No such file"):
        await sink.send(BATCH)
    async with await asyncio.start_unix_server(read, path):
        await sink.send(BATCH)
        assert json.loads(await lines.get())["host"] == "h1"
        while lines.empty():
            try:
                await sink.send(BATCH)
            except OSError:
                continue  # the reader was gone: the next batch finds the next one
            await asyncio.sleep(0.01)
        assert json.loads(await lines.get())["number"] == RECORD.number
    sink.close()
