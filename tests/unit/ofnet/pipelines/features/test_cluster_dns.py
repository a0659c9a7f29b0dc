"""A question to the agent as the pods' name server is judged as any packet of its pod."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER
from ofnet.pipelines.features.cluster_dns import ENDS
from ofnet.pipelines.features.name_port import stand_in
from ofnet.pipelines.packet_path.stages import DNS_PORT, DNS_RETURN_VLAN
from ofnet.trace.evaluator import PacketFields, Value
from ofnet.world import (
    Bridge,
    FwdMode,
    PolicyEntry,
    PolicyMatch,
    PolicyStage,
    PolicySubject,
    Provider,
    Rule,
    Service,
    ServicePort,
)
from ofnet.world import Verdict as Says
from tests.unit.ofnet.pipelines.cluster_dns import OWN, POD, asks, cluster, is_asked, verdict
from tests.unit.ofnet.pipelines.interception import MODES, dns
from tests.unit.ofnet.pipelines.name_port import PORT, tcp
from tests.unit.ofnet.worlds import address, address6, local, mac, with_local

in_every_mode = pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
by_both = pytest.mark.parametrize("by_tcp", [False, True])


@in_every_mode
@by_both
@pytest.mark.parametrize("guard", [True, False])
def test_it_passes_the_tables_and_reaches_the_agent(
    kind: Bridge, fwd_mode: FwdMode, by_tcp: bool, guard: bool
) -> None:
    found = verdict(kind, cluster(fwd_mode, guard=guard), asks(by_tcp=by_tcp))
    assert is_asked(found)
    assert {1, 3, 4, 5, 6} <= {flow.table for flow in found.path}


@in_every_mode
@by_both
@pytest.mark.parametrize("guard", [True, False])
def test_one_to_an_address_of_ipv6_does_too(
    kind: Bridge, fwd_mode: FwdMode, by_tcp: bool, guard: bool
) -> None:
    own, pod = IPv6Address("fd00:96::2"), replace(local(1), ip6=address6(1), group_id=1)
    here = with_local(replace(cluster(fwd_mode, guard=guard), dns_address=own), pod)
    protocol, name = (oxm.PROTO_TCP, "tcp") if by_tcp else (oxm.PROTO_UDP, "udp")
    fields: dict[str, Value] = {
        "in_port": pod.ofport,
        "eth_src": pod.mac,
        "eth_dst": mac(2),
        "eth_type": oxm.ETH_IPV6,
        "ipv6_src": address6(1),
        "ipv6_dst": own,
        "ip_proto": protocol,
        f"{name}_src": 4000,
        f"{name}_dst": DNS_PORT,
    }
    found = verdict(kind, here, PacketFields(fields))
    assert found.path[-1].table in ENDS
    (there,) = found.sent
    assert (there.port, there.packet.tags) == (PORT.ofport if by_tcp else PORT_CONTROLLER, ())
    sender = stand_in(pod.ofport, judged=True, version=6) if by_tcp else address6(1)
    assert (there.packet.get("ipv6_src"), there.packet.get("ipv6_dst")) == (sender, own)
    rule = replace(here, rules={"deny": denied({"src_group": 1})})
    assert not verdict(kind, rule, PacketFields(fields)).sent
    if guard:
        spoofed = verdict(kind, here, PacketFields({**fields, "ipv6_src": address6(3)}))
        assert not {sent.port for sent in spoofed.sent} & {PORT.ofport, PORT_CONTROLLER}
    if by_tcp:
        answer: dict[str, Value] = {
            "in_port": PORT.ofport,
            "eth_src": PORT.mac,
            "eth_dst": PORT.mac,
            "eth_type": oxm.ETH_IPV6,
            "ipv6_src": own,
            "ipv6_dst": sender,
            "ip_proto": protocol,
            "tcp_src": DNS_PORT,
            "tcp_dst": 4000,
        }
        (back,) = verdict(kind, here, PacketFields(answer)).sent
        assert (back.port, back.packet.get("ipv6_dst")) == (pod.ofport, address6(1))


def denied(more: dict[str, object]) -> Rule:
    fields: dict[str, object] = {"id": "deny", "priority": 1, "allow": False, **more}
    return Rule(**fields)  # type: ignore[arg-type]


@in_every_mode
@by_both
@pytest.mark.parametrize(
    "what",
    [
        {"src_group": 1},
        {"src_group": 1, "dst_port": DNS_PORT},
        {"destination": IPv4Network(f"{OWN}/32")},
        {"destination": IPv4Network("10.96.0.0/12")},
    ],
)
def test_a_rule_of_contiv_denies_it(
    kind: Bridge, fwd_mode: FwdMode, by_tcp: bool, what: dict[str, object]
) -> None:
    if "dst_port" in what:
        what = {**what, "protocol": oxm.PROTO_TCP if by_tcp else oxm.PROTO_UDP}
    here = replace(cluster(fwd_mode), rules={"deny": denied(what)})
    assert not verdict(kind, here, asks(by_tcp=by_tcp)).sent
    allowed = replace(denied({"src_group": 1}), id="allow", allow=True, priority=10)
    both = replace(here, rules={**here.rules, "allow": allowed})
    assert is_asked(verdict(kind, both, asks(by_tcp=by_tcp)))


@in_every_mode
@by_both
@pytest.mark.parametrize("stage", [PolicyStage.EGRESS_ADMIN, PolicyStage.EGRESS])
def test_a_policy_of_kubernetes_denies_it(
    kind: Bridge, fwd_mode: FwdMode, by_tcp: bool, stage: PolicyStage
) -> None:
    deny = PolicyMatch(stage, 10, vrf=1, source=address(1))
    here = replace(
        cluster(fwd_mode),
        policy_subjects={"1": PolicySubject(1, address(1))},
        policy_entries={deny.name: PolicyEntry(deny, Says.DENY)},
    )
    assert not verdict(kind, here, asks(by_tcp=by_tcp)).sent
    to_server = deny._replace(priority=20, destination=OWN)
    entries = {**here.policy_entries, to_server.name: PolicyEntry(to_server, Says.ALLOW)}
    assert is_asked(verdict(kind, replace(here, policy_entries=entries), asks(by_tcp=by_tcp)))


@in_every_mode
@by_both
@pytest.mark.parametrize("who", [(2, 1), (1, 2)])
@pytest.mark.parametrize("tags", [(), (DNS_RETURN_VLAN,), (7,)])
def test_nobody_asks_in_anothers_name(
    kind: Bridge,
    fwd_mode: FwdMode,
    by_tcp: bool,
    who: tuple[int, int],
    tags: tuple[int, ...],
) -> None:
    sender, source = who
    forged = asks(by_tcp=by_tcp, tags=tags, sender=sender, source=source)
    for port in (PORT, None):
        here = replace(cluster(fwd_mode), name_port=port)
        assert not is_asked(verdict(kind, here, forged))


@in_every_mode
def test_an_answer_by_tcp_finds_its_pod_and_its_connection(kind: Bridge, fwd_mode: FwdMode) -> None:
    fields: dict[str, Value] = {
        "in_port": PORT.ofport,
        "eth_src": PORT.mac,
        "eth_dst": PORT.mac,
        "ipv4_src": OWN,
        "ipv4_dst": stand_in(POD, judged=True),
        "tcp_src": DNS_PORT,
        "tcp_dst": 4000,
    }
    found = verdict(kind, cluster(fwd_mode), tcp(fields))
    (there,) = found.sent
    assert there.port == POD
    assert (there.packet.get("eth_dst"), there.packet.get("ipv4_dst")) == (mac(1), address(1))
    assert "ct_note" in {action.name for action in found.path[-1].instructions.actions}


@in_every_mode
@by_both
def test_no_service_takes_the_address(kind: Bridge, fwd_mode: FwdMode, by_tcp: bool) -> None:
    protocol = oxm.PROTO_TCP if by_tcp else oxm.PROTO_UDP
    ports = (
        ServicePort(
            protocol=protocol,
            port=DNS_PORT,
            providers=frozenset({Provider(address(2), DNS_PORT, 1)}),
        ),
    )
    own = Service(key="kube-dns", vrf=1, address=OWN, ports=ports)
    here = replace(cluster(fwd_mode), services={own.key: own})
    assert is_asked(verdict(kind, here, asks(by_tcp=by_tcp)))


@in_every_mode
@by_both
def test_other_servers_are_asked_as_without_it(
    kind: Bridge, fwd_mode: FwdMode, by_tcp: bool
) -> None:
    packet = tcp() if by_tcp else dns()
    here = cluster(fwd_mode)
    sent = [verdict(kind, one, packet).sent for one in (here, replace(here, dns_address=None))]
    assert sent[0] == sent[1]
