"""Templates with paths into data."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netctl.failure import CommandFailed
from netctl.jsonpath import filled

DATA = [
    {"name": "a", "ports": [80, 443], "labels": {"app.io/x": "web"}, "up": True},
    {"name": "b", "ports": [], "labels": {}, "up": None},
]


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{[*].name}", "a b"),
        ("{[0].name}", "a"),
        ("{[-1].name}", "b"),
        ("{[7].name}{.nope}", ""),
        ("{$[0].ports[*]}", "80 443"),
        ("{[0].ports}", "[80, 443]"),
        ("{[0].labels['app.io/x']}", "web"),
        ("{[0].labels.*}", "web"),
        ("{[*].up}", "true null"),
        ("names: {[*].name};", "names: a b;"),
        (r'{[0].name}{"\t{}\n"}', "a\t{}\n"),
        (r'{range [*]}{.name}={.ports[0]}{"\n"}{end}.', "a=80\nb=\n."),
        ("{range [*]}{range .ports}<{@}>{end}{.name} {end}", "<80><443>a b "),
        ("{.}", json.dumps(DATA)),
        ("", ""),
    ],
)
def test_a_template_is_filled(template: str, told: str) -> None:
    assert filled(template, DATA) == told


@pytest.mark.parametrize("template", ["{", "}", "{a", "{[?(@.x)]}", "{[x]}", r'{"\x"}', "{..a}"])
def test_what_cannot_be_read_is_refused(template: str) -> None:
    with pytest.raises(CommandFailed, match="cannot be read"):
        filled(template, DATA)


def test_a_range_has_an_end() -> None:
    with pytest.raises(CommandFailed, match=r"has no .end."):
        filled("{range [*]}{.name}", DATA)


@given(st.text("{}[].*'\"\\ane0-rd", max_size=30))
def test_any_template_is_filled_or_refused(template: str) -> None:
    with suppress(CommandFailed):
        filled(template, DATA)
