"""What an agent tells of its flows."""

from core.errors import SwitchUnavailable
from netplugin.diagnostics.diagnosis import SHOWN, flow_parts, flow_report
from ofnet.agent import BridgeAgent
from ofnet.desired import Desired
from ofnet.diff import Difference, FlowStamp
from ofnet.world import Bridge, FwdMode, World
from tests.unit.ofnet.fake_switch import FakeSwitch


async def test_flows_are_counted_and_differences_listed() -> None:
    switch = FakeSwitch()
    agent = BridgeAgent(switch, Bridge.VXLAN, World(fwd_mode=FwdMode.ROUTING))
    switch.table.update(agent.desired.flows)
    lost = switch.table.pop(next(iter(switch.table)))
    switch.foreign.append(FlowStamp(7, 0x1234))
    (part,) = flow_parts({Bridge.VXLAN: agent}).values()
    lines = (await part()).splitlines()
    count = len(agent.desired.flows)
    assert lines[:4] == [
        f"wanted: {count}",
        f"in the switch: {count}",
        "missing in the switch: 1",
        "not wanted in the switch: 1",
    ]
    assert lines[-2:] == [f"missing: {lost}", "not wanted: table=7 cookie=0x1234"]
    switch.failures.append(SwitchUnavailable("gone"))
    assert (await part()).endswith("in the switch: not available: gone\n")


def test_a_switch_that_lost_all_is_told_in_bounds() -> None:
    many = tuple(FlowStamp(0, number) for number in range(SHOWN + 10))
    text = flow_report(Desired(Bridge.VXLAN), len(many), Difference(add=(), delete=many))
    assert text.count("not wanted: table") == SHOWN
    assert f"not wanted in the switch: {len(many)}" in text
