"""What other programs' firewalls drop of what this host forwards, in whichever chain on its way.

In come the ways of packets through this host; the chains of iptables of both kinds and those of
nftables are read, and followed by `netplugin.kernel.firewall.packet_rules`; out goes what drops one
of the ways. `netplugin.bridges.host.forward_check` reports it, `netplugin.commands.firewall_checks`
before an agent runs.
"""

# Only what drops in nftables' chains of the kernel and in tables of iptables is read, one chain
# at a time as one leads to another: a proxy for services may have many thousands of others. The
# table `nat` of iptables is left out, since iptables refuses rules there that drop.

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from core.errors import HostError
from core.logs import fields
from netplugin.kernel.firewall import iptables, iptables_text, nft_json
from netplugin.kernel.firewall.firewall_watch import LEGACY_NAMES
from netplugin.kernel.firewall.foreign_chains import (
    ANY_TYPE,
    PROGRAM,
    BaseChain,
    base_chains,
    listed,
    remedy,
)
from netplugin.kernel.firewall.iptables import LOCK_WAIT
from netplugin.kernel.firewall.packet_rules import Drop, PacketRule, Way, dropped
from netplugin.kernel.firewall.programs import run_program

log = logging.getLogger(__name__)

TABLES: Final = {
    "raw": {"PREROUTING": -300},
    "mangle": {"PREROUTING": -150, "FORWARD": -150, "POSTROUTING": -150},
    "filter": {"FORWARD": 0},
    "security": {"FORWARD": 50},
}
"""The chains of iptables on the way of what is forwarded, with their priorities."""
HOOKS: Final = frozenset({"PREROUTING", "FORWARD", "POSTROUTING"})
TRACKED: Final = -200
"""The priority of connection tracking (linux/netfilter_ipv4.h)."""
TRANSLATED: Final = 100
"""The priority by which sources are translated, at POSTROUTING."""
LONGEST: Final = 120
"""Characters of a rule that are told."""
_FAMILIES: Final = {"ip": {4}, "ip6": {6}, "inet": {4, 6}}
_TABLES: Final = Path("/proc/net")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something of others that drops `ways`: where it is and what an administrator can do."""

    where: str
    what: str
    ways: tuple[str, ...]
    remedy: str


FindRefusals = Callable[[Sequence[Way], Collection[str]], Awaitable[list[Refusal]]]


async def refusals(ways: Sequence[Way], links: Collection[str]) -> list[Refusal]:
    """Return what drops one of some ways; `links` are the host's for its pods.

    What cannot be read is logged and passed over. Raises HostError if the kernel says nothing of
    its tables.
    """
    return await asyncio.to_thread(lambda: [*_of_iptables(ways), *_of_nftables(ways, links)])


def outside_links(version: int, tables: Path = _TABLES) -> tuple[str, ...]:
    """Return the links of this host's default routes; () if there is none. Raises HostError.

    `tables` is the folder in which the kernel shows them.
    """
    file = tables / ("route" if version == 4 else "ipv6_route")
    try:
        lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    except FileNotFoundError:  # a kernel without IPv6
        return ()
    except OSError as exc:
        raise HostError(f"cannot read {file}: {exc.strerror}") from exc
    if version == 4:
        found = {words[0] for words in lines if len(words) > 7 and words[1] == words[7] == "0" * 8}
    else:
        nowhere = ("0" * 32, "00")
        found = {words[-1] for words in lines if tuple(words[:2]) == nowhere and words[-1] != "lo"}
    return tuple(sorted(found))


def at(way: Way, hook: str, priority: int) -> Way:
    """Return what of a way a chain of the kernel sees at its hook."""
    early = hook == "PREROUTING" and priority <= TRACKED
    arrives = hook == "PREROUTING" and not way.from_pods
    left = hook == "POSTROUTING" and priority >= TRANSLATED
    return replace(
        way,
        out=() if hook == "PREROUTING" else way.out,
        states=None if early else way.states,
        # its address is one of the host's before, or after, translation
        pods=None if arrives or left else way.pods,
    )


def _of_iptables(ways: Sequence[Way]) -> Iterator[Refusal]:
    for version in sorted({way.version for way in ways}):
        own = [way for way in ways if way.version == version]
        for program, tables in _programs(version):
            for table in tables:
                try:
                    said = run_program([program, "-w", LOCK_WAIT, "-t", table, "-S"])
                except HostError as exc:
                    log.warning("rules of others not read", extra=fields(table=table, error=exc))
                    continue
                yield from _of_table(program, table, iptables_text.read(said), own)


def _of_table(
    program: str, table: str, found: iptables_text.Listed, ways: Iterable[Way]
) -> Iterator[Refusal]:
    def rules(name: str) -> Iterable[PacketRule]:
        return found.rules.get(name, ())

    for hook, priority in TABLES[table].items():
        policy = found.policies.get(hook) == "DROP"
        dropping = (
            (dropped(rules, hook, at(way, hook, priority), policy=policy), way) for way in ways
        )
        for drop, titles in _grouped(dropping):
            where, command = f"table {table} of {program}", f"{program} -t {table}"
            if drop.rule:
                yield Refusal(where, _short(drop.rule), titles, _deleting(command, drop))
            else:
                yield Refusal(where, f"policy of {hook}", titles, f"{command} -P {hook} ACCEPT")


def _deleting(command: str, drop: Drop) -> str:
    # iptables does not read quotes in comments as it writes them
    if len(drop.rule) > LONGEST or "\\" in drop.rule:
        return f"delete that rule of {drop.chain}"
    return f"{command} {drop.rule.replace('-A ', '-D ', 1)}"


def _grouped(found: Iterable[tuple[Drop | None, Way]]) -> Iterator[tuple[Drop, tuple[str, ...]]]:
    """Yield what drops ways once each, with the ways' titles."""
    held: dict[Drop, dict[str, None]] = {}
    for drop, way in found:
        if drop is not None:
            held.setdefault(drop, {})[way.title] = None
    yield from ((drop, tuple(titles)) for drop, titles in held.items())


