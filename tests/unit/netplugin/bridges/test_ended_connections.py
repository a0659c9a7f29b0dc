"""Whether the datapath remembers ended connections is read back, and told where it does not."""

import asyncio
import logging
from pathlib import Path

import pytest

from core.tasks import background
from netplugin.bridges.ended_connections import EndedConnections, carries_policy

WARNED = "Open vSwitch forgets ended connections early"
OBEYED = "Megaflow: recirc_id=0,eth,ip\nDatapath actions: ct(commit,zone=49153,timeout=1)\n"
IGNORED = "Megaflow: recirc_id=0,eth,ip\nDatapath actions: ct(commit,zone=49153)\n"


class Switch:
    """Answers traces in turn, the last one for ever."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.pid = 1
        self.asked = asyncio.Event()

    def path(self) -> Path:
        return Path(f"/run/ovs-vswitchd.{self.pid}.ctl")

    async def call(self, command: str, *arguments: str) -> str:
        assert command == "ofproto/trace-packet-out"
        assert arguments[0] == "contivVxlanBridge"
        assert arguments[2] == "ct(commit,zone=49153)"
        if len(self.answers) == 1:
            self.asked.set()
            return self.answers[0]
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("traced", "zone", "carried"),
    [
        (OBEYED, 49153, True),
        (IGNORED, 49153, False),
        (OBEYED, 4915, False),
        (
            "Datapath actions: push_vlan(vid=1),ct(commit,zone=5,timeout=2,nat(dst=10.0.0.9))",
            5,
            True,
        ),
        ("Datapath actions: ct(commit,zone=5),ct(commit,zone=6,timeout=2)", 5, False),
        ("no bridge", 5, False),
    ],
)
def test_a_trace_shows_whether_the_policy_is_applied(
    traced: str, zone: int, *, carried: bool
) -> None:
    assert carries_policy(traced, zone) is carried


@pytest.mark.parametrize(
    ("answers", "warnings"),
    [((OBEYED,), 0), ((IGNORED, IGNORED, OBEYED), 0), ((IGNORED,), 1)],
    ids=["at once", "when it comes to it", "never"],
)
async def test_a_policy_that_is_ignored_is_told_once(
    answers: tuple[str, ...], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    switch = Switch(*answers)
    ended = EndedConnections(switch, "contivVxlanBridge", tries=4, pause=0)
    async with background("ended", ended.run()):
        for _ in range(2):
            switch.asked.clear()
            ended.written({49153, 49154})
            await switch.asked.wait()
            for _ in range(20):
                await asyncio.sleep(0)
    told = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [one.message for one in told] == [WARNED] * warnings
