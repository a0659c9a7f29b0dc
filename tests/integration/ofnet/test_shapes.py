"""Every shape of flow, as Open vSwitch takes it and prints it, equals our own text.

One load of random flows within the tables' declarations, and the World-made ones of each mode.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.ids import GroupKey
from ofnet.changes import EVERYTHING, ObjectKind
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import Conntrack, ConntrackCommit, Instructions, Output
from ofnet.openflow.fields import (
    CT_INVALID,
    CT_TRACKED,
    FRAGMENT_ANY,
    FRAGMENT_FIRST,
    FRAGMENT_LATER,
    FRAGMENT_NONE,
    CtState,
    Flags,
)
from ofnet.openflow.match import Match
from ofnet.tables import Table, TableId
from ofnet.world import (
    ArpMode,
    Bridge,
    FwdMode,
    NamePort,
    PolicyClass,
    Rule,
    Uplink,
    World,
)
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled
from tests.unit.ofnet.strategies import flows
from tests.unit.ofnet.worlds import PEER, local, remote, world

pytestmark = pytest.mark.ovs


@pytest.fixture
async def bridge(ovs_module: OvsHost) -> AsyncIterator[Dialled]:
    async with dialled(ovs_module) as bridge:
        yield bridge


async def printed(bridge: Dialled, wanted: Sequence[Flow]) -> tuple[list[str], list[str]]:
    """Return what the switch prints after getting the flows, and what it should print."""
    await bridge.switch.apply(wanted, [])
    return bridge.flows(), sorted(map(str, wanted))


RULES = [
    Rule(id="deny", priority=1, allow=False, dst_group=7),
    Rule(id="between", priority=9, allow=True, src_group=7, dst_group=8, protocol=6, dst_port=80),
    Rule(
        id="answers",
        priority=9,
        allow=True,
        src_group=7,
        destination=IPv4Network("10.1.1.9/32"),
        protocol=17,
        src_port=53,
    ),
    Rule(id="icmp", priority=3, allow=True, dst_group=7, protocol=1),
    Rule(id="gre", priority=4, allow=True, dst_group=7, protocol=47),
    Rule(
        id="new",
        priority=100,
        allow=False,
        dst_group=7,
        protocol=6,
        tcp_flags=Flags(0x02, 0x12),
        source=IPv4Network("10.1.2.0/24"),
    ),
    Rule(id="shared", priority=7, allow=True, src_class=7, dst_group=8, protocol=6, log=True),
    Rule(id="any of them", priority=7, allow=False, dst_class=7, protocol=17),
    Rule(id="six", priority=5, allow=True, src_group=7, destination=IPv6Network("2001:db8::/64")),
]


@pytest.mark.parametrize("arp_mode", list(ArpMode))
@pytest.mark.parametrize("mode", [(b, f) for b in Bridge for f in FwdMode])
async def test_flows_of_every_mode(
    bridge: Dialled, mode: tuple[Bridge, FwdMode], arp_mode: ArpMode
) -> None:
    kind, fwd_mode = mode
    pod = replace(local(1), dscp=10, group_id=7, ip6=IPv6Address("2001:db8::1"))
    everything: World = replace(
        world(here=(pod, local(2)), there=(remote(3, v6=True), remote(4))),
        fwd_mode=fwd_mode,
        arp_mode=arp_mode,
        guard=True,
        name_port=NamePort(ofport=32574, mac="06:02:00:00:00:35"),
        rules={rule.id: rule for rule in RULES},
        policy_classes={GroupKey("web:blue"): PolicyClass(9, 7)},
        peer_macs={PEER: "52:54:00:00:00:0c"},
        uplinks=(
            Uplink(ofport=30, mac="52:54:00:00:00:0a"),
            Uplink(ofport=31, mac="52:54:00:00:00:0b"),
        ),
    )
    desired = Desired(kind)
    desired.update(everything, EVERYTHING)
    got, wanted = await printed(bridge, list(desired.flows.values()))
    assert got == wanted


@pytest.fixture
def random_flows() -> list[Flow]:
    """Make flows within the tables' declarations, while no switch waits for our answers."""
    sample: dict[object, Flow] = {}

    @given(st.lists(flows(), min_size=20, max_size=20))
    @settings(
        max_examples=60,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def collect(some: list[Flow]) -> None:
        sample.update((flow.key, flow) for flow in some)

    collect()
    assert len(sample) > 300
    return list(sample.values())


async def test_connection_tracking(bridge: Dialled, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = Table(
        id=TableId.DST_GRP,
        matches=frozenset(oxm.FIELDS),
        actions=frozenset({"ct", "ct_commit", "output"}),
        next=frozenset(TableId),
        resumes=frozenset(TableId),
    )
    monkeypatch.setattr("ofnet.flows.TABLES", {TableId.DST_GRP: tracking})
    valid = CtState(CT_TRACKED, CT_TRACKED | CT_INVALID)
    matches = {
        Match(eth_type=oxm.ETH_IPV4, ip_frag=FRAGMENT_ANY, ct_state=CtState(0, CT_TRACKED)),
        Match(eth_type=oxm.ETH_IPV4, ip_frag=FRAGMENT_LATER, ct_state=valid, ct_nw_proto=17),
        Match(eth_type=oxm.ETH_IPV4, ct_state=valid, ct_zone=65001, in_port=5),
        Match(eth_type=oxm.ETH_IPV6, ct_state=valid, ct_nw_proto=6, ct_tp_src=1, ct_tp_dst=2),
        Match(eth_type=oxm.ETH_IPV6, ip_proto=17, ip_frag=FRAGMENT_FIRST, udp_dst=53),
        Match(eth_type=oxm.ETH_IPV6, ip_proto=17, ip_frag=FRAGMENT_NONE, udp_dst=53),
    }
    track = Instructions((Conntrack(table=TableId.POLICY, zone=65000),))
    tracked = [Flow(ObjectKind.PIPELINE, TableId.DST_GRP, 100, match, track) for match in matches]
    committed = Instructions((ConntrackCommit(zone=65001), Output(7)))
    match = Match(eth_type=oxm.ETH_IPV4, in_port=6)
    tracked.append(Flow(ObjectKind.PIPELINE, TableId.DST_GRP, 100, match, committed))
    got, wanted = await printed(bridge, tracked)
    assert got == wanted


async def test_random_flows(random_flows: list[Flow], bridge: Dialled) -> None:
    got, wanted = await printed(bridge, random_flows)
    assert got == wanted