def _short(rule: str) -> str:
    return rule if len(rule) <= LONGEST else f"{rule[:LONGEST]}…"


def _programs(version: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the programs that list tables of a family, with the tables that each can list.

    Those of the older iptables are named by the kernel: to list another one would make it.
    """
    name = iptables.program_of(version)
    there = _legacy_tables(version)
    if shutil.which(name) is None:
        return
    legacy = _is_legacy(name)
    yield name, [one for one in TABLES if one in there or not legacy]
    other = f"{name}-{'nft' if legacy else 'legacy'}"
    if shutil.which(other) is not None and other != name:
        yield other, [one for one in TABLES if one in there or legacy]


@cache
def _is_legacy(program: str) -> bool:
    return "legacy" in run_program([program, "-V"])


def _legacy_tables(version: int) -> frozenset[str]:
    file = LEGACY_NAMES[version]
    try:
        return frozenset(file.read_text(encoding="ascii").split())
    except FileNotFoundError:  # this kernel has no such tables
        return frozenset()
    except OSError as exc:
        raise HostError(f"cannot read {file}: {exc.strerror}") from exc


def _of_nftables(ways: Sequence[Way], links: Collection[str]) -> Iterator[Refusal]:
    if shutil.which(PROGRAM) is None:
        return
    for chain in base_chains(listed("chains"), ANY_TYPE):
        if chain.hook.upper() in HOOKS:
            try:
                yield from _of_chain(chain, ways, links)
            except HostError as exc:
                # it may be gone meanwhile; whatever removed it raises an event
                log.warning("rules of others not read", extra=fields(table=chain, error=exc))


def _of_chain(chain: BaseChain, ways: Sequence[Way], links: Collection[str]) -> Iterator[Refusal]:
    @cache
    def rules(name: str) -> Sequence[PacketRule]:
        return [*nft_json.rules(listed("chain", chain.family, chain.table, name))]

    hook, policy = chain.hook.upper(), chain.policy == "drop"
    dropping = (
        (dropped(rules, chain.name, at(way, hook, chain.priority), policy=policy), way)
        for way in ways
        if way.version in _FAMILIES[chain.family]
    )
    for drop, titles in _grouped(dropping):
        if drop.rest and _names_links(chain, links):
            continue
        yield _of_drop(chain, drop, titles, links)


def _names_links(chain: BaseChain, links: Collection[str]) -> bool:
    """Return whether the administrator has thought of the links, by conditions unknown here."""
    table = run_program([PROGRAM, "list", "table", chain.family, chain.table])
    return all(one in table for one in links)


def _of_drop(
    chain: BaseChain, drop: Drop, titles: tuple[str, ...], links: Collection[str]
) -> Refusal:
    where = f"table {chain.family} {chain.table}"
    if drop.rest:
        return Refusal(where, f"chain {chain.name}", titles, remedy(chain, links))
    place = f"{chain.family} {chain.table} {drop.chain}"
    rule = _short(_text_of(place.split(), drop.rule))
    return Refusal(
        where,
        f"chain {drop.chain}: {rule}",
        titles,
        f"{PROGRAM} delete rule {place} handle {drop.rule}",
    )


def _text_of(place: Sequence[str], handle: str) -> str:
    """Return a rule of nftables as its administrators write it."""
    said = run_program([PROGRAM, "-a", "list", "chain", *place])
    end = f"# handle {handle}"
    found = (line.removesuffix(end).strip() for line in said.splitlines() if line.endswith(end))
    return next(found, f"rule {handle}")
