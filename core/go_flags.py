"""The grammar of Go's `flag` package, in which the original's command lines are written. Pure.

Flags have a one-dash and a two-dash form of any length, take their value from the next word or
after `=`, and may follow positional words; `--` ends flags. In come words and the flags by their
names, out go flags with their values, and what is none. `daemons.flags` reads the daemons' command
lines by it, `netctl.commandline` those of netctl and their completion.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

ON: Final = "true"
"""The value of a flag that is given without one."""

F = TypeVar("F")


class Takes(Enum):
    """What a flag takes of the words after it; each has its value after `=`, if one is there."""

    VALUE = "the next word, whatever it is"
    OPTIONAL = "the next word, unless that is a flag"
    NOTHING = "none"


@dataclass(slots=True)
class Scanned(Generic[F]):
    """A command's words, separated into flags and positional words."""

    flags: list[tuple[F, str]] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    """The positional words."""
    unknown: str = ""
    """The first flag that the command does not have."""
    unfinished: F | None = None
    """The last word, if it is a flag without its value."""
    ended: bool = False
    """Whether all further words are positional."""


def scan(
    words: Sequence[str],
    flags: Mapping[str, F],
    takes: Callable[[F], Takes],
    *,
    flags_anywhere: bool = True,
) -> Scanned[F]:
    """Separate a command's words; never fails. `flags` are by name and alias, without dashes.

    Unless `flags_anywhere`, the first positional word ends the flags.
    """
    found: Scanned[F] = Scanned()
    left = list(words)
    while left and not found.ended:
        word = left.pop(0)
        if word == "--":
            found.ended = True
        elif word == "-" or not word.startswith("-"):
            found.rest.append(word)
            found.ended = not flags_anywhere
        else:
            _take_flag(found, flags, takes, word, left)
    found.rest += left
    return found


def _take_flag(
    found: Scanned[F],
    flags: Mapping[str, F],
    takes: Callable[[F], Takes],
    word: str,
    left: list[str],
) -> None:
    name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
    flag = flags.get(name)
    if flag is None:
        found.unknown = found.unknown or word
        return
    kind = takes(flag)
    if equals:
        found.flags.append((flag, value))
    elif kind is Takes.VALUE and not left:
        found.unfinished = flag
    elif kind is Takes.VALUE or (kind is Takes.OPTIONAL and left and left[0][:1] != "-"):
        found.flags.append((flag, left.pop(0)))
    else:
        found.flags.append((flag, ON))
