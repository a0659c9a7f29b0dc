"""What a change of records would do to flows equals what it then does."""

from collections.abc import Mapping
from ipaddress import IPv4Address

import pytest

from netplugin.world.builder import WorldBuilder
from netplugin.world.flow_changes import FlowChange, flow_changes
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import FlowKey
from ofnet.world import Bridge, Vtep
from state.intents import Attachment, Fact
from state.policy_rules import PolicyRule, policy_rule
from tests.unit.netplugin import records
from tests.unit.netplugin.worlds import altered, built, port


def rule(number: str = "1", peer: str = "", priority: int = 1) -> PolicyRule:
    return policy_rule(
        tenant="default",
        policy="p1",
        rule_id=number,
        direction="in",
        action="deny",
        priority=priority,
        protocol="tcp",
        port=80,
        group=peer,
        network="",
        source="",
        destination="",
    )


GROUP = records.group("web")
ATTACHED = Attachment(GROUP.tenant, GROUP.name, ("p1",))
HERE = records.endpoint(1, group="web", group_id=7)
KNOWN: Mapping[str, Fact] = {
    "net": records.network(),
    "group": GROUP,
    "attached": ATTACHED,
    "peer": records.host(),
    "here": HERE,
    "there": records.endpoint(2, host=records.PEER, group="web", group_id=7),
    "rule": rule(),
}
CHANGES: Mapping[str, Mapping[str, Fact | None]] = {
    "nothing": {},
    "rule added": {"rule2": rule("2", priority=2)},
    "rule removed": {"rule": None},
    "rule replaced": {"rule": rule(priority=2)},
    "policy detached": {"attached": None},
    "group removed": {"group": None, "attached": None},
    "endpoint moved": {"there": records.endpoint(2, host=records.HOST, group="web", group_id=7)},
    "network added": {"net2": records.network("n2", "blue", tag=2)},
    "network removed": {"net": None},
    "unknown removed": {"no such key": None},
}


def fed(facts: Mapping[str, Fact]) -> WorldBuilder:
    builder = built()
    for fact in facts.values():
        builder.put(fact)
    builder.put_port(HERE.key, port(HERE))
    tunnel = Vtep(host=records.PEER, ip=IPv4Address("192.0.2.2"), ofport=9)
    builder.vxlan.set_vteps({records.PEER: tunnel})
    builder.set_complete()
    return builder


def flows(builder: WorldBuilder) -> dict[Bridge, dict[FlowKey, int]]:
    found = {}
    for bridge in Bridge:
        desired = Desired(bridge)
        desired.update(builder.take(bridge)[0], EVERYTHING)
        found[bridge] = {key: flow.cookie for key, flow in desired.flows.items()}
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_foreseen_is_what_becomes(change: str) -> None:
    builder, writes = fed(KNOWN), CHANGES[change]
    expected = flow_changes(builder.twin(), KNOWN, writes)
    before = flows(builder)
    for key, fact in writes.items():
        if fact is not None:
            builder.put(fact)
        elif key in KNOWN:
            builder.remove(KNOWN[key])
    after = flows(builder)
    assert expected == {
        bridge: FlowChange(
            added=len(after[bridge].keys() - before[bridge].keys()),
            removed=len(before[bridge].keys() - after[bridge].keys()),
            replaced=sum(
                before[bridge][key] != after[bridge][key]
                for key in before[bridge].keys() & after[bridge].keys()
            ),
        )
        for bridge in Bridge
    }
    nothing = FlowChange(0, 0, 0)
    changed = any(one != nothing for one in expected.values())
    assert changed == (change not in {"nothing", "unknown removed"})


def test_the_agents_own_world_is_not_touched() -> None:
    builder = fed(KNOWN)
    before = flows(builder)
    flow_changes(builder.twin(), KNOWN, {"net": None, "net2": records.network("n2", "blue", tag=2)})
    assert not altered(builder)
    assert flows(builder) == before
    assert dict(builder.vrfs) == {"default": 1}
