"""The original's records of expanded rules against ours, derived from the objects beside them.

`derive/policies-attached.json` is what the original's store held once a policy with rules of every
form was attached to the group `gc`; one of the groups that rules name, `gb`, is gone by then.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from contivmodel import wire
from contivmodel.objects import Rule
from core import keys
from core.ids import GroupKey, NetworkId
from netmaster.plan.objects.rule import policy_rule
from state.codec import decode_group, decode_network
from state.policy_rules import OfnetRule, RuleScope, expand

STORE = Path(__file__).parent / "derive" / "policies-attached.json"
GC = GroupKey("gc:default")
EXPANDED = "/contiv.io/state/policyRule/"
GONE = {"68", "69"}
RANGES = {"38", "39", "40", "41"}
IMPOSSIBLE = {"21", "30"}
"""Protocol 999 and port -1, which no rule can have here."""
BY_NUMBER = {"19"}
DEVIATING = GONE | RANGES | IMPOSSIBLE | BY_NUMBER


@cache
def stored() -> Mapping[str, Any]:
    """Return what the original stored, by key."""
    return json.loads(STORE.read_text())["keys"]  # type: ignore[no-any-return] # JSON


def under(prefix: str) -> dict[str, bytes]:
    """Return the values below a prefix, as bytes."""
    return {
        key: json.dumps(value).encode() for key, value in stored().items() if key.startswith(prefix)
    }


@cache
def known() -> RuleScope:
    """Return the groups and networks of the recording."""
    groups = [decode_group(key, value) for key, value in under(keys.GROUPS).items()]
    networks = [decode_network(key, value) for key, value in under(keys.NETWORKS).items()]
    return RuleScope(
        groups={group.key: group for group in groups},
        networks={network.id: network for network in networks},
    )


@cache
def rules() -> dict[str, Rule]:
    """Return the rules as their users wrote them, by id."""
    found = [wire.decode(Rule, value) for value in under(keys.RULES).values()]
    return {rule.rule_id: rule for rule in found}


def written(rule_id: str) -> Rule:
    """Return a rule without the addresses that the original wrote into it for its networks."""
    rule = rules()[rule_id]
    update = {}
    if rule.from_network:
        update["from_ip_address"] = ""
    if rule.to_network:
        update["to_ip_address"] = ""
    return rule.model_copy(update=update)


def expanded(rule_id: str) -> list[OfnetRule]:
    """Return our expansion of a rule for the group."""
    return list(expand(known().groups[GC], policy_rule(written(rule_id)), known()))


def theirs(rule_id: str) -> list[OfnetRule]:
    """Return the original's expansion."""
    prefix = f"{EXPANDED}default:gc:default:p1:default:p1:{rule_id}:"
    return [
        OfnetRule(
            rule_id=value["RuleId"],
            priority=value["Priority"],
            src_group=value["SrcEndpointGroup"],
            dst_group=value["DstEndpointGroup"],
            src_address=value["SrcIpAddr"],
            dst_address=value["DstIpAddr"],
            protocol=value["IpProtocol"],
            src_port=value["SrcPort"],
            dst_port=value["DstPort"],
            tcp_flags=value["TcpFlags"],
            action=value["Action"],
        )
        for key, value in stored().items()
        if key.startswith(prefix)
    ]


def test_the_recording_has_every_form() -> None:
    assert len(rules()) == 36
    assert len([key for key in stored() if key.startswith(EXPANDED)]) == 40
    assert set(rules()) > DEVIATING
    assert GroupKey("gb:default") not in known().groups
    assert NetworkId("n2.default") in known().networks


@pytest.mark.parametrize("rule_id", sorted(set(rules()) - DEVIATING))
def test_a_rule_is_expanded_as_recorded(rule_id: str) -> None:
    assert sorted(expanded(rule_id), key=lambda rule: rule.rule_id) == sorted(
        theirs(rule_id), key=lambda rule: rule.rule_id
    )


@pytest.mark.parametrize("rule_id", sorted(GONE))
def test_a_rule_whose_group_is_gone_means_nothing(rule_id: str) -> None:
    assert expanded(rule_id) == []
    assert 0 in {rule.src_group for rule in theirs(rule_id)} | {
        rule.dst_group for rule in theirs(rule_id)
    }


@pytest.mark.parametrize("rule_id", sorted(RANGES))
def test_ranges_become_blocks(rule_id: str) -> None:
    blocks = ["10.1.1.5", "10.1.1.6/31", "10.1.1.8/31", "10.1.1.10"]
    (recorded,) = theirs(rule_id)
    assert (recorded.src_address or recorded.dst_address).startswith("10.1.1.5-10")
    side = "src_address" if recorded.src_address else "dst_address"
    assert expanded(rule_id) == [
        replace(recorded, rule_id=f"{recorded.rule_id}:{number}", **{side: block})  # type: ignore[arg-type] # by name
        for number, block in enumerate(blocks, start=1)
    ]


@pytest.mark.parametrize("rule_id", sorted(BY_NUMBER))
def test_a_protocol_is_the_same_by_name_and_by_number(rule_id: str) -> None:
    (recorded,) = theirs(rule_id)
    assert (recorded.protocol, recorded.tcp_flags) == (6, "")
    assert expanded(rule_id) == [replace(recorded, tcp_flags="syn,!ack")]


def test_the_rule_itself_is_left_alone() -> None:
    by_network = {rule.rule_id for rule in rules().values() if rule.from_network or rule.to_network}
    assert by_network == {"70", "71"}
    for rule_id in by_network:
        rule = written(rule_id)
        before = rule.model_dump()
        assert expand(known().groups[GC], policy_rule(rule), known())
        assert rule.model_dump() == before
