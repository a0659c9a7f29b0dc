"""Checks of the host: a fault is told once it has lasted, clears by itself, and stops ADDs."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest

from core.errors import HostError
from core.tasks import background
from netplugin.cni.errors import LIMITED, NOT_AVAILABLE, NotReady
from netplugin.diagnostics.host_checks import HOSTS, HostCheck, HostChecks
from tests.unit.netplugin.agent import eventually

QUICK = partial(HostChecks, limit=0.01, again=0.001)


class Part:
    """A part of the host that works, fails or is silent; counts how often it was asked."""

    def __init__(self) -> None:
        self.fault = ""
        self.raises: type[Exception] = HostError
        self.silent = False
        self.stands_still = False
        self.asked = 0
        self.now = 0.0
        self.shown: dict[str, list[str]] = {}

    async def probe(self) -> None:
        self.asked += 1
        if self.stands_still:
            self.stands_still = False
            time.sleep(0.05)  # noqa: ASYNC251 - this process, not the part
            for _ in range(3):  # the turns in which its answer is read
                await asyncio.sleep(0)
        if self.silent:
            await asyncio.Event().wait()
        if self.fault:
            raise self.raises(self.fault)

    def set_faults(self, subject: str, faults: Iterable[str]) -> None:
        self.shown[subject] = list(faults)

    def check(
        self, *, patience: float = 0.0, interval: float = 0.001, code: int | None = LIMITED
    ) -> HostCheck:
        return HostCheck(
            name="disk",
            probe=self.probe,
            silence="the disk is silent",
            interval=interval,
            patience=patience,
            code=code,
            shared=True,
        )

    @asynccontextmanager
    async def checked(self, check: HostCheck) -> AsyncIterator[HostChecks]:
        checks = QUICK([check], self, clock=lambda: self.now)
        async with background("checks", checks.run()):
            await eventually(lambda: self.asked > 0)
            yield checks

    async def asked_again(self) -> None:
        """Return once two probes that began after this call have ended."""
        seen = self.asked
        await eventually(lambda: self.asked > seen + 2)


async def test_a_fault_is_told_and_clears() -> None:
    part = Part()
    async with part.checked(part.check()) as checks:
        ready = checks.ready()["disk"]
        await ready()
        part.fault = "no space"
        await eventually(lambda: part.shown.get("disk") == ["no space"])
        with pytest.raises(NotReady, match="no space") as refused:
            await ready()
        assert refused.value.code == LIMITED
        part.fault = ""
        await eventually(lambda: part.shown["disk"] == [])
        await ready()


async def test_a_part_that_does_not_answer_has_a_fault() -> None:
    part = Part()
    async with part.checked(part.check()):
        part.silent = True
        await eventually(lambda: part.shown.get("disk") == ["the disk is silent"])


async def test_a_part_is_not_silent_while_this_process_stands_still() -> None:
    part = Part()
    part.stands_still = True
    told = Mock(wraps=part.set_faults)
    part.set_faults = told  # type: ignore[method-assign]
    async with part.checked(part.check()):
        await part.asked_again()
    assert all(list(one.args[1]) == [] for one in told.call_args_list)


async def test_what_passes_soon_is_not_told() -> None:
    part = Part()
    async with part.checked(part.check(patience=4.0)) as checks:
        part.fault = "late"
        await part.asked_again()
        part.now = 3.9
        await part.asked_again()
        await checks.ready()["disk"]()
        part.fault = ""
        await part.asked_again()
        part.fault, part.now = "late", 10.0
        await part.asked_again()
        await checks.ready()["disk"]()
        part.now = 14.0
        await eventually(lambda: part.shown["disk"] == ["late"])
        with pytest.raises(NotReady):
            await checks.ready()["disk"]()


async def test_what_no_add_needs_does_not_stop_one() -> None:
    part = Part()
    async with part.checked(part.check(code=None)) as checks:
        part.fault = "no forwarding"
        await eventually(lambda: part.shown.get("disk") == ["no forwarding"])
        assert checks.ready() == {}


@pytest.mark.parametrize(("hosts", "pause"), [(1, 3.0), (HOSTS, 3.0), (10 * HOSTS, 30.0)])
async def test_many_hosts_ask_what_they_share_less_often(
    monkeypatch: pytest.MonkeyPatch, hosts: int, pause: float
) -> None:
    part, slept = Part(), asyncio.Queue[float]()
    forever = asyncio.Event().wait

    async def sleep(seconds: float) -> None:
        slept.put_nowait(seconds)
        await forever()

    check = part.check(interval=3.0, code=NOT_AVAILABLE)
    checks = QUICK([check], part, peers=Mock(count=lambda: int(hosts)))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    async with background("checks", checks.run()):
        assert await slept.get() == pause


async def test_a_probe_that_was_silent_for_long_is_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part, slept = Part(), asyncio.Queue[float]()
    forever = asyncio.Event().wait

    async def late(seconds: float) -> None:
        part.now += seconds
        raise HostError("silent")

    async def sleep(seconds: float) -> None:
        slept.put_nowait(seconds)
        await forever()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    for took, pause in ((0.25, 0.75), (2.0, 0.0)):
        check = replace(part.check(), probe=partial(late, took))
        checks = HostChecks([check], part, clock=lambda: part.now)
        async with background("checks", checks.run()):
            assert await slept.get() == pause


async def test_what_was_heard_of_a_silent_part_is_told() -> None:
    part = Part()
    check = replace(part.check(), reason=lambda: "no such token")
    async with part.checked(check):
        part.silent = True
        told = ["the disk is silent Last heard: no such token"]
        await eventually(lambda: part.shown.get("disk") == told)


async def test_a_check_that_cannot_look_is_a_fault_and_ends_nothing() -> None:
    part = Part()
    part.raises, part.fault = OSError, "Too many open files"
    async with part.checked(part.check()):
        await eventually(lambda: part.shown.get("disk") == ["Too many open files"])
        part.fault = ""
        await eventually(lambda: part.shown["disk"] == [])
