"""Rules that a real kernel refuses are an error of the host, counted, until they can be set.

Another program has the chain of that name for another hook, as nftables allows: iptables cannot use
it then.
"""

from typing import Any

import pytest

from core.retry import begin_loops
from core.tasks import background
from netplugin.bridges.guards.pod_guard import CHAINS, PodGuard
from netplugin.kernel.firewall import iptables
from netplugin.kernel.firewall.iptables import Iptables
from netplugin.masters.progress import Progress
from netplugin.world.builder import WorldBuilder
from objdb.memory import MemoryBackend
from ofnet.world import FwdMode
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually_async
from tests.unit.netplugin.agent import idle_watches
from tests.unit.netplugin.records import HOST
from tests.unit.netplugin.starts import SETTINGS

pytestmark = pytest.mark.ovs

NAME = "rules for links of pods not in sync"
TAKEN = "add chain ip raw PREROUTING { type filter hook prerouting priority 7; }"


async def test_refused_rules_are_an_error_of_the_host_until_they_are_set(
    host: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iptables, "PROGRAM", "iptables-nft")
    host.run(["nft", "add table ip raw"])
    host.run(["nft", TAKEN])
    loops, progress = begin_loops(), Progress({}, {})
    loops.report_to(progress.set_faults)
    world = WorldBuilder(HOST, FwdMode.ROUTING)

    class Links:
        address_changes = None

        async def addresses(self, _left_out: object) -> set[str]:
            return {"192.0.2.1"}

    links: Any = Links()

    guard = PodGuard(
        SETTINGS,
        world.management,
        MemoryBackend(),
        links,
        Iptables(CHAINS),
        watches=idle_watches(links),
        known=world.underlay,
    )

    async def failed_twice() -> bool:
        return loops.failures[NAME] >= 2

    async def is_well() -> bool:
        return not progress.standing.errors

    async with background("pod guard", guard.run()):
        await eventually_async(failed_twice, "it is tried again")
        (error,) = progress.standing.errors
        assert error.startswith(f"{NAME}: ")
        assert "chain PREROUTING" in error
        assert "vvport" not in host.run(["iptables-nft", "-w", "-t", "raw", "-S"]).stdout
        host.run(["nft", "delete table ip raw"])
        await eventually_async(is_well, "the rules are set")
        assert "-i vvport+" in host.run(["iptables-nft", "-w", "-t", "raw", "-S"]).stdout
