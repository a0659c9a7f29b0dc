"""A host on the way that policies really take: from stored objects to flows, met by a packet.

Objects go in as the store has them, through `state.intents`, the World's builder and its policies,
the pipelines and `Desired`, one change after the other as in an agent. What comes out of the flows
is read on the model of a switch.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, Literal

from core import keys
from core.ids import EndpointKey, HostLabel, NetworkId, TenantName
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_NORMAL, Lookup
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import TableId
from ofnet.trace.evaluator import PacketFields, Sent, Value, tables_of
from ofnet.world import Bridge, FwdMode, Uplink, Vtep
from state import intents
from state.intents import Fact
from state.records import Encap, EndpointRecord
from tests.model.policy_oracle import Outcome, Pod, PolicyCluster, Subnet, Talk, UserRule
from tests.model.switch import evaluate
from tests.unit.netplugin import records

HERE, THERE = HostLabel("h1"), HostLabel("h2")
TUNNEL, UPLINK = 2, 30
UPLINK_MAC, PEER_MAC = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
GROUPS: Final = {"": 0, "web": 11, "db": 12, "cache": 13, "shop": 9}
CLUSTER: Final = PolicyCluster(
    policies={"web": ("p1",), "db": ("p2",), "cache": (), "shop": ("p1",)},
    networks={
        f"n{number}": Subnet(
            IPv4Network(f"10.{number}.0.0/16"), IPv6Network(f"2001:db8:{number}::/64")
        )
        for number in (1, 2)
    },
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod with its place: a number, the number of its network, and where it runs."""

    number: int
    net: int
    group: str
    host: HostLabel

    @property
    def pod(self) -> Pod:
        """The pod as policies see it."""
        return _pod(self)

    @property
    def mac(self) -> str:
        """The MAC of the pod."""
        return f"02:02:00:00:00:{self.number:02x}"

    @property
    def ofport(self) -> int:
        """The port of a pod that runs here."""
        return 100 + self.number


@cache
def _pod(placed: Placed) -> Pod:
    return Pod(
        placed.group,
        IPv4Address(f"10.{placed.net}.0.{placed.number}"),
        IPv6Address(f"2001:db8:{placed.net}::{placed.number:x}"),
    )


WEB, DB, DB_ON_N2, ALONE, SHOP = (
    Placed(number, net, group, HERE)
    for number, net, group in (
        *((1, 1, "web"), (2, 1, "db"), (3, 2, "db"), (4, 1, "")),
        (8, 1, "shop"),
    )
)
WEB_THERE, DB_THERE, CACHE_ON_N2_THERE = (
    Placed(number, net, group, THERE)
    for number, net, group in ((5, 1, "web"), (6, 1, "db"), (7, 2, "cache"))
)
PODS: Final = (WEB, DB, DB_ON_N2, ALONE, SHOP, WEB_THERE, DB_THERE, CACHE_ON_N2_THERE)
"""Groups `web` and `shop` have the same policy."""


