"""`netctl ipam`: checks and fixes address grants without a user."""

import click

from netctl.commandline import Command, CommandGroup, switch
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.failure import FINDINGS, CommandFailed
from netctl.render import Json, indented, moment, table, text

_HEADER = ("Kind", "Network", "Address", "Owner", "Since", "Fix")
_RULE = ("----", "-------", "-------", "-----", "-----", "---")

ipam = CommandGroup("ipam", help="Addresses of the cluster")


@click.command("check", cls=Command, help="List addresses that are not held by who uses them")
@switch("--fix", help_text="Mend what is certain, then list what is left")
@flags.as_json
@click.pass_obj
def _check(master: MasterConnection, *, fix: bool, as_json: bool) -> None:
    """Exit with 1 if there are findings, with `--fix` if findings remain."""
    client = master.client()
    answer = client.fix_ipam() if fix else client.check_ipam()
    if as_json:
        click.echo(indented(answer), nl=False)
    else:
        for fixed in answer.get("fixed", ()):
            click.echo(f"Fixed: {' '.join(_row(fixed)[:4])}: {text(fixed, 'remedy')}")
        if found := answer.get("findings", ()):
            click.echo(table([_HEADER, _RULE, *map(_row, found)]), nl=False)
    if answer.get("findings"):
        raise CommandFailed("", FINDINGS)


def _row(found: Json) -> tuple[str, ...]:
    return (
        *(text(found, name) for name in ("kind", "network", "address", "owner")),
        moment(found, "since"),
        text(found, "remedy"),
    )


ipam.add(_check)
