"""`netctl ipam`: checks and fixes address grants without a user, and what is kept for pods."""

import click

from netctl.commandline import Command, CommandGroup, switch
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.failure import FINDINGS, CommandFailed
from netctl.render import Json, moment, table, text

_HEADER = ("Kind", "Network", "Address", "Owner", "Since", "Fix")
_RULE = ("----", "-------", "-------", "-----", "-----", "---")

ipam = CommandGroup("ipam", help="Addresses of the cluster")


@click.command("check", cls=Command, help="List addresses that are not held by who uses them")
@switch("--fix", help_text="Mend what is certain, then list what is left")
@flags.data
@click.pass_obj
def _check(master: MasterConnection, *, fix: bool) -> None:
    """Exit with 1 if there are findings, with `--fix` if findings remain."""
    client = master.client()
    answer = client.fix_ipam() if fix else client.check_ipam()
    master.show_data(answer, lambda: _shown(answer))
    if answer.get("findings"):
        raise CommandFailed("", FINDINGS)


def _shown(answer: Json) -> str:
    fixed = [
        f"Fixed: {' '.join(_row(one)[:4])}: {text(one, 'remedy')}\n"
        for one in answer.get("fixed", ())
    ]
    found = answer.get("findings", ())
    return "".join(fixed) + (table([_HEADER, _RULE, *map(_row, found)]) if found else "")


def _row(found: Json) -> tuple[str, ...]:
    return (
        *(text(found, name) for name in ("kind", "network", "address", "owner")),
        moment(found, "since"),
        text(found, "remedy"),
    )


@click.command("kept", cls=Command, help="List the addresses that are kept for pods by name")
@flags.tenant
@flags.all_items
@flags.data
@click.pass_obj
def _kept(master: MasterConnection, tenant: str, *, all_items: bool) -> None:
    asked = {} if all_items else {"tenantName": tenant}
    found = list(master.client().kept_addresses(asked))
    head = [
        ("Tenant", "Network", "Kept for", "IP address", "IPv6 address", "Host"),
        ("------", "-------", "--------", "----------", "------------", "----"),
    ]
    names = ("tenantName", "networkName", "name", "ipAddress", "ipv6Address", "host")
    rows = [tuple(text(one, name) for name in names) for one in found]
    master.show_data(found, lambda: table([*head, *rows]))


@click.command(
    "release",
    cls=Command,
    help="Release the addresses that are kept for a pod that is away; NAME is NAMESPACE/POD",
    words=("network", "name"),
    wrong_words="Network and name required",
)
@flags.tenant
@click.pass_obj
def _release(master: MasterConnection, tenant: str, network: str, name: str) -> None:
    master.client().release_kept(f"{tenant}:{network}:{name.replace('/', ':', 1)}")
    master.say(f"Released what was kept for {name}")


ipam.add(_check)
ipam.add(_kept)
ipam.add(_release)
