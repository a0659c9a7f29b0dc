"""A switch in memory that keeps the contract of `ofnet.channel.switch.Switch` and can fail."""

import asyncio
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from core.errors import SwitchRefused, SwitchUnavailable
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats
from ofnet.channel.flow_stats import COOKIE, COOKIE_MASK, FlowCount, FlowEntry
from ofnet.channel.requests import FlowsRefused
from ofnet.channel.switch import SMALL, Switch, SwitchObserver
from ofnet.diff import FlowStamp
from ofnet.flows import AnyFlow, Flow, FlowKey
from ofnet.openflow.actions import PacketAction
from ofnet.openflow.meters import Meter
from ofnet.translations import Translated


def reply(flows: Iterable[AnyFlow], counted: Mapping[int, tuple[int, int]]) -> bytes:
    """Return the body of a flow-stats reply (OpenFlow 1.3, `ofp_flow_stats`)."""
    body = struct.pack(">HH4x", 1, 0)
    for flow in flows:
        packets, octets = counted.get(flow.cookie, (0, 0))
        head = struct.pack(
            ">BxIIHHHH4xQQQ",
            *(flow.table, 0, 0, flow.priority, 0, 0, 0),
            *(flow.cookie, packets, octets),
        )
        body += struct.pack(">H", 2 + len(head) + len(flow.wire)) + head + flow.wire
    return body


def read_by(agent: SwitchObserver | None, flow: AnyFlow) -> AnyFlow:
    """Return what a flow says; its agent knows that of a packed one, as long as it wants it."""
    if isinstance(flow, Flow):
        return flow
    assert isinstance(agent, BridgeAgent)
    made = agent.desired.made([flow.key])
    return next((one for one in made if one.cookie == flow.cookie), flow)


class FakeSwitch(Switch):
    """`table` is what the switch holds; `refuses` returns whether it refuses a flow.

    `counted` has packets and bytes of
    flows by their cookies. `turns` is how many turns of the loop each answer takes, so that others
    get in between.
    """

    turns: ClassVar[int] = 3

    def __init__(self, *, connected: bool = True) -> None:
        super().__init__("fake")
        self.table: dict[FlowKey, AnyFlow] = {}
        self.foreign: list[FlowStamp] = []
        self.refuses: Callable[[Flow], bool] = lambda _: False
        self.software = "3.5.0"
        self.packets: list[tuple[bytes, tuple[PacketAction, ...], int]] = []
        self.dumps = 0
        self.failures: list[Exception] = []
        self.counted: dict[int, tuple[int, int]] = {}
        self.held_groups: set[int] = set()
        self.held_meters: dict[int, Meter] = {}
        self.forgotten: list[Translated] = []
        self.forgets = True
        self._present = connected

    @property
    def connected(self) -> bool:
        return self._present

    def connect(self) -> None:
        self._present = True
        if self._observer is not None:
            self._observer.on_connected()

    def disconnect(self) -> None:
        self._present = False
        if self._observer is not None:
            self._observer.on_disconnected()

    @property
    def session(self) -> Any:
        """The switch answers by itself."""
        return self

    async def apply(self, add: Sequence[AnyFlow], delete: Sequence[FlowStamp]) -> None:
        if not add and not delete:
            return
        await self._answer()
        self.counters["flow_mods"] += len(add) + len(delete)
        refused = [flow for flow in add if self._refuses(flow)]
        if not refused or len(add) + len(delete) <= SMALL:
            self._change([self._read(flow) for flow in add if flow not in refused], delete)
        if refused:
            raise FlowsRefused([(flow, "refused") for flow in refused])

    async def refusals(self, flows: Sequence[AnyFlow]) -> dict[AnyFlow, str]:
        await self._answer()
        return {flow: "refused" for flow in flows if self._refuses(flow)}

    def _refuses(self, flow: AnyFlow) -> bool:
        read = self._read(flow)
        return isinstance(read, Flow) and self.refuses(read)

    def _read(self, flow: AnyFlow) -> AnyFlow:
        return read_by(self._observer, flow)

    async def release(self) -> str:
        await self._answer()
        return self.software

    async def barrier(self) -> None:
        await self._answer()

    async def dump(self) -> list[FlowStamp]:
        await self._answer()
        self.dumps += 1
        return [FlowStamp(flow.table, flow.cookie) for flow in self.table.values()] + self.foreign

    async def entries(self) -> list[FlowEntry]:
        await self._answer()
        mine = [flow for flow in self.table.values() if flow.cookie & COOKIE_MASK == COOKIE]
        found, _ = flow_stats.entries(reply(mine, self.counted))
        return found

    async def counts(self, kind: ObjectKind) -> list[FlowCount]:
        await self._answer()
        found, _ = flow_stats.counts(
            reply([flow for flow in self.table.values() if flow.owner == kind], self.counted)
        )
        return found

    async def meters(self) -> list[Meter]:
        await self._answer()
        return sorted(self.held_meters.values())

    async def set_meters(self, meters: Sequence[Meter]) -> None:
        await self._answer()
        self.held_meters.update((meter.id, meter) for meter in meters)

    async def remove_meters(self, numbers: Collection[int]) -> None:
        await self._answer()
        for number in numbers:
            del self.held_meters[number]

    async def groups(self) -> list[int]:
        await self._answer()
        return sorted(self.held_groups)

    async def remove_groups(self, numbers: Collection[int]) -> None:
        await self._answer()
        self.held_groups -= set(numbers)

    async def forget(self, ended: Collection[Translated]) -> None:
        await self._answer()
        if not self.forgets:
            raise SwitchRefused("this switch is older than 3.1")
        self.forgotten += sorted(ended, key=str)

    def send_packet(self, data: bytes, actions: Sequence[PacketAction], *, in_port: int) -> bool:
        self.packets.append((data, tuple(actions), in_port))
        return True

    def _change(self, add: Sequence[AnyFlow], delete: Sequence[FlowStamp]) -> None:
        self.table.update((flow.key, flow) for flow in add)
        used = (flow.group for flow in add)
        self.held_groups.update(group.id for group in used if group is not None)
        metered = (meter for flow in add for meter in flow.meters)
        self.held_meters.update((meter.id, meter) for meter in metered)
        gone = set(delete)
        self.foreign = [stamp for stamp in self.foreign if stamp not in gone]
        for key, flow in list(self.table.items()):
            if FlowStamp(flow.table, flow.cookie) in gone:
                del self.table[key]

    async def _answer(self) -> None:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        if not self._present:
            raise SwitchUnavailable("the fake switch is gone")
