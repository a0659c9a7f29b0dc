"""Rules of iptables in nftables' words: what iptables-translate says too, and every producer's."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from netplugin.bridges.guards import host_guard, pod_guard
from netplugin.bridges.host.host_access import (
    FORWARD,
    GUARD,
    LEAVING,
    accepted,
    from_loopback,
    guards,
    masquerade,
    private_guard,
    returned,
    sources_kept,
)
from netplugin.bridges.services import service_access
from netplugin.bridges.services.service_rules import Here, rules
from netplugin.kernel.firewall.iptables import IptablesRule
from netplugin.kernel.firewall.nft_words import affinity, translate
from netplugin.pods.host_port_mappings import mapping_rules
from netplugin.world.bridges.management_ends import NOTHING
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget

PRIVATE = IPv4Network("172.19.0.0/16")
HOST = IPv4Address("192.168.2.10")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "-s 10.0.0.0/8 ! -o contiv+ -j MASQUERADE",
            'ip saddr 10.0.0.0/8 oifname != "contiv*" masquerade',
        ),
        ("-p tcp -m tcp --dport 80 -j DROP", "tcp dport 80 drop"),
        ("-p udp -m udp -j ACCEPT", "meta l4proto udp accept"),
        ("-m addrtype ! --src-type LOCAL -j DROP", "fib saddr type != local drop"),
        ("-m conntrack ! --ctstate DNAT -j DROP", "ct status & dnat == 0 drop"),
        ("-m conntrack --ctstate NEW -j CONTIV-X", "ct state { new } jump contiv-nat-CONTIV-X"),
        ("-m mark --mark 0x2000/0x2000 -j RETURN", "meta mark & 0x2000 == 0x2000 return"),
        ("-j MARK --set-xmark 0x2000/0x2000", "meta mark set meta mark & 0xffffdfff ^ 0x2000"),
        ("-j REJECT --reject-with tcp-reset", "reject with tcp reset"),
        ("-m comment --comment contiv -j DNAT --to-destination 10.1.1.1:80", "dnat to 10.1.1.1:80"),
        (
            "-m statistic --mode random --probability 0.25 -j RETURN",
            "numgen random mod 1000000 < 250000 return",
        ),
        ("-m recent --name X --set", "update @contiv-X { ip saddr timeout 60s }"),
    ],
)
def test_words_are_translated(words: str, said: str) -> None:
    assert translate(words.split(), 4, "nat", {"X": 60}) == [said]


def test_what_is_true_of_either_is_two_rules() -> None:
    words = ["-m", "conntrack", "--ctstate", "ESTABLISHED,DNAT", "-j", "ACCEPT"]
    found = translate(words, 6, "filter", {})
    assert found == ["ct state { established } accept", "ct status & dnat != 0 accept"]


@pytest.mark.parametrize(
    "words",
    [
        *("-m limit --limit 1/s -j DROP", "-p icmp -j DROP", "--sport 80 -j DROP", "-j TPROXY"),
        *("-s 10.0.0.1", "-j DROP more", "-m recent --name Y --set", "-j DNAT --to 10.1.1.1"),
        *("-m statistic --mode nth --every 2 -j DROP", "-m addrtype --dst-type ANYCAST -j DROP"),
    ],
)
def test_an_unknown_word_is_an_error(words: str) -> None:
    with pytest.raises(Invalid):
        translate(words.split(), 4, "nat", {})


def hooks() -> list[IptablesRule]:
    """Return the rules that all parts of the agent have in chains of the kernel."""
    found = [
        *(masquerade(PRIVATE), private_guard(PRIVATE)),
        *(*returned(PRIVATE, []), *sources_kept(LEAVING), *from_loopback(HOST)),
        *(*guards(GUARD), *accepted(FORWARD), *pod_guard.PAST_SWITCH),
        *(*host_guard.hooks(4, PRIVATE), *service_access.loopback_guards()),
    ]
    for version in (4, 6):
        found += [*service_access.hooks(version), *mapping_rules.hooks(version)]
    return found


def test_every_rule_that_leads_to_chains_is_translated() -> None:
    for rule in hooks():
        assert translate(rule.words, rule.chain.version, rule.chain.table, {})
    for table, chains in host_guard.chains(4, NOTHING, PRIVATE).items():
        for lines in chains.values():
            assert all(translate(line.split(), 4, table, {}) for line in lines)


ADDRESSES4 = st.integers(1, 2**32 - 2).map(IPv4Address)
ADDRESSES6 = st.integers(1, 2**128 - 2).map(IPv6Address)
ADDRESSES = st.one_of(ADDRESSES4, ADDRESSES6)
NUMBERS = st.integers(1, 65535)
PORTS = st.builds(
    KubePort,
    name=st.just("web"),
    protocol=st.sampled_from(["TCP", "UDP", "SCTP"]),
    port=NUMBERS,
    node_port=st.one_of(st.just(0), NUMBERS),
    targets=st.frozensets(st.builds(KubeTarget, address=ADDRESSES, port=NUMBERS), max_size=4),
)
SERVICES = st.builds(
    KubeService,
    namespace=st.just("shop"),
    name=st.sampled_from(["a", "b", "c"]),
    addresses=st.lists(ADDRESSES, max_size=2).map(tuple),
    external_ips=st.lists(ADDRESSES, max_size=2).map(tuple),
    load_balancer_ips=st.lists(ADDRESSES, max_size=2).map(tuple),
    affinity_seconds=st.sampled_from([0, 10800]),
    external_local=st.booleans(),
    internal_local=st.booleans(),
    ports=st.lists(PORTS, max_size=2).map(tuple),
)


@given(services=st.lists(SERVICES, max_size=3), version=st.sampled_from([4, 6]))
def test_every_rule_of_services_is_translated(services: list[KubeService], version: int) -> None:
    here = Here(address=HOST, targets=frozenset({HOST}), private=PRIVATE)
    made = rules(services, version, here)
    for table, chains in (("nat", made.nat), ("filter", made.filter)):
        lines = [line.split() for found in chains.values() for line in found]
        seconds = dict(found for line in lines if (found := affinity(line)))
        assert all(translate(line, version, table, seconds) for line in lines)
