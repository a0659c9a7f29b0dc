"""Flags of several commands, and the number type of Go's flags."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import click

from netctl.commandline import Callback, switch

Decorator = Callable[[Callback], Callback]

tenant: Decorator = click.option(
    "-t", "--tenant", default="default", show_default=True, help="Name of the tenant"
)
all_items: Decorator = switch("-a", "--all", "all_items", help_text="List all items")
as_json: Decorator = switch("-j", "--json", "as_json", help_text="Output list in JSON format")
quiet: Decorator = switch("-q", "--quiet", help_text="Only display name field")


class _Integer(click.ParamType[int]):
    """A whole number as Go reads it: decimal, `0x10`, `0o17`, `0b11`."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; fails as click's own types do."""
        try:
            return int(str(value), 0)
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)


INTEGER: Final = _Integer()


def _do_nothing(ctx: click.Context, _param: click.Parameter, value: object) -> None:
    if value:
        ctx.obj = replace(ctx.obj, what_if=True)


what_if: Decorator = switch(
    "--what-if",
    help_text="Change nothing: show what would change, who could talk to whom, and flows",
    expose_value=False,
    callback=_do_nothing,
)
