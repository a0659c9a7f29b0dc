"""What becomes of packets by rules of iptables and nftables, as far as they are known. Pure."""

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest

from netplugin.kernel.firewall import iptables_text, nft_json
from netplugin.kernel.firewall.foreign_rules import at
from netplugin.kernel.firewall.packet_rules import Drop, PacketRule, PacketVerdict, Way, dropped

SENT = Way(
    title="sent",
    version=4,
    protocol="tcp",
    into=("contivh0",),
    out=("up0",),
    pods=(IPv4Network("172.19.0.0/16"), IPv4Network("10.1.0.0/16")),
    from_pods=True,
    states=frozenset({"NEW"}),
)
ANSWERED = replace(
    SENT, into=("up0",), out=("contivh0",), from_pods=False, states=frozenset({"ESTABLISHED"})
)


def fate(*lines: str, way: Way = SENT, policy: str = "ACCEPT") -> Drop | None:
    listed = iptables_text.read("\n".join([f"-P FORWARD {policy}", "-N USER", *lines]))
    rules = listed.rules
    drops = listed.policies["FORWARD"] == "DROP"
    return dropped(lambda chain: rules.get(chain, ()), "FORWARD", way, policy=drops)


@pytest.mark.parametrize(
    "match",
    [
        *("", "-i contivh0", "-i contiv+", "-o up0", "! -o docker0", "-p tcp", "-p all"),
        *("-s 172.19.0.0/16", "-s 10.0.0.0/8", "-s 10.1.2.3/32", "! -s 10.0.0.0/8"),
        *("-d 0.0.0.0/0", "-m conntrack --ctstate NEW,RELATED", "-m state --state NEW"),
        *("-m conntrack ! --ctstate RELATED,ESTABLISHED", '-m comment --comment "it\'s"'),
        *("-m statistic --mode nth --every 3 --packet 0", "-m limit --limit 5/sec"),
    ],
)
def test_a_rule_that_is_true_of_pods_packets_drops_them(match: str) -> None:
    line = f"-A FORWARD {match} -j DROP"
    assert fate(line) == Drop("FORWARD", line, rest=not match or "comment" in match)


@pytest.mark.parametrize(
    "match",
    [
        *("-i docker0", "! -i contivh0", "-o docker0", "-p udp", "! -p tcp", "-i contivh"),
        *("-s 192.0.2.0/24", "! -s 0.0.0.0/0", "-d 192.0.2.0/24", "-s 10.1.0.0/255.0.255.0"),
        *("-m conntrack --ctstate INVALID", "-m conntrack ! --ctstate NEW"),
        *("-p tcp -m tcp --dport 25", "-p tcp -m multiport ! --dports 80,443", "-m new --of x"),
        *("-m mark --mark 0x1", "-m set --match-set bad src", "-m addrtype --src-type LOCAL"),
    ],
)
def test_a_rule_about_others_or_some_ports_drops_no_way(match: str) -> None:
    assert fate(f"-A FORWARD {match} -j DROP") is None


def test_the_way_back_is_one_too() -> None:
    line = "-A FORWARD -d 10.1.0.0/16 -o contivh0 -j DROP"
    assert fate(line, way=ANSWERED) == Drop("FORWARD", line, rest=False)
    assert fate(line) is None


def test_a_link_that_is_not_known_is_none_of_the_agents() -> None:
    way = replace(SENT, out=())
    assert fate("-A FORWARD -i contivh0 ! -o contiv+ -j ACCEPT", way=way, policy="DROP") is None
    for known in ("-o eth0", "! -o eth0"):
        assert fate(f"-A FORWARD {known} -j DROP", way=way) is None
    assert fate("-A FORWARD -o + -j DROP", way=way) is not None


def test_a_rule_before_that_accepts_all_of_it_counts() -> None:
    drop = "-A FORWARD -j REJECT --reject-with icmp-port-unreachable"
    assert fate("-A FORWARD -i contivh0 -j ACCEPT", drop) is None
    for some in ("-p tcp -m tcp --dport 80", "-s 10.1.0.0/16", "-m limit --limit 5/sec"):
        assert fate(f"-A FORWARD {some} -j ACCEPT", drop) == Drop("FORWARD", drop)


@pytest.mark.parametrize(
    ("lines", "dropping"),
    [
        (["-A FORWARD -j USER", "-A USER -j DROP"], "-A USER -j DROP"),
        (["-A FORWARD -j USER", "-A USER -i contivh0 -j RETURN", "-A USER -j DROP"], None),
        (["-A FORWARD -j USER", "-A USER -j ACCEPT", "-A FORWARD -j DROP"], None),
        (["-A FORWARD -g USER", "-A USER -p udp -j DROP", "-A FORWARD -j DROP"], None),
        (["-A FORWARD -j USER", "-A USER -p udp -j DROP", "-A FORWARD -j DROP"], "-A FORWARD"),
        (["-A FORWARD -j CONTIVGUARD-X", "-A CONTIVGUARD-X -j DROP"], None),
        (["-A FORWARD -j LOG --log-prefix x", "-A FORWARD -j DROP"], "-A FORWARD -j DROP"),
        (["-A FORWARD -j CT --notrack"], "-A FORWARD -j CT --notrack"),
        (["-A FORWARD -j CT --helper ftp"], None),
        (["-A FORWARD -j USER", "-A USER -j USER"], None),
        (['-A FORWARD -m comment --comment "contiv-x" -j DROP'], None),
        (['-A FORWARD -m comment --comment "open -j DROP'], None),
    ],
)
def test_chains_are_followed(lines: list[str], dropping: str | None) -> None:
    found = fate(*lines)
    assert (found is None) == (dropping is None)
    assert found is None or found.rule.startswith(dropping or "")


