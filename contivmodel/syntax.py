"""The error texts of Go's JSON scanner for malformed JSON.

Clients and the recordings contain these texts (`unexpected EOF`, `invalid character '}' looking for
beginning of value`). Used only for a text that Python's parser has refused.
"""

import re
from collections.abc import Iterator
from typing import Final

# Go's scanner reads one byte at a time and reports the first byte that no valid text could have at
# that place. Python's parser fails at another position and with other words, so the grammar is
# walked again here. The position of each check matters: it decides which of several errors is
# reported.
#
# Nesting is kept in an explicit stack of generators instead of recursion: a body of 10 000 brackets
# must produce Go's `exceeded max depth`, not a RecursionError.

MAX_DEPTH: Final = 10_000

_SPACE: Final = " \t\r\n"
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_SHORT: Final = {
    "'": "\\'",
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class _Malformed(Exception):
    """Carries the text of the first error."""


def syntax_error(text: str) -> str:
    """Return Go's message for a body that is not one JSON value."""
    scanner = _Scanner(text)
    if scanner.peek() == "":
        return "EOF"
    try:
        scanner.value()
        if (char := scanner.peek()) != "":
            raise scanner.unexpected(char, "after top-level value")
    except _Malformed as exc:
        return str(exc)
    return "exceeded max depth"


class _Scanner:
    """A position in the text; each method consumes one piece of grammar or raises _Malformed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def peek(self) -> str:
        """Skip white space and return the next character, "" at the end."""
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1
        return self._text[self._at : self._at + 1]

    def unexpected(self, char: str, context: str) -> _Malformed:
        """Return the error for a character that does not belong where it stands."""
        if char == "":
            return _Malformed("unexpected EOF")
        return _Malformed(f"invalid character {_quote(char)} {context}")

    def value(self) -> None:
        """Consume one value of any depth, without recursion."""
        open_brackets: list[Iterator[None]] = []
        pending = self._begin()
        while True:
            if pending is not None:
                open_brackets.append(pending)
                if len(open_brackets) > MAX_DEPTH:
                    raise _Malformed("exceeded max depth")
            if not open_brackets:
                return
            try:
                next(open_brackets[-1])
            except StopIteration:
                open_brackets.pop()
                pending = None
            else:
                pending = self._begin()

    def _begin(self) -> Iterator[None] | None:
        """Consume a scalar, or enter an object or array and return a generator over its values."""
        char = self.peek()
        if char == "{":
            return self._object()
        if char == "[":
            return self._array()
        if char == '"':
            self._string()
        elif char in _LITERALS:
            self._literal(_LITERALS[char])
        elif char == "-" or (char.isascii() and char.isdigit()):
            self._number()
        else:
            raise self.unexpected(char, "looking for beginning of value")
        return None

    def _object(self) -> Iterator[None]:
        self._at += 1
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if (char := self.peek()) != '"':
                raise self.unexpected(char, "looking for beginning of object key string")
            self._string()
            if (char := self.peek()) != ":":
                raise self.unexpected(char, "after object key")
            self._at += 1
            yield
            if self._closed("}", "after object key:value pair"):
                return

    def _array(self) -> Iterator[None]:
        self._at += 1
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield
            if self._closed("]", "after array element"):
                return

    def _closed(self, bracket: str, context: str) -> bool:
        char = self.peek()
        if char not in {bracket, ","}:
            raise self.unexpected(char, context)
        self._at += 1
        return char == bracket

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at : self._at + 1]

    def _string(self) -> None:
        char = self._next()
        while char != '"':
            if char == "\\":
                self._escape()
            elif char < " ":
                raise self.unexpected(char, "in string literal")
            char = self._next()
        self._at += 1

    def _escape(self) -> None:
        char = self._next()
        if char == "u":
            for _ in range(4):
                if (digit := self._next()) not in _HEX:
                    raise self.unexpected(digit, "in \\u hexadecimal character escape")
        elif char == "" or char not in '"\\/bfnrt':
            raise self.unexpected(char, "in string escape code")

    def _literal(self, word: str) -> None:
        for expected in word[1:]:
            if (char := self._next()) != expected:
                raise self.unexpected(char, f"in literal {word} (expecting {_quote(expected)})")
        self._at += 1

    def _number(self) -> None:
        """Consume a number; the caller checks the character after it."""
        whole = _NUMBER.match(self._text, self._at)
        end = whole.end() if whole else self._at
        char = self._text[end : end + 1]
        if whole is None:
            raise self.unexpected(self._text[end + 1 : end + 2], "in numeric literal")
        has_exponent = any(mark in whole[0] for mark in "eE")
        if char == "." and "." not in whole[0] and not has_exponent:
            raise self.unexpected(
                self._text[end + 1 : end + 2], "after decimal point in numeric literal"
            )
        if char and char in "eE" and not has_exponent:
            sign = self._text[end + 1 : end + 2] in {"+", "-"}
            raise self.unexpected(
                self._text[end + 1 + sign : end + 2 + sign], "in exponent of numeric literal"
            )
        self._at = end


def _quote(char: str) -> str:
    """Return a character as Go's scanner quotes it."""
    if char in _SHORT:
        return f"'{_SHORT[char]}'"
    if char < " " or char == "\x7f":
        return "'\\x{:02x}'".format(ord(char))  # noqa: UP032 - no backslash in a 3.11 f-string
    # Go's scanner sees bytes: it prints the first byte of a multi-byte character as Latin-1.
    return f"'{chr(char.encode('utf-8', 'surrogatepass')[0])}'"
