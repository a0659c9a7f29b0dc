"""`netctl policy kube-rules`: what Kubernetes' policies and services say of pods, on all hosts."""

from collections.abc import Sequence
from typing import Final

import click

from netctl.commandline import Command
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import Json, ListFormat, text

_RULES: Final = ListFormat(
    header=("Direction", "Policies", "Action", "Rule", "Packets", "Pods"),
    rule=("---------", "--------", "------", "----", "-------", "----"),
    name="rule",
    row=lambda found: (
        text(found, "direction"),
        ", ".join(found.get("policies", ())),
        text(found, "action"),
        text(found, "rule"),
        text(found, "packets"),
        _pods(found),
    ),
)
_SERVICES: Final = ListFormat(
    header=("Service", "Addresses", "Ports", "Pods"),
    rule=("-------", "---------", "-----", "----"),
    name="service",
    row=lambda found: (
        text(found, "service"),
        text(found, "addresses"),
        ", ".join(found.get("ports", ())),
        _pods(found),
    ),
)


@click.command(
    "kube-rules",
    cls=Command,
    help="Show what policies and services of Kubernetes say of pods, in the order of asking",
)
@click.option("-n", "--namespace", default="", help="Of pods of this namespace")
@click.option("-p", "--pod", default="", help="Of pods of this name")
@flags.data
@click.pass_obj
def kube_rules(master: MasterConnection, namespace: str, pod: str) -> None:
    """Print the rules that judge pods, and the services that lead to them."""
    found = master.client().kubernetes_rules(namespace, pod)
    for host, reason in found.get("unreachable", {}).items():
        click.echo(f"no rules or counters of {host}: {reason}", err=True)
    if not found.get("complete", True):
        click.echo("not all is shown: give --namespace or --pod", err=True)
    rules, services = found.get("items", []), found.get("services", [])
    shown = {"items": rules, "services": services}
    master.show_data(shown, lambda: _tables(rules, services))


def _tables(rules: Sequence[Json], services: Sequence[Json]) -> str:
    judged = (
        _RULES.rows(rules, wide=False)
        if rules
        else "No policy of Kubernetes is about these pods: it allows them everything.\n"
    )
    return f"{judged}\n{_SERVICES.rows(services, wide=False)}" if services else judged


def _pods(found: Json) -> str:
    names = found.get("pods", [])
    more = found.get("podCount", len(names)) - len(names)
    return ", ".join([*names, *([f"{more} more"] if more > 0 else [])])
