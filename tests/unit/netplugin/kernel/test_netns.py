"""Removals that are done together, and what each caller is told of them."""

import asyncio
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest

from core.errors import HostError
from netplugin.kernel.links import pod_links
from netplugin.kernel.netns import KernelLinks
from tests.unit.netplugin.agent import eventually


@contextmanager
def links() -> Iterator[KernelLinks]:
    host = KernelLinks()
    try:
        yield host
    finally:
        host.close()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> "Kernel":
    kernel = Kernel()
    monkeypatch.setattr(pod_links, "delete", kernel.delete)
    return kernel


class Kernel:
    """Removes what it is told to, once it is let."""

    def __init__(self) -> None:
        self.batches: list[set[str]] = []
        self.failing: set[int] = set()
        self.stuck: dict[str, str] = {}
        self.gate = threading.Event()

    def delete(self, names: Collection[str]) -> dict[str, str]:
        self.batches.append(set(names))
        self.gate.wait(5)
        if len(self.batches) in self.failing:
            raise HostError("too many open files")
        return {name: self.stuck[name] for name in names if name in self.stuck}


async def test_removals_that_meet_are_done_in_one(kernel: Kernel) -> None:
    with links() as host:
        calls = [asyncio.gather(host.delete_links([name])) for name in ("a", "b", "c")]
        await eventually(lambda: bool(kernel.batches))
        kernel.gate.set()
        await asyncio.gather(*calls)
        assert sorted(name for batch in kernel.batches for name in batch) == ["a", "b", "c"]
        assert len(kernel.batches) == 2


async def test_only_those_whose_links_are_stuck_are_told(kernel: Kernel) -> None:
    kernel.stuck = {"b": "Device or resource busy"}
    kernel.gate.set()
    with links() as host:
        outcomes = await asyncio.gather(
            *(host.delete_links([name]) for name in ("a", "b", "c")), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), HostError, type(None)]
        assert "b: Device or resource busy" in str(outcomes[1])
        kernel.stuck = {}
        await host.delete_links(["b"])


async def test_nobody_is_told_that_links_are_gone_that_are_not(kernel: Kernel) -> None:
    kernel.failing = {2}
    with links() as host:
        blocker = asyncio.gather(host.delete_links(["x"]))
        await eventually(lambda: bool(kernel.batches))
        calls = asyncio.gather(
            *(host.delete_links([name]) for name in ("a", "b")), return_exceptions=True
        )
        await eventually(lambda: host._pending == {"a", "b"})
        kernel.gate.set()
        await blocker
        assert [type(outcome) for outcome in await calls] == [HostError, type(None)]
        assert kernel.batches == [{"x"}, {"a", "b"}, {"a", "b"}]


async def test_a_cancelled_removal_leaves_the_others_theirs(kernel: Kernel) -> None:
    with links() as host:
        first = asyncio.gather(host.delete_links(["a"]))
        await eventually(lambda: bool(kernel.batches))
        second = asyncio.gather(host.delete_links(["b"]))
        third = asyncio.gather(host.delete_links(["c"]))
        await eventually(lambda: host._pending == {"b", "c"})
        first.cancel()
        kernel.gate.set()
        await asyncio.gather(second, third)
        assert {"b", "c"} <= set().union(*kernel.batches[1:])
