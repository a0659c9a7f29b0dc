"""The records of rules with `log` that an agent keeps."""

import logging
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from core.errors import SwitchUnavailable
from core.ids import EndpointKey, HostLabel, NetworkId
from netplugin.diagnostics.policy_log import MOST, MOST_A_SECOND, PATH, PolicyLog
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.logged_rules import LoggedEnd, LoggedPacket
from ofnet.openflow.actions import Report
from ofnet.world import Bridge, FwdMode, Rule, World
from tests.unit.netplugin.records import endpoint
from tests.unit.ofnet.fake_switch import FakeSwitch

BEGIN = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
RULE = Rule(id="default:web:default:doors:default:doors:7:inRx", priority=1, allow=False, log=True)


class Clock:
    """A time that tests set."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def policy_log(clock: Clock) -> PolicyLog:
    builder = WorldBuilder(HostLabel("h1"), FwdMode.ROUTING)
    builder.put(KNOWN)
    return PolicyLog(builder.endpoints, clock)


KNOWN = endpoint(1, group="web", container="pod-1")


def packet(number: int = 1) -> LoggedPacket:
    known = LoggedEnd(
        address=ip_address("10.1.0.1"),
        port=40000 + number,
        endpoint=KNOWN.key,
        network=KNOWN.network,
    )
    gone = LoggedEnd(
        address=ip_address("2001:db8::1"),
        port=80,
        endpoint=EndpointKey("n9.blue-c9"),
        network=NetworkId("n9.blue"),
    )
    return LoggedPacket(rule=RULE, protocol=6, source=known, destination=gone)


async def test_a_packet_is_recorded_and_logged_with_names(
    policy_log: PolicyLog, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        policy_log.note(packet())
    found = await policy_log.report({})
    network, _, tenant = KNOWN.network.rpartition(".")
    assert found["records"] == [
        {
            "number": 1,
            "at": "2026-01-02T03:04:05.678+00:00",
            "tenant": "default",
            "policy": "doors",
            "rule": "7",
            "action": "deny",
            "protocol": "tcp",
            "source": {
                "address": "10.1.0.1",
                "port": 40001,
                "tenant": tenant,
                "network": network,
                "group": "web",
                "endpoint": KNOWN.key,
                "container": "pod-1",
            },
            "destination": {
                "address": "2001:db8::1",
                "port": 80,
                "tenant": "blue",
                "network": "n9",
                "group": "",
                "endpoint": "n9.blue-c9",
                "container": "",
            },
        }
    ]
    (line,) = caplog.records
    said: dict[str, Any] = line.__dict__
    assert (said["rule"], said["action"], said["protocol"]) == ("7", "deny", "tcp")
    assert said["source"] == f"10.1.0.1:40001 {tenant}/{network}/web/pod-1"
    assert said["destination"] == "[2001:db8::1]:80 blue/n9"


async def test_so_many_records_are_made_in_a_second_and_kept(
    policy_log: PolicyLog, clock: Clock
) -> None:
    for _ in range(MOST // MOST_A_SECOND + 1):
        for number in range(MOST_A_SECOND + 5):
            policy_log.note(packet(number))
        clock.now += timedelta(seconds=1)
    found = (await policy_log.report({}))["records"]
    assert len(found) == MOST
    numbers = [one["number"] for one in found]
    assert numbers == list(range(MOST + MOST_A_SECOND, MOST_A_SECOND, -1))


async def test_what_the_switch_counted_and_nobody_recorded_is_told(policy_log: PolicyLog) -> None:
    switch, silent = FakeSwitch(), FakeSwitch()
    world = World(fwd_mode=FwdMode.ROUTING, rules={RULE.id: RULE})
    agents = {
        Bridge.VXLAN: BridgeAgent(switch, Bridge.VXLAN, world),
        Bridge.VLAN: BridgeAgent(silent, Bridge.VLAN, world),
    }
    flows = agents[Bridge.VXLAN].desired.flows
    switch.table.update(flows)
    (flow, *_) = [one for one in flows.values() if Report.name in one.instructions.names]
    switch.counted = {flow.cookie: (10, 600)}
    silent.failures = [SwitchUnavailable("away")]
    for number in range(3):
        policy_log.note(packet(number))
    found = await policy_log.report(agents)
    names = {"tenant": "default", "policy": "doors", "rule": "7"}
    assert found["unrecorded"] == [{**names, "packets": 7}]
    assert found["missing"] == {"contivVlanBridge": "away"}


async def test_the_route_answers_the_newest_that_are_asked_for(policy_log: PolicyLog) -> None:
    for number in range(3):
        policy_log.note(packet(number))
    app = web.Application()
    app.add_routes(policy_log.routes({}))
    async with TestClient(TestServer(app)) as client:

        async def numbers(query: str) -> list[int]:
            answer = await client.get(f"{PATH}?{query}")
            return [one["number"] for one in (await answer.json())["records"]]

        assert await numbers("limit=2&policy=doors") == [3, 2]
        assert await numbers("policy=other") == []
        assert (await client.get(f"{PATH}?limit=many")).status == 400
