"""What an agent answers about a packet: the wanted way, and where its switch leaves it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.errors import Invalid, SwitchUnavailable
from netplugin.trace.dataplane_checks import DataplaneChecks
from netplugin.trace.request import read
from netplugin.trace.tracer import Tracer
from netplugin.world.bridges.conversion import LocalPort
from ofnet.trace.journey import follow
from ofnet.trace.packets import Talk, from_endpoint, question
from ofnet.trace.tracking import LookedUp
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Agent, Outside, running
from tests.unit.netplugin.records import HOST, PEER, endpoint, host, key
from tests.unit.ofnet.worlds import ip_of

Spoil = Callable[[str], str]


def said(stretch: Sequence[LookedUp]) -> str:
    """Return what Open vSwitch says of a stretch of look-ups."""
    lines = [
        f" {one.table}. priority {one.flow.priority}, cookie {one.flow.cookie:#x}"
        if one.flow is not None
        else f" {one.table}. No match."
        for one in stretch
    ]
    return "\n".join([*lines, "Datapath actions: 5"])


class Switch:
    """Answers as the wanted flows do; `spoil` alters the answers, `gone` gives none."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.spoil: Spoil = lambda answer: answer
        self.gone = False

    async def call(self, command: str, *words: str) -> str:
        if self.gone:
            raise SwitchUnavailable("ovs-vswitchd does not answer")
        assert command == "ofproto/trace"
        bridge = self._agent.dataplane.agents[Bridge(words[0])]
        pod = bridge.world.local[key("c1")]
        to = ip_of(bridge.world.local[key("c2")])
        packet = from_endpoint(bridge.world, pod, Talk(to=to))
        asked = question(pod, to) if "arp_op" in words[1] else packet
        assert asked is not None
        (stretch,) = follow(bridge.desired.flows.values(), bridge.world, [asked]).stretches
        return self.spoil(said(stretch))


@asynccontextmanager
async def traced(outside: Outside) -> AsyncIterator[tuple[Tracer, Switch, Agent]]:
    """Run an agent with two endpoints here and one elsewhere."""
    async with running(outside) as agent:
        agent.learn("k", endpoint(3, host=PEER))
        for number in (1, 2):
            port = LocalPort(record=endpoint(number), ofport=number)
            await agent.reconciler.put_port(key(f"c{number}"), port)
        switch = Switch(agent)
        checks = DataplaneChecks(
            agents=agent.dataplane.agents,
            ovsdb=agent.clients.ovsdb,
            links=agent.clients.links,
            check=agent.pod_services.check,
            progress=agent.progress,
        )
        yield (
            Tracer(
                host=HOST,
                agents=agent.dataplane.agents,
                control=switch,
                checks=checks,
                policies=agent.world.pod_policies.policies,
                pause=0.0,
            ),
            switch,
            agent,
        )


def asked(to: str = "10.1.0.2", **more: Any) -> Any:
    return read({"enter": {"endpoint": key("c1")}, "to": to, **more})


async def test_a_way_without_faults(outside: Outside) -> None:
    async with traced(outside) as (made, _, _):
        found = await made.trace(asked(towards={"endpoint": key("c2"), "host": HOST}))
    assert found["faults"] == []
    assert (found["host"], found["bridge"], found["mode"]) == (HOST, Bridge.VXLAN, "vrouter")
    assert [step["table"] for step in found["steps"]] == [0, 1, 3, 4, 5, 6, 7]
    last = found["steps"][-1]
    assert (last["tableName"], last["why"]) == ("IP", f"endpoint {key('c2')}")
    (out,) = found["exits"]
    assert (out["kind"], out["name"], out["port"]) == ("endpoint", key("c2"), 2)
    assert out["answer"]["ipv4_src"] == "10.1.0.2"


async def test_a_flow_that_the_switch_lacks_is_named(outside: Outside) -> None:
    async with traced(outside) as (made, switch, _):
        switch.spoil = lambda answer: (
            answer.replace(
                next(line for line in answer.splitlines() if line.startswith(" 7.")),
                " 7. No match.",
            )
            if " 7." in answer
            else answer
        )
        found = await made.trace(asked())
    (fault,) = found["faults"]
    assert fault.startswith("the switch lacks flow table=7")
    assert fault.endswith(f"(endpoint {key('c2')})")


