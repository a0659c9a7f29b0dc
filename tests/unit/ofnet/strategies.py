"""Random flows and random histories of Worlds, for hypothesis."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Any

from hypothesis import strategies as st

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    PORT_CONTROLLER,
    PORT_NORMAL,
    Action,
    Instructions,
    Output,
    SetField,
    tag,
)
from ofnet.openflow.fields import Bits
from ofnet.openflow.match import Match
from ofnet.tables import TABLES, TableId

macs = st.binary(min_size=6, max_size=6).map(lambda raw: raw.hex(":"))
unicast_masks = st.sampled_from(["ff:ff:00:00:00:00", "01:00:00:00:00:00", "00:00:00:ff:ff:ff"])
ports = st.integers(1, 0xFEFF)
addresses = st.integers(0, 2**32 - 1).map(IPv4Address)
networks = st.tuples(addresses, st.integers(1, 31)).map(
    lambda pair: IPv4Network((pair[0], pair[1]), strict=False)
)
addresses6 = st.integers(1, 2**128 - 1).map(IPv6Address)


def masked_mac(pair: tuple[str, str]) -> str:
    value, mask = (oxm.mac_bytes(text) for text in pair)
    kept = bytes(v & m for v, m in zip(value, mask, strict=True))
    return f"{kept.hex(':')}/{pair[1]}"


def bits(mask: int) -> st.SearchStrategy[Bits]:
    return (
        st.tuples(st.integers(0, mask), st.integers(1, mask))
        .map(lambda pair: Bits(pair[0] & pair[1] & mask or 0, (pair[1] & mask) or mask))
        .map(lambda some: Bits(some.value & some.mask, some.mask))
    )


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "in_port": ports,
    "metadata": bits(2**40 - 1),
    "eth_dst": macs,
    "eth_src": macs | st.tuples(macs, unicast_masks).map(masked_mac),
    "vlan_vid": st.integers(1, 4094),
    "tunnel_id": st.integers(1, 2**24 - 1),
}
"""The fields that need no other field."""

PROTOCOLS: dict[int, dict[str, st.SearchStrategy[Any]]] = {
    oxm.ETH_ARP: {"arp_op": st.integers(1, 2)},
    oxm.ETH_IPV4: {"ipv4_src": addresses, "ipv4_dst": addresses | networks},
    oxm.ETH_IPV6: {"ipv6_src": addresses6, "ipv6_dst": addresses6},
}
TRANSPORTS: dict[int, tuple[str, str]] = {
    oxm.PROTO_TCP: ("tcp_src", "tcp_dst"),
    oxm.PROTO_UDP: ("udp_src", "udp_dst"),
}

ACTIONS: dict[str, Callable[[], st.SearchStrategy[tuple[Action, ...]]]] = {
    "output": lambda: (ports | st.sampled_from([PORT_CONTROLLER, PORT_NORMAL])).map(
        lambda port: (Output(port),)
    ),
    "eth_src": lambda: macs.map(lambda mac: (SetField("eth_src", mac),)),
    "eth_dst": lambda: macs.map(lambda mac: (SetField("eth_dst", mac),)),
    "push_vlan": lambda: st.integers(1, 4094).map(tag),
    "tunnel_id": lambda: st.integers(1, 2**24 - 1).map(lambda vni: (SetField("tunnel_id", vni),)),
}
"""The actions that need no particular match."""


def _subset(choices: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(choices), unique=True) if choices else st.just([])


@st.composite
def matches(draw: st.DrawFn, allowed: frozenset[str]) -> Match:
    """Return a match of allowed fields, with their prerequisites."""
    values: dict[str, Any] = {
        name: draw(FIELDS[name]) for name in draw(_subset(sorted(FIELDS.keys() & allowed)))
    }
    if "eth_type" not in allowed or not draw(st.booleans()):
        return Match(**values)
    eth_type = draw(st.sampled_from(sorted(PROTOCOLS)))
    values["eth_type"] = eth_type
    fields = PROTOCOLS[eth_type]
    for name in draw(_subset(sorted(fields.keys() & allowed))):
        values[name] = draw(fields[name])
    if "ip_proto" in allowed and eth_type != oxm.ETH_ARP and draw(st.booleans()):
        proto = draw(st.sampled_from([*sorted(TRANSPORTS), 47]))
        values["ip_proto"] = proto
        for name in draw(_subset(sorted(allowed & set(TRANSPORTS.get(proto, ()))))):
            values[name] = draw(st.integers(0, 0xFFFF))
    return Match(**values)


@st.composite
def instructions(draw: st.DrawFn, table: TableId, match: Match) -> Instructions:
    """Return instructions the table declares and Open vSwitch accepts behind this match."""
    declared = TABLES[table]
    actions: list[Action] = []
    for name in draw(_subset(sorted(ACTIONS.keys() & declared.actions))):
        if name != "push_vlan" or declared.actions >= {"push_vlan", "vlan_vid"}:
            actions += draw(ACTIONS[name]())
    fields = dict(match.fields)
    if fields.get("eth_type") == oxm.ETH_IPV4 and "vlan_vid" not in fields:
        for name in draw(_subset(sorted({"ipv4_src", "ipv4_dst"} & declared.actions))):
            actions.insert(0, SetField(name, draw(addresses)))
    metadata = draw(st.none() | bits(declared.writes)) if declared.writes else None
    if metadata is not None and metadata.mask & ~declared.writes:
        metadata = None
    goto = draw(st.sampled_from([None, *sorted(declared.next)]))
    return Instructions(tuple(actions), metadata, goto)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """Return any flow the declarations allow."""
    table = draw(st.sampled_from(list(TableId)))
    match = draw(matches(TABLES[table].matches))
    return Flow(
        draw(st.sampled_from(list(ObjectKind))),
        table,
        draw(st.integers(1, 0xFFFF).filter(lambda priority: priority != 0x8000)),
        match,
        draw(instructions(table, match)),
    )