def test_the_policy_counts_at_the_end() -> None:
    assert fate(policy="DROP") == Drop("FORWARD")
    assert fate("-A FORWARD -i contivh0 -j ACCEPT", policy="DROP") is None


def test_a_chain_sees_what_is_known_at_its_hook() -> None:
    untracked = at(ANSWERED, "PREROUTING", -300)
    assert (untracked.states, untracked.out, untracked.pods) == (None, (), None)
    assert at(SENT, "PREROUTING", -150) == replace(SENT, out=())
    assert at(SENT, "FORWARD", 0) == SENT
    assert at(SENT, "POSTROUTING", -150) == SENT
    assert at(SENT, "POSTROUTING", 300).pods is None, "its source is the host's"
    early = "-A FORWARD -m conntrack --ctstate NEW -j DROP"
    assert fate(early, way=untracked) is None


def matching(left: dict[str, Any], right: Any, op: str = "==") -> dict[str, Any]:
    return {"match": {"op": op, "left": left, "right": right}}


def nft(*expressions: dict[str, Any]) -> PacketRule:
    (rule,) = nft_json.rules({"nftables": [{"rule": {"handle": 7, "expr": [*expressions]}}]})
    return rule


IIF, OIF = ({"meta": {"key": key}} for key in ("iifname", "oif"))
SOURCE, SOURCE6 = ({"payload": {"protocol": one, "field": "saddr"}} for one in ("ip", "ip6"))
STATE = {"ct": {"key": "state"}}
POD = {"prefix": {"addr": "10.1.0.0", "len": 16}}


@pytest.mark.parametrize(
    ("expressions", "drops"),
    [
        ([], True),
        ([{"counter": {"packets": 1}}, {"log": None}], True),
        ([matching(IIF, "contivh0")], True),
        ([matching(IIF, "contiv*"), matching(OIF, "docker0", "!=")], True),
        ([matching(OIF, "docker0")], False),
        ([matching(IIF, {"set": ["contivh0", "eth0"]})], False),
        ([matching(SOURCE, POD)], True),
        ([matching(SOURCE, "10.1.2.3")], True),
        ([matching(SOURCE, {"set": [POD, "192.0.2.1"]})], True),
        ([matching(SOURCE, {"set": [POD, {"range": ["192.0.2.1", "192.0.2.9"]}]})], False),
        ([matching(SOURCE, "@blocked")], False),
        ([matching(SOURCE, "192.0.2.1", "!=")], True),
        ([matching(SOURCE6, "fd00::1", "!=")], False),
        ([matching(STATE, ["new", "related"], "in")], True),
        ([matching(STATE, "invalid", "in")], False),
        ([matching({"meta": {"key": "nfproto"}}, "ipv6")], False),
        ([matching({"meta": {"key": "l4proto"}}, {"set": ["tcp", "udp"]})], True),
        ([matching({"payload": {"protocol": "tcp", "field": "dport"}}, 25)], False),
        ([matching({"numgen": {"mode": "random", "mod": 10, "offset": 0}}, 3, "<")], True),
        ([matching({"fib": {"result": "oif", "flags": ["saddr"]}}, False)], False),
        ([{"xt": {"type": "match", "name": "bpf"}}], False),
        ([matching({"&": [{"meta": {"key": "mark"}}, 1]}, 1)], False),
        ([{"match": {}}], False),
    ],
)
def test_rules_of_nftables(expressions: list[dict[str, Any]], drops: bool) -> None:
    rule = nft(*expressions, {"drop": None})
    found = dropped(lambda _chain: [rule], "c", SENT, policy=False)
    known = [one for one in expressions if not {"counter", "log"} & one.keys()]
    assert found == (Drop("c", "7", rest=not known) if drops else None)


def test_chains_of_nftables_are_followed() -> None:
    chains = {
        "c": [nft(matching(IIF, "contivh0"), {"goto": {"target": "trusted"}}), nft({"drop": None})],
        "trusted": [nft({"counter": {}}), nft({"accept": None})],
    }
    assert dropped(chains.__getitem__, "c", SENT, policy=False) is None
    assert dropped(chains.__getitem__, "c", ANSWERED, policy=False) == Drop("c", "7")


@pytest.mark.parametrize(
    "listed",
    [{}, {"nftables": [{"rule": None}, {"rule": {}}, {"rule": {"expr": [None, 5, {"jump": 3}]}}]}],
)
def test_what_is_no_rule_does_nothing(listed: dict[str, Any]) -> None:
    found = [one.verdict for one in nft_json.rules(listed)]
    assert set(found) <= {PacketVerdict.NOTHING, PacketVerdict.JUMP}
