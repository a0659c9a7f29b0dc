"""Actions and instructions: bytes as os-ken packs them, text as Open vSwitch prints it."""

from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3_parser as reference

from ofnet.openflow.actions import (
    DROP,
    PORT_CONTROLLER,
    PORT_IN_PORT,
    PORT_NORMAL,
    PORT_TABLE,
    Action,
    Conjunction,
    Conntrack,
    ConntrackClear,
    ConntrackCommit,
    ConntrackNote,
    Deal,
    Instructions,
    Learn,
    Load,
    LoadFirst,
    Lookup,
    Move,
    Output,
    OutputFirst,
    PopVlan,
    PushVlan,
    Report,
    SelectGroup,
    SetField,
    instructions_by,
    tag,
)
from ofnet.openflow.fields import LIVE_PORT, REASSEMBLED, SOURCE_GROUP, Bits
from ofnet.openflow.meters import Meter
from tests.unit.ofnet.strategies import addresses, bits, macs

actions = st.one_of(
    st.integers(1, 0xFEFF).map(Output),
    st.sampled_from([PORT_CONTROLLER, PORT_NORMAL, PORT_TABLE]).map(Output),
    st.lists(st.integers(1, 0xFEFF), min_size=2, max_size=9).map(tuple).map(OutputFirst),
    st.lists(st.integers(1, 0xFEFF), min_size=1, max_size=5).map(
        lambda ports: LoadFirst(tuple(ports), LIVE_PORT)
    ),
    st.sampled_from([Move("eth_src", "eth_dst"), Move("arp_spa", "arp_tpa")]),
    st.builds(
        Conntrack, table=st.integers(0, 254), zone=st.integers(0, 0xFFFF), commit=st.booleans()
    ),
    st.builds(ConntrackCommit, zone=st.integers(0, 0xFFFF)),
    st.builds(ConntrackNote, zone=st.integers(0, 0xFFFF)),
    st.just(ConntrackClear()),
    st.builds(Lookup, table=st.integers(0, 254)),
    st.builds(
        Conjunction,
        id=st.integers(1, 0xFFFFFFFF),
        clause=st.integers(1, 64),
        clauses=st.integers(2, 64),
    ),
    st.sampled_from([Load(REASSEMBLED, 1), Load(SOURCE_GROUP, 7)]),
    st.just(PushVlan()),
    st.just(PopVlan()),
    macs.map(lambda mac: SetField("eth_dst", mac)),
    addresses.map(lambda address: SetField("ipv4_src", address)),
    st.integers(0, 63).map(lambda dscp: SetField("ip_dscp", dscp)),
    st.integers(1, 4094).map(lambda vlan: SetField("vlan_vid", vlan)),
    st.integers(0, 2**24).map(lambda vni: SetField("tunnel_id", vni)),
)


def reference_action(action: Action) -> Any:  # noqa: C901, PLR0911, PLR0912 - one for each kind
    match action:
        case SelectGroup() | Deal() | Learn() | Report():
            raise AssertionError(f"{action} is compared with Open vSwitch's text only")
        case Output(port):
            return reference.OFPActionOutput(port, 0xFFFF if port == PORT_CONTROLLER else 0)
        case OutputFirst(ports):
            return reference.NXActionBundle(
                algorithm=0,
                fields=0,
                basis=0,
                slave_type=2,
                n_slaves=len(ports),
                ofs_nbits=0,
                dst=0,
                slaves=list(ports),
            )
        case LoadFirst(ports):
            return reference.NXActionBundleLoad(
                algorithm=0,
                fields=0,
                basis=0,
                slave_type=2,
                n_slaves=len(ports),
                ofs_nbits=48 << 6 | 15,
                dst="metadata",
                slaves=list(ports),
            )
        case Move(source, destination):
            return reference.NXActionRegMove(
                src_field=source, dst_field=destination, n_bits=48 if "eth" in source else 32
            )
        case Load(field, value):
            place = (field.shift << 6) + field.width - 1
            return reference.NXActionRegLoad(place, "metadata", value)
        case Lookup(table):
            return reference.NXActionResubmitTable(in_port=0xFFF8, table_id=table)
        case Conjunction(number, clause, clauses):
            return reference.NXActionConjunction(clause=clause - 1, n_clauses=clauses, id_=number)
        case Conntrack(table, zone, commit):
            return reference.NXActionCT(
                flags=int(commit),
                zone_src="",
                zone_ofs_nbits=zone,
                recirc_table=table,
                alg=0,
                actions=[],
            )
        case ConntrackClear():
            return reference.NXActionCTClear()
        case ConntrackCommit(zone) | ConntrackNote(zone):
            return reference.NXActionCT(
                flags=int(isinstance(action, ConntrackCommit)),
                zone_src="",
                zone_ofs_nbits=zone,
                recirc_table=255,
                alg=0,
                actions=[],
            )
        case PushVlan():
            return reference.OFPActionPushVlan()
        case PopVlan():
            return reference.OFPActionPopVlan()
        case SetField("vlan_vid", int(vlan)):
            return reference.OFPActionSetField(vlan_vid=vlan | 0x1000)
        case SetField(name, value):
            plain = str(value) if isinstance(value, IPv4Address) else value
            return reference.OFPActionSetField(**{name: plain})


