"""The examples of the help are commands that the parser takes."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from netctl.commandline import Command, CommandGroup
from netctl.connection import MasterConnection
from netctl.examples import EXAMPLES
from netctl.main import cli
from tests.unit.netctl.master import Netctl

LINES = [line for lines in EXAMPLES.values() for line in lines]


def commands(ctx: click.Context) -> Iterator[str]:
    """Yield the paths of all commands below one, without the program."""
    if isinstance(ctx.command, CommandGroup):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            assert command is not None
            yield from commands(click.Context(command, ctx, info_name=name))
    else:
        yield ctx.command_path.partition(" ")[2]


def test_each_command_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(commands(click.Context(cli, info_name="netctl")))


@pytest.mark.parametrize("line", LINES)
def test_an_example_can_be_run(line: str) -> None:
    words = shlex.split(re.split(r" [|>] | \|\| ", line)[0])
    ctx = click.Context(cli, info_name="netctl", obj=MasterConnection(url="", insecure=False))
    while isinstance(ctx.command, CommandGroup):
        name = words.pop(0)
        command = ctx.command.get_command(ctx, name)
        assert command is not None
        ctx = command.make_context(name, list(words), parent=ctx)
    assert isinstance(ctx.command, Command)
    assert len(ctx.args) == len(ctx.command.words or ())


def test_help_has_the_examples(netctl: Netctl) -> None:
    told = netctl("net", "rm", "--help").out
    assert told.endswith(
        "\nExamples:\n  netctl network rm frontend\n  netctl network rm --what-if frontend\n"
    )
