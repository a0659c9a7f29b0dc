"""The command `netmaster store-acl`: what each daemon may do in the store, as its commands.

In come the hosts and their addresses; out come commands of `etcdctl`, or of `consul` with their
policies, which an administrator of the store runs. A master may do everything under the cluster's
prefix. An agent may write the record and the registrations of its own host, and read what it
follows (`state.watch`), which excludes the accounts of users.
"""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from core import keys
from core.errors import UsageError
from core.ids import HostLabel
from state.watch import AGENT_PREFIXES

MASTER: Final = "contiv-master"
AGENT_READS: Final = tuple(
    sorted({
        *AGENT_PREFIXES,
        keys.ROOT + "master/",  # the schema beside the cluster's settings
        keys.LOCKS,
        keys.SERVICES,
    })
)  # fmt: skip
"""The prefixes that an agent reads."""
_AGENT_SERVICES: Final = (
    keys.SERVICE_NETPLUGIN,
    keys.SERVICE_VTEP,
    keys.SERVICE_AGENT_REST,
)
_USAGE: Final = (
    "Incorrect Usage. netmaster store-acl etcd|consul --host LABEL=ADDRESS[,ADDRESS] ...: each "
    "host with the addresses in its agent's --ctrl-ip, --vtep-ip and --rest-address"
)


@dataclass(frozen=True, slots=True)
class AgentHost:
    """A host and the addresses that its agent registers."""

    label: str
    addresses: tuple[str, ...]

    @property
    def user(self) -> str:
        """The name of its user, role and policy."""
        return f"contiv-agent-{self.label}"


def run(arguments: Sequence[str]) -> None:
    """Print the commands for a store. Raises UsageError."""
    if not arguments or arguments[0] not in {"etcd", "consul"}:
        raise UsageError(_USAGE)
    hosts = list(_hosts(arguments[1:]))
    if arguments[0] == "etcd":
        lines = [shlex.join(command) for command in etcd_commands(hosts)]
        lines.append("# with root as a user that has the role root: etcdctl auth enable")
    else:
        lines = list(_consul_lines(hosts))
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def etcd_commands(hosts: Sequence[AgentHost]) -> Iterator[list[str]]:
    """Return the commands that make users and roles; `user add` asks for the password."""
    yield from _etcd_user(MASTER, [("readwrite", keys.ROOT)])
    for host in hosts:
        grants = [("read", prefix) for prefix in AGENT_READS]
        own = [("readwrite", key) for key in _own_keys(host)]
        yield from _etcd_user(host.user, [*grants, *own])


def consul_policies(hosts: Sequence[AgentHost]) -> dict[str, str]:
    """Return the rules of each policy by its name."""
    agents = {host.user: _consul_rules(AGENT_READS, _own_keys(host)) for host in hosts}
    return {MASTER: _consul_rules((), [keys.ROOT]), **agents}


def _own_keys(host: AgentHost) -> Iterator[str]:
    """Return the keys and prefixes that an agent writes; prefixes end with "/" or ":"."""
    yield keys.host(HostLabel(host.label))
    for address in host.addresses:
        for service in _AGENT_SERVICES:
            # Up to the colon: ports may be any free ones, and 192.0.2.1 is not 192.0.2.11.
            yield f"{keys.services(service)}{address}:"


def _etcd_user(name: str, grants: Sequence[tuple[str, str]]) -> Iterator[list[str]]:
    yield ["etcdctl", "role", "add", name]
    for permission, key in grants:
        prefix = ["--prefix=true"] if _is_prefix(key) else []
        yield ["etcdctl", "role", "grant-permission", name, *prefix, permission, key]
    yield ["etcdctl", "user", "add", name]
    yield ["etcdctl", "user", "grant-role", name, name]


def _consul_rules(reads: Sequence[str], writes: Sequence[str] | Iterator[str]) -> str:
    rules = [
        *(_consul_rule(key, "read") for key in reads),
        *(_consul_rule(key, "write") for key in writes),
        'session_prefix "" { policy = "write" }',
        'node_prefix "" { policy = "read" }',
        'service "contiv-lease" { policy = "write" }',
    ]
    return "".join(f"{rule}\n" for rule in rules)


def _consul_rule(key: str, policy: str) -> str:
    kind = "key_prefix" if _is_prefix(key) else "key"
    # Consul's keys have no slash in front.
    return f'{kind} {json.dumps(key.removeprefix("/"))} {{ policy = "{policy}" }}'


def _consul_lines(hosts: Sequence[AgentHost]) -> Iterator[str]:
    for name, rules in consul_policies(hosts).items():
        create = ["consul", "acl", "policy", "create", "-name", name, "-rules", "-"]
        yield f"{shlex.join(create)} <<'END'\n{rules}END"
        yield shlex.join(["consul", "acl", "token", "create", "-policy-name", name])


def _is_prefix(key: str) -> bool:
    return key.endswith(("/", ":"))


def _hosts(words: Sequence[str]) -> Iterator[AgentHost]:
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag.lstrip("-") != "host":
            raise UsageError(_USAGE)
        label, _, addresses = (value if equals else next(rest, "")).partition("=")
        named = tuple(filter(None, addresses.split(",")))
        if not label or not named or "/" in label or _is_prefix(label):
            raise UsageError(_USAGE)
        yield AgentHost(label, named)
