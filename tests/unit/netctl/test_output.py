"""Lists, objects and other data in all forms."""

import json

import pytest
import yaml

from netctl.failure import HELP, CommandFailed
from netctl.output import OutputFlags, form_of
from netctl.render import ListFormat, indented, text

SHAPE = ListFormat(
    header=("Name", "Size", ""),
    rule=("----", "----", ""),
    name="n",
    row=lambda found: (text(found, "n"), text(found, "size")),
    wide=(("Labels", "labels"),),
)
FOUND = [
    {"n": "h10", "size": 2, "labels": {"a": "b"}},
    {"n": "h2", "size": 10, "labels": {}},
    {"n": "h1", "size": 1},
]
NAMES = {"": "h10 h2 h1", "Name": "h1 h2 h10", "-name": "h10 h2 h1", "size": "h1 h10 h2"}


def test_json_comes_before_names_and_names_before_a_table() -> None:
    assert OutputFlags(form="json", quiet=True).of_list(FOUND, SHAPE) == indented(FOUND)
    assert OutputFlags(form="wide", quiet=True).of_list(FOUND, SHAPE) == "h10\nh2\nh1\n"


@pytest.mark.parametrize("form", ["", "table"])
def test_a_list_is_a_table(form: str) -> None:
    lines = OutputFlags(form=form).of_list(FOUND, SHAPE).splitlines()
    assert lines == ["Name  Size  ", "----  ----  ", "h10   2", "h2    10", "h1    1"]


def test_a_wide_table_has_more_columns_which_stand_below_their_heads() -> None:
    head, _, first, *_ = OutputFlags(form="wide").of_list(FOUND, SHAPE).splitlines()
    assert head.index("Labels") == first.index("a=b")


@pytest.mark.parametrize("by", NAMES)
def test_a_list_is_sorted_by_a_column_or_field_and_numbers_count(by: str) -> None:
    assert OutputFlags(sort=by, quiet=True).of_list(FOUND, SHAPE).split() == NAMES[by].split()


def test_all_forms_are_sorted() -> None:
    told = json.loads(OutputFlags(sort="n", form="json").of_list(FOUND, SHAPE))
    assert [one["n"] for one in told] == ["h1", "h2", "h10"]


def test_an_unknown_column_is_refused_with_those_there_are() -> None:
    with pytest.raises(CommandFailed, match=r"columns are Name, Size$") as failed:
        OutputFlags(sort="colour").of_list(FOUND, SHAPE)
    assert failed.value.exit_code == HELP
    assert OutputFlags(sort="colour").of_list([], SHAPE).count("\n") == 2


def test_yaml_is_the_same_data_in_the_same_order() -> None:
    told = OutputFlags(form="yaml").of_list(FOUND, SHAPE)
    assert yaml.safe_load(told) == FOUND
    assert told.startswith("- n: h10\n  size: 2\n")


def test_an_object_is_json_by_default_and_a_field_a_line_as_a_table() -> None:
    found = {"Config": {"subnet": "10.1.0.0/24", "tags": ["a", "b"]}, "Oper": [{"x": 1}, {}]}
    assert OutputFlags().of_object(found) == indented(found)
    assert [
        line.split() for line in OutputFlags(form="table").of_object(found).splitlines()[2:]
    ] == [
        ["Config.subnet", "10.1.0.0/24"],
        ["Config.tags", "a,b"],
        ["Oper[0].x", "1"],
        ["Oper[1]"],
    ]
    assert OutputFlags(form="jsonpath={.Config.subnet}").of_object(found) == "10.1.0.0/24\n"


def test_other_data_has_a_text_of_its_own() -> None:
    assert OutputFlags().of_data({"a": 1}, lambda: "text") == "text"
    assert OutputFlags(form="yaml").of_data({"a": 1}, lambda: "text") == "a: 1\n"


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(CommandFailed, match="table, wide, json, jsonl, yaml, jsonpath=TEMPLATE"):
        form_of("xml")
