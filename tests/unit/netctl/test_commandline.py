"""Words of Go's flag syntax become words click reads."""

import click
import pytest

from netctl.commandline import Command, CommandGroup, canonical, switch


@click.command(cls=Command, words=("network",))
@click.option("-s", "--subnet", default="")
@click.option("-s6", "--subnetv6", default="")
@click.option("-p", "--policy", multiple=True)
@switch("-q", "--quiet", help_text="names only")
def sample(**values: object) -> None:
    """Do nothing."""


def rewritten(*words: str, flags_anywhere: bool = True) -> list[str]:
    return canonical(click.Context(sample), words, flags_anywhere=flags_anywhere)


@pytest.mark.parametrize(
    "spelling",
    [
        ["-s", "x"],
        ["--s", "x"],
        ["-subnet", "x"],
        ["--subnet", "x"],
        ["-s=x"],
        ["--s=x"],
        ["-subnet=x"],
        ["--subnet=x"],
    ],
)
def test_a_flag_has_one_and_two_dashes_whatever_its_length(spelling: list[str]) -> None:
    assert rewritten(*spelling, "n") == ["--subnet=x", "--", "n"]


def test_a_longer_alias_is_not_a_short_flag_with_a_value() -> None:
    assert rewritten("-s6", "2001:db8::/64") == ["--subnetv6=2001:db8::/64", "--"]


def test_flags_may_follow_positional_words_and_end_at_two_dashes() -> None:
    assert rewritten("a", "-s", "x", "b", "--", "-q") == ["--subnet=x", "--", "a", "b", "-q"]


def test_a_value_may_look_like_a_flag() -> None:
    assert rewritten("-s", "-q") == ["--subnet=-q", "--"]


def test_a_single_dash_is_a_positional_word() -> None:
    assert rewritten("-") == ["--", "-"]


def test_a_switch_needs_no_value_and_may_have_one() -> None:
    assert rewritten("-q", "n") == ["--quiet=true", "--", "n"]
    assert rewritten("-q=false") == ["--quiet=false", "--"]


def test_a_flag_given_several_times_keeps_all_values() -> None:
    assert rewritten("-p", "a", "--policy=b") == ["--policy=a", "--policy=b", "--"]


def test_before_a_command_name_the_first_positional_word_ends_the_flags() -> None:
    assert rewritten("-q", "n", "-s", "x", flags_anywhere=False) == [
        *("--quiet=true", "--", "n", "-s", "x")
    ]


@pytest.mark.parametrize("words", [["--bogus"], ["-sq", "x"], ["-s"], ["-S", "x"]])
def test_unknown_joined_and_unfinished_flags_are_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError) as refused:
        rewritten(*words)
    assert refused.value.ctx is not None


def test_help_shows_aliases_and_the_topic_of_an_alias() -> None:
    group = CommandGroup("sampling")
    group.add(sample, "list", "li")
    ctx = click.Context(group, info_name="sampling")
    assert "sample, list, li" in group.get_help(ctx)
    assert group.get_command(ctx, "li") is sample
    assert "[network]" in sample.get_usage(click.Context(sample))
