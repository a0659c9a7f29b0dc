"""Rules of ours in the host's iptables: the only module that runs that program.

In come rules, whose words name their table, chain and what they do (`netplugin.bridges.host_access`
says which). Ours carry a comment that says so, and no others are looked at, so that what somebody
else keeps there stays. Each call waits for the lock of iptables (`-w`), and arguments are a list,
never a line for a shell.
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
"""Seconds iptables waits for its lock, as the original does for its node ports."""
LIMIT: Final = 20.0
"""Seconds one run may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain of a table."""

    table: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IptablesRule:
    """A rule of ours, as `iptables -S` says it, without the words that make it ours."""

    chain: Chain
    match: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The rule with its mark."""
        return (*self.match, *MARKED, *self.target)

    def __str__(self) -> str:
        return f"{self.chain.table} {self.chain.name} {shlex.join(self.words)}"


class Iptables:
    """The rules of ours in some chains, which are all that is ever looked at."""

    def __init__(self, chains: Collection[Chain]) -> None:
        self._chains = tuple(chains)

    async def keep(self, wanted: Collection[IptablesRule]) -> bool:
        """Have these rules once each and no other of ours; tell whether that was not so.

        Raises HostError.
        """
        return await asyncio.to_thread(self._keep, wanted)

    async def found(self) -> list[str]:
        """Say which rules of ours are there, duplicates too. Raises HostError."""
        return await asyncio.to_thread(self._found)

    def _found(self) -> list[str]:
        if shutil.which(PROGRAM) is None:
            return []  # who could have made any?
        return [
            f"{chain.table} {chain.name} {shlex.join(words)}"
            for chain in self._chains
            for words in _ours(chain)
        ]

    def _keep(self, wanted: Collection[IptablesRule]) -> bool:
        changed = False
        for chain in self._chains:
            missing = {rule.words for rule in wanted if rule.chain == chain}
            for words in _ours(chain):
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
    """Return what becomes of packets that no rule of a chain decides about. Raises HostError."""
    listed = await asyncio.to_thread(_run, chain, "-S")
    return next((line.split()[2] for line in listed.splitlines() if line.startswith("-P ")), "")


def _ours(chain: Chain) -> list[tuple[str, ...]]:
    # others' comments may be anything, lines without an end among it
    said = (line for line in _run(chain, "-S").splitlines() if shlex.join(MARKED) in line)
    listed = (shlex.split(line) for line in said if line.startswith("-A "))
    return [tuple(words[2:]) for words in listed if _is_marked(words)]


def _is_marked(words: list[str]) -> bool:
    length = len(MARKED)
    return any(tuple(words[at : at + length]) == MARKED for at in range(len(words)))


def _run(chain: Chain, verb: str, words: Iterable[str] = ()) -> str:
    command = [PROGRAM, "-w", LOCK_WAIT, "-t", chain.table, verb, chain.name, *words]
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, of our own making
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
