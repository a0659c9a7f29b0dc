"""The agent's rules in the host's iptables: the only module that runs that program.

In come the rules wanted (`netplugin.bridges.host.host_access`,
`netplugin.bridges.services.service_access`); they are added, and other rules of this agent removed.
Arguments are a list, never a line for a shell. Whole chains of the agent's own are
`netplugin.kernel.firewall.iptables_chains`'.
"""

import asyncio
import logging
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import HostError
from core.logs import fields
from netplugin.kernel.firewall import nft_tables
from netplugin.kernel.firewall.families import FAMILIES
from netplugin.kernel.firewall.programs import run_program

log = logging.getLogger(__name__)

PROGRAM: Final = "iptables"
PROGRAM6: Final = "ip6tables"
MARK: Final = "contiv"
LAST_MARK: Final = "contiv-forward"
"""The mark of rules for what no other rule judges: they are behind the agent's other ones, and
before one that refuses everything."""
_OWN: Final = f"--comment {MARK}"
"""What every rule of the agent has."""
_REFUSAL: Final = re.compile(r"-A \S+ (-m comment --comment \S+ )?-j (DROP|REJECT)\b")
LOCK_WAIT: Final = "5"
"""Seconds iptables waits for its lock (`-w`), as in the original."""


def program_of(version: int) -> str:
    """Return the program for a family, 4 or 6."""
    return PROGRAM if version == 4 else PROGRAM6


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain of a table, of the family `version`, 4 or 6.

    `mark` is the comment of the agent's rules in it: parts of the agent that have rules in one
    chain have marks of their own.
    """

    table: str
    name: str
    version: int = 4
    mark: str = MARK

    @property
    def marked(self) -> tuple[str, ...]:
        """The words by which the rules of the agent are told."""
        return ("-m", "comment", "--comment", self.mark)

    @property
    def program(self) -> str:
        """The program of the family."""
        return program_of(self.version)

    def __str__(self) -> str:
        family = "" if self.version == 4 else f"{self.program} "
        return f"{family}{self.table} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IptablesRule:
    """A rule of this agent as `iptables -S` prints it, without the mark."""

    chain: Chain
    match: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of the rule, with the mark."""
        return (*self.match, *self.chain.marked, *self.target)

    def __str__(self) -> str:
        return f"{self.chain} {shlex.join(self.words)}"


class Iptables:
    """The agent's rules in some chains.

    Chains are shared with other programs. A rule belongs to this agent only if it carries the
    comment of its chain, and no other rule is ever changed. The state is read from iptables each
    time, since any program may flush a chain.
    """

    def __init__(self, chains: Collection[Chain]) -> None:
        self._chains = tuple(chains)

    async def keep(
        self, wanted: Collection[IptablesRule], versions: Collection[int] = FAMILIES
    ) -> bool:
        """Set the rules of some families, each once; return whether anything was changed.

        Raises HostError at the first failure: who wants both families calls once for each.
        """
        return await asyncio.to_thread(self._keep, wanted, versions)

    async def found(self, versions: Collection[int] = FAMILIES) -> list[str]:
        """Return the rules of some families as text, with duplicates. Raises HostError."""
        return await asyncio.to_thread(self._found, versions)

    def _found(self, versions: Collection[int]) -> list[str]:
        # without its program a family has no rules of ours
        possible = {version for version in versions if has_family(version)}
        return [
            f"{chain} {shlex.join(words)}"
            for chain in self._chains
            if chain.version in possible
            for words in _own_rules(chain)
        ]

    def _keep(self, wanted: Collection[IptablesRule], versions: Collection[int]) -> bool:
        changed = False
        needed = {rule.chain.version for rule in wanted}
        possible = {one for one in versions if one in needed or has_family(one)}
        for chain in self._chains:
            if chain.version not in possible:
                continue
            missing = {rule.words for rule in wanted if rule.chain == chain}
            if chain.mark == LAST_MARK and missing:
                changed |= _keep_last(chain, missing)
                continue
            for words in _own_rules(chain):
                if words in missing:
                    missing.remove(words)
                else:
                    _run(chain, "-D", words)
                    changed = True
            for words in sorted(missing):
                _add(chain, words)
                changed = True
        return changed