class PolicyBridge:
    """One bridge of the host `h1` in one mode."""

    def __init__(self, bridge: Bridge, fwd_mode: FwdMode) -> None:
        self._bridge = bridge
        self._fwd_mode = fwd_mode
        self._builder = WorldBuilder(HERE, fwd_mode)
        self._desired = Desired(bridge)
        for fact in _facts(bridge):
            self._builder.put(fact)
        for placed in PODS:
            if placed.host == HERE:
                port = LocalPort(record=_endpoint(placed), ofport=placed.ofport)
                self._builder.endpoints.put_port(port.record.key, port)
        tunnel = Vtep(host=THERE, ip=IPv4Address("192.0.2.2"), ofport=TUNNEL)
        self._builder.vxlan.set_vteps({THERE: tunnel})
        self._builder.vlan.set_uplinks([Uplink(ofport=UPLINK, mac=UPLINK_MAC)])
        self._builder.set_complete()
        self._rules: dict[tuple[str, str], UserRule] = {}
        self._update()

    def hold(self, rules: Iterable[UserRule]) -> None:
        """Have these rules and no others."""
        wanted = {(rule.policy, rule.name): rule for rule in rules}
        for key in self._rules.keys() - wanted.keys():
            self._builder.remove(_rule(self._rules[key]))
        for key, rule in wanted.items():
            if self._rules.get(key) != rule:
                self._builder.put(_rule(rule))
        self._rules = wanted
        self._update()

    def meet(self, sender: Placed, receiver: Placed) -> bool:
        """Return whether packets get from one pod to the other through here.

        Bridges keep to a network.
        """
        apart = self._fwd_mode is FwdMode.BRIDGE and sender.net != receiver.net
        return HERE in {sender.host, receiver.host} and sender != receiver and not apart

    def outcome(self, sender: Placed, receiver: Placed, talk: Talk) -> Outcome:
        """Return what the flows do with a packet; AssertionError if it goes astray."""
        verdict = evaluate(self._tables, self._packet(sender, receiver, talk))
        assert all(choice[0].table == TableId.POLICY for choice in verdict.ambiguous)
        if any(map(_decide_otherwise, verdict.ambiguous)):
            return Outcome.UNDEFINED
        if not verdict.sent:
            assert verdict.path[-1].table == TableId.POLICY, verdict.path
            return Outcome.DENIED
        (leaving,) = verdict.sent
        assert self._leaving(leaving) == self._way_to(sender, receiver), verdict.path
        return Outcome.ALLOWED

    def _update(self) -> None:
        self._desired.update(*self._builder.take(self._bridge))
        assert not self._desired.faults
        self._tables = tables_of(self._desired.flows.values())

    def _packet(self, sender: Placed, receiver: Placed, talk: Talk) -> PacketFields:
        """Return a packet as a pod sends it here, or as it comes from another host."""
        routed = self._fwd_mode is FwdMode.ROUTING
        fields: dict[str, Value] = {
            "eth_src": sender.mac,
            "eth_dst": ROUTER_MAC if routed else receiver.mac,
            **_addresses(sender.pod, receiver.pod, talk.family),
            **_transport(talk),
        }
        if sender.host == HERE:
            return PacketFields({"in_port": sender.ofport, **fields})
        if self._bridge is Bridge.VLAN:
            frame = {"eth_src": PEER_MAC, "eth_dst": UPLINK_MAC} if routed else {}
            return PacketFields({"in_port": UPLINK, **fields, **frame}, (receiver.net,))
        return PacketFields({"in_port": TUNNEL, "tunnel_id": _vni(receiver), **fields})

    def _leaving(self, leaving: Sent) -> tuple[Value | None, ...]:
        packet = leaving.packet
        vlan = packet.tags[0] if packet.tags else 0
        return leaving.port, packet.get("eth_dst"), vlan, packet.get("tunnel_id")

    def _way_to(self, sender: Placed, receiver: Placed) -> tuple[Value, ...]:
        """Return port, MAC, VLAN and VNI of a packet that is on its way to a pod."""
        routed = self._fwd_mode is FwdMode.ROUTING
        came_in = sender.host != HERE
        if self._bridge is Bridge.VLAN and not routed:
            return PORT_NORMAL, receiver.mac, receiver.net if came_in else 0, 0
        if receiver.host == HERE:
            tunnel_id = _vni(receiver) if came_in and self._bridge is Bridge.VXLAN else 0
            return receiver.ofport, receiver.mac, 0, tunnel_id
        if self._bridge is Bridge.VLAN:
            return UPLINK, PEER_MAC, receiver.net, 0
        return TUNNEL, ROUTER_MAC if routed else receiver.mac, 0, _vni(receiver)


