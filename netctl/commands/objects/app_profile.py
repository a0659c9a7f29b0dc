"""`netctl app-profile`: the groups of an application."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.commands.objects.tenancy import TenantResource
from netctl.connection import MasterConnection
from netctl.render import Json, ListFormat, text

_NAME_REQUIRED = "Profile name required"
_RESOURCE = TenantResource(
    plural="appProfiles",
    word="app-profile",
    name_required=_NAME_REQUIRED,
    list_format=ListFormat(
        header=("Tenant", "AppProfile", "Groups"),
        rule=("------", "----------", "------"),
        name="appProfileName",
        row=lambda found: (
            text(found, "tenantName"),
            text(found, "appProfileName"),
            text(found, "endpointGroups"),
        ),
    ),
)
_groups = click.option(
    "-g", "--group", default="", help="Endpoint Group List (separated by commas)"
)

app_profile = CommandGroup("app-profile", help="Application Profile manipulation tools")


def _body(tenant: str, name: str, groups: str) -> Json:
    return {
        "tenantName": tenant,
        "appProfileName": name,
        "endpointGroups": groups.split(",") if groups else [],
    }


@click.command(
    "create",
    cls=Command,
    help="Create an application profile",
    words=("app-profile",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@_groups
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(master: MasterConnection, tenant: str, app_profile: str, group: str) -> None:
    key = f"{tenant}:{app_profile}"
    master.create(
        "appProfiles", key, _body(tenant, app_profile, group), f"Creating AppProfile {key}"
    )


@click.command(
    "update",
    cls=Command,
    help="Update an application profile",
    words=("app-profile",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@_groups
@flags.what_if
@click.pass_obj
def _update(master: MasterConnection, tenant: str, app_profile: str, group: str) -> None:
    client = master.client()
    key = f"{tenant}:{app_profile}"
    # A write alone would create a missing profile.
    client.read("appProfiles", key)
    client.write("appProfiles", key, _body(tenant, app_profile, group))


@click.command(
    "group-ls",
    cls=Command,
    help="List groups in an app-profile",
    words=("app-profile",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@flags.all_items
@flags.quiet
@flags.data
@click.pass_obj
def _list_groups(
    master: MasterConnection,
    tenant: str,
    app_profile: str,
    *,
    all_items: bool,  # noqa: ARG001 - ignored, as in the original, and so is --quiet
) -> None:
    found = master.client().read("appProfiles", f"{tenant}:{app_profile}")
    master.show_data(found, lambda: text(found, "endpointGroups"))


app_profile.add(_create)
app_profile.add(_update)
app_profile.add(_RESOURCE.remover("Delete an application profile"), "delete")
app_profile.add(_RESOURCE.lister("List Application Profiles"), "list")
app_profile.add(_list_groups, "group-list")