def has_family(version: int) -> bool:
    """Return whether this host can have rules of a family: its program works.

    A kernel without IPv6 may well have the program.
    """
    program = program_of(version)
    if nft_tables.is_used(program):
        return True
    if shutil.which(program) is None:
        return False
    if version == 4:
        return True
    try:
        _run(Chain(table="nat", name="OUTPUT", version=version), "-S")
    except HostError as exc:
        log.debug("no rules of IPv6 on this host", extra=fields(error=exc))
        return False
    return True


async def rules(chain: Chain) -> str:
    """Return the policy of a chain and its rules, everybody's, as text. Raises HostError."""
    return await asyncio.to_thread(_run, chain, "-S")


def _add(chain: Chain, words: tuple[str, ...]) -> None:
    """Add a rule at the end of a chain, but before those that judge what no other does."""
    if (chain.table, chain.name) != ("filter", "FORWARD"):
        _run(chain, "-A", words)
        return
    listed = [line for line in _run(chain, "-S").splitlines() if line.startswith("-A ")]
    last = [number for number, line in enumerate(listed, 1) if f"--comment {LAST_MARK} " in line]
    _run(chain, "-I", (str(last[0] if last else len(listed) + 1), *words))


def _keep_last(chain: Chain, wanted: Collection[tuple[str, ...]]) -> bool:
    listed = [line for line in _run(chain, "-S").splitlines() if line.startswith("-A ")]
    if _are_last(chain, listed, wanted):
        return False
    for words in _own_rules(chain):
        _run(chain, "-D", words)
    others = [line for line in listed if shlex.join(chain.marked) not in line]
    place = next((n for n, line in enumerate(others, 1) if _refuses_all(line)), len(others) + 1)
    for words in sorted(wanted, reverse=True):
        _run(chain, "-I", (str(place), *words))
    return True


def _are_last(chain: Chain, listed: Sequence[str], wanted: Collection[tuple[str, ...]]) -> bool:
    """Return whether the rules are there, once each, and in their place."""
    mark = shlex.join(chain.marked)
    places = [number for number, line in enumerate(listed) if mark in line]
    if sorted(tuple(shlex.split(listed[n])[2:]) for n in places) != sorted(wanted):
        return False
    before, after = listed[: places[0]], listed[places[-1] :]
    behind = any(_OWN in line and mark not in line for line in after)
    return not behind and not any(map(_refuses_all, before))


def _refuses_all(line: str) -> bool:
    """Return whether a rule drops or rejects every packet that comes to it."""
    return _REFUSAL.match(line) is not None


def _own_rules(chain: Chain) -> list[tuple[str, ...]]:
    # Lines are filtered before they are parsed: comments of other programs' rules may contain
    # unbalanced quotes, which `shlex` refuses.
    marked = (line for line in _run(chain, "-S").splitlines() if shlex.join(chain.marked) in line)
    listed = (shlex.split(line) for line in marked if line.startswith("-A "))
    return [tuple(words[2:]) for words in listed if _has(words, chain.marked)]


def _has(words: list[str], mark: tuple[str, ...]) -> bool:
    length = len(mark)
    return any(tuple(words[at : at + length]) == mark for at in range(len(words)))


def _run(chain: Chain, verb: str, words: Iterable[str] = ()) -> str:
    if nft_tables.is_used(chain.program):
        table = nft_tables.TABLES[chain.version]
        if verb == "-S":
            return table.listed(chain.table, chain.name)
        table.change(chain.table, verb, chain.name, [*words])
        return ""
    command = [chain.program, "-w", LOCK_WAIT, "-t", chain.table, verb, chain.name, *words]
    return run_program(command)
