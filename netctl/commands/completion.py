"""`netctl completion`: the completion script of a shell."""

import click

from netctl.commandline import Command, misuse

_SHELL_REQUIRED = "Shell required: bash, zsh or fish"


@click.command(
    cls=Command,
    help="Print the script that completes netctl's words in bash, zsh or fish",
    words=("shell",),
    wrong_words=_SHELL_REQUIRED,
)
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script, which the shell reads at its start."""
    from netctl.completion import SHELLS, script  # noqa: PLC0415 - no other command needs it

    if shell not in SHELLS:
        raise misuse(_SHELL_REQUIRED)
    click.echo(script(ctx.find_root().command, shell))
