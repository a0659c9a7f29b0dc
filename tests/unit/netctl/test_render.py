"""Tables as Go's tabwriter makes them, and JSON."""

from hypothesis import given
from hypothesis import strategies as st

from netctl.render import indented, table, text


def test_a_table_pads_all_cells_but_the_last() -> None:
    rows = [("Name", "Size", "Tag"), ("----", "----", "---"), ("a", "10000", "")]
    assert table(rows) == "Name  Size   Tag\n----  ----   ---\na     10000  \n"


def test_a_trailing_empty_cell_pads_the_one_before() -> None:
    assert table([("Name", ""), ("default", "")]) == "Name     \ndefault  \n"


def test_a_shorter_row_ends_the_columns_it_does_not_have() -> None:
    rows = [("aaaa", "b", "c"), ("a",), ("a", "b", "c")]
    assert table(rows) == "aaaa  b  c\na\na  b  c\n"


def test_an_empty_column_is_as_wide_as_the_padding() -> None:
    assert table([("a", "", "c")]) == "a    c\n"


def test_no_rows_are_no_text() -> None:
    assert table([]) == ""


@given(st.lists(st.lists(st.text("ab", max_size=4), min_size=3, max_size=3), min_size=1))
def test_columns_of_a_full_table_start_where_the_widest_cell_says(rows: list[list[str]]) -> None:
    lines = table(rows).splitlines()
    first = max(len(row[0]) for row in rows) + 2
    second = first + max(len(row[1]) for row in rows) + 2
    assert [line[:first].rstrip() for line in lines] == [row[0] for row in rows]
    assert [line[first:second].rstrip() for line in lines] == [row[1] for row in rows]
    assert [line[second:] for line in lines] == [row[2] for row in rows]


def test_json_keeps_order_and_letters() -> None:
    assert indented({"z": "ü", "a": [], "m": {}}) == '{\n  "z": "ü",\n  "a": [],\n  "m": {}\n}\n'


def test_a_field_left_out_is_empty_and_several_values_are_joined() -> None:
    assert text({}, "policies") == ""
    assert text({"policies": ["a", "b"]}, "policies") == "a,b"
    assert text({"labels": {"a": "b", "c": ""}}, "labels") == "a=b,c="
