"""A command line imports what it needs, and lists commands by their own help texts."""

import click
import pytest

from netctl.main import cli


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_the_list_of_commands_has_the_help_of_each(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert cli.summary(name, 1000) == command.get_short_help_str(1000)
