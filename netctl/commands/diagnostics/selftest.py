"""`netctl selftest`: whether every host reaches every other, and all is in place."""

from typing import Final

import click

from netctl.colours import told
from netctl.commandline import Command
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.failure import FINDINGS, CommandFailed
from netctl.render import Json, table

_KINDS: Final = ("agent", "ready", "flows", "tunnels", "services", "names", "applied")
_UNSEEN: Final = (
    "Not tested: what rules and policies drop, loss below 5 %, pods' own firewalls and programs, "
    "VLANs between hosts.\n"
)
"""docs/operations.md says more of it."""
_HEAD: Final = ("Host", *(kind.capitalize() for kind in _KINDS))


@click.command(
    "selftest",
    cls=Command,
    help="Test all hosts: tunnels and their MTU, flows, services, names; exit 1 if anything fails",
)
@flags.data
@click.pass_obj
def selftest(master: MasterConnection) -> None:
    """Print a table of hosts and kinds of checks, and then what failed and why."""
    found = master.client().self_test()
    master.show_data(found, lambda: _shown(found))
    if not found.get("passed"):
        raise CommandFailed("", FINDINGS)


def _shown(found: Json) -> str:
    hosts = found.get("hosts", [])
    rows = [(host["host"], *(_cell(host["checks"].get(kind)) for kind in _KINDS)) for host in hosts]
    failures = [
        told(f"{host['host']}: {kind}: {name}: {why}", well=False) + "\n"
        for host in hosts
        for kind, check in host["checks"].items()
        for name, why in check["failed"].items()
    ]
    rule = tuple("-" * len(column) for column in _HEAD)
    return table([_HEAD, rule, *rows]) + "".join(failures) + _UNSEEN


def _cell(check: Json | None) -> str:
    """Return how many checks of a kind passed, of how many; "-" for none."""
    if check is None:
        return "-"
    passed, failed = check["passed"], len(check["failed"])
    return f"{passed}/{passed + failed}" if passed or failed else "-"