@given(
    st.lists(actions, max_size=4),
    st.none() | bits(2**40 - 1),
    st.none() | st.integers(0, 9),
)
def test_bytes_are_those_of_os_ken(
    some: list[Action], metadata: Bits | None, goto: int | None
) -> None:
    parts = []
    if some:
        applied = [reference_action(action) for action in some]
        parts.append(reference.OFPInstructionActions(4, applied))
    if metadata is not None:
        parts.append(reference.OFPInstructionWriteMetadata(*metadata))
    if goto is not None:
        parts.append(reference.OFPInstructionGotoTable(goto))
    buffer = bytearray()
    for part in parts:
        part.serialize(buffer, len(buffer))
    assert Instructions(tuple(some), metadata, goto).wire == bytes(buffer)


@pytest.mark.parametrize(
    ("instructions", "text"),
    [
        (DROP, "drop"),
        (Instructions((Output(PORT_CONTROLLER),)), "CONTROLLER:65535"),
        (Instructions((Output(PORT_NORMAL),)), "NORMAL"),
        (Instructions((Output(PORT_TABLE),)), "TABLE"),
        (Instructions((Output(PORT_IN_PORT),)), "IN_PORT"),
        (
            Instructions((OutputFirst((3, 1, 2)),)),
            "bundle(eth_src,0,active_backup,ofport,members:3,1,2)",
        ),
        (Instructions((Move("arp_sha", "arp_tha"),)), "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]"),
        (Instructions((Conntrack(table=20, zone=65000),)), "ct(table=20,zone=65000)"),
        (Instructions((Conntrack(table=6, zone=9, commit=True),)), "ct(commit,table=6,zone=9)"),
        (Instructions((Lookup(6),)), "resubmit(,6)"),
        (Instructions((Conjunction(7, 1, 3),)), "conjunction(7,1/3)"),
        (Instructions((Load(SOURCE_GROUP, 7),)), "load:0x7->OXM_OF_METADATA[16..30]"),
        (Instructions((Load(REASSEMBLED, 1),)), "load:0x1->OXM_OF_METADATA[43]"),
        (Instructions((PopVlan(), Output(14))), "pop_vlan,output:14"),
        (
            Instructions(tag(1), Bits(0x100000000, 0xFF00000000), 3),
            (
                "push_vlan:0x8100,set_field:4097->vlan_vid,"
                "write_metadata:0x100000000/0xff00000000,goto_table:3"
            ),
        ),
        (Instructions((SetField("tunnel_id", 10001),)), "set_field:0x2711->tun_id"),
        (
            Instructions((SetField("ipv4_src", IPv4Address("172.19.0.1")),)),
            "set_field:172.19.0.1->ip_src",
        ),
    ],
)
def test_text_is_that_of_open_vswitch(instructions: Instructions, text: str) -> None:
    assert str(instructions) == text


def test_different_actions_are_never_equal() -> None:
    different: set[Action] = {
        Output(1),
        OutputFirst((1, 2)),
        Move("eth_src", "eth_dst"),
        Conntrack(table=1, zone=2),
        PushVlan(),
        PopVlan(),
    }
    assert len(different) == 6


@pytest.mark.parametrize("before", [(), (PopVlan(), Move("eth_src", "eth_dst"))])
@pytest.mark.parametrize("after", [(), (Output(3),)])
def test_instructions_by_one_value_equal_those_made_action_by_action(
    before: tuple[Action, ...], after: tuple[Action, ...]
) -> None:
    address = IPv4Address("10.1.0.7")
    made = instructions_by(before, "arp_spa", after)(address)
    assert made == Instructions((*before, SetField("arp_spa", address), *after))


@pytest.mark.parametrize("noted", [SelectGroup(()), Report(Meter.of_reports("r"))])
def test_instructions_with_a_group_or_a_meter_are_not_made_by_one_value(noted: Action) -> None:
    with pytest.raises(ValueError, match="one by one"):
        instructions_by((), "arp_spa", (noted,))
