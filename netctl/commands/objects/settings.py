"""The `info` command of cluster-wide objects: one labelled line per setting."""

from collections.abc import Iterable

import click

from netctl.commandline import Command
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import text


def info_command(help_text: str, plural: str, lines: Iterable[tuple[str, str]]) -> click.Command:
    """Return the command `info`, which shows the objects at `/api/v1/<plural>/`.

    `lines` are pairs of a label, with its separator, and a field's name; `--json` shows the whole
    objects.
    """
    shown = tuple(lines)

    @click.command("info", cls=Command, help=help_text)
    @flags.tenant
    @flags.all_items
    @flags.data
    @click.pass_obj
    def info(
        master: MasterConnection,
        *,
        tenant: str,  # noqa: ARG001 - ignored, as in the original
        all_items: bool,  # noqa: ARG001 - likewise
    ) -> None:
        found = master.client().list_all(plural)
        master.show_data(
            found,
            lambda: "".join(
                f"{label}{text(settings, name)}\n" for settings in found for label, name in shown
            ),
        )

    return info
