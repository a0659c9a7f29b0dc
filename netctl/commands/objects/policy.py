"""`netctl policy`: policies. `rule`, `kube_rules` and `policy_log` have the other commands."""

import click

from netctl.commandline import Command, CommandGroup, switch
from netctl.commands import flags
from netctl.commands.objects import kube_rules, policy_log, policy_suggest, rule
from netctl.commands.objects.tenancy import TenantResource
from netctl.connection import MasterConnection
from netctl.render import ListFormat, text

_NAME_REQUIRED = "Policy name required"
_RESOURCE = TenantResource(
    plural="policys",
    word="policy",
    name_required=_NAME_REQUIRED,
    list_format=ListFormat(
        header=("Tenant", "Policy"),
        rule=("------", "------"),
        name="policyName",
        row=lambda found: (text(found, "tenantName"), text(found, "policyName")),
    ),
)

policy = CommandGroup("policy", help="Policy manipulation tools")


@click.command(
    "create", cls=Command, help="Create a new policy", words=("policy",), wrong_words=_NAME_REQUIRED
)
@flags.tenant
@switch("--audit", help_text="Only record what its rules would deny")
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(master: MasterConnection, tenant: str, policy: str, *, audit: bool) -> None:
    body = {
        "tenantName": tenant,
        "policyName": policy,
        **({"enforcement": "audit"} if audit else {}),
    }
    master.create("policys", f"{tenant}:{policy}", body, f"Creating policy {tenant}:{policy}")


@click.command(
    "audit",
    cls=Command,
    help="Have a policy's rules only recorded, not enforced; --off enforces them all",
    words=("policy",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@switch("--off", help_text="Enforce all rules of the policy")
@flags.what_if
@click.pass_obj
def _audit(master: MasterConnection, tenant: str, policy: str, *, off: bool) -> None:
    key = f"{tenant}:{policy}"
    # not "": to a policy that is enforced but for single rules, that is no change
    master.client().change("policys", key, {"enforcement": "enforcing" if off else "audit"})
    if off:
        master.say(f"Enforcing {key}")
    else:
        master.say(f"{key} is under audit: see `netctl flows -v audited`, `netctl policy log`")


policy.add(_create)
policy.add(_audit)
policy.add(_RESOURCE.remover("Delete a policy", saying="Deleting policy"), "delete")
policy.add(_RESOURCE.lister("List policies"), "list")
policy.add(_RESOURCE.inspector("Inspect a policy"))
policy.add(rule.list_rules)
policy.add(rule.kube_stats)
policy.add(kube_rules.kube_rules)
policy.add(policy_log.policy_log)
policy.add(policy_suggest.suggest)
policy.add(rule.remove)
policy.add(rule.add)
