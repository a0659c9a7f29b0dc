"""What a DEL leaves for later is done, in time, and in an order that lets ADDs pass."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from core.errors import HostError, MasterUnavailable, SwitchUnavailable
from core.tasks import supervisor
from netplugin.kernel.links.pod_links import PodLink
from netplugin.ovsdb import PortSpec
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from netplugin.pods.teardown import AT_ONCE, Teardown
from netplugin.world.bridges import port_names
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Outside, build_agent, eventually
from tests.unit.netplugin.records import endpoint, interface, key


def entry(number: int = 1) -> JournalEntry:
    return JournalEntry(
        key=key(f"c{number}"),
        spec=interface(f"c{number}"),
        port=number,
        bridge=Bridge.VXLAN,
        state=EntryState.REMOVING,
    )


@dataclass(slots=True)
class TeardownHost:
    outside: Outside
    teardown: Teardown

    async def have(self, *numbers: int) -> None:
        """Make endpoints that are to be removed."""
        out = self.outside
        for number in numbers:
            name = port_names.switch_name(number)
            out.links.there[name] = PodLink(
                host_name=name, ifname="eth0", netns_path=f"/run/netns/c{number}", mtu=1450
            )
            await out.ovsdb.add_port(Bridge.VXLAN, PortSpec(name=name, ofport_request=number))
            out.master.endpoints[key(f"c{number}")] = endpoint(number)
            out.journal.entries[key(f"c{number}")] = entry(number)

    def left(self) -> list[object]:
        out = self.outside
        return [
            *out.links.there,
            *out.ovsdb.ports(),
            *out.master.endpoints,
            *out.journal.entries,
            *self.teardown.ports(),
        ]


@asynccontextmanager
async def running(outside: Outside) -> AsyncIterator[TeardownHost]:
    async with supervisor() as sup:
        agent = await build_agent(outside, sup)
        yield TeardownHost(outside, agent.teardown)
        assert sup.spawn_failures == 0


async def test_nothing_is_left_in_the_end(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1)
        host.teardown.schedule(entry())
        assert host.teardown.has(key("c1"))
        assert host.teardown.ports() == {1}
        await host.teardown.wait_finished(key("c1"), 5.0)
        assert host.left() == []
        assert not host.teardown.has(key("c1"))


@pytest.mark.parametrize("step", ["release", "unlink", "unrow", "journal remove"])
async def test_each_step_is_tried_until_it_is_done(outside: Outside, step: str) -> None:
    async with running(outside) as host:
        await host.have(1)
        outside.faults.failing[step] = HostError("not now")
        host.teardown.schedule(entry())
        await outside.faults.until(step, 3)
        assert key("c1") in outside.journal.entries
        assert host.teardown.has(key("c1"))
        outside.faults.failing.clear()
        await host.teardown.wait_finished(key("c1"), 5.0)
        assert host.left() == []


async def test_the_journal_forgets_last(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1)
        outside.faults.failing["release"] = MasterUnavailable("away")
        host.teardown.schedule(entry())
        await outside.faults.until("release", 2)
        await eventually(lambda: not outside.links.there and not outside.ovsdb.ports())
        assert key("c1") in outside.journal.entries
        outside.faults.failing = {"unlink": HostError("not now")}
        await host.teardown.wait_finished(key("c1"), 5.0)


async def test_a_delete_waits_for_the_release_but_not_for_the_port(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1)
        gate = outside.faults.stop("unlink")
        await host.teardown.release(entry())
        assert outside.master.endpoints == {}
        assert "vvport1" in outside.links.there
        gate.set()


async def test_a_delete_does_not_wait_long_for_the_release(outside: Outside) -> None:
    outside.set_timing(release_wait=0.02)
    async with running(outside) as host:
        await host.have(1)
        gate = outside.faults.stop("release")
        await host.teardown.release(entry())
        assert key("c1") in outside.master.endpoints
        gate.set()
        await host.teardown.wait_finished(key("c1"), 5.0)
        assert host.left() == []


async def test_an_endpoint_is_removed_once(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1)
        host.teardown.schedule(entry())
        await host.teardown.release(entry())
        await host.teardown.wait_finished(key("c1"), 5.0)
        assert outside.faults.reached["release"] == outside.faults.reached["unrow"] == 1


async def test_who_waits_for_the_end_is_told_what_is_missing(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1, 2)
        gates = [outside.faults.stop("release")]
        host.teardown.schedule(entry(1))
        with pytest.raises(MasterUnavailable, match=r"n1\.default-c1"):
            await host.teardown.wait_finished(key("c1"), 0.02)
        gates[0].set()
        gates.append(outside.faults.stop("unlink"))
        host.teardown.schedule(entry(2))
        with pytest.raises(SwitchUnavailable, match=r"n1\.default-c2"):
            await host.teardown.wait_finished(key("c2"), 0.02)
        gates[1].set()
        await host.teardown.wait_finished(key("c2"), 5.0)
        await host.teardown.wait_finished(key("never"), 0.0)


async def test_ports_that_wait_go_together_some_at_a_time(outside: Outside) -> None:
    async with running(outside) as host:
        many = range(1, 2 + 2 * AT_ONCE)
        await host.have(*many)
        gone: list[int] = []
        lose = outside.ovsdb.lose

        def noted(*names: str) -> None:
            gone.append(len(names))
            lose(*names)

        outside.ovsdb.lose = noted  # type: ignore[method-assign]
        for number in many:
            host.teardown.schedule(entry(number))
        await eventually(lambda: host.left() == [])
        assert gone == [1, AT_ONCE, AT_ONCE], "only the first one had nothing to wait for"
        assert outside.faults.reached["unlink"] == len(gone)


async def test_a_link_that_stays_holds_no_other_up(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1, 2)
        outside.faults.failing["unlink"] = HostError("not now")
        for number in (1, 2):
            host.teardown.schedule(entry(number))
        await eventually(lambda: not outside.ovsdb.ports())
        outside.faults.failing.clear()
        await eventually(lambda: host.left() == [])


async def test_ports_wait_while_an_add_waits_for_its_own(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1, 2)
        with host.teardown.paused():
            with host.teardown.paused():
                host.teardown.schedule(entry(1))
                host.teardown.schedule(entry(2))
                await eventually(lambda: not outside.master.endpoints)
            await outside.faults.quiet(0.05)
            assert len(outside.ovsdb.ports()) == len(outside.links.there) == 2
        await eventually(lambda: host.left() == [])


async def test_a_new_add_goes_before_the_second_of_two_ports(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1, 2)
        gate = outside.faults.stop("unlink")
        host.teardown.schedule(entry(1))
        host.teardown.schedule(entry(2))
        await eventually(lambda: len(outside.ovsdb.ports()) == 1)
        with host.teardown.paused():
            gate.set()
            await outside.faults.quiet(0.08)
            assert len(outside.ovsdb.ports()) == 1
        await eventually(lambda: host.left() == [])


async def test_adds_without_end_do_not_starve_teardowns(outside: Outside) -> None:
    outside.set_timing(yield_to_add=0.5)
    async with running(outside) as host:
        many = range(1, 41)
        await host.have(*many)
        began = time.monotonic()
        with host.teardown.paused():
            for number in many:
                host.teardown.schedule(entry(number))
            await eventually(lambda: host.left() == [])
        # the limit is each port's own, not one after the other
        assert 0.5 <= time.monotonic() - began < len(many) * 0.5


async def test_nothing_is_begun_when_the_agent_stops(outside: Outside) -> None:
    outside.set_timing(release_wait=0.02)
    async with running(outside) as host:
        await host.have(1)
        host.teardown._supervisor.stop()
        assert host.teardown.ended
        await host.teardown.release(entry())
        assert outside.faults.reached["release"] == outside.faults.reached["unlink"] == 0
        assert key("c1") in outside.journal.entries


async def test_stale_ports_go_with_their_links(outside: Outside) -> None:
    async with running(outside) as host:
        await host.have(1)
        outside.journal.entries.clear()
        outside.master.endpoints.clear()
        host.teardown.sweep(Bridge.VXLAN, ["vvport1", "vvport2"])
        host.teardown.sweep(Bridge.VXLAN, ["vvport1"])
        assert host.teardown.ports() == {1, 2}, "nobody else may get these numbers meanwhile"
        await eventually(lambda: host.left() == [])
        assert outside.faults.reached["unlink"] == 2
