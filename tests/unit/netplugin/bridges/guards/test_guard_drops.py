"""What the source guard drops is counted by endpoint, and told now and then."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import SwitchUnavailable
from netplugin.bridges.guards.guard_drops import FEW, LATELY, MANY, SAID_FOR, GuardDrops
from ofnet.changes import ObjectKind
from ofnet.hits import Hits
from ofnet.world import Bridge


class Agent:
    """The agent of a bridge with endpoints; `counters` is what the guard's flows say."""

    def __init__(self, *keys: str) -> None:
        self.world = SimpleNamespace(local=dict.fromkeys(keys))
        self.counters: dict[str, int] = {}
        self.forged: dict[str, int] = {}
        self.closed: dict[str, int] = {}
        self.away = False

    async def guarded(self) -> dict[str, int]:
        if self.away:
            raise SwitchUnavailable("no switch")
        return dict(self.counters)

    async def hits(self, kind: ObjectKind) -> dict[str, Hits]:
        assert kind is ObjectKind.MANAGEMENT_PORT
        return {name: Hits(packets, 60 * packets) for name, packets in self.closed.items()}


class CountedDrops:
    def __init__(self) -> None:
        self.agent, self.now = Agent("web", "db"), 0.0
        agents: Any = {Bridge.VXLAN: self.agent}
        self.noted: list[tuple[str, int]] = []
        self.drops = GuardDrops(agents, note=self.note, clock=lambda: self.now)

    def note(self, endpoint: str, packets: int) -> None:
        self.noted.append((endpoint, packets))

    async def look(self, **counters: int) -> None:
        self.agent.counters = counters
        await self.drops.look()


async def test_totals_grow_over_flows_that_are_added_anew() -> None:
    counted = CountedDrops()
    await counted.look(web=3)
    await counted.look(web=5, db=1)
    await counted.look(web=2, db=1)  # its flow was added again
    assert counted.drops.dropped == 8
    assert counted.noted == [("web", 3), ("web", 2), ("db", 1), ("web", 2)]
    counted.agent.away = True
    await counted.look(web=90)
    assert counted.drops.dropped == 8


async def test_what_pods_send_to_management_ports_is_counted_apart() -> None:
    counted = CountedDrops()
    for closed in ({"tcp/9999": 3}, {"tcp/9999": 5, "udp/4789": 1}, {"tcp/9999": 2, "udp/4789": 1}):
        counted.agent.closed = closed
        await counted.look(web=1)
    assert (counted.drops.closed, counted.drops.dropped) == (8, 1)
    assert counted.drops.note("web") == ""


async def test_few_packets_are_nothing_and_many_are_past_once_they_end() -> None:
    counted = CountedDrops()
    await counted.look(web=MANY - 1, db=MANY, gone=MANY)
    assert counted.drops.note("web") == counted.drops.note("gone") == ""
    assert counted.drops.stopped == 1
    assert counted.drops.note("db").startswith(
        f"the source guard dropped {MANY} packets of endpoint"
    )
    for _ in range(LATELY):
        await counted.look(web=MANY - 1, db=MANY)
    assert (counted.drops.note("db"), counted.drops.stopped) == ("", 0)


async def test_a_few_requests_in_anothers_name_are_enough() -> None:
    counted = CountedDrops()
    counted.agent.forged = {"web": FEW - 1, "db": FEW}
    await counted.look(web=1, db=2)
    assert counted.drops.note("web") == ""
    assert counted.drops.note("db").startswith(f"the source guard dropped {FEW + 2} packets")
    assert counted.drops.dropped == 2 * FEW + 2


async def test_the_log_names_an_endpoint_seldom(caplog: pytest.LogCaptureFixture) -> None:
    counted = CountedDrops()
    with caplog.at_level(logging.WARNING):
        for count in range(1, 5):
            await counted.look(web=count * MANY)
        assert [record.msg for record in caplog.records] == [
            "endpoint sends from addresses that are not its own"
        ]
        counted.now = SAID_FOR
        await counted.look(web=9 * MANY)
        assert len(caplog.records) == 2
