"""`firewall.foreign_rules` on a real kernel: what of others' rules drops what is forwarded.

Beside the agent's own rules, and those that docker, ufw and kube-proxy make.
"""

import shlex
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest

from netplugin.bridges.host import forward_check
from netplugin.bridges.host.host_access import CHAINS, FORWARD, FORWARD6, GUARD, accepted, guards
from netplugin.kernel.firewall.foreign_rules import Refusal, outside_links, refusals
from netplugin.kernel.firewall.iptables import Iptables
from netplugin.world.bridges.port_names import HOST_LINKS
from tests.bed.firewalls import Ufw, missing
from tests.bed.netns import Namespace

pytestmark = pytest.mark.ovs

BLOCKS = (IPv4Network("172.19.0.0/16"), IPv4Network("10.20.0.0/16"), IPv6Network("fd20::/64"))
NFT_CHAIN = "add table {0} {1}; add chain {0} {1} c {{ type {2} hook {3} priority {4}; }}"


async def found() -> list[Refusal]:
    return await refusals([*forward_check.ways(BLOCKS, (4, 6))], HOST_LINKS)


@pytest.fixture(autouse=True)
async def own_rules(host: Namespace) -> None:
    """Set the agent's rules, and a default route by `up0`."""
    for words in (
        "ip link add up0 type veth peer name up1",
        "ip address add 192.0.2.1/24 dev up0",
        "ip link set up1 up",
        "ip link set up0 up",
        "ip route add default via 192.0.2.254",
        "ip -6 route add default via fe80::99 dev up0",
    ):
        host.run(words.split())
    own = [*accepted(FORWARD, FORWARD6), *guards(GUARD)]
    for version in (4, 6):
        await Iptables(CHAINS).keep(own, (version,))


async def test_the_links_of_the_default_routes_are_known() -> None:
    assert outside_links(4) == outside_links(6) == ("up0",)


async def test_the_agents_own_rules_are_no_fault() -> None:
    assert await found() == []


@pytest.mark.parametrize("flavour", ["nft", "legacy"])
@pytest.mark.parametrize(
    "rule",
    [
        "-t mangle -I FORWARD -s 10.20.0.0/16 -j DROP",
        "-t mangle -I FORWARD -s 10.20.4.0/24 -j DROP",
        "-t mangle -P FORWARD DROP",
        "-t mangle -A FORWARD -o up0 -j DROP",
        "-t mangle -A POSTROUTING ! -o lo -j DROP",
        "-t mangle -A FORWARD -m statistic --mode random --probability 0.1 -j DROP",
        "-t raw -I PREROUTING -i contivh0 -j DROP",
        "-t raw -A PREROUTING -s 10.0.0.0/8 -j CT --notrack",
        "-t security -A FORWARD -p tcp -j DROP",
        '-t filter -I FORWARD -i contivh0 -m comment --comment "my own" -j REJECT',
        "-t filter -I FORWARD -m conntrack --ctstate ESTABLISHED -j DROP",
    ],
)
async def test_what_drops_is_named_and_its_remedy_helps(
    host: Namespace, flavour: str, rule: str
) -> None:
    host.run([f"iptables-{flavour}", *shlex.split(rule)])
    (one,) = await found()
    table, chain = rule.split()[1], rule.split()[3]
    assert one.where.startswith(f"table {table} of iptables")
    assert chain in one.what
    host.run(shlex.split(one.remedy))
    assert await found() == []


async def test_a_comment_that_iptables_would_not_read_again_is_in_no_command(
    host: Namespace,
) -> None:
    host.run(["iptables", "-I", "FORWARD", "-m", "comment", "--comment", "it's", "-j", "DROP"])
    (one,) = await found()
    assert one.remedy == "delete that rule of FORWARD"


async def test_chains_are_followed(host: Namespace) -> None:
    for words in ("-N USER", "-A USER -p tcp -j RETURN", "-A USER -j DROP", "-I FORWARD -j USER"):
        host.run(["iptables", *words.split()])
    (one,) = await found()
    assert one.what == "-A USER -j DROP", "what is not TCP"


async def test_ipv6_has_tables_of_its_own(host: Namespace) -> None:
    host.run(["ip6tables", "-t", "mangle", "-I", "FORWARD", "-s", "fd20::/64", "-j", "DROP"])
    (one,) = await found()
    assert one.where == "table mangle of ip6tables"


