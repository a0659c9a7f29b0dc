"""`netctl wait`: until the hosts have realised an object, or time is over."""

import time
from typing import Final

import click

from daemons.waiting import waiting
from netctl.commandline import Command, misuse, switch
from netctl.commands import flags
from netctl.commands.cluster.host import POLL_INTERVAL
from netctl.connection import MasterConnection
from netctl.failure import BEHIND, CommandFailed

_PLURALS: Final = {
    "network": "networks",
    "group": "endpointGroups",
    "policy": "policys",
    "rule": "rules",
    "endpoint": "endpoints",
}
_PARTS: Final = {"rule": 2}
"""The parts of a name beside its tenant; one for the others."""
_NAMES: Final = (
    "TENANT/NAME or NAME, for a rule TENANT/POLICY/ID or POLICY/ID, for an endpoint its key"
)


@click.command(
    "wait",
    cls=Command,
    help="Wait until hosts have realised a network, group, policy, rule or endpoint",
    words=("kind", "name"),
    wrong_words=f"Kind and name required: {_NAMES}",
)
@switch("--realised", help_text="Until all hosts with an agent have applied its last change")
@click.option(
    "--timeout", type=flags.DURATION, default="30s", show_default=True, help="How long: 90s, 5m"
)
@click.pass_obj
def wait(
    master: MasterConnection,
    /,
    *,
    kind: str,
    name: str,
    realised: bool,
    timeout: float,
) -> None:
    """Print on how many hosts it is realised; exit with 5 if that is not so in time."""
    if kind not in _PLURALS:
        raise misuse(f"{kind}: it must be one of {', '.join(_PLURALS)}")
    if not realised:
        raise misuse("say what to wait for: --realised")
    key = _key(kind, name)
    client = master.client()
    end = time.monotonic() + timeout
    with waiting():
        while True:
            found = client.conditions(_PLURALS[kind], key)
            condition = found["conditions"][0]
            if condition["status"] or time.monotonic() >= end:
                break
            time.sleep(POLL_INTERVAL)
    click.echo(f"{kind} {name} is realised on {condition['hosts']} of {condition['of']} hosts")
    if found["absent"]:
        click.echo(f"not waited for, without an agent: {', '.join(found['absent'])}", err=True)
    if not condition["status"]:
        raise CommandFailed(f"host {condition['host']}: {condition['reason']}", BEHIND)


def _key(kind: str, name: str) -> str:
    """Return the key that a name of an object means."""
    if kind == "endpoint":
        return name
    parts = name.split("/")
    wanted = _PARTS.get(kind, 1)
    if len(parts) == wanted:
        parts.insert(0, "default")
    if len(parts) != wanted + 1 or not all(parts):
        raise misuse(f"{name}: a {kind} is named by {_NAMES}")
    return ":".join(parts)
