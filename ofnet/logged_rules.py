"""Reads what a switch reports of rules with `log` or `audit`: which rule, which ends. Pure.

In come packets that `ofnet.pipelines.features.contiv_policy` has reported, with the flow that did
it and what the tables knew of the packet; out go `LoggedPacket`s, to which
`netplugin.diagnostics.policy_log` gives names. Frames are of pods, and read as untrusted input.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.ids import EndpointKey, NetworkId
from ofnet.channel.flow_stats import FlowCount
from ofnet.channel.wire import PacketIn
from ofnet.flows import Flow
from ofnet.openflow import oxm, packets
from ofnet.openflow.actions import Report
from ofnet.openflow.fields import VRF
from ofnet.packets.directory import Directory
from ofnet.pipelines.features import contiv_policy
from ofnet.tables import Mode, TableId
from ofnet.world import Rule, World

TABLES: Final = frozenset({TableId.POLICY, TableId.POLICY_LOG})
"""The tables that report packets."""

_ETHERNET: Final = 14
_IPV4: Final = struct.Struct(">B5xHxB2x4s4s")
_IPV6: Final = struct.Struct(">6xBx16s16s")
_PORTS: Final = struct.Struct(">HH")
_LATER: Final = 0x1FFF
_WITH_PORTS: Final = frozenset({oxm.PROTO_TCP, oxm.PROTO_UDP, oxm.PROTO_SCTP})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEnd:
    """One end of a packet; `endpoint` and `network` are None for what no endpoint known here has.

    `port` is 0 without ports.
    """

    address: IPv4Address | IPv6Address
    port: int = 0
    endpoint: EndpointKey | None = None
    network: NetworkId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPacket:
    """A packet that a rule denied or would deny, or the first of a connection that it allowed."""

    rule: Rule
    protocol: int
    source: LoggedEnd
    destination: LoggedEnd


Notice = Callable[[LoggedPacket], None]
"""Takes what was read."""


class LoggedRules:
    """Which flows report for which rule, as the World has them."""

    def __init__(self) -> None:
        self._by_cookie: dict[int, Rule] | None = None

    def forget(self) -> None:
        """Have the rules read again when they are next asked for."""
        self._by_cookie = None

    def by_cookie(self, world: World) -> Mapping[int, Rule]:
        """Return the rules by the cookies of the flows that report for them."""
        if self._by_cookie is None:
            logged = sorted((one for one in world.rules.values() if one.log), key=_id)
            # of two rules with the same flow the smaller has it (`ofnet.ownership`)
            self._by_cookie = {
                flow.cookie: rule
                for rule in reversed(logged)
                for flow in contiv_policy.flows(rule, world)
                if _reports(flow)
            }
        return self._by_cookie


def _id(rule: Rule) -> str:
    return rule.id


def _reports(flow: Flow) -> bool:
    return Report.name in flow.instructions.names


def packets_by_rule(rules: Mapping[int, Rule], counted: Iterable[FlowCount]) -> dict[str, int]:
    """Return how many packets met the flows that report, by the rules' ids.

    Not so for rules with `audit`, which some packets meet on two hosts.
    """
    found: dict[str, int] = {}
    for flow in counted:
        rule = rules.get(flow.cookie)
        if rule is not None and flow.packets and not rule.audit:
            found[rule.id] = found.get(rule.id, 0) + flow.packets
    return found


def read(
    packet: PacketIn, rules: Mapping[int, Rule], directory: Directory, vrfs: Collection[int]
) -> LoggedPacket | None:
    """Return what a reported packet says; None for a flow that went, or a broken packet.

    `vrfs` are those in which its ends are looked up, the packet's own one first.
    """
    rule = rules.get(packet.cookie)
    found = ends(packet)
    if rule is None or found is None:
        return None
    protocol, source, destination = found
    return LoggedPacket(
        rule=rule,
        protocol=protocol,
        source=known(source, directory, vrfs),
        destination=known(destination, directory, vrfs),
    )


def vrfs_of(packet: PacketIn, mode: Mode, world: World) -> list[int]:
    """Return the VRFs in which a packet's ends may be, as the directory has them."""
    vrf = packet.metadata >> VRF.shift & (1 << VRF.width) - 1
    if mode is not Mode.VLROUTER:
        return [vrf]
    # one VRF for all tenants: addresses are unique there
    return sorted({network.vrf for network in world.networks.values()})


def known(end: LoggedEnd, directory: Directory, vrfs: Collection[int]) -> LoggedEnd:
    """Return an end with its endpoint, if one in the first of these VRFs that has one is known."""
    for vrf in vrfs:
        endpoint = directory.endpoint(vrf, end.address)
        if endpoint is not None:
            return LoggedEnd(
                address=end.address,
                port=end.port,
                endpoint=endpoint.key,
                network=endpoint.network,
            )
    return end


def ends(packet: PacketIn) -> tuple[int, LoggedEnd, LoggedEnd] | None:
    """Return protocol, source and destination of a packet; None for one that is not whole IP."""
    frame = packets.untagged(packet.data)
    body = frame[_ETHERNET:]
    found: tuple[int, bytes, IPv4Address | IPv6Address, IPv4Address | IPv6Address]
    try:
        match packets.ether_type(frame):
            case oxm.ETH_IPV4:
                head, fragment, protocol, source, destination = _IPV4.unpack_from(body)
                transport = b"" if fragment & _LATER else body[(head & 0xF) * 4 :]
                found = protocol, transport, IPv4Address(source), IPv4Address(destination)
            case oxm.ETH_IPV6:
                protocol, source, destination = _IPV6.unpack_from(body)
                transport = body[_IPV6.size :]
                found = protocol, transport, IPv6Address(source), IPv6Address(destination)
            case _:
                return None
    except struct.error:
        return None
    protocol, transport, first, second = found
    ports = 0, 0
    if protocol in _WITH_PORTS and len(transport) >= _PORTS.size:
        ports = _PORTS.unpack_from(transport)
    return (
        protocol,
        LoggedEnd(address=first, port=ports[0]),
        LoggedEnd(address=second, port=ports[1]),
    )
