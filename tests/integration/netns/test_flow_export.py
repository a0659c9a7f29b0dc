"""Records of flows as IPFIX, read by a collector of the field."""

import asyncio
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.ids import HostLabel
from netplugin.flow_records.ipfix import Portion
from netplugin.flow_records.sinks import IpfixSink
from state.flow_records import DROPPED, End
from tests.bed.collector import Collector, collecting
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually
from tests.unit.state.flow_records import RECORD

pytestmark = pytest.mark.ovs

PORT = 4739
ADDRESSES = {4: "127.0.0.1", 6: "::1"}
MANY = 2000


def clock() -> float:
    return datetime.now(UTC).timestamp()


def portions() -> list[Portion]:
    now = clock()
    four = replace(RECORD, destination=End("10.1.0.9", 8080), first=now - 3, last=now, ended=True)
    six = replace(four, source=End("fd00::1", 4000), destination=End("fd00::2", 443))
    dropped = replace(four, verdict=DROPPED, protocol="udp", source=End("10.1.0.3", 5353))
    return [
        Portion(four, 10, 1000, 5, 500),
        Portion(six, 7, 700, 0, 0),
        Portion(dropped, 3, 0, 0, 0),
    ]


def flows_of(collector: Collector, count: int) -> list[dict[str, str]]:
    def all_of_them() -> list[dict[str, str]]:
        found = collector.flows()
        return found if len(found) >= count else []

    return eventually(all_of_them, "the collector has all flows")


async def test_a_collector_reads_ends_counts_and_all_of_a_large_batch(
    host: Namespace, tmp_path: Path
) -> None:
    host.run(["ip", "link", "set", "lo", "up"])
    with (
        collecting(tmp_path / "flows", ADDRESSES[4], PORT, host) as collector,
        closing(IpfixSink(ADDRESSES[4], PORT, HostLabel("h1"), clock)) as sink,
    ):
        for _ in range(2):
            await sink.send(portions())
        await sink.send([portions()[0]] * MANY)
        found = await asyncio.to_thread(flows_of, collector, 8 + 2 * MANY)
    assert len(found) == 8 + 2 * MANY
    there = [one for one in found if one["sa"] == "10.1.0.2"]
    back = [one for one in found if one["sa"] == "10.1.0.9"]
    assert {(one["sp"], one["dp"], one["pkt"], one["byt"]) for one in there} == {
        ("40000", "8080", "10", "1000")
    }
    assert {(one["da"], one["dp"], one["pkt"]) for one in back} == {("10.1.0.2", "40000", "5")}
    six = [one for one in found if one["sa"] == "fd00::1"]
    assert {(one["da"], one["dp"], one["pr"]) for one in six} == {("fd00::2", "443", "6")}
    assert {one["pr"] for one in found if one["sa"] == "10.1.0.3"} == {"17"}
    assert {one["td"] for one in there} == {"3.000"}
    assert collector.faults() == []


async def test_where_nobody_listens_a_batch_is_lost(host: Namespace) -> None:
    host.run(["ip", "link", "set", "lo", "up"])

    async def send_often(sink: IpfixSink) -> None:
        for _ in range(50):  # the kernel learns of it by an answer to a datagram before
            await sink.send(portions())
            await asyncio.sleep(0.02)

    with (
        closing(IpfixSink(ADDRESSES[6], PORT, HostLabel("h1"), clock)) as sink,
        pytest.raises(OSError, match="refused"),
    ):
        await send_often(sink)
