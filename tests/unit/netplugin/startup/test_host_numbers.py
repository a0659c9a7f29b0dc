"""Numbers of the host on a page of metrics: those that are to be had, and never for long."""

import asyncio
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

from core.errors import SwitchRefused, SwitchUnavailable
from core.metrics import Metric
from netplugin.startup import metric_names as names
from netplugin.startup.host_numbers import HostNumbers

SHOWN = """system@ovs-system:
  lookups: hit:62 missed:23 lost:4
  flows: 7
  masks: hit:105 total:2 hit/pkt:1.24
  port 0: ovs-system (internal)
  port 1: vxlan_sys_4789 (vxlan: packet_type=ptap)
netdev@ovs-netdev:
  lookups: hit:1 missed:0 lost:0
  flows: 0
"""


class Switch:
    """What ovs-vswitchd answers; an error is raised."""

    def __init__(self) -> None:
        self.answers: dict[str, str | Exception] = {
            "dpctl/show": SHOWN,
            "dpctl/ct-get-nconns": "12\n",
            "dpctl/ct-get-maxconns": "3000000\n",
        }

    async def call(self, command: str, *_arguments: str) -> str:
        answer = self.answers[command]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def conntrack(tmp_path: Path) -> Path:
    (tmp_path / "nf_conntrack_count").write_text("5\n")
    (tmp_path / "nf_conntrack_max").write_text("262144\n")
    return tmp_path


Found = Mapping[Metric, Mapping[tuple[str, ...], object]]


async def read(numbers: HostNumbers) -> Found:
    return {one.metric: one.values for one in await numbers.read()}


async def test_all_of_them(tmp_path: Path, conntrack: Path) -> None:
    found = await read(HostNumbers(tmp_path, Switch(), conntrack=conntrack))
    kernel, user = "system@ovs-system", "netdev@ovs-netdev"
    assert found[names.LOOKUPS] == {
        (kernel, "hit"): 62,
        (kernel, "missed"): 23,
        (kernel, "lost"): 4,
        (user, "hit"): 1,
        (user, "missed"): 0,
        (user, "lost"): 0,
    }
    assert found[names.CACHED] == {(kernel,): 7, (user,): 0}
    assert found[names.CONNTRACK] == {("kernel",): 5, ("switch",): 12}
    assert found[names.CONNTRACK_LIMIT] == {("kernel",): 262144, ("switch",): 3000000}
    (free,), (size,) = found[names.DISK_FREE].values(), found[names.DISK_SIZE].values()
    assert isinstance(free, int)
    assert isinstance(size, int)
    assert 0 <= free <= size > 0


async def test_a_datapath_of_the_kernel_has_no_table_of_its_own(
    tmp_path: Path, conntrack: Path
) -> None:
    switch = Switch()
    refused = SwitchRefused("Open vSwitch: Operation not supported")
    switch.answers |= {"dpctl/ct-get-nconns": refused, "dpctl/ct-get-maxconns": refused}
    found = await read(HostNumbers(tmp_path, switch, conntrack=conntrack))
    assert found[names.CONNTRACK] == {("kernel",): 5}


async def test_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    switch = Switch()
    switch.answers = dict.fromkeys(switch.answers, SwitchUnavailable("no socket"))
    nowhere = tmp_path / "nowhere"
    found = await read(HostNumbers(nowhere, switch, conntrack=nowhere))
    assert not any(found.values())
    assert names.DISK_FREE not in found


@pytest.mark.parametrize("text", ["", "-1", "many", "1\n2", "9" * 30])
async def test_numbers_that_are_none_are_left_out(
    tmp_path: Path, conntrack: Path, text: str
) -> None:
    (conntrack / "nf_conntrack_count").write_text(text)
    found = await read(HostNumbers(tmp_path, Switch(), conntrack=conntrack))
    assert ("kernel",) not in found[names.CONNTRACK]


async def test_what_hangs_is_left_out_and_not_asked_again(
    tmp_path: Path, conntrack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, asked = threading.Event(), []

    def statvfs(path: object) -> None:
        asked.append(path)
        answered.wait()

    async def silent(_command: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(os, "statvfs", statvfs)
    numbers = HostNumbers(tmp_path, Mock(call=silent), conntrack=conntrack, limit=0.0)
    try:
        for _ in range(3):
            found = await read(numbers)
            told = {metric for metric, values in found.items() if values}
            assert told == {names.CONNTRACK, names.CONNTRACK_LIMIT}
        assert asked == [tmp_path]
    finally:
        answered.set()
