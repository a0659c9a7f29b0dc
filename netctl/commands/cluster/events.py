"""`netctl events`: who changed which objects, when and from where."""

from datetime import datetime
from typing import Any, Final

import click

from netctl.commandline import Command, switch
from netctl.commands import flags
from netctl.connection import MasterConnection

SHOWN: Final = 50
_FILTERS: Final = {"kind": "kind", "tenant": "tenantName", "who": "who"}


def _lines(change: dict[str, Any], *, values: bool) -> list[str]:
    found = []
    by = f"{change['who'] or '-'} {change['address']}"
    for one in change["objects"]:
        found.append(f"{change['at']}  {by}  {one['action']} {one['kind']} {one['key']}")
        if values:
            found += [
                f"    {field['name']}: {field['before'] or '-'} -> {field['after'] or '-'}"
                for field in one["fields"]
            ]
    if change["omitted"]:
        found.append(f"    and {change['omitted']} more objects")
    return found


@click.command("events", cls=Command, help="Show who changed what, the oldest first")
@click.option("-k", "--kind", default="", help="Of objects of this class, as networks")
@click.option("-t", "--tenant", default="", help="Of objects of this tenant")
@click.option("-w", "--who", default="", help="By this user or program, as admin/joe")
@flags.last(SHOWN)
@flags.since
@switch("-f", "--fields", help_text="Show the fields that changed, before and after")
@flags.data
@click.pass_obj
def events(
    master: MasterConnection,
    /,
    *,
    last: int | None,
    since: datetime | None,
    fields: bool,
    **by: str,
) -> None:
    """Print the last changes that netmaster has recorded."""
    asked = {_FILTERS[name]: value for name, value in by.items() if value}
    found = master.client().changes(asked, flags.count(last, since, SHOWN))[::-1]
    found = flags.not_older(found, since)
    lines = (line for change in found for line in _lines(change, values=fields))
    master.show_data(found, lambda: "".join(f"{line}\n" for line in lines))
