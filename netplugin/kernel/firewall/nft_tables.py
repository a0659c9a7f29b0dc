"""Keeps the agent's rules in nftables, on hosts that have no iptables.

In come what `netplugin.kernel.firewall.iptables` and `netplugin.kernel.firewall.iptables_chains`
would have iptables do: list, append, insert, delete, replace chains. The rules are kept here, in
iptables' words; each change has the program `nft` replace the agent's own table of the family in
one transaction (`netplugin.kernel.firewall.nft_words`). Rules that others removed are set again
when they are next listed.
"""

# What the table was made of is kept in the kernel beside it, in comments of a chain that nothing
# leads to: an agent that starts goes on from there, and `netplugin cleanup` finds what there is. So
# both are always of one transaction, and a restart of the agent changes no rule.

import base64
import json
import shlex
import shutil
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from core.errors import HostError, Invalid
from netplugin.kernel.firewall import nft_words
from netplugin.kernel.firewall.nft_words import BUILTIN, affinity, chain_name, set_name, translate
from netplugin.kernel.firewall.programs import run_program

PROGRAM: Final = "nft"
TABLE: Final = nft_words.PREFIX
_FAMILIES: Final = {4: "ip", 6: "ip6"}
_ADDRESSES: Final = {4: "ipv4_addr", 6: "ipv6_addr"}
_PRIORITIES: Final = {
    ("raw", ""): -300,
    ("mangle", ""): -150,
    ("nat", "PREROUTING"): -100,
    ("nat", "OUTPUT"): -100,
    ("nat", ""): 100,
    ("filter", ""): 0,
}
"""Those of iptables' tables, and of one chain where it differs."""

WORDS: Final = f"{TABLE}-words"
"""The chain whose comments have the rules in iptables' words."""
_COMMENT: Final = 120
"""Bytes of a comment, of which nftables takes 127."""

Key = tuple[str, str]
"""A table and a chain of iptables."""
Chains = dict[Key, list[str]]


def is_used(program: str) -> bool:
    """Return whether this host has nftables, and lacks a program of iptables."""
    return shutil.which(program) is None and shutil.which(PROGRAM) is not None


