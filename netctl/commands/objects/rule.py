"""`netctl policy rule-ls`, `rule-add`, `rule-rm`, `kube-stats`: rules, and how often they applied.

A flag that does not apply to the rule's direction is refused before a request, as in the original.
The server validates the values.
"""

from collections.abc import Sequence
from operator import methodcaller
from typing import TYPE_CHECKING

import click

from netctl.commandline import Command, switch
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.failure import HELP, CommandFailed
from netctl.render import Json, ListFormat, Row, table, text

if TYPE_CHECKING:
    from contivmodel.client_sync import RestClient

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
_COUNTS: tuple[Row, Row] = (("Packets", "Bytes"), ("-------", "-----"))
_KUBERNETES = ListFormat(
    header=("Policies", "Rule", "Verdict", "Connections", "Bytes"),
    rule=("--------", "----", "-------", "-----------", "-----"),
    name="rule",
    row=lambda found: (
        text(found, "policies"),
        text(found, "rule"),
        text(found, "verdict"),
        text(found, "packets"),
        text(found, "bytes"),
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
@flags.quiet
@flags.data
@switch("--stats", help_text="Show how many packets and bytes each rule applied to, on all hosts")
@click.pass_obj
def list_rules(master: MasterConnection, tenant: str, policy: str, *, stats: bool) -> None:
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
    if stats:
        rules = _with_hits(rules, _hits(client, tenant, policy))
    names = "".join(f"{text(found, 'ruleId')}\n" for found in rules)
    master.show_data(rules, lambda: names if master.output.quiet else _tables(rules, stats=stats))


@click.command(
    "kube-stats", cls=Command, help="Show how often the policies of Kubernetes judged connections"
)
@flags.data
@flags.sort
@click.pass_obj
def kube_stats(master: MasterConnection) -> None:
    """Print the hits of Kubernetes' policies, rule by rule, on all hosts."""
    found = _hits(master.client(), "", "").get("kubernetes", [])
    master.show_list(found, _KUBERNETES)


def _hits(client: "RestClient", tenant: str, policy: str) -> Json:
    """Return the hits of rules; hosts that did not answer are named on standard error."""
    found = client.rule_hits(tenant, policy)
    for host, reason in found.get("unreachable", {}).items():
        click.echo(f"no counters of {host}: {reason}", err=True)
    return found


def _with_hits(rules: Sequence[Json], found: Json) -> list[Json]:
    hits = {one["rule"]: one for one in found.get("items", ())}
    return [
        {
            **rule,
            "stats": {
                name: hits.get(rule["key"], {}).get(name, empty)
                for name, empty in (("packets", 0), ("bytes", 0), ("hosts", {}))
            },
        }
        for rule in rules
    ]


def _tables(rules: Sequence[Json], *, stats: bool) -> str:
    return (
        f"Incoming Rules:\n{_table(rules, 'in', _INCOMING, _INCOMING_ENDS, stats=stats)}"
        f"Outgoing Rules:\n{_table(rules, 'out', _OUTGOING, _OUTGOING_ENDS, stats=stats)}"
    )


def _table(
    rules: Sequence[Json], direction: str, head: Sequence[Row], ends: Row, *, stats: bool
) -> str:
    shown = [found for found in rules if found.get("direction") == direction]
    rows = [*head, *(_row(found, ends) for found in shown)]
    if stats:
        counts = [*_COUNTS, *((_count(one, "packets"), _count(one, "bytes")) for one in shown)]
        rows = [(*row, *count) for row, count in zip(rows, counts, strict=True)]
    return table(rows)


def _count(found: Json, name: str) -> str:
    return str(found["stats"][name])


def _row(found: Json, ends: Sequence[str]) -> Row:
    return (
        text(found, "ruleId"),
        str(found.get("priority", 0)),
        *(text(found, end) for end in ends),
        text(found, "protocol"),
        str(found.get("port", 0)),
        _action(found),
    )


def _action(found: Json) -> str:
    """Return what a rule does, and that it decides nothing if it is under audit."""
    action = text(found, "action")
    return f"{action} (audit)" if found.get("audit") else action


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
@switch("--log", help_text="Record what the rule denies, and new connections that it allows")
@switch("--audit", help_text="Only record what the rule would deny")
@flags.what_if
@flags.if_absent
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
    log: bool,
    audit: bool,
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
        **({"log": True} if log else {}),
        **({"audit": True} if audit else {}),
    }
    if error := _direction_error(body):
        raise CommandFailed(error, HELP)
    master.create("rules", f"{tenant}:{policy}:{rule_id}", body)


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
