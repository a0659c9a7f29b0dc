"""Chains of the agent's own in iptables, replaced as a whole by `iptables-restore`.

In come the rules of each chain as iptables spells them
(`netplugin.bridges.services.service_rules`). All chains of a family are replaced in one transaction
of each table, so that no packet meets half of them. Chains of the agent are told by their names'
beginning, of which each part of the agent that has chains has its own; those of others are not
touched. What leads to them are rules in the chains of the kernel
(`netplugin.kernel.firewall.iptables`).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from netplugin.kernel.firewall import nft_tables
from netplugin.kernel.firewall.families import FAMILIES, each_family, raise_any
from netplugin.kernel.firewall.iptables import LOCK_WAIT, has_family, program_of
from netplugin.kernel.firewall.programs import run_program

PREFIX: Final = "CONTIV-"
"""What the names of the chains for services begin with."""
LONGEST_NAME: Final = 28
"""Of a chain: XT_EXTENSION_MAXNAMELEN of linux/netfilter/x_tables.h, without the closing zero."""

Chains = Mapping[str, Mapping[str, Sequence[str]]]
"""The rules of chains by table and chain, without `-A <chain>`."""


class OwnChains:
    """The chains whose names begin with `prefix`: those of one part of the agent."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix

    async def replace(self, version: int, wanted: Chains) -> None:
        """Set the chains of a family, 4 or 6, in the tables named; remove others there.

        Raises HostError.
        """
        await asyncio.to_thread(_replace, self._prefix, version, wanted)

    async def found(self, tables: Sequence[str], versions: Iterable[int] = FAMILIES) -> list[str]:
        """Return the names of the chains in some tables. Raises HostError."""
        return await asyncio.to_thread(_found_in, self._prefix, tables, versions)

    async def rules(self, version: int, table: str, name: str) -> list[str]:
        """Return the rules of a chain, [] if there is no such chain. Raises HostError."""
        return await asyncio.to_thread(_rules_of, version, table, name)

    async def remove(self, tables: Sequence[str], versions: Iterable[int] = FAMILIES) -> None:
        """Remove all chains in some tables, to which no rule leads any more. Raises HostError."""
        nothing = {table: dict[str, Sequence[str]]() for table in tables}
        raise_any(await each_family(lambda version: self.replace(version, nothing), versions))


def _found_in(prefix: str, tables: Sequence[str], versions: Iterable[int]) -> list[str]:
    return [
        f"{program_of(version)} {table} {name}"
        for version in versions
        if has_family(version)
        for table in tables
        for name in _existing(prefix, version, table)
    ]


def _rules_of(version: int, table: str, name: str) -> list[str]:
    begin = f"-A {name} "
    lines = _listed(version, table)
    return [line.removeprefix(begin) for line in lines if line.startswith(begin)]


def _replace(prefix: str, version: int, wanted: Chains) -> None:
    if not any(wanted.values()) and not has_family(version):
        return  # nothing of ours can be there
    existing = {table: _existing(prefix, version, table) for table in wanted}
    if not any(wanted.values()) and not any(existing.values()):
        return
    text = "".join(_transaction(table, chains, existing[table]) for table, chains in wanted.items())
    if nft_tables.is_used(program_of(version)):
        nft_tables.TABLES[version].restore(text)
        return
    program = f"{program_of(version)}-restore"
    run_program([program, "-w", LOCK_WAIT, "--noflush"], text)


def _transaction(table: str, chains: Mapping[str, Sequence[str]], existing: Sequence[str]) -> str:
    """Return the lines that replace the chains of a table: declaring a chain empties it."""
    obsolete = [name for name in existing if name not in chains]
    lines = [
        f"*{table}",
        *(f":{name} - [0:0]" for name in (*chains, *obsolete)),
        *(f"-A {name} {rule}" for name, rules in chains.items() for rule in rules),
        *(f"-X {name}" for name in obsolete),
        "COMMIT",
    ]
    return "\n".join(lines) + "\n"


def _existing(prefix: str, version: int, table: str) -> list[str]:
    declared = (line.split() for line in _listed(version, table) if line.startswith("-N "))
    return [words[1] for words in declared if words[1].startswith(prefix)]


def _listed(version: int, table: str) -> list[str]:
    if nft_tables.is_used(program_of(version)):
        return nft_tables.TABLES[version].listed(table).splitlines()
    return run_program([program_of(version), "-w", LOCK_WAIT, "-t", table, "-S"]).splitlines()
