"""Every flow that any pipeline makes is one that the datapath takes, whichever it is.

`make kernel-check` runs this on the kernel's datapath, `make test` on the userspace one. Flows that
differ in values alone are one: tables, fields and actions are what a datapath can lack.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ofnet.changes import EVERYTHING, ObjectKind
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.openflow.actions import DROP
from ofnet.openflow.match import Match
from ofnet.pipelines.packet_path import neighbours
from ofnet.tables import TableId
from ofnet.world import (
    Bridge,
    FwdMode,
    ManagementPort,
    Membership,
    NamePort,
    PolicyEntry,
    PolicyMatch,
    PolicyStage,
    PolicySubject,
    Router,
    Verdict,
    World,
)
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled
from tests.model.random_worlds import worlds

pytestmark = pytest.mark.ovs

POD4, POD6 = IPv4Address("10.1.0.9"), IPv6Address("2001:db8::9")
PREFIXES = (IPv4Network("10.1.0.0/16"), IPv6Network("2001:db8::/32"), IPv6Network("2001:db8::/64"))


@pytest.fixture
async def bridge(ovs_module: OvsHost) -> AsyncIterator[Dialled]:
    async with dialled(ovs_module) as bridge:
        yield bridge


def with_policies(world: World) -> World:
    """Add what the random Worlds have not: policies of Kubernetes, BGP and the name server."""
    entries = []
    for stage in PolicyStage:
        for address in (POD4, POD6, *PREFIXES):
            match = PolicyMatch(stage, 1000, 1, source=address, protocol=6, port=80, port_mask=0xFF)
            entries += [PolicyEntry(match, verdict) for verdict in Verdict]
            for clause in (1, 2):
                part = PolicyMatch(stage, 999, 1, destination=address)
                entries.append(PolicyEntry(part, memberships=(Membership(7, clause, 2),)))
        entries.append(PolicyEntry(PolicyMatch(stage, 999, conjunction=7), Verdict.DENY))
    return replace(
        world,
        policy_entries={one.match.name + str(one.verdict): one for one in entries},
        policy_subjects={str(ip): PolicySubject(1, ip) for ip in (POD4, POD6)},
        management={str(prefix): prefix for prefix in PREFIXES},
        management_ports={"udp": ManagementPort(17, 4789), "tcp": ManagementPort(6, 9999)},
        name_port=NamePort(ofport=32574, mac="06:02:00:00:00:35"),
        dns_address=IPv4Address("10.96.0.10"),
        router=Router(
            ofport=40,
            mac="52:54:00:00:00:28",
            ip=IPv4Address("192.0.2.9"),
            peer=IPv4Address("192.0.2.10"),
            ip6=IPv6Address("fe80::28"),
            peer_mac="52:54:00:00:00:29",
        ),
        routes=dict.fromkeys(PREFIXES, "52:54:00:00:00:29"),
    )


def shape(flow: Flow) -> object:
    """Return what two flows of one shape have in common."""
    fields = flow.match.fields
    masks = tuple((name, type(value)) for name, value in fields)
    acts = tuple((one.name, type(one)) for one in flow.instructions.actions)
    done = flow.instructions
    return flow.table, masks, acts, done.goto, done.metadata is None, done.meter is None


@pytest.fixture(params=[(kind, mode) for kind in Bridge for mode in FwdMode])
def shapes(request: pytest.FixtureRequest) -> list[Flow]:
    """Make a flow of each shape that a pipeline has, while no switch waits for our answers."""
    kind, fwd_mode = request.param
    found: dict[object, Flow] = {}

    @given(worlds(fwd_mode))
    @settings(
        max_examples=25,
        derandomize=True,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def collect(world: World) -> None:
        desired = Desired(kind)
        desired.update(with_policies(world), EVERYTHING)
        for flow in desired.flows.values():
            found.setdefault(shape(flow), flow)

    collect()
    assert len(found) > 100, "the Worlds have everything"
    return list(found.values())


async def test_every_flow_is_taken(shapes: list[Flow], bridge: Dialled) -> None:
    if await bridge.switch.refusals([neighbours.extension_probe()]):
        shapes = list(map(neighbours.completed_by_agent, shapes))
    refused = await bridge.switch.refusals(shapes)
    assert not refused, "\n".join(f"{why}: {flow}" for flow, why in refused.items())


async def test_a_question_installs_nothing(bridge: Dialled) -> None:
    flow = neighbours.unanswered()
    assert await bridge.switch.refusals([flow]) == {}
    impossible = Flow(ObjectKind.PIPELINE, TableId.INPUT, 1, Match(in_port=70000), DROP)
    assert list(await bridge.switch.refusals([flow, impossible])) == [impossible]
    assert bridge.flows() == []
