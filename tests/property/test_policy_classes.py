"""Groups that share the flows of their rules: every packet fares as with flows of each group.

Random rules that name classes, in each mode, beside the same ones written out for each group of the
class; no switch is needed.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.ids import GroupKey
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import TableId
from ofnet.trace.evaluator import PacketFields, Tables, Value, tables_of
from ofnet.world import (
    Bridge,
    FwdMode,
    LocalEndpoint,
    PolicyClass,
    RemoteEndpoint,
    Rule,
    Uplink,
    World,
)
from tests.model.shared_rules import of_group
from tests.model.switch import Verdict, evaluate
from tests.unit.ofnet.worlds import PEER, ip_of, local, remote, world

GROUPS = (7, 8, 9)
CLASSES = {GroupKey(f"g{group}:t"): PolicyClass(group, 7) for group in (7, 8)}
"""The third group is alone with its policies."""

UPLINK, TUNNEL = Uplink(ofport=30, mac="52:54:00:00:00:0a"), 2
MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
TALKS: tuple[dict[str, Value], ...] = (
    {"ip_proto": oxm.PROTO_TCP, "tcp_src": 4000, "tcp_dst": 80, "tcp_flags": 0x02},
    {"ip_proto": oxm.PROTO_TCP, "tcp_src": 80, "tcp_dst": 4000, "tcp_flags": 0x12},
    {"ip_proto": oxm.PROTO_UDP, "udp_src": 4000, "udp_dst": 53},
    {"ip_proto": oxm.PROTO_ICMP, "icmp_type": 8},
)
ENDS: tuple[dict[str, int], ...] = (
    *({"src_class": 7, "dst_group": group} for group in (0, *GROUPS)),
    *({"src_group": group, "dst_class": 7} for group in (0, *GROUPS)),
    *({"src_group": group} for group in GROUPS),
    *({"dst_group": group} for group in GROUPS),
    {"src_group": 9, "dst_group": 8},
)
some_rules = st.lists(
    st.builds(
        lambda ends, **words: Rule(id="", **ends, **words),
        st.sampled_from(ENDS),
        priority=st.integers(1, 100),
        allow=st.booleans(),
        protocol=st.sampled_from([0, oxm.PROTO_TCP, oxm.PROTO_UDP]),
        src_port=st.sampled_from([0, 0, 80]),
        dst_port=st.sampled_from([0, 0, 53, 80]),
        log=st.booleans(),
        audit=st.sampled_from([False, False, False, True]),
    ),
    min_size=2,
    max_size=6,
    unique_by=lambda rule: rule.priority,
)
_BESIDE_THE_FRAME = {"metadata", "reg2", "reg3", "reg4"}


@pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
def test_packets_fare_as_without_classes(kind: Bridge, fwd_mode: FwdMode) -> None:
    met: set[tuple[bool, bool]] = set()

    @given(some_rules)
    @settings(
        max_examples=25,
        # the same ones each time: a failure must be about the change under test
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    def holds(rules: list[Rule]) -> None:
        of = with_pods(kind, fwd_mode, {f"r{n}": rule for n, rule in enumerate(rules)})
        shared = tables(kind, of)
        alone = tables(kind, replace(of, rules=written_out(of), policy_classes={}))
        for packet in between_pods(kind, of):
            verdict, expected = evaluate(shared, packet), evaluate(alone, packet)
            assert not verdict.ambiguous
            assert frames(verdict) == frames(expected), packet
            met.add((decided_by_class(verdict), bool(verdict.sent)))

    holds()
    assert met == {(by_class, passed) for by_class in (True, False) for passed in (True, False)}


def with_pods(kind: Bridge, fwd_mode: FwdMode, rules: dict[str, Rule]) -> World:
    """Return a World with a pod of each group here and on another host."""
    here = tuple(replace(local(n), group_id=group) for n, group in enumerate(GROUPS, 1))
    there = tuple(replace(remote(n), group_id=group) for n, group in enumerate(GROUPS, 4))
    return replace(
        world(here=here, there=there),
        fwd_mode=fwd_mode,
        uplinks=() if kind is Bridge.VXLAN else (UPLINK,),
        peer_macs={PEER: "52:54:00:00:00:0c"},
        rules={name: replace(rule, id=name) for name, rule in rules.items()},
        policy_classes=CLASSES,
        complete=True,
    )


def between_pods(kind: Bridge, of: World) -> Iterator[PacketFields]:
    """Yield packets of each pod here to each other pod, and of pods elsewhere to pods here."""
    pods: list[LocalEndpoint | RemoteEndpoint] = [*of.local.values(), *of.remote.values()]
    for one, other in permutations(pods, 2):
        for talk in TALKS:
            ends: dict[str, Value] = {
                "eth_type": oxm.ETH_IPV4,
                "ipv4_src": ip_of(one),
                "ipv4_dst": ip_of(other),
            }
            routed = of.fwd_mode is FwdMode.ROUTING
            link: dict[str, Value] = {
                "eth_src": one.mac,
                "eth_dst": ROUTER_MAC if routed else other.mac,
            }
            if isinstance(one, LocalEndpoint):
                yield PacketFields({"in_port": one.ofport, **link, **ends, **talk})
            elif isinstance(other, LocalEndpoint) and kind is Bridge.VXLAN:
                came: dict[str, Value] = {
                    "in_port": TUNNEL,
                    "tunnel_id": of.networks[other.network].vni,
                }
                yield PacketFields({**came, **link, **ends, **talk})
            elif isinstance(other, LocalEndpoint):
                vlan = of.networks[other.network].vlan
                yield PacketFields({"in_port": UPLINK.ofport, **link, **ends, **talk}, (vlan,))


def written_out(of: World) -> dict[str, Rule]:
    """Return the rules of a World with the groups of a class in its place."""
    return {one.id: one for rule in of.rules.values() for one in each_of(rule, of)}


def each_of(rule: Rule, of: World) -> Iterator[Rule]:
    if not rule.src_class and not rule.dst_class:
        yield rule
        return
    for member in of.policy_classes.values():
        if member.number in {rule.src_class, rule.dst_class}:
            yield of_group(rule, member.group_id, f"{rule.id}-{member.group_id}")


def tables(kind: Bridge, of: World) -> Tables:
    desired = Desired(kind)
    desired.update(of, EVERYTHING)
    assert not desired.faults
    return tables_of(desired.flows.values())


def frames(verdict: Verdict) -> list[tuple[object, ...]]:
    """Return what leaves, by which port."""
    return [
        (
            leaving.port,
            {k: v for k, v in leaving.packet.fields.items() if k not in _BESIDE_THE_FRAME},
            leaving.packet.tags,
        )
        for leaving in verdict.sent
    ]


def decided_by_class(verdict: Verdict) -> bool:
    of_rules = [flow for flow in verdict.path if flow.table == TableId.POLICY]
    return bool(of_rules) and bool(of_rules[-1].match.names & {"reg2", "reg3"})
