"""Malformed JSON is reported with the texts of Go's scanner."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contivmodel.syntax import syntax_error
from contivmodel.wire import WireModel, decode
from core.errors import Invalid


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "EOF"),
        (" \n\t", "EOF"),
        ("{", "unexpected EOF"),
        ('"a', "unexpected EOF"),
        ("nul", "unexpected EOF"),
        ("-", "unexpected EOF"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{,}", "invalid character ',' looking for beginning of object key string"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{}}", "invalid character '}' after top-level value"),
        ("{} {}", "invalid character '{' after top-level value"),
        ("[tru]", "invalid character ']' in literal true (expecting 'e')"),
        ("falsy", "invalid character 'y' in literal false (expecting 'e')"),
        ('"\n"', "invalid character '\\n' in string literal"),
        ('"\x01"', "invalid character '\\x01' in string literal"),
        ('"\\q"', "invalid character 'q' in string escape code"),
        ('"\\u12x4"', "invalid character 'x' in \\u hexadecimal character escape"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("[1e+]", "invalid character ']' in exponent of numeric literal"),
        ("[01]", "invalid character '1' after array element"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("\\", "invalid character '\\\\' looking for beginning of value"),
        ("\x7f", "invalid character '\\x7f' looking for beginning of value"),
        ("\ufeff{}", "invalid character 'ï' looking for beginning of value"),
        ("[" * 100_000, "exceeded max depth"),
    ],
)
def test_the_first_error_is_named(text: str, error: str) -> None:
    assert syntax_error(text) == error


@given(st.text(alphabet='{}[]",:019.eE+-truefalsnN\\ \n', max_size=30))
def test_every_text_python_refuses_gets_an_error(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        assert syntax_error(text) != "exceeded max depth"
        with pytest.raises(Invalid):
            decode(WireModel, text.encode())
