"""`netctl policy suggest`: rules that allow the connections that were seen, and deny all else."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from core.errors import MasterRefused
from netctl.commandline import Command, switch
from netctl.commands import flags
from netctl.commands.diagnostics.flows import missing
from netctl.connection import MasterConnection
from netctl.failure import HELP, REQUEST, CommandFailed
from netctl.render import Json, indented
from netctl.what_if import shift

if TYPE_CHECKING:
    from contivmodel.client_sync import RestClient

WHAT_IF: Final = "what-if"
FORMS: Final = (WHAT_IF, "json", "networkpolicy")
_OBJECTS: Final = ("policys", "rules", "endpointGroups")
_ENDS: Final = ("EndpointGroup", "Network", "IpAddress")


@click.command(
    "suggest",
    cls=Command,
    help="Print rules that allow the connections that were seen and deny all else",
)
@flags.tenant
@click.option(
    "-g", "--group", "groups", multiple=True, help="Only for this group; may be given several times"
)
@switch("--dropped", help_text="Allow what policies dropped, too")
@switch("--audit", help_text="With -o json or --apply: policies that only record what they deny")
@switch("--apply", help_text="Make the policies and rules, and give the policies to their groups")
@flags.since
@click.option(
    "-o",
    "--output",
    "form",
    default=WHAT_IF,
    show_default=True,
    help="what-if: the rules and what they change; json: objects to post; networkpolicy: YAML",
)
@click.pass_obj
def suggest(
    master: MasterConnection,
    /,
    *,
    tenant: str,
    groups: tuple[str, ...],
    dropped: bool,
    audit: bool,
    apply: bool,
    since: datetime | None,
    form: str,
) -> None:
    """Print a suggestion; what it was made without, and what is wider, on stderr."""
    if form not in FORMS:
        raise CommandFailed(f"-o {form}: it must be one of {', '.join(FORMS)}", HELP)
    asked = {"tenant": tenant, "groups": ",".join(groups)}
    if dropped:
        asked["dropped"] = "true"
    if since is not None:
        asked["since"] = since.isoformat()
    if apply and form != WHAT_IF:
        raise CommandFailed("--apply prints what it makes, and has no -o", HELP)
    if audit and form != "json" and not apply:
        raise CommandFailed("--audit is for -o json and --apply", HELP)
    found = master.client().policy_suggestion(asked)
    if audit:
        found["policys"] = [{**one, "enforcement": "audit"} for one in found["policys"]]
    for line in [*missing(found), *_unknown(found), *_beside(found, form)]:
        click.echo(line, err=True)
    if apply:
        _apply(master, found)
    else:
        click.echo(_text(found, form), nl=False)


def _apply(master: MasterConnection, found: Json) -> None:
    """Make what is suggested; the groups come last, so that no policy holds in part."""
    client = master.client()
    made: list[str] = []
    try:
        for one in found["policys"]:
            _create_policy(client, one)
            made.append(one["key"])
        for one in found["rules"]:
            client.write("rules", one["key"], one)
    except (CommandFailed, MasterRefused):
        for key in made:
            client.delete("policys", key)
        raise
    for one in found["endpointGroups"]:
        client.change("endpointGroups", one["key"], {"policies": one["policies"]})
        policies = ", ".join(one["policies"])
        click.echo(f"Group {one['key']} has policy {policies} now")


def _create_policy(client: "RestClient", one: Json) -> None:
    if client.create_if_absent("policys", one["key"], one) is not None:
        raise CommandFailed(f"policy {one['key']} exists already: remove it first", REQUEST)


def _text(found: Json, form: str) -> str:
    if form == "json":
        return indented({name: found[name] for name in _OBJECTS})
    if form == "networkpolicy":
        import yaml  # noqa: PLC0415 - takes longer to import than most commands to run

        policies = found["networkPolicies"]
        return str(yaml.safe_dump_all(policies, sort_keys=False)) if policies else ""
    return "".join(f"{line}\n" for line in _what_if(found))


def _unknown(found: Json) -> Iterator[str]:
    """Yield what the suggestion does not know of."""
    for host, since in found["since"].items():
        yield f"host {host} has no records from before {since}"
    if not found["complete"]:
        yield "not all connections are allowed: a host had too many kinds of them, ask for fewer"
    if found["dropped"]:
        yield (
            f"{found['dropped']} connections were dropped by policies and are not allowed "
            "(--dropped allows them)"
        )
    if found["leftOut"]:
        yield (
            f"{found['leftOut']} connections are not allowed: their group or network is gone, or "
            "rules cannot name their protocol"
        )


def _beside(found: Json, form: str) -> Iterator[str]:
    """Yield what rules allow beside what was seen, or NetworkPolicies do not allow of it."""
    if form == "networkpolicy":
        yield from (f"NetworkPolicies would deny {one}" for one in found["unsaid"])
        return
    yield from (f"wider than seen: {one}" for one in found["wider"])
    if found["unseen"]:
        yield f"no connections were seen of groups: {', '.join(found['unseen'])}"


def _what_if(found: Json) -> Iterator[str]:
    yield f"{found['connections']} connections were seen. Nothing was changed."
    for group in found["endpointGroups"]:
        instead = f" instead of {', '.join(group['replaces'])}" if group["replaces"] else ""
        yield f"Group {group['key']} would get policy {', '.join(group['policies'])}{instead}:"
        yield from (
            f"  {_rule(one)}" for one in found["rules"] if one["policyName"] in group["policies"]
        )
    reach = found["reach"]
    for becomes in ("denied", "allowed"):
        lines = [f"  {shift(one)}" for one in reach["changes"] if one["becomes"] == becomes]
        yield f"Would newly be {becomes}:" if lines else f"Nothing would newly be {becomes}."
        yield from lines
    if not reach["complete"]:
        yield "These lists are incomplete: too much traffic would change."


def _rule(one: Json) -> str:
    inward = one["direction"] == "in"
    far = next(
        (
            f"{kind} {one[field]}"
            for kind, end in zip(("group", "network", "address"), _ENDS, strict=True)
            if one[field := f"{'from' if inward else 'to'}{end}"]
        ),
        "any",
    )
    traffic = f"{one['protocol']}/{one['port']}" if one["port"] else one["protocol"] or "all"
    word = "from" if inward else "to"
    return f"{one['ruleId']}: {one['action']} {one['direction']} {traffic} {word} {far}"
