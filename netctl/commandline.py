"""click with the command line syntax of the original, which is that of Go's `flag` package.

The syntax is in `core.go_flags`. This module knows no command.
"""

# Scripts written for the original must keep working, and click cannot parse its syntax: click reads
# `-tag` as `-t ag`. So the words are first rewritten to the one form that both agree on
# (`--name=value`, then `--`, then the positional words). click does the rest: types, defaults,
# environment, help. The same scan serves completion, where unfinished words are no error.

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import click

from core import go_flags
from core.go_flags import Scanned, Takes
from netctl.failure import HELP, CommandFailed

HELP_NAMES: Final = frozenset({"help", "h"})
"""Words that show a group's help in place of a command's name."""

COMPLETION_VARIABLE: Final = "_NETCTL_COMPLETE"
"""The environment variable of a completion request, such as `bash_complete`."""

PERIOD: Final = "netctl.period"
"""In a context's `meta`: the seconds after which its command is run again."""

_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}

_GUESSED_LENGTH: Final = 3
"""Characters from which on a name can be recognised in a slip."""

_SUMMARY: Final = 45
"""Characters of a command's summary in a completion, as in click."""

Callback = Callable[..., None]


def switch(*names: str, help_text: str, **attributes: Any) -> Callable[[Callback], Callback]:
    """Declare a boolean flag with an optional value: `-q`, `--quiet=false`."""
    # click's own boolean flags take no value, so they cannot be set to false.
    return click.option(
        *names, type=click.BOOL, default=False, metavar="", help=help_text, **attributes
    )


class UnknownWord(click.UsageError):
    """A command or flag that does not exist; `guesses` are those that may have been meant."""

    def __init__(self, kind: str, word: str, known: Iterable[str], ctx: click.Context) -> None:
        self.kind = kind
        """"command" or "flag"."""
        self.word = word
        self.guesses = _near(word, known)
        meant = f": did you mean {' or '.join(map(repr, self.guesses))}?" if self.guesses else ""
        super().__init__(f"{kind} {word!r} of {ctx.command_path} does not exist{meant}", ctx)