async def test_a_foreign_flow_is_named(outside: Outside) -> None:
    strange = " 5. ip, priority 999, cookie 0x0"
    async with traced(outside) as (made, switch, _):
        switch.spoil = lambda answer: answer.replace(" 5. ", f"{strange}\n 5. ")
        found = await made.trace(asked())
    assert found["faults"] == ["the switch has a flow that is not wanted: table=5, priority=999,ip"]


async def test_a_change_on_its_way_is_no_fault(outside: Outside) -> None:
    answers = []

    def late(answer: str) -> str:
        answers.append(answer)
        return "" if len(answers) == 1 else answer

    async with traced(outside) as (made, switch, _):
        switch.spoil = late
        found = await made.trace(asked())
    assert found["faults"] == []


async def test_a_switch_that_does_not_answer_is_named(outside: Outside) -> None:
    async with traced(outside) as (made, switch, _):
        switch.gone = True
        found = await made.trace(asked())
    assert "Open vSwitch cannot be asked: ovs-vswitchd does not answer" in found["faults"]


async def test_a_port_that_sends_nothing_is_named(outside: Outside) -> None:
    async with traced(outside) as (made, switch, _):
        gone = "    >> Nonexistent output port\nDatapath actions: drop"
        switch.spoil = lambda answer: answer.replace("Datapath actions: 5", gone)
        found = await made.trace(asked())
    assert "Open vSwitch does not send the packet out: Nonexistent output port" in found["faults"]


@pytest.mark.parametrize(
    ("enter", "fault"),
    [
        ({"tunnel": "h9"}, f"no tunnel port to host h9 on {Bridge.VXLAN}"),
        ({"uplink": ""}, f"{Bridge.VLAN} has no uplink"),
    ],
)
async def test_an_entrance_that_is_missing_is_named(
    outside: Outside, enter: dict[str, str], fault: str
) -> None:
    frame = {"eth_src": "02:02:0a:01:00:01", "eth_dst": "02:02:0a:01:00:02", "eth_type": 0x800}
    async with traced(outside) as (made, _, _):
        found = await made.trace(read({"enter": enter, "packet": frame}))
    assert found["faults"] == [fault]


async def test_endpoints_that_are_missing_are_named(outside: Outside) -> None:
    async with traced(outside) as (made, _, _):
        gone = read({"enter": {"endpoint": "n1.default-c9"}, "to": "10.1.0.2"})
        found = await made.trace(gone)
        assert found["faults"] == ["endpoint n1.default-c9 has no port here"]
        away = await made.trace(asked("10.1.0.9", towards={"endpoint": "x", "host": PEER}))
        assert f"endpoint x of host {PEER} is not known here" in away["faults"]


async def test_a_tunnel_that_is_missing_is_named(outside: Outside) -> None:
    async with traced(outside) as (made, _, agent):
        towards = {"endpoint": key("c3"), "host": PEER}
        found = await made.trace(asked("10.1.0.3", towards=towards))
        assert f"no tunnel port to host {PEER} on {Bridge.VXLAN}" in found["faults"]
        agent.learn("k", host())
        await agent.ports.converge()
        await agent.reconciler.flush()
        found = await made.trace(asked("10.1.0.3", towards=towards))
        assert [one["name"] for one in found["exits"]] == [PEER]
        outside.links.underlay.clear()
        found = await made.trace(asked("10.1.0.3", towards=towards))
        route = f"no route to 192.0.2.2, the tunnel address of host {PEER}"
        assert route in found["faults"]


async def test_what_cannot_be_sent_is_refused(outside: Outside) -> None:
    async with traced(outside) as (made, _, _):
        with pytest.raises(Invalid, match="no IPv6 address"):
            await made.trace(asked("fd00::1"))
        found = await made.trace(read({"enter": {"host": ""}, "to": "10.1.0.1"}))
        assert found["faults"] == [f"the host has no port of its own on {Bridge.VXLAN}"]