@pytest.mark.parametrize(
    "rule",
    [
        # what an administrator forbids is no fault
        "-I FORWARD -i contivh0 -p tcp --dport 25 -j DROP",
        "-t mangle -I FORWARD -d 169.254.169.254/32 -j DROP",
        "-t mangle -I FORWARD -p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK -j DROP",
        # what docker, kube-proxy and ufw have
        "-t raw -A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP",
        "-I FORWARD ! -i docker0 -o docker0 -j DROP",
        "-I FORWARD -i docker0 ! -o docker0 -j DROP",
        "-I FORWARD -m conntrack --ctstate INVALID -j DROP",
        "-P FORWARD DROP",
        "-A FORWARD -j REJECT",
        # other hosts' addresses
        "-t mangle -I FORWARD -s 198.51.100.0/24 -j DROP",
    ],
)
async def test_what_spares_pods_is_no_fault(host: Namespace, rule: str) -> None:
    host.run(["iptables", *rule.split()])
    assert await found() == []


@pytest.mark.parametrize("family", ["ip", "inet"])
@pytest.mark.parametrize(
    ("hook", "rule"),
    [
        ("prerouting", "iifname contivh0 drop"),
        ("prerouting", "ip saddr 10.20.0.0/16 notrack"),
        ("forward", "ip saddr { 10.20.0.0/16, 192.0.2.0/24 } counter drop"),
        ("forward", 'oifname "up*" meta l4proto { tcp, udp } reject'),
        ("forward", "ct state new ip daddr 10.0.0.0/8 drop"),
        ("forward", "numgen random mod 10 < 1 drop"),
        ("postrouting", "iifname != lo oifname contivh0 drop"),
    ],
)
@pytest.mark.parametrize("priority", [-300, 10])
async def test_chains_of_nftables_drop_too(
    host: Namespace, family: str, hook: str, rule: str, priority: int
) -> None:
    host.run(["nft", NFT_CHAIN.format(family, "own", "filter", hook, priority)])
    host.run(["nft", f"add rule {family} own c {rule}"])
    (one,) = await found()
    assert one.where == f"table {family} own"
    assert rule.rsplit(maxsplit=1)[-1] in one.what
    host.run(one.remedy.split())
    assert await found() == []


@pytest.mark.parametrize(
    ("hook", "rule"),
    [
        ("forward", "ip saddr 198.51.100.0/24 drop"),
        ("forward", "iifname docker0 oifname != docker0 drop"),
        ("forward", "ct state invalid drop"),
        ("forward", "tcp dport 25 drop"),
        ("forward", "ip6 daddr fd99::/16 reject"),
        ("prerouting", "fib saddr . iif oif missing drop"),
        ("prerouting", "ip daddr @blocked drop"),
    ],
)
async def test_rules_of_nftables_that_spare_pods_are_no_fault(
    host: Namespace, hook: str, rule: str
) -> None:
    host.run(["nft", NFT_CHAIN.format("inet", "own", "filter", hook, 10)])
    host.run(["nft", "add set inet own blocked { type ipv4_addr; flags interval; }"])
    host.run(["nft", f"add rule inet own c {rule}"])
    assert await found() == []


async def test_a_chain_that_spares_the_links_is_no_fault(host: Namespace) -> None:
    chain = NFT_CHAIN.format("inet", "own", "filter", "forward", "10; policy drop")
    host.run(["nft", chain])
    (one,) = await found()
    assert one == Refusal("table inet own", "chain c", one.ways, one.remedy)
    links = "{ contivh0, contivv0 }"
    host.run(["nft", f"add rule inet own c iifname {links} accept"])
    host.run(["nft", f"add rule inet own c oifname {links} accept"])
    assert await found() == []


@pytest.mark.skipif(bool(missing()), reason="ufw or firewalld are not on this machine")
async def test_ufw_beside_the_agent_is_no_fault(host: Namespace, tmp_path: Path) -> None:
    with Ufw(host, tmp_path).enabled():
        for version in (4, 6):
            await Iptables(CHAINS).keep([*accepted(FORWARD, FORWARD6), *guards(GUARD)], (version,))
        assert await found() == []


async def test_a_policy_is_no_fault_on_a_host_without_default_routes(host: Namespace) -> None:
    for program, family in (("iptables", "-4"), ("ip6tables", "-6")):
        host.run(["ip", family, "route", "del", "default"])
        host.run([program, "-P", "FORWARD", "DROP"])
    assert await found() == []
