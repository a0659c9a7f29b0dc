"""`firewall.iptables` on real iptables, both kinds of it, in a namespace of its own."""

import os
from ipaddress import IPv4Address, IPv4Network, IPv6Network

import pytest

from core.errors import HostError
from netplugin.bridges.host.host_access import (
    CHAINS,
    FORWARD,
    GUARD,
    GUARD6,
    LEAVING,
    LEAVING6,
    accepted,
    from_loopback,
    guards,
    masquerade,
    private_guard,
    returned,
    sources_kept,
)
from netplugin.bridges.services import service_access
from netplugin.kernel.firewall import iptables, nft_tables
from netplugin.kernel.firewall.iptables import Chain, Iptables, IptablesRule
from tests.bed.netns import Namespace

pytestmark = pytest.mark.ovs

ONE, OTHER = (masquerade(IPv4Network(f"172.{n}.0.0/16")) for n in (19, 22))
FOREIGN = ["-s", "172.19.0.0/16", "!", "-o", "contivh0", "-j", "MASQUERADE"]
COMMENTED = ["-s", "10.0.0.0/8", "-m", "comment", "--comment", "contiv-like", "-j", "RETURN"]


@pytest.fixture(params=["iptables-nft", "iptables-legacy"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run one of the two programs a host's `iptables` may be."""
    monkeypatch.setattr(iptables, "PROGRAM", request.param)
    return str(request.param)


def listed(host: Namespace, program: str) -> list[str]:
    """Return all rules and chains of a table."""
    return host.run([program, "-w", "-t", "nat", "-S"]).stdout.splitlines()


async def test_rules_are_there_once_and_go(host: Namespace, program: str) -> None:
    before = listed(host, program)
    ours = Iptables(CHAINS)
    assert await ours.found() == []
    for wanted in ([ONE], [ONE, OTHER], [OTHER], []):
        assert await ours.keep(wanted)
        assert not await ours.keep(wanted), "the second time there is nothing to do"
        assert sorted(await ours.found()) == sorted(map(str, wanted))
    assert listed(host, program) == before


async def test_rules_of_the_hosts_access_are_spelled_as_they_are_listed(host: Namespace) -> None:
    """Else they would be set anew at each look."""
    private = IPv4Network("172.19.0.0/16")
    blocks = (IPv4Network("10.9.0.0/16"), IPv6Network("fd09::/64"))
    ours = Iptables(CHAINS)
    wanted = [
        masquerade(private),
        *returned(private, blocks),
        *guards(GUARD, GUARD6),
        private_guard(private),
        *from_loopback(IPv4Address("192.168.77.1")),
        *sources_kept(LEAVING, LEAVING6),
    ]
    assert host.run(["true"]).returncode == 0
    assert await ours.keep(wanted)
    assert sorted(await ours.found()) == sorted(map(str, wanted))
    assert not await ours.keep(wanted)


async def test_others_rules_stay(host: Namespace, program: str) -> None:
    for words in (FOREIGN, COMMENTED):
        host.run([program, "-w", "-t", "nat", "-A", "POSTROUTING", *words])
    before = listed(host, program)
    ours = Iptables(CHAINS)
    await ours.keep([ONE])
    assert listed(host, program)[:-1] == before
    await ours.keep([])
    assert listed(host, program) == before


async def test_others_may_say_what_they_like(host: Namespace, program: str) -> None:
    for comment in ("it's", 'two\n"lines', os.fsdecode(b"\xe9t\xe9 \\")):
        words = ["-m", "comment", "--comment", comment, "-j", "RETURN"]
        host.run([program, "-w", "-t", "nat", "-A", "POSTROUTING", *words])
    ours = Iptables(CHAINS)
    for wanted in ([ONE], []):
        assert await ours.keep(wanted)
        assert await ours.found() == [str(rule) for rule in wanted]


async def test_a_rule_too_many_and_one_missing_are_mended(host: Namespace, program: str) -> None:
    ours = Iptables(CHAINS)
    await ours.keep([ONE])
    right = listed(host, program)
    host.run([program, "-w", "-t", "nat", "-A", "POSTROUTING", *ONE.words])
    assert await ours.keep([ONE])
    assert listed(host, program) == right
    host.run([program, "-w", "-t", "nat", "-F"])
    assert await ours.keep([ONE])
    assert listed(host, program) == right


async def test_what_iptables_refuses_is_told(host: Namespace, program: str) -> None:  # noqa: ARG001
    nowhere = Chain(table="nat", name="NOWHERE")
    with pytest.raises(HostError, match="NOWHERE"):
        await Iptables([nowhere]).keep([])
    wrong = IptablesRule(chain=CHAINS[0], match=("-s", "nobody.invalid."), target=())
    with pytest.raises(HostError, match="iptables"):
        await Iptables(CHAINS).keep([wrong])


async def test_without_the_program_there_are_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iptables, "PROGRAM", "iptables-that-is-not-there")
    monkeypatch.setattr(nft_tables, "PROGRAM", "nft-that-is-not-there")
    assert await Iptables(CHAINS).found() == []
    with pytest.raises(HostError, match="iptables-that-is-not-there"):
        await Iptables(CHAINS).keep([ONE])


def forward(host: Namespace, program: str) -> list[str]:
    """Return what the rules of FORWARD are about, in order: the agent's acceptance, or the text."""
    shown = host.run([program, "-w", "-S", "FORWARD"]).stdout.splitlines()[1:]
    return [
        "accepted" if FORWARD.mark in line else line.removeprefix("-A FORWARD ") for line in shown
    ]


async def test_acceptance_is_behind_all_but_what_refuses_the_rest(
    host: Namespace, program: str
) -> None:
    many = ["accepted"] * len(accepted(FORWARD))
    deny, reject = "-s 10.0.0.0/8 -j DROP", "-j REJECT --reject-with icmp-port-unreachable"
    for words in (deny, reject):
        host.run([program, "-w", "-A", "FORWARD", *words.split()])
    ours = Iptables([FORWARD])
    assert await ours.keep(accepted(FORWARD))
    assert not await ours.keep(accepted(FORWARD)), "the second time there is nothing to do"
    assert forward(host, program) == [deny, *many, reject]
    # the agent's own refusals come before it, whenever they are added
    hooks = Iptables(service_access.CHAINS)
    (refused,) = [
        rule
        for rule in service_access.hooks(4)
        if rule.chain.name == "FORWARD" and rule.chain.table == "filter"
    ]
    host.run([program, "-w", "-N", "CONTIV-REFUSED"])
    await hooks.keep([refused], (4,))
    found = forward(host, program)
    assert [found[0], found[2:]] == [deny, [*many, reject]]
    # a rule of the agent that an earlier release put at the end, and a refusal before all
    host.run([program, "-w", "-D", "FORWARD", "2"])
    host.run([program, "-w", "-A", "FORWARD", *refused.words])
    host.run([program, "-w", "-I", "FORWARD", *reject.split()])
    assert await ours.keep(accepted(FORWARD))
    assert forward(host, program)[: len(many)] == many
    assert await ours.keep([])
    assert "accepted" not in forward(host, program)