def _decide_otherwise(choice: tuple[Flow, ...]) -> bool:
    """Return whether it matters which flow is taken: those of rules under audit decide nothing."""
    done = {flow.instructions for flow in choice}
    return len({one for one in done if Lookup.name not in one.names}) > 1


def _vni(receiver: Placed) -> int:
    return 10_000 + receiver.net


def _addresses(sender: Pod, receiver: Pod, family: Literal[4, 6]) -> dict[str, Value]:
    if family == 4:
        return {"eth_type": oxm.ETH_IPV4, "ipv4_src": sender.four, "ipv4_dst": receiver.four}
    return {"eth_type": oxm.ETH_IPV6, "ipv6_src": sender.six, "ipv6_dst": receiver.six}


def _transport(talk: Talk) -> dict[str, Value]:
    ports = (talk.source_port, talk.destination_port)
    match talk.protocol:
        case "tcp":
            fields: dict[str, Value] = dict(zip(("tcp_src", "tcp_dst"), ports, strict=True))
            return {"ip_proto": oxm.PROTO_TCP, "tcp_flags": talk.flags, **fields}
        case "udp":
            fields = dict(zip(("udp_src", "udp_dst"), ports, strict=True))
            return {"ip_proto": oxm.PROTO_UDP, **fields}
        case "icmp" if talk.family == 6:
            return {"ip_proto": oxm.PROTO_ICMP6, "icmpv6_type": 128, "icmpv6_code": 0}
        case "icmp":
            return {"ip_proto": oxm.PROTO_ICMP, "icmp_type": 8}
        case number:
            return {"ip_proto": int(number)}


def _facts(bridge: Bridge) -> Iterable[Fact]:
    encap = Encap.VLAN if bridge is Bridge.VLAN else Encap.VXLAN
    for number in (1, 2):
        yield replace(
            records.network(f"n{number}", encap=encap, tag=number, v6=True),
            gateway=f"10.{number}.255.254",
            subnet=f"10.{number}.0.0",
            first=f"10.{number}.0.0",
            last=f"10.{number}.255.255",
            ipv6_subnet=f"2001:db8:{number}::",
            ipv6_gateway=f"2001:db8:{number}::fe",
        )
    for name, policies in CLUSTER.policies.items():
        yield replace(records.group(name, dscp=0), group_id=GROUPS[name])
        yield _read(
            f"{keys.GROUP_OBJECTS}default:{name}",
            {"tenantName": "default", "groupName": name, "policies": list(policies)},
        )
    yield replace(records.host(THERE), uplink_macs=(PEER_MAC,))
    for placed in PODS:
        yield _endpoint(placed)


def _endpoint(placed: Placed) -> EndpointRecord:
    pod, nid = placed.pod, NetworkId(f"n{placed.net}.{TenantName('default')}")
    return replace(
        records.endpoint(placed.number, host=placed.host, nid=nid, group=placed.group),
        key=EndpointKey(f"{nid}-c{placed.number}"),
        group_id=GROUPS[placed.group],
        ip_address=str(pod.four),
        ipv6_address=str(pod.six),
        mac_address=placed.mac,
    )


def _rule(rule: UserRule) -> Fact:
    side = "from" if rule.direction == "in" else "to"
    return _read(
        f"{keys.RULES}default:{rule.policy}:{rule.name}",
        {
            "tenantName": "default",
            "policyName": rule.policy,
            "ruleId": rule.name,
            "direction": rule.direction,
            "action": rule.action,
            "priority": rule.priority,
            "protocol": rule.protocol,
            "port": rule.port,
            f"{side}EndpointGroup": rule.group,
            f"{side}Network": rule.network,
            f"{side}IpAddress": rule.address,
            "audit": rule.audit,
        },
    )


def _read(key: str, value: dict[str, object]) -> Fact:
    name = key.rpartition("/")[2]
    fact = intents.decode(key, json.dumps({"key": name, **value}).encode())
    assert fact is not None
    return fact
