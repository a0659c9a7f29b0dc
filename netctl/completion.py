"""Shell completion: candidates for the next word of a command line.

Takes the shell's words (its script, printed by `netctl completion`, passes them in environment
variables) and prints candidates. Commands and flags come from the command tree, names of objects
from netmaster, as the tables below say. The scripts and output formats are click's; words are
parsed by `netctl.commandline`.
"""

# A completion never prints an error and never blocks: the user is typing, and any output would end
# up in the command line. An unreachable netmaster means no candidates.

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
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
from core.go_flags import Scanned
from netctl.commandline import (
    COMPLETION_VARIABLE,
    HELP_NAMES,
    Command,
    CommandGroup,
    long_name,
    options_of,
    scan,
)
from netctl.connection import MasterConnection
from netctl.failure import CommandFailed
from netctl.render import Json, pod_name, text

NAMES_TIMEOUT: Final = 2.0
"""Seconds a shell waits for names from netmaster."""

Items = list[CompletionItem[str]]


@dataclass(frozen=True, slots=True)
class _NameSource:
    """The objects that a word or flag names: their REST path and the field with the name."""

    plural: str
    name: str
    within: str = ""
    """The field that must equal the preceding word."""


_NETWORKS = _NameSource("networks", "networkName")
_GROUPS = _NameSource("endpointGroups", "groupName")
_POLICIES = _NameSource("policys", "policyName")
_NETPROFILES = _NameSource("netprofiles", "profileName")
_CONTRACTS = _NameSource("extContractsGroups", "contractsGroupName")
_TENANTS = _NameSource("tenants", "tenantName")
_HOSTS = _NameSource("hosts", "label")
"""Not REST objects: they have a list of their own and no tenant."""

_ENDPOINTS: Final = "endpoints"
"""The plural of endpoints, which are found by a query."""
_PODS: Final = _NameSource(_ENDPOINTS, "containerName")

_CANDIDATES: Final = 5000
"""Endpoints among which names are looked for."""

_NAME_SOURCES: Final[Mapping[str, _NameSource]] = {
    "app-profile": _NameSource("appProfiles", "appProfileName"),
    "dst": _PODS,
    "endpoint": _NameSource(_ENDPOINTS, "key"),
    "epid": _NameSource(_ENDPOINTS, "endpointID"),
    "external-contract": _CONTRACTS,
    "external-contracts": _CONTRACTS,
    "from-group": _GROUPS,
    "from-network": _NETWORKS,
    "group": _GROUPS,
    "host": _HOSTS,
    "hostname": _NameSource("Bgps", "hostname"),
    "netprofile": _NETPROFILES,
    "network": _NETWORKS,
    "networkprofile": _NETPROFILES,
    "policy": _POLICIES,
    "pod": _PODS,
    "rule id": _NameSource("rules", "ruleId", within="policyName"),
    "servicename": _NameSource("serviceLBs", "serviceName"),
    "src": _PODS,
    "tenant": _TENANTS,
    "to-group": _GROUPS,
    "to-network": _NETWORKS,
}
"""By positional word and by long name of a flag."""

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

_CREATING: Final = frozenset({"create", "rule-add"})
"""Commands whose last word is the name of a new object."""

_BASH_BREAKS: Final = frozenset({"=", ":"})
"""Characters at which bash splits words, as words of their own."""


class _Completer(ShellComplete):
    """Completes words with this module; the other base class formats them for a shell."""

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """Return the candidates for the incomplete word."""
        whole = "" if incomplete in _BASH_BREAKS else incomplete
        return candidates(self.cli, _rejoined(args), whole)


class _Bash(_Completer, BashComplete):
    """For bash 4.4 and newer."""


class _Zsh(_Completer, ZshComplete):
    """For zsh."""


class _Fish(_Completer, FishComplete):
    """For fish."""


