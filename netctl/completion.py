"""What could stand next on a command line: the answers to a shell that completes words.

In come the shell's words (its script, printed by `netctl completion`, sends them in environment
variables); out go candidates. The command tree says which commands and flags there are, the tables
below say what words and flags name; names of objects are asked of netmaster, in a bounded time and
without complaint: a shell has no place for an error here. The scripts, and the forms in which
shells want candidates, are click's; the syntax of words is `netctl.commandline`'s.
"""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
)

from core.errors import MasterRefused, MasterUnavailable
from netctl.commandline import (
    COMPLETION_VARIABLE,
    HELP_NAMES,
    Command,
    CommandGroup,
    Scanned,
    options_of,
    scan,
)
from netctl.connection import MasterConnection
from netctl.failure import CommandFailed
from netctl.render import text

PATIENCE: Final = 2.0
"""Seconds a shell waits for names at most, whatever keeps netmaster from answering."""

Items = list[CompletionItem[str]]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Objects that a word or a flag names: where they are listed, and which field is the name."""

    plural: str
    name: str
    within: str = ""
    """The field that must hold the word before."""


_NETWORKS = _Kind("networks", "networkName")
_GROUPS = _Kind("endpointGroups", "groupName")
_POLICIES = _Kind("policys", "policyName")
_NETPROFILES = _Kind("netprofiles", "profileName")
_CONTRACTS = _Kind("extContractsGroups", "contractsGroupName")
_TENANTS = _Kind("tenants", "tenantName")
_HOSTS = _Kind("hosts", "label")
"""Not objects of the API: they have a list of their own, and no tenant."""

_KINDS: Final[Mapping[str, _Kind]] = {
    "app-profile": _Kind("appProfiles", "appProfileName"),
    "external-contract": _CONTRACTS,
    "external-contracts": _CONTRACTS,
    "from-group": _GROUPS,
    "from-network": _NETWORKS,
    "group": _GROUPS,
    "host": _HOSTS,
    "hostname": _Kind("Bgps", "hostname"),
    "netprofile": _NETPROFILES,
    "network": _NETWORKS,
    "networkprofile": _NETPROFILES,
    "policy": _POLICIES,
    "rule id": _Kind("rules", "ruleId", within="policyName"),
    "servicename": _Kind("serviceLBs", "serviceName"),
    "tenant": _TENANTS,
    "to-group": _GROUPS,
    "to-network": _NETWORKS,
}
"""By word, and by long name of a flag."""

_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "action": ("allow", "deny"),
    "arp-mode": ("flood", "proxy"),
    "direction": ("in", "out"),
    "encap": ("vlan", "vxlan"),
    "enforce-policies": ("no", "yes"),
    "fabric-mode": ("aci", "aci-opflex", "default"),
    "fwd-mode": ("bridge", "routing"),
    "include-common-tenant": ("no", "yes"),
    "nw-type": ("data", "infra"),
    "protocol": ("icmp", "tcp", "udp"),
    "shell": ("bash", "fish", "zsh"),
}

_NAMING: Final = frozenset({"create", "rule-add"})
"""Commands whose last word names something new."""

_JOINTS: Final = frozenset({"=", ":"})
"""What bash takes words apart at, leaving a word of its own."""


class _Answers(ShellComplete):
    """Completes words by this module; which shell's is the other base's business."""

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """Return what could stand for the incomplete word."""
        whole = "" if incomplete in _JOINTS else incomplete
        return candidates(self.cli, _rejoined(args), whole)


class _Bash(_Answers, BashComplete):
    """For bash 4.4 and newer."""


class _Zsh(_Answers, ZshComplete):
    """For zsh."""


class _Fish(_Answers, FishComplete):
    """For fish."""


SHELLS: Final[Mapping[str, type[_Answers]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def script(cli: click.Command, shell: str) -> str:
    """Return the script that makes a shell of SHELLS ask this program."""
    return SHELLS[shell](cli, {}, "netctl", COMPLETION_VARIABLE).source()


def answer(cli: click.Command, instruction: str) -> int:
    """Print what a shell asked for by `bash_complete` or the like, and return the exit code."""
    shell, _, wanted = instruction.partition("_")
    if shell not in SHELLS or wanted not in {"source", "complete"}:
        return 1
    if wanted == "source":
        click.echo(script(cli, shell))
        return 0
    if "COMP_WORDS" not in os.environ:
        return 1
    click.echo(SHELLS[shell](cli, {}, "netctl", COMPLETION_VARIABLE).complete())
    return 0


def candidates(cli: click.Command, words: Sequence[str], incomplete: str) -> Items:
    """Return what could stand for the incomplete word behind the whole ones."""
    ctx, found = _place(cli, words)
    if found is None:
        return []
    if found.unfinished is not None:
        return _values(ctx, _long_name(found.unfinished), found, incomplete)
    if incomplete.startswith("-") and not found.ended:
        flag, equals, begun = incomplete.partition("=")
        option = options_of(ctx).get(flag.lstrip("-"))
        if not equals or option is None:
            return _flags(ctx, found, incomplete)
        values = _values(ctx, _long_name(option), found, begun)
        return [CompletionItem(f"{flag}={item.value}") for item in values]
    if isinstance(ctx.command, CommandGroup):
        return _commands(ctx, ctx.command, incomplete)
    return _word(ctx, found, incomplete)


def _place(cli: click.Command, words: Sequence[str]) -> tuple[click.Context, Scanned | None]:
    """Return the command that the words lead to, and what of them is its own."""
    ctx = cli.make_context("netctl", list(words), resilient_parsing=True)
    while isinstance(ctx.command, CommandGroup):
        found = scan(ctx, words, flags_anywhere=False)
        if not found.rest:
            return ctx, found
        name, *words = found.rest
        if name in HELP_NAMES:
            continue
        command = ctx.command.get_command(ctx, name)
        if command is None:
            return ctx, None
        ctx = command.make_context(name, list(words), parent=ctx, resilient_parsing=True)
    return ctx, scan(ctx, words)


def _commands(ctx: click.Context, group: CommandGroup, incomplete: str) -> Items:
    found = [(name, group.commands[name].get_short_help_str()) for name in group.list_commands(ctx)]
    return [CompletionItem(n, help=summary) for n, summary in found if n.startswith(incomplete)]


def _flags(ctx: click.Context, found: Scanned, incomplete: str) -> Items:
    given = {option.name for option, _ in found.flags if not option.multiple}
    return [
        CompletionItem(name, help=option.help)
        for option in ctx.command.get_params(ctx)
        if isinstance(option, click.Option) and option.name not in given
        for name in option.opts
        if name.startswith(incomplete)
    ]


def _word(ctx: click.Context, found: Scanned, incomplete: str) -> Items:
    words = ctx.command.words if isinstance(ctx.command, Command) else None
    place = len(found.rest)
    if not words or place >= len(words):
        return []
    if ctx.command.name in _NAMING and place == len(words) - 1:
        return []
    return _values(ctx, words[place], found, incomplete)


def _values(ctx: click.Context, name: str, found: Scanned, incomplete: str) -> Items:
    kind = _KINDS.get(name)
    known = _names(ctx, kind, found) if kind else _CHOICES.get(name, ())
    return [CompletionItem(value) for value in known if value.startswith(incomplete)]


def _names(ctx: click.Context, kind: _Kind, found: Scanned) -> Iterable[str]:
    flags = ctx.find_root().params
    master = MasterConnection(url=flags["netmaster"], insecure=flags["insecure"])
    wanted = {}
    if kind not in {_TENANTS, _HOSTS}:
        wanted["tenantName"] = ctx.params.get("tenant") or "default"
    if kind.within:
        wanted[kind.within] = found.rest[-1]
    names: list[str] = []

    def ask() -> None:
        with suppress(CommandFailed, MasterRefused, MasterUnavailable):
            client = master.client()
            found = client.hosts() if kind == _HOSTS else client.list_all(kind.plural)
            names.extend(
                text(item, kind.name)
                for item in found
                if all(item.get(field, value) == value for field, value in wanted.items())
            )

    # a thread, as nothing else bounds the resolution of a name; it ends with the program
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    # a name with blanks would reach the shell as several words
    return sorted(name for name in names if name.isprintable() and " " not in name)


def _long_name(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def _rejoined(words: Sequence[str]) -> list[str]:
    whole = list(words)
    if whole and whole[-1] in _JOINTS:
        whole.pop()
    joined: list[str] = []
    open_ended = False
    for word in whole:
        if joined and (open_ended or word in _JOINTS):
            joined[-1] += word
        else:
            joined.append(word)
        open_ended = word in _JOINTS
    return joined
