"""Which chains of other firewalls refuse what they do not name, from what `nft -j` lists. Pure."""

from typing import Any

import pytest

from netplugin.kernel.firewall.foreign_chains import BaseChain, base_chains, refuses, remedy

LINKS = ("contivh0", "contivv0")


def chain(table: str = "firewalld", family: str = "inet", **more: Any) -> dict[str, Any]:
    about = {"family": family, "table": table, "name": "c", "handle": 1, "type": "filter"}
    return {"chain": about | {"hook": "forward", "prio": 10, "policy": "accept"} | more}


def rule(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "inet", "table": "firewalld", "chain": "c", "expr": [*expressions]}}


def test_chains_of_iptables_and_of_the_agent_are_left_out() -> None:
    regular = {"chain": {"family": "inet", "table": "firewalld", "name": "x", "handle": 2}}
    listed = [
        {"metainfo": {}},
        *(chain("filter", "ip"), chain("mangle", "ip6"), chain("contiv", "ip")),
        *(chain("x", "bridge"), chain(type="nat"), regular),
        *(chain(), chain("filter", "inet", policy="drop")),
    ]
    found = base_chains({"nftables": listed})
    assert found == [
        BaseChain("inet", "filter", "c", "forward", "drop"),
        BaseChain("inet", "firewalld", "c", "forward"),
    ]


@pytest.mark.parametrize(
    ("policy", "rules", "refused"),
    [
        ("accept", [], False),
        ("drop", [], True),
        ("accept", [rule({"match": {}}, {"drop": None})], False),
        ("accept", [rule({"match": {}}, {"accept": None}), rule({"reject": {}})], True),
        ("accept", [rule({"reject": {}}), rule({"jump": {"target": "x"}})], False),
    ],
)
def test_a_policy_or_the_last_rule_refuses(
    policy: str, rules: list[dict[str, Any]], refused: bool
) -> None:
    about = BaseChain("inet", "firewalld", "c", "forward", policy)
    assert refuses(about, {"nftables": [chain(), *rules]}) is refused


def test_the_remedy_is_the_firewalls_own() -> None:
    said = remedy(BaseChain("inet", "firewalld", "c", "forward"), LINKS)
    assert "--zone=trusted --add-interface=contivh0 --add-interface=contivv0" in said
    assert '{ "contivh0", "contivv0" }' in remedy(BaseChain("inet", "own", "c", "forward"), LINKS)