SHELLS: Final[Mapping[str, type[_Completer]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def script(cli: click.Command, shell: str) -> str:
    """Return the script with which a shell of SHELLS calls this program."""
    return SHELLS[shell](cli, {}, "netctl", COMPLETION_VARIABLE).source()


def respond(cli: click.Command, instruction: str) -> int:
    """Print the answer to a request such as `bash_complete`; return the exit code."""
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


@dataclass(frozen=True, slots=True)
class _Position:
    """A place in a command line: the command, its words so far, the timeout for names."""

    ctx: click.Context
    scanned: Scanned[click.Option]
    names_timeout: float


def candidates(
    cli: click.Command,
    words: Sequence[str],
    incomplete: str,
    *,
    names_timeout: float = NAMES_TIMEOUT,
) -> Items:
    """Return the candidates for the incomplete word after the complete ones."""
    ctx, scanned = _locate(cli, words)
    if scanned is None:
        return []
    position = _Position(ctx, scanned, names_timeout)
    if scanned.unfinished is not None:
        return _values(position, long_name(scanned.unfinished).lstrip("-"), incomplete)
    if incomplete.startswith("-") and not scanned.ended:
        flag, equals, begun = incomplete.partition("=")
        option = options_of(ctx).get(flag.lstrip("-"))
        if not equals or option is None:
            return _flags(position, incomplete)
        values = _values(position, long_name(option).lstrip("-"), begun)
        return [CompletionItem(f"{flag}={item.value}") for item in values]
    if isinstance(ctx.command, CommandGroup):
        return _commands(ctx, ctx.command, incomplete)
    return _word(position, incomplete)


def _locate(
    cli: click.Command, words: Sequence[str]
) -> tuple[click.Context, Scanned[click.Option] | None]:
    """Return the command of the words, and its own words; None for an unknown command."""
    ctx = cli.make_context("netctl", list(words), resilient_parsing=True)
    while isinstance(ctx.command, CommandGroup):
        scanned = scan(ctx, words, flags_anywhere=False)
        if not scanned.rest:
            return ctx, scanned
        name, *words = scanned.rest
        if name in HELP_NAMES:
            continue
        command = ctx.command.get_command(ctx, name)
        if command is None:
            return ctx, None
        ctx = command.make_context(name, list(words), parent=ctx, resilient_parsing=True)
    return ctx, scan(ctx, words)


def _commands(ctx: click.Context, group: CommandGroup, incomplete: str) -> Items:
    found = [(name, group.summary(name)) for name in group.list_commands(ctx)]
    return [CompletionItem(n, help=summary) for n, summary in found if n.startswith(incomplete)]


def _flags(position: _Position, incomplete: str) -> Items:
    given = {option.name for option, _ in position.scanned.flags if not option.multiple}
    return [
        CompletionItem(name, help=option.help)
        for option in position.ctx.command.get_params(position.ctx)
        if isinstance(option, click.Option) and option.name not in given
        for name in option.opts
        if name.startswith(incomplete)
    ]


def _word(position: _Position, incomplete: str) -> Items:
    command = position.ctx.command
    words = command.words if isinstance(command, Command) else None
    index = len(position.scanned.rest)
    if not words or index >= len(words):
        return []
    if command.name in _CREATING and index == len(words) - 1:
        return []
    return _values(position, words[index], incomplete)


def _values(position: _Position, name: str, incomplete: str) -> Items:
    source = _NAME_SOURCES.get(name)
    known = _names(position, source) if source else _CHOICES.get(name, ())
    if source == _PODS and incomplete:  # a pod may be named without its namespace
        known = sorted({*known, *(one.rpartition("/")[2] for one in known)})
    return [CompletionItem(value) for value in known if value.startswith(incomplete)]


def _names(position: _Position, source: _NameSource) -> Iterable[str]:
    ctx = position.ctx
    flags = ctx.find_root().params
    master = MasterConnection(
        url=flags["netmaster"],
        insecure=flags["insecure"],
        tls_ca=flags["tls_ca"],
        tls_cert=flags["tls_cert"],
        tls_key=flags["tls_key"],
    )
    wanted = {}
    if source not in {_TENANTS, _HOSTS} and source.plural != _ENDPOINTS:
        wanted["tenantName"] = ctx.params.get("tenant") or "default"
    if source.within:
        wanted[source.within] = position.scanned.rest[-1]
    names: list[str] = []

    def query() -> None:
        with suppress(CommandFailed, MasterRefused, MasterUnavailable):
            client = master.client()
            found: Iterable[Json]
            if source.plural == _ENDPOINTS:
                tenant = ctx.params.get("tenant")
                found = islice(
                    client.endpoints([("tenant", tenant)] if tenant else []), _CANDIDATES
                )
            else:
                found = client.hosts() if source == _HOSTS else client.list_all(source.plural)
            names.extend(
                pod_name(item) if source == _PODS else text(item, source.name)
                for item in found
                if all(item.get(field, value) == value for field, value in wanted.items())
            )

    # A thread, because the resolution of a host name has no timeout of its own. As a daemon
    # thread it does not delay the exit of the program.
    thread = threading.Thread(target=query, daemon=True)
    thread.start()
    thread.join(position.names_timeout)
    # A name with a blank would reach the shell as several words.
    return sorted({name for name in names if name and name.isprintable() and " " not in name})


def _rejoined(words: Sequence[str]) -> list[str]:
    whole = list(words)
    if whole and whole[-1] in _BASH_BREAKS:
        whole.pop()
    joined: list[str] = []
    open_ended = False
    for word in whole:
        if joined and (open_ended or word in _BASH_BREAKS):
            joined[-1] += word
        else:
            joined.append(word)
        open_ended = word in _BASH_BREAKS
    return joined