class NftTable:
    """The agent's rules of one family."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._chains: Chains = {}
        self._applied: dict[Key, int] | None = None
        """How many rules of nftables each chain has; None before the first change."""
        self._sets: frozenset[str] = frozenset()
        self._loaded = False
        self._lock = threading.Lock()

    def listed(self, table: str, chain: str = "") -> str:
        """Return the rules of a table or of one chain as `iptables -S` does. Raises HostError."""
        with self._lock:
            self._mend()
            lines: list[str] = []
            for (of, name), rules in self._chains.items():
                if of == table and chain in ("", name):
                    lines += [] if name in BUILTIN else [f"-N {name}"]
                    lines += [f"-A {name} {rule}" for rule in rules]
        return "\n".join(lines)

    def change(self, table: str, verb: str, chain: str, words: Sequence[str]) -> None:
        """Append (-A), insert (-I) or delete (-D) a rule. Raises HostError."""
        with self._lock:
            self._load()
            chains = {key: [*rules] for key, rules in self._chains.items()}
            rules = chains.setdefault((table, chain), [])
            if verb == "-I":
                rules.insert(int(words[0]) - 1, shlex.join(words[1:]))
            elif verb == "-A":
                rules.append(shlex.join(words))
            elif (rule := shlex.join(words)) in rules:
                rules.remove(rule)
            else:
                raise HostError(f"{PROGRAM}: no rule {rule} in {table} {chain}")
            self._apply(chains)

    def restore(self, text: str) -> None:
        """Replace chains, as `iptables-restore --noflush` does. Raises HostError."""
        with self._lock:
            self._load()
            chains, table = dict(self._chains), ""
            for line in text.splitlines():
                if line.startswith("*"):
                    table = line[1:]
                elif line.startswith(":"):
                    chains[table, line[1:].split()[0]] = []
                elif line.startswith("-A "):
                    _, chain, rule = line.split(" ", 2)
                    chains[table, chain].append(rule)
                elif line.startswith("-X "):
                    del chains[table, line[3:]]
            self._apply(chains)

    def _apply(self, chains: Chains) -> None:
        chains = {key: rules for key, rules in chains.items() if rules or key[1] not in BUILTIN}
        translated, sets = self._translated(chains)
        lines = [*self._transaction(translated, sets), *self._words(chains)]
        run_program([PROGRAM, "-f", "-"], "\n".join(lines) + "\n")
        self._note(chains, translated, sets)

    def _note(self, chains: Chains, translated: Chains, sets: frozenset[str]) -> None:
        self._chains, self._sets = chains, sets
        self._applied = {key: len(rules) for key, rules in translated.items()} if chains else None

    def _translated(self, chains: Chains) -> tuple[Chains, frozenset[str]]:
        """Return the rules of nftables, and the sets that they use. Raises HostError."""
        looked_up = (affinity(rule.split()) for rules in chains.values() for rule in rules)
        seconds = dict(found for found in looked_up if found is not None)
        try:
            made = {
                key: [
                    one
                    for rule in rules
                    for one in translate(shlex.split(rule), self._version, key[0], seconds)
                ]
                for key, rules in chains.items()
            }
        except Invalid as exc:
            raise HostError(str(exc)) from exc
        return made, frozenset(map(set_name, seconds))

    def _words(self, chains: Chains) -> Iterator[str]:
        """Yield what keeps the words of the rules in the kernel."""
        if not chains:
            return
        said = [[*key, *rules] for key, rules in chains.items()]
        text = base64.b64encode(zlib.compress(json.dumps(said).encode())).decode()
        chain = f"{_FAMILIES[self._version]} {TABLE} {WORDS}"
        yield f"add chain {chain}"
        yield f"flush chain {chain}"
        for at in range(0, len(text), _COMMENT):
            yield f'add rule {chain} counter comment "{text[at : at + _COMMENT]}"'

    def _load(self) -> None:
        """Take over what an agent before this one left in the kernel, once."""
        if self._loaded:
            return
        words = [rule.get("comment", "") for rule in self._rules() if rule["chain"] == WORDS]
        self._loaded = True
        try:
            said = json.loads(zlib.decompress(base64.b64decode("".join(words))))
            chains = {(table, chain): rules for table, chain, *rules in said}
        except (ValueError, zlib.error):
            return  # nothing is there, or nothing that this agent can read
        self._note(chains, *self._translated(chains))

    def _transaction(self, translated: Chains, sets: frozenset[str]) -> Iterator[str]:
        family = _FAMILIES[self._version]
        table = f"{family} {TABLE}"
        yield f"add table {table}"
        if self._applied is None or not translated:
            yield f"delete table {table}"
            if not translated:
                return
            yield f"add table {table}"
        for name in sorted(sets):
            kind = _ADDRESSES[self._version]
            yield f"add set {table} {name} {{ type {kind}; flags dynamic,timeout; }}"
        before = self._applied or {}
        for key in {**before, **translated}:
            hook = _hook(key)
            yield f"add chain {table} {chain_name(*key)}{hook}"
            yield f"flush chain {table} {chain_name(*key)}"
        for key, rules in translated.items():
            yield from (f"add rule {table} {chain_name(*key)} {rule}" for rule in rules)
        yield from (
            f"delete chain {table} {chain_name(*key)}" for key in before if key not in translated
        )
        yield from (f"delete set {table} {name}" for name in sorted(self._sets - sets))

    def _mend(self) -> None:
        """Set all rules again if the kernel has not as many as it was given."""
        self._load()
        if self._applied:
            there = Counter(rule["chain"] for rule in self._rules() if rule["chain"] != WORDS)
            wanted = Counter({chain_name(*key): n for key, n in self._applied.items()})
            if +there != +wanted:
                self._applied = None
                self._apply(self._chains)

    def _rules(self) -> list[dict[str, Any]]:
        """Return the rules that the kernel has; none if it has no such table. Raises HostError."""
        # A table that cannot be read now is not a missing one: taken for that, it would be made
        # anew of what this agent knows so far, without the rules of the agent before it.
        family = _FAMILIES[self._version]
        try:
            said = run_program([PROGRAM, "-j", "list", "table", family, TABLE])
        except HostError:
            there = _listed(run_program([PROGRAM, "-j", "list", "tables", family]), "table")
            if any(one["name"] == TABLE for one in there):
                raise
            return []
        return _listed(said, "rule")


def _listed(said: str, kind: str) -> list[dict[str, Any]]:
    return [one[kind] for one in json.loads(said)["nftables"] if kind in one]


def _hook(key: Key) -> str:
    table, chain = key
    if chain not in BUILTIN:
        return ""
    kind = "nat" if table == "nat" else "route" if key == ("mangle", "OUTPUT") else "filter"
    priority = _PRIORITIES.get(key, _PRIORITIES[table, ""])
    return f" {{ type {kind} hook {chain.lower()} priority {priority}; }}"


TABLES: Final = {version: NftTable(version) for version in _FAMILIES}
