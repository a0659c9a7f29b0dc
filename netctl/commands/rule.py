"""`netctl policy rule-ls`, `rule-add` and `rule-rm`: the rules of a policy.

A flag that does not apply to the rule's direction is refused before a request, as in the original.
The server validates the values.
"""

from collections.abc import Sequence
from operator import methodcaller

import click

from netctl.commandline import Command
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.failure import HELP, CommandFailed
from netctl.render import Json, Row, indented, table, text

_RULE_REQUIRED = "Policy name and Rule ID required"

_INCOMING: tuple[Row, Row] = (
    (
        "Rule",
        "Priority",
        "From EndpointGroup",
        "From Network",
        "From IpAddress",
        "To IpAddress",
        "Protocol",
        "Port",
        "Action",
    ),
    (
        "----",
        "--------",
        "------------------",
        "------------",
        "---------",
        "------------",
        "--------",
        "----",
        "------",
    ),
)
_OUTGOING: tuple[Row, Row] = (
    (
        "Rule",
        "Priority",
        "To EndpointGroup",
        "To Network",
        "To IpAddress",
        "Protocol",
        "Port",
        "Action",
    ),
    (
        "----",
        "--------",
        "----------------",
        "----------",
        "---------",
        "--------",
        "----",
        "------",
    ),
)
_INCOMING_ENDS = ("fromEndpointGroup", "fromNetwork", "fromIpAddress", "toIpAddress")
_OUTGOING_ENDS = ("toEndpointGroup", "toNetwork", "toIpAddress")

_NOT_INCOMING = {"toEndpointGroup": "to-group", "toNetwork": "to-network"}
_NOT_OUTGOING = {
    "fromEndpointGroup": "from-group",
    "fromNetwork": "from-network",
    "fromIpAddress": "from-ip-address",
}


@click.command(
    "rule-ls",
    cls=Command,
    help="List rules for a given tenant,policy",
    words=("policy",),
    wrong_words="Policy name required",
)
@flags.tenant
@flags.as_json
@flags.quiet
@click.pass_obj
def list_rules(
    master: MasterConnection, tenant: str, policy: str, *, as_json: bool, quiet: bool
) -> None:
    """Print the rules of a policy by priority; tenant and policy must exist."""
    client = master.client()
    client.read("tenants", tenant)
    client.read("policys", f"{tenant}:{policy}")
    of_policy = [
        found
        for found in client.list_all("rules")
        if (found.get("tenantName"), found.get("policyName")) == (tenant, policy)
    ]
    rules = sorted(of_policy, key=methodcaller("get", "priority", 0))
    if as_json:
        click.echo(indented(rules), nl=False)
    elif quiet:
        click.echo("".join(f"{text(found, 'ruleId')}\n" for found in rules), nl=False)
    else:
        click.echo(_tables(rules), nl=False)


def _tables(rules: Sequence[Json]) -> str:
    incoming = [_row(found, _INCOMING_ENDS) for found in rules if found.get("direction") == "in"]
    outgoing = [_row(found, _OUTGOING_ENDS) for found in rules if found.get("direction") == "out"]
    return (
        f"Incoming Rules:\n{table([*_INCOMING, *incoming])}"
        f"Outgoing Rules:\n{table([*_OUTGOING, *outgoing])}"
    )


def _row(found: Json, ends: Sequence[str]) -> Row:
    return (
        text(found, "ruleId"),
        str(found.get("priority", 0)),
        *(text(found, end) for end in ends),
        text(found, "protocol"),
        str(found.get("port", 0)),
        text(found, "action"),
    )


@click.command(
    "rule-rm",
    cls=Command,
    help="Delete a rule from the policy",
    words=("policy", "rule id"),
    wrong_words=_RULE_REQUIRED,
)
@flags.tenant
@flags.what_if
@click.pass_obj
def remove(master: MasterConnection, tenant: str, policy: str, rule_id: str) -> None:
    """Remove a rule; prints nothing."""
    master.client().delete("rules", f"{tenant}:{policy}:{rule_id}")


@click.command(
    "rule-add",
    cls=Command,
    help="Add a new rule to the policy",
    words=("policy", "rule id"),
    wrong_words=_RULE_REQUIRED,
)
@flags.tenant
@click.option(
    "-p",
    "--priority",
    type=flags.INTEGER,
    default=1,
    show_default=True,
    help="Priority Indicator",
)
@click.option(
    "-d",
    "--direction",
    default="in",
    show_default=True,
    help="Direction of traffic (in/out)",
)
@click.option(
    "-g",
    "--from-group",
    default="",
    help="From Endpoint Group Name (Valid in incoming direction only)",
)
@click.option(
    "-e",
    "--to-group",
    default="",
    help="To Endpoint Group Name (Valid in outgoing direction only)",
)
@click.option(
    "-n",
    "--from-network",
    default="",
    help="From Network name (Valid in incoming direction only)",
)
@click.option(
    "-o",
    "--to-network",
    default="",
    help="To Network name (Valid in outgoing direction only)",
)
@click.option(
    "-i",
    "--from-ip-address",
    default="",
    help="From IP address/CIDR (Valid in incoming direction only)",
)
@click.option("-s", "--to-ip-address", default="", help="To IP address/CIDR")
@click.option("-l", "--protocol", default="", help="Protocol (e.g., tcp, udp, icmp)")
@click.option("-P", "--port", type=flags.INTEGER, default=0, show_default=True, help="Port")
@click.option(
    "-j",
    "--action",
    default="allow",
    show_default=True,
    help="Action to take (allow or deny)",
)
@flags.what_if
@click.pass_obj
def add(
    master: MasterConnection,
    *,
    tenant: str,
    policy: str,
    rule_id: str,
    priority: int,
    direction: str,
    from_group: str,
    to_group: str,
    from_network: str,
    to_network: str,
    from_ip_address: str,
    to_ip_address: str,
    protocol: str,
    port: int,
    action: str,
) -> None:
    """Add a rule; prints nothing. Fails for flags that do not apply to its direction."""
    body = {
        "tenantName": tenant,
        "policyName": policy,
        "ruleId": rule_id,
        "priority": priority,
        "direction": direction,
        "fromEndpointGroup": from_group,
        "toEndpointGroup": to_group,
        "fromNetwork": from_network,
        "toNetwork": to_network,
        "fromIpAddress": from_ip_address,
        "toIpAddress": to_ip_address,
        "protocol": protocol,
        "port": port,
        "action": action,
    }
    if error := _direction_error(body):
        raise CommandFailed(error, HELP)
    master.client().write("rules", f"{tenant}:{policy}:{rule_id}", body)


def _direction_error(rule: Json) -> str:
    """Return the error of a rule whose flags do not apply to its direction, else ""."""
    match rule["direction"]:
        case "in":
            wrong = [flag for name, flag in _NOT_INCOMING.items() if rule[name]]
            if wrong:
                return f"Cant specify {wrong[0]} for incoming rule"
            if rule["fromEndpointGroup"] and rule["fromNetwork"]:
                return "Can't specify both from-group argument and -from-network "
        case "out":
            wrong = [flag for name, flag in _NOT_OUTGOING.items() if rule[name]]
            if wrong:
                return f"Cant specify {wrong[0]} for outgoing rule"
            if rule["toEndpointGroup"] and rule["toNetwork"]:
                return "Can't specify both -to-group and -to-network"
        case _:
            return "Unknown direction"
    return ""
