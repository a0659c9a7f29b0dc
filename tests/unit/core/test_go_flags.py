"""The grammar of Go's flags: what takes the next word, what ends flags, what is none."""

import pytest

from core.go_flags import Scanned, Takes, scan

FLAGS = {"s": "subnet", "subnet": "subnet", "log": "log", "q": "quiet"}
TAKES = {"subnet": Takes.VALUE, "log": Takes.OPTIONAL, "quiet": Takes.NOTHING}


def scanned(*words: str, flags_anywhere: bool = True) -> Scanned[str]:
    return scan(words, FLAGS, TAKES.__getitem__, flags_anywhere=flags_anywhere)


@pytest.mark.parametrize("words", [["-s", "x"], ["--s", "x"], ["-subnet=x"], ["--subnet=x"]])
def test_one_dash_and_two_are_the_same_for_names_of_any_length(words: list[str]) -> None:
    assert scanned(*words) == Scanned(flags=[("subnet", "x")])


@pytest.mark.parametrize(
    ("words", "flags", "rest"),
    [
        (["-s", "-q"], [("subnet", "-q")], []),
        (["--log", "kernel"], [("log", "kernel")], []),
        (["--log", "-q"], [("log", "true"), ("quiet", "true")], []),
        (["--log"], [("log", "true")], []),
        (["-q", "false"], [("quiet", "true")], ["false"]),
        (["-q=false"], [("quiet", "false")], []),
        (["-s="], [("subnet", "")], []),
    ],
)
def test_a_flag_takes_the_next_word_by_its_kind(
    words: list[str], flags: list[tuple[str, str]], rest: list[str]
) -> None:
    assert scanned(*words) == Scanned(flags=flags, rest=rest)


def test_two_dashes_end_flags_and_a_single_dash_is_a_positional_word() -> None:
    found = scanned("-", "-q", "--", "-s")
    assert (found.flags, found.rest, found.ended) == ([("quiet", "true")], ["-", "-s"], True)


def test_the_first_positional_word_may_end_flags() -> None:
    assert scanned("a", "-q", flags_anywhere=False) == Scanned(rest=["a", "-q"], ended=True)


def test_the_first_unknown_flag_and_the_flag_without_its_value_are_named() -> None:
    found = scanned("--no", "-sq", "-s")
    assert (found.unknown, found.unfinished, found.flags) == ("--no", "subnet", [])
