"""`firewall.firewall_watch` on a real kernel: whose removal of which rules is noticed."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Network

import pytest

from core.tasks import background
from netplugin.bridges.host.host_access import CHAINS, masquerade
from netplugin.kernel.firewall import firewall_watch, iptables
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.firewall.iptables import Iptables
from tests.bed.netns import Namespace
from tests.bed.waiting import WITHIN

pytestmark = pytest.mark.ovs

RULE = masquerade(IPv4Network("172.19.0.0/16"))
SETTLED = 5 * firewall_watch.QUIET


@pytest.fixture(params=["iptables-nft", "iptables-legacy"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run one of the two programs a host's `iptables` may be."""
    monkeypatch.setattr(iptables, "PROGRAM", request.param)
    return str(request.param)


@asynccontextmanager
async def watching() -> AsyncIterator[FirewallWatch]:
    """Set a rule and watch."""
    await Iptables(CHAINS).keep([RULE], (4,))
    watch = FirewallWatch()
    async with background("firewall watch", watch.run()):
        await asyncio.sleep(SETTLED)  # its socket is there, and the rule no news
        yield watch


async def until_lost(lost: asyncio.Event, within: float = WITHIN) -> bool:
    try:
        async with asyncio.timeout(within):
            await lost.wait()
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("words", [["-F"], ["-F", "POSTROUTING"], ["-D", "POSTROUTING", "1"]])
async def test_removals_by_others_are_noticed(
    host: Namespace, program: str, words: list[str]
) -> None:
    async with watching() as watch:
        lost = watch.lost()
        host.run([program, "-w", "-t", "nat", *words])
        assert await until_lost(lost)


async def test_a_flush_of_all_is_noticed(host: Namespace) -> None:
    async with watching() as watch:
        lost = watch.lost()
        host.run(["nft", "flush", "ruleset"])
        assert await until_lost(lost)


async def test_another_firewall_that_starts_is_noticed(host: Namespace) -> None:
    host.run(["nft", "add", "table", "inet", "other"])
    async with watching() as watch:
        hooked = "{ type filter hook forward priority 10 ; policy accept ; }"
        for chain in (hooked, hooked.replace("accept", "drop")):
            lost = watch.lost()
            host.run(["nft", f"add chain inet other forwarding {chain}"])
            assert await until_lost(lost), chain


async def test_a_rule_of_others_among_the_agents_is_noticed(host: Namespace, program: str) -> None:
    async with watching() as watch:
        lost = watch.lost()
        host.run([program, "-w", "-t", "nat", "-A", "POSTROUTING", "-j", "RETURN"])
        assert await until_lost(lost)


async def test_what_concerns_others_or_is_the_agents_own_is_not(host: Namespace) -> None:
    run = host.run
    async with watching() as watch:
        lost = watch.lost()
        run(["iptables", "-w", "-t", "nat", "-N", "KUBE-SVC-ABC"])
        run(["iptables", "-w", "-t", "nat", "-A", "KUBE-SVC-ABC", "-j", "RETURN"])
        run(["iptables", "-w", "-t", "nat", "-F", "KUBE-SVC-ABC"])
        await Iptables(CHAINS).keep([], (4,))
        assert not await until_lost(lost, SETTLED)


@pytest.mark.parametrize("words", [["-A", "USER", "-j", "DROP"], ["-P", "FORWARD", "DROP"]])
async def test_whoever_looks_at_others_rules_hears_of_any_that_may_drop(
    host: Namespace, program: str, words: list[str]
) -> None:
    host.run([program, "-w", "-t", "mangle", "-N", "USER"])
    async with watching() as watch:
        changed = watch.changed()
        host.run([program, "-w", "-t", "mangle", *words])
        assert await until_lost(changed)


async def test_a_legacy_policy_of_ipv6_is_noticed(host: Namespace) -> None:
    host.run(["ip6tables-legacy", "-t", "mangle", "-S"])
    async with watching() as watch:
        changed = watch.changed()
        host.run(["ip6tables-legacy", "-w", "-t", "mangle", "-P", "FORWARD", "DROP"])
        assert await until_lost(changed)


async def test_packets_alone_are_no_change(host: Namespace) -> None:
    host.run(["ip", "link", "set", "lo", "up"])
    host.run(["iptables-legacy", "-t", "mangle", "-A", "OUTPUT", "-j", "ACCEPT"])
    async with watching() as watch:
        changed, lost = watch.changed(), watch.lost()
        host.run(["ping", "-c", "2", "-i", "0.2", "127.0.0.1"])
        assert not await until_lost(changed, SETTLED)
        assert not lost.is_set()


async def test_the_older_tables_are_read_beside_the_event_loop(
    host: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.run(["iptables-legacy", "-t", "mangle", "-S"])
    readers, read = set[int](), firewall_watch.legacy_tables

    def noted() -> Mapping[tuple[int, str], bytes]:
        readers.add(threading.get_ident())
        return read()

    monkeypatch.setattr(firewall_watch, "legacy_tables", noted)
    async with watching() as watch:
        changed = watch.changed()
        host.run(["iptables-legacy", "-w", "-t", "mangle", "-P", "FORWARD", "DROP"])
        assert await until_lost(changed)
    assert readers
    assert threading.get_ident() not in readers
