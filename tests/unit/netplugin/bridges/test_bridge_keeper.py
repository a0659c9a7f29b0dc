"""The bridges stay as specified, and are reported while they are not."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from core.errors import SwitchUnavailable
from core.ids import HostLabel
from core.retry import begin_loops
from core.tasks import background
from netplugin.bridges.bridge_keeper import BridgeKeeper, KeeperTiming, differences
from netplugin.bridges.bridges import USERSPACE, bridge_specs
from netplugin.ovsdb import BridgeRow, BridgeSpec
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Outside, eventually, stays

SPECS = bridge_specs(
    HostLabel("h1"), USERSPACE, dict.fromkeys(Bridge, "tcp:127.0.0.1:6633"), "host h1"
)
SPEC = SPECS[0]
GOOD = BridgeRow(
    controllers=("tcp:127.0.0.1:6633",),
    fail_mode="secure",
    datapath_type="netdev",
    protocols=SPEC.protocols,
    other_config={"disable-in-band": "true", "datapath-id": str(SPEC.datapath_id), "more": "1"},
    own_devices=("contivVxlan",),
)
TIMING = KeeperTiming(pause=0.01, remembered=0.2, silence=0.1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"controllers": ()}, "controllers was none, must be tcp:127.0.0.1:6633"),
        ({"controllers": ("tcp:127.0.0.1:6633", "a")}, "controllers was a, tcp:127.0.0.1:6633, "),
        ({"fail_mode": "standalone"}, "fail_mode was standalone, must be secure"),
        ({"fail_mode": None}, "fail_mode was none, must be secure"),
        ({"datapath_type": ""}, "datapath_type was "),
        ({"protocols": frozenset({"OpenFlow10"})}, "protocols was OpenFlow10, must be "),
        ({"other_config": {**GOOD.other_config, "datapath-id": "1"}}, "datapath-id was 1, "),
        ({"other_config": {"datapath-id": SPEC.datapath_id}}, "in-band control was True, "),
        ({"own_devices": ()}, "own port was none, must be contivVxlan"),
        ({"own_devices": ("contivVxlanBridge",)}, "own port was contivVxlanBridge, must be "),
    ],
)
def test_each_setting_is_compared(change: dict[str, Any], told: str) -> None:
    assert differences(SPEC, GOOD) == []
    (said,) = differences(SPEC, replace(GOOD, **change))
    assert said.startswith(told)


class Kept:
    """A keeper over a fake database, what it reports, and the state of the sessions."""

    def __init__(self, outside: Outside) -> None:
        self.ovsdb = outside.ovsdb
        self.faults: list[str] = []
        self.restored = 0
        self.silent: set[str] = set()
        self.made: list[str] = []
        ensure = outside.ovsdb.ensure_bridge

        async def counted(spec: BridgeSpec) -> None:
            self.made.append(spec.name)
            await ensure(spec)

        outside.ovsdb.ensure_bridge = counted  # type: ignore[method-assign]

        self.agents: Any = {bridge: Session(self, bridge) for bridge in Bridge}

    def set_faults(self, _subject: str, faults: Iterable[str]) -> None:
        self.faults = list(faults)

    def on_bridges_recreated(self) -> None:
        self.restored += 1


@dataclass(frozen=True)
class Session:
    """Of a bridge with its agent."""

    kept: "Kept"
    bridge: Bridge

    @property
    def connected(self) -> bool:
        return self.bridge not in self.kept.silent


@asynccontextmanager
async def keeping(outside: Outside, timing: KeeperTiming = TIMING) -> AsyncIterator[Kept]:
    for spec in SPECS:
        await outside.ovsdb.ensure_bridge(spec)
    kept = Kept(outside)
    as_reconciler: Any = kept
    keeper = BridgeKeeper(
        ovsdb=outside.ovsdb,
        specs=SPECS,
        agents=kept.agents,
        board=kept,
        reconciler=as_reconciler,
        timing=timing,
    )
    async with background("bridges", keeper.run()):
        yield kept


async def test_a_changed_bridge_is_corrected_and_reported_for_a_while(outside: Outside) -> None:
    async with keeping(outside) as kept:
        await stays(lambda: kept.made == [])
        outside.ovsdb.set_up(SPEC.name, replace(GOOD, fail_mode="standalone"))
        await eventually(lambda: differences(SPEC, outside.ovsdb.bridge(SPEC.name) or GOOD) == [])
        told = "changed by another program, corrected: fail_mode was standalone, must be secure"
        await eventually(lambda: kept.faults == [f"bridge {SPEC.name}: {told}"])
        await eventually(lambda: kept.faults == [])
        assert (kept.made, kept.restored) == ([SPEC.name], 0)


async def test_a_missing_bridge_is_created_at_once(outside: Outside) -> None:
    async with keeping(outside, replace(TIMING, pause=3600)) as kept:
        outside.ovsdb.show(bridges={SPECS[1].name: {}})
        await eventually(lambda: kept.restored == 1)
        outside.ovsdb.show(bridges={SPECS[1].name: {}})
        await eventually(lambda: kept.restored == 2)


async def test_another_program_that_insists_is_answered_at_a_measured_pace(
    outside: Outside,
) -> None:
    async with keeping(outside, replace(TIMING, pause=3600, remembered=3600)) as kept:
        outside.ovsdb.set_up(SPEC.name, replace(GOOD, controllers=("other",)))
        await eventually(lambda: kept.made == [SPEC.name])
        outside.ovsdb.set_up(SPEC.name, replace(GOOD, controllers=("other",)))
        await stays(lambda: kept.made == [SPEC.name])
        assert len(kept.faults) == 1


async def test_a_switch_without_a_session_is_reported_after_a_while(outside: Outside) -> None:
    async with keeping(outside) as kept:
        kept.silent.add(SPEC.name)
        await eventually(lambda: kept.faults != [])
        (fault,) = kept.faults
        assert fault.startswith(f"bridge {SPEC.name}: no OpenFlow session: is ovs-vswitchd running")
        assert fault.endswith("connect to tcp:127.0.0.1:6633?")
        kept.silent.clear()
        await eventually(lambda: kept.faults == [])


async def test_a_database_that_fails_is_tried_again(outside: Outside) -> None:
    loops = begin_loops()
    async with keeping(outside) as kept:
        outside.faults.failing["bridge"] = SwitchUnavailable("no answer")
        outside.ovsdb.set_up(SPEC.name, replace(GOOD, controllers=()))
        await eventually(lambda: len(kept.made) > 1)
        assert loops.faults() == ["bridges not in sync: no answer"]
        outside.faults.failing.clear()
        await eventually(lambda: differences(SPEC, outside.ovsdb.bridge(SPEC.name) or GOOD) == [])
