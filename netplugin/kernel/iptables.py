"""The agent's rules in the host's iptables: the only module that runs that program.

In come the rules wanted (`netplugin.bridges.host_access`, `netplugin.bridges.node_ports`); they are
added, and other rules of this agent removed. Arguments are a list, never a line for a shell.
"""

import asyncio
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from core.errors import HostError

PROGRAM: Final = "iptables"
MARK: Final = "contiv"
MARKED: Final = ("-m", "comment", "--comment", MARK)
LOCK_WAIT: Final = "5"
"""Seconds iptables waits for its lock (`-w`), as in the original."""
LIMIT: Final = 20.0
"""Time limit in seconds of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain of a table."""

    table: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IptablesRule:
    """A rule of this agent as `iptables -S` prints it, without the mark."""

    chain: Chain
    match: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of the rule, with the mark."""
        return (*self.match, *MARKED, *self.target)

    def __str__(self) -> str:
        return f"{self.chain.table} {self.chain.name} {shlex.join(self.words)}"


class Iptables:
    """The agent's rules in some chains.

    Chains are shared with other programs. A rule belongs to this agent only if it carries the
    comment `MARKED`, and no other rule is ever changed. The state is read from iptables each time,
    since any program may flush a chain.
    """

    def __init__(self, chains: Collection[Chain]) -> None:
        self._chains = tuple(chains)

    async def keep(self, wanted: Collection[IptablesRule]) -> bool:
        """Set the rules of this agent, each once; return whether anything was changed.

        Raises HostError.
        """
        return await asyncio.to_thread(self._keep, wanted)

    async def found(self) -> list[str]:
        """Return the rules of this agent as text, with duplicates. Raises HostError."""
        return await asyncio.to_thread(self._found)

    def _found(self) -> list[str]:
        if shutil.which(PROGRAM) is None:
            return []  # without the program there are no rules of this agent
        return [
            f"{chain.table} {chain.name} {shlex.join(words)}"
            for chain in self._chains
            for words in _own_rules(chain)
        ]

    def _keep(self, wanted: Collection[IptablesRule]) -> bool:
        changed = False
        for chain in self._chains:
            missing = {rule.words for rule in wanted if rule.chain == chain}
            for words in _own_rules(chain):
                if words in missing:
                    missing.remove(words)
                else:
                    _run(chain, "-D", words)
                    changed = True
            for words in sorted(missing):
                _run(chain, "-A", words)
                changed = True
        return changed


async def policy(chain: Chain) -> str:
    """Return the policy of a chain. Raises HostError."""
    listed = await asyncio.to_thread(_run, chain, "-S")
    return next((line.split()[2] for line in listed.splitlines() if line.startswith("-P ")), "")


def _own_rules(chain: Chain) -> list[tuple[str, ...]]:
    # Lines are filtered before they are parsed: comments of other programs' rules may contain
    # unbalanced quotes, which `shlex` refuses.
    marked = (line for line in _run(chain, "-S").splitlines() if shlex.join(MARKED) in line)
    listed = (shlex.split(line) for line in marked if line.startswith("-A "))
    return [tuple(words[2:]) for words in listed if _is_marked(words)]


def _is_marked(words: list[str]) -> bool:
    length = len(MARKED)
    return any(tuple(words[at : at + length]) == MARKED for at in range(len(words)))


def _run(chain: Chain, verb: str, words: Iterable[str] = ()) -> str:
    command = [PROGRAM, "-w", LOCK_WAIT, "-t", chain.table, verb, chain.name, *words]
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments that the agent builds
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise HostError(f"{PROGRAM}: {exc}") from exc
    if done.returncode:
        raise HostError(f"{shlex.join(command)}: {done.stderr.strip()}")
    return done.stdout
