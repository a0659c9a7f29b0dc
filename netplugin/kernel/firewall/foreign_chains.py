"""What other programs' firewalls in nftables would drop, whatever the rules of iptables accept.

In come the chains that `nft` lists, out go those that a packet must pass as well and that drop what
they do not name: the kernel asks every table that is on a packet's way. Rules of iptables cannot
mend that. `netplugin.commands.firewall_checks` asks what is dropped for this host;
`netplugin.kernel.firewall.foreign_rules` follows what the host forwards through the same chains.
"""

# The tables of iptables themselves are left out: iptables-nft keeps them, and the agent has its own
# rules in the chains there. Without the program `nft` nothing is known: firewalld, the only such
# firewall that is common, brings it.

import asyncio
import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.errors import HostError
from netplugin.kernel.firewall.programs import run_program

PROGRAM: Final = "nft"
FIREWALLD: Final = "firewalld"
OWN_TABLE: Final = "contiv"
"""What the names of the agent's tables begin with."""
_OF_IPTABLES: Final = frozenset({"filter", "nat", "mangle", "raw", "security"})
_FAMILIES: Final = frozenset({"ip", "ip6", "inet"})
_FILTERING: Final = frozenset({"filter"})
ANY_TYPE: Final = frozenset({"filter", "nat", "route"})
"""The types of chains of nftables: rules that drop may be in any."""
_REFUSALS: Final = ("drop", "reject")


@dataclass(frozen=True, slots=True, order=True)
class BaseChain:
    """A chain that the kernel asks at `hook`, with what becomes of a packet at its end."""

    family: str
    table: str
    name: str
    hook: str
    policy: str = "accept"
    priority: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.family} {self.table} {self.name}"


def base_chains(said: Mapping[str, Any], types: Collection[str] = _FILTERING) -> list[BaseChain]:
    """Return the base chains that are not iptables' or the agent's, of what `nft -j` lists."""
    found = (one["chain"] for one in said.get("nftables", ()) if "chain" in one)
    return sorted(
        BaseChain(
            one["family"],
            one["table"],
            one["name"],
            one["hook"],
            one.get("policy", ""),
            int(one.get("prio", 0)),
        )
        for one in found
        if "hook" in one and one.get("type") in types and _is_foreign(one)
    )


def refuses(chain: BaseChain, said: Mapping[str, Any]) -> bool:
    """Return whether a chain refuses what none of its rules names."""
    rules = [one["rule"]["expr"] for one in said.get("nftables", ()) if "rule" in one]
    last = rules[-1] if rules else []
    by_rule = len(last) == 1 and any(word in last[0] for word in _REFUSALS)
    return chain.policy == "drop" or by_rule


def remedy(chain: BaseChain, links: Iterable[str]) -> str:
    """Return what an administrator can do about a chain that refuses what links forward."""
    if chain.table == FIREWALLD:
        zone = " ".join(f"--add-interface={link}" for link in links)
        return f"firewall-cmd --permanent --zone=trusted {zone} && firewall-cmd --reload"
    named = ", ".join(f'"{link}"' for link in links)
    return f"accept iifname and oifname {{ {named} }} in that chain"


async def in_the_way(hook: str, links: Collection[str]) -> list[BaseChain]:
    """Return the foreign chains at a hook that refuse packets, and whose tables name no link.

    Raises HostError.
    """
    if shutil.which(PROGRAM) is None:
        return []
    return await asyncio.to_thread(lambda: list(_in_the_way(hook, links)))


def _in_the_way(hook: str, links: Collection[str]) -> Iterator[BaseChain]:
    for chain in base_chains(listed("chains")):
        if chain.hook != hook:
            continue
        own = listed("chain", chain.family, chain.table, chain.name)
        if refuses(chain, own):
            table = run_program([PROGRAM, "list", "table", chain.family, chain.table])
            if not all(link in table for link in links):
                yield chain


def _is_foreign(chain: Mapping[str, Any]) -> bool:
    table = chain["table"]
    own = table.startswith(OWN_TABLE) or (chain["family"] != "inet" and table in _OF_IPTABLES)
    return chain["family"] in _FAMILIES and not own


def listed(*what: str) -> dict[str, Any]:
    """Return what the program lists. Raises HostError."""
    said = run_program([PROGRAM, "-j", "list", *what])
    try:
        found: dict[str, Any] = json.loads(said)
    except ValueError as exc:
        raise HostError(f"{PROGRAM} -j list {' '.join(what)}: {exc}") from exc
    return found
