"""The command reference of `docs/netctl.md`, made from the command tree.

`python -m tests.unit.netctl.reference` rewrites it; `test_reference` compares.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from netctl.commandline import Command, CommandGroup, is_switch
from netctl.main import cli

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "netctl.md"
BEGIN: Final = "<!-- begin: made by tests/unit/netctl/reference.py -->\n"
END: Final = "<!-- end -->\n"


def reference() -> str:
    """Return a section a command, in the order of the help."""
    root = cli.make_context("netctl", [], resilient_parsing=True)
    usage = "* `netctl [flags] <command>`: flags that stand before the command\n"
    sections = [usage, *_flags(root)]
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        sections += _sections(click.Context(command, parent=root, info_name=name), cli)
    return "".join(sections)


def with_reference(text: str) -> str:
    """Return a document with the reference between its two marks."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


def _sections(ctx: click.Context, parent: CommandGroup) -> Iterator[str]:
    command = ctx.command
    called = f"`{ctx.info_name}`" + "".join(f", `{a}`" for a in parent.aliases(str(command.name)))
    yield f"\n### {called}\n\n"
    if not isinstance(command, CommandGroup):
        yield from _usage(ctx, parent)
        return
    yield f"{_cell(command.help or '')}\n\n"
    for name in command.list_commands(ctx):
        yield from _usage(click.Context(command.commands[name], ctx, info_name=name), command)


def _usage(ctx: click.Context, parent: CommandGroup) -> Iterator[str]:
    command = ctx.command
    words = (command.words if isinstance(command, Command) else None) or ()
    usage = " ".join([ctx.command_path, *(f"<{word}>" for word in words)])
    aliases = "".join(f", `{alias}`" for alias in parent.aliases(str(command.name)))
    yield f"* `{usage}`{aliases}: {_cell(command.help or '')}\n"
    yield from _flags(ctx)


def _flags(ctx: click.Context) -> Iterator[str]:
    for option in ctx.command.get_params(ctx):
        if isinstance(option, click.Option) and "--help" not in option.opts:
            yield f"  * {', '.join(f'`{name}`' for name in option.opts)}: {_about(option)}\n"


def _about(option: click.Option) -> str:
    notes = []
    if option.envvar:
        notes.append(f"variable `{option.envvar}`")
    if option.show_default and not is_switch(option):
        notes.append(f"default `{option.default}`")
    text = _cell(option.help or "")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _cell(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    DOCUMENT.write_text(with_reference(DOCUMENT.read_text()))
