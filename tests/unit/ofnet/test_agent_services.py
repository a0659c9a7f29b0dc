"""What an agent does about services: it ends connections, refuses, and counts."""

from collections.abc import Collection
from dataclasses import replace

import pytest
from os_ken.lib.packet import tcp

from core.errors import SwitchUnavailable
from ofnet.changes import Changes, ObjectKind
from ofnet.channel.wire import PacketIn
from ofnet.desired import LARGE
from ofnet.flow_sync import SyncLimits
from ofnet.tables import TableId
from ofnet.translations import Translated
from ofnet.world import FwdMode
from tests.unit.ofnet.agent import running
from tests.unit.ofnet.conditions import until
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.pipelines.scene import ANN, BOB, FAR, world
from tests.unit.ofnet.services.refusal import frame
from tests.unit.ofnet.serving import VIP, having, service
from tests.unit.ofnet.worlds import ip_of, remote

CHANGED = Changes.of(ObjectKind.SERVICE, ["web:default"])
HERE = world(FwdMode.ROUTING)


async def test_connections_to_a_provider_that_goes_are_ended() -> None:
    switch = FakeSwitch()
    async with running(switch, having(HERE, service(ip_of(BOB), ip_of(FAR)))) as agent:
        await agent.update(having(HERE, service(ip_of(BOB))), CHANGED)
        assert switch.forgotten == [Translated(49153, 6, ip_of(FAR), 8080, VIP, 80)]
        await until(lambda: len(switch.forgotten) == 3, "twice more, for what began meanwhile")


async def test_connections_to_a_provider_that_came_back_are_not_ended_again() -> None:
    switch, both = FakeSwitch(), having(HERE, service(ip_of(BOB), ip_of(FAR)))
    async with running(switch, both, SyncLimits(forget_again=(0.1, 0.2))) as agent:
        await agent.update(having(HERE, service(ip_of(BOB))), CHANGED)
        await agent.update(having(HERE, service(ip_of(FAR), ip_of(BOB))), CHANGED)
        await agent.update(having(HERE, service(ip_of(FAR))), CHANGED)
        bob, far = (Translated(49153, 6, ip_of(one), 8080, VIP, 80) for one in (BOB, FAR))
        await until(lambda: switch.forgotten.count(bob) == 3, "what has gone")
        assert switch.forgotten.count(far) == 1


async def test_connections_to_a_provider_that_came_back_with_many_objects_are_not_either() -> None:
    switch, both = FakeSwitch(), having(HERE, service(ip_of(BOB), ip_of(FAR)))
    many = {one.key: one for one in map(remote, range(10, LARGE + 10))}
    async with running(switch, both, SyncLimits(forget_again=(0.1, 0.2))) as agent:
        await agent.update(having(HERE, service(ip_of(BOB))), CHANGED)
        grown = replace(having(HERE, service(ip_of(FAR))), remote={**both.remote, **many})
        await agent.update(grown, CHANGED | Changes.of(ObjectKind.REMOTE, map(str, many)))
        bob, far = (Translated(49153, 6, ip_of(one), 8080, VIP, 80) for one in (BOB, FAR))
        await until(lambda: switch.forgotten.count(bob) == 3, "what has gone")
        assert switch.forgotten.count(far) == 1


async def test_connections_are_ended_when_a_switch_that_was_away_is_back() -> None:
    switch, both = FakeSwitch(), having(HERE, service(ip_of(BOB), ip_of(FAR)))
    bob, far = (Translated(49153, 6, ip_of(one), 8080, VIP, 80) for one in (BOB, FAR))
    async with running(switch, both) as agent:
        switch.failures.append(SwitchUnavailable("it ends while it is changed"))
        with pytest.raises(SwitchUnavailable):
            await agent.update(having(HERE, service(ip_of(BOB))), CHANGED)
        switch.disconnect()
        for now in (both, having(HERE, service(ip_of(FAR)))):
            with pytest.raises(SwitchUnavailable):
                await agent.update(now, CHANGED)
        switch.connect()
        await until(lambda: agent.sync.synced, "synced")
        assert switch.forgotten == [bob], "the other one is back"
        switch.disconnect()
        with pytest.raises(SwitchUnavailable):
            await agent.update(having(HERE, service(draining=[ip_of(FAR)])), CHANGED)
        with pytest.raises(SwitchUnavailable):
            await agent.update(having(HERE, service()), CHANGED)
        switch.connect()
        await until(lambda: far in switch.forgotten, "this one went as well")


async def test_connections_that_were_not_ended_are_so_when_the_switch_answers() -> None:
    switch, both = FakeSwitch(), having(HERE, service(ip_of(BOB), ip_of(FAR)))
    async with running(switch, both) as agent:
        forget, failures = switch.forget, [SwitchUnavailable("silent")]

        async def forget_later(ended: Collection[Translated]) -> None:
            if failures:
                raise failures.pop()
            await forget(ended)

        switch.forget = forget_later  # type: ignore[method-assign] # it fails once
        with pytest.raises(SwitchUnavailable):
            await agent.update(having(HERE, service(ip_of(BOB))), CHANGED)
        await until(lambda: bool(switch.forgotten), "they are ended")


async def test_a_switch_that_cannot_end_them_fails_no_update() -> None:
    switch = FakeSwitch()
    switch.forgets = False
    async with running(switch, having(HERE, service(ip_of(BOB), ip_of(FAR)))) as agent:
        await agent.update(having(HERE, service(ip_of(BOB))), CHANGED)
        assert agent.stats["ConnectionsKept"] == 1


async def test_providers_that_went_while_no_agent_was_there() -> None:
    switch = FakeSwitch()
    async with running(switch, having(HERE, service(ip_of(BOB), ip_of(FAR)))):
        held = len(switch.held_groups)
    partial = replace(having(HERE, service(ip_of(BOB))), kubernetes_partial=True)
    async with running(switch, partial) as agent:
        assert not switch.forgotten, "what is missing may only be late"
        await agent.update(replace(partial, kubernetes_partial=False), Changes(everything=True))
        await until(lambda: bool(switch.forgotten), "they are ended")
        assert set(switch.forgotten) == {Translated(49153, 6, ip_of(FAR), 8080)}
        await until(lambda: len(switch.held_groups) == held, "its group goes too")


async def test_a_packet_for_nobody_is_refused() -> None:
    switch = FakeSwitch()
    async with running(switch, having(HERE, service())) as agent:
        asked = frame(tcp.tcp(bits=2))
        agent.on_packet_in(PacketIn(TableId.SRV_PROXY_DNAT, ANN.ofport, None, asked))
        agent.on_packet_in(PacketIn(TableId.SRV_PROXY_DNAT, ANN.ofport, None, b"junk"))
        assert [port for _, _, port in switch.packets] == [ANN.ofport]
        assert agent.stats["SvcPktRefused"] == 1
        assert agent.stats["SvcPktInvalid-ERROR"] == 1


async def test_counters_are_read_when_asked_for() -> None:
    switch = FakeSwitch()
    async with running(switch, having(HERE, service(ip_of(BOB)))) as agent:
        assert str(VIP) in next(iter((await agent.service_stats()).values()))["SvcStats"]
        switch.failures.append(SwitchUnavailable("gone"))
        assert await agent.service_stats() == {}
