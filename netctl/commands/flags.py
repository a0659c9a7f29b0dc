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


def _on_connection(name: str) -> Callable[[click.Context, click.Parameter, object], None]:
    """Return the callback of a switch that is an attribute of the connection."""

    def switched(ctx: click.Context, _param: click.Parameter, value: object) -> None:
        if value:
            ctx.obj = replace(ctx.obj, **{name: True})

    return switched


what_if: Decorator = switch(
    "--what-if",
    help_text="Change nothing: show what would change, who could talk to whom, and flows",
    expose_value=False,
    callback=_on_connection("what_if"),
)

if_absent: Decorator = switch(
    "--if-absent",
    help_text="Succeed, and change nothing, if the same object is there already",
    expose_value=False,
    callback=_on_connection("if_absent"),
)
