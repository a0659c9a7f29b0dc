"""Flags of several commands, and the number type of Go's flags."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from netctl.commandline import PERIOD, Callback, switch
from netctl.output import FORMS, form_of
from netctl.render import Json

WATCH_PERIOD: Final = 2.0
"""Seconds between two looks of `--watch`."""

MOST: Final = 5000
"""Records that netmaster answers at most."""

Decorator = Callable[[Callback], Callback]

tenant: Decorator = click.option(
    "-t", "--tenant", default="default", show_default=True, help="Name of the tenant"
)
exclude: Decorator = click.option(
    "--exclude",
    multiple=True,
    help="Addresses to give to nobody: A.B.C.D, a range A.B.C.D-A.B.C.E or a block A.B.C.D/len, or "
    "the same of IPv6; may be given several times",
)
all_items: Decorator = switch("-a", "--all", "all_items", help_text="List all items")


def _output(change: Callable[[str], dict[str, Any]]) -> Callable[..., None]:
    """Return the callback of a flag about the output: its value becomes changes of `Output`."""

    def given(ctx: click.Context, _param: click.Parameter, value: object) -> None:
        if value and not ctx.resilient_parsing:
            changed = replace(ctx.obj.output, **change(str(value)))
            ctx.obj = replace(ctx.obj, output=changed)

    return given


as_json: Decorator = switch(
    "-j",
    "--json",
    "as_json",
    help_text="Output list in JSON format",
    expose_value=False,
    callback=_output(lambda _: {"form": "json"}),
)
quiet: Decorator = switch(
    "-q",
    "--quiet",
    help_text="Only display name field",
    expose_value=False,
    callback=_output(lambda _: {"quiet": True}),
)
form: Decorator = click.option(
    "-o",
    "--output",
    default="",
    expose_value=False,
    callback=_output(lambda given: {"form": form_of(given)}),
    help=f"Format: {', '.join(FORMS)}",
)
sort: Decorator = click.option(
    "--sort",
    default="",
    expose_value=False,
    callback=_output(lambda given: {"sort": given}),
    help="Sort by this column or field, with - before it from the end",
)


def _watch(ctx: click.Context, _param: click.Parameter, value: object) -> None:
    if value:
        ctx.meta[PERIOD] = WATCH_PERIOD


watch: Decorator = switch(
    "--watch",
    help_text=f"Look again every {WATCH_PERIOD:.0f} s and print what changed, until interrupted",
    expose_value=False,
    callback=_watch,
)


def listing(command: Callback) -> Callback:
    """Add the flags of a list: -j, -q, -o, --sort and --watch."""
    return as_json(quiet(form(sort(watch(command)))))


def inspection(command: Callback) -> Callback:
    """Add the flags of the inspection of one object: -o and --watch."""
    return form(watch(command))


def data(command: Callback) -> Callback:
    """Add the flags of what is not a list of objects: -j and -o."""
    return as_json(form(command))


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


class _Moment(click.ParamType[datetime]):
    """A time: so long ago (`90s`, `5m`, `2h`, `3d`), or a date or time as ISO 8601 has it."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the time with a zone, by default this machine's; fails as click's own types do."""
        given = str(value)
        try:
            if ago := _AGO.fullmatch(given):
                return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
            return datetime.fromisoformat(given).astimezone()
        except (ValueError, OverflowError):
            self.fail(
                f"{given!r} is neither a time, as 2026-11-26T09:30Z, nor 90s, 5m, 2h, 3d",
                param,
                ctx,
            )


class _Duration(click.ParamType[float]):
    """A length of time: `90s`, `5m`, `2h`, `3d`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds; fails as click's own types do."""
        if isinstance(value, float):
            return value
        found = _AGO.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no length of time, as 90s, 5m, 2h, 3d", param, ctx)
        return float(int(found[1]) * _SECONDS[found[2]])


DURATION: Final = _Duration()

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGO: Final = re.compile(r"([0-9]{1,9})([smhd])")

since: Decorator = click.option(
    "--since", type=_Moment(), help="Not older: 90s, 5m, 2h, 3d ago, or a date or time"
)


def last(shown: int) -> Decorator:
    """Return the flag for the number of records; `count` reads it."""
    return click.option(
        "-n", "--last", type=INTEGER, help=f"The last so many (default: {shown}; all with --since)"
    )


def count(last: int | None, since: datetime | None, shown: int) -> int:
    """Return how many records to ask for."""
    if last is not None:
        return last
    return shown if since is None else MOST


def not_older(records: Iterable[Json], since: datetime | None) -> list[Json]:
    """Return the records whose `at` is not before a time."""
    return [one for one in records if since is None or datetime.fromisoformat(one["at"]) >= since]


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