def _near(word: str, known: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - for slips alone

    bare = {name.lstrip("-"): name for name in known if len(name.lstrip("-")) >= _GUESSED_LENGTH}
    slip = word.lstrip("-").partition("=")[0]
    return [bare[name] for name in get_close_matches(slip, bare, n=2)]


def scan(
    ctx: click.Context, words: Sequence[str], *, flags_anywhere: bool = True
) -> Scanned[click.Option]:
    """Separate a command's words (`core.go_flags.scan`); never fails."""
    return go_flags.scan(words, options_of(ctx), _takes, flags_anywhere=flags_anywhere)


def _takes(option: click.Option) -> Takes:
    return Takes.NOTHING if is_switch(option) else Takes.VALUE


def options_of(ctx: click.Context) -> dict[str, click.Option]:
    """Return the flags of a command by name and alias, without dashes."""
    return {
        name.lstrip("-"): param
        for param in ctx.command.get_params(ctx)
        if isinstance(param, click.Option)
        for name in param.opts
    }


def canonical(
    ctx: click.Context, words: Sequence[str], *, flags_anywhere: bool = True
) -> list[str]:
    """Return a command's words in click's form: `--name=value` flags, then `--`, then the rest.

    Raises UnknownWord for unknown and click.UsageError for unfinished flags; during completion they
    are left out.
    """
    found = scan(ctx, words, flags_anywhere=flags_anywhere)
    if not ctx.resilient_parsing:
        if found.unknown:
            known = sorted({long_name(option) for option in options_of(ctx).values()})
            raise UnknownWord("flag", found.unknown, known, ctx)
        if found.unfinished is not None:
            name = long_name(found.unfinished)
            raise click.BadOptionUsage(name, f"flag needs an argument: {name}", ctx=ctx)
    flags = (
        long_name(option) if option.is_flag else f"{long_name(option)}={value}"
        for option, value in found.flags
    )
    return [*flags, "--", *found.rest]


def is_switch(option: click.Option) -> bool:
    """Return whether a flag can be given without a value."""
    return option.is_flag or option.type is click.BOOL


def misuse(message: str) -> CommandFailed:
    """Return the failure for a wrong call of the running command: message and help."""
    return CommandFailed(message, HELP, help_text=click.get_current_context().get_help())


def long_name(option: click.Option) -> str:
    """Return the longest name of a flag, with its dashes."""
    return max(option.opts, key=len)


class Command(click.Command):
    """A command with named positional words; with `None`, any number of them is ignored.

    A wrong number or an empty word fails with `wrong_words` and the command's help.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        words: tuple[str, ...] | None = (),
        wrong_words: str = "More arguments than required",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, context_settings={**_CONTEXT, "allow_extra_args": True}, **kwargs)
        self.words = words
        self.wrong_words = wrong_words

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the flags; the positional words stay in `ctx.args`."""
        return super().parse_args(ctx, canonical(ctx, args))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with its flags and words as keyword arguments; if so asked, endlessly."""
        if self.words is not None:
            if len(ctx.args) != len(self.words) or "" in ctx.args:
                raise misuse(self.wrong_words)
            ctx.params.update(zip(map(_keyword, self.words), ctx.args, strict=True))
        ended = super().invoke(ctx)
        while period := ctx.meta.get(PERIOD):
            time.sleep(period)
            ended = super().invoke(ctx)
        return ended

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the words after the command's name in its usage line."""
        return [*super().collect_usage_pieces(ctx), *(f"[{word}]" for word in self.words or ())]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's examples below its flags."""
        from netctl.examples import EXAMPLES  # noqa: PLC0415 - for help alone

        program, _, path = ctx.command_path.partition(" ")
        if path in EXAMPLES:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {program} {line}\n" for line in EXAMPLES[path]))


def _keyword(word: str) -> str:
    return word.replace("-", "_").replace(" ", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterCommand:
    """A command that is imported when it is called: `module` has it as `attribute`."""

    module: str
    attribute: str
    summary: str
    """The command's help text, which lists of commands show without importing it."""


class CommandGroup(click.Group):
    """Commands by name and alias, including `help`."""

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name, context_settings=_CONTEXT, **kwargs)
        self._aliases: dict[str, str] = {}
        self._later: dict[str, LaterCommand] = {}

    def add(self, command: click.Command, *aliases: str) -> None:
        """Add a command under its own name and under its aliases."""
        self.add_command(command)
        self._aliases.update(dict.fromkeys(aliases, str(command.name)))

    def add_later(self, name: str, command: LaterCommand, *aliases: str) -> None:
        """Add a command under a name and aliases; it is imported when it is called."""
        self._later[name] = command
        self._aliases.update(dict.fromkeys(aliases, name))

    def aliases(self, name: str) -> list[str]:
        """Return the other names of a command."""
        return [alias for alias, meant in self._aliases.items() if meant == name]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self._later})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name or an alias."""
        name = self._aliases.get(cmd_name, cmd_name)
        later = self._later.get(name)
        if later is not None and name not in self.commands:
            self.add_command(getattr(import_module(later.module), later.attribute), name)
        return super().get_command(ctx, name)

    def summary(self, name: str, limit: int = _SUMMARY) -> str:
        """Return what a command is for, in at most `limit` characters."""
        later = self._later.get(name)
        if later is None:
            return self.commands[name].get_short_help_str(limit)
        return click.Command(name, help=later.summary).get_short_help_str(limit)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the flags before the command's name; without a name, show the help."""
        words = canonical(ctx, args, flags_anywhere=False)
        nameless = words[-1] == "--"
        rest = super().parse_args(ctx, words)
        if nameless and not ctx.resilient_parsing:
            show_help(self, ctx, ())
            ctx.exit(0)
        return rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command named first in `args`; exit for help.

        Raises UnknownWord.
        """
        topic = args[1:2] if args[0] in HELP_NAMES else args[:1]
        command = self.get_command(ctx, topic[0]) if topic else self
        if command is None:
            known = [*self.list_commands(ctx), *self._aliases]
            raise UnknownWord("command", topic[0], known, ctx)
        if args[0] in HELP_NAMES:
            show_help(command, ctx, topic)
            ctx.exit(0)
        return command.name, command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with their aliases."""
        rows = []
        for name in self.list_commands(ctx):
            summary = self.summary(name, formatter.width)
            rows.append((", ".join([name, *self.aliases(name)]), summary))
        rows.append(("help, h", "Shows a list of commands or help for one command"))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def show_help(command: click.Command, ctx: click.Context, topic: Sequence[str]) -> None:
    """Print the help of the context's command, or of its subcommand `topic`."""
    shown = click.Context(command, parent=ctx, info_name=command.name) if topic else ctx
    click.echo(command.get_help(shown))
