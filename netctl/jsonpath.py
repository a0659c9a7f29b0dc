r"""Templates with paths into data, as kubectl's `-o jsonpath`. Pure.

In come a template and data; out comes text. `{.a.b[0].c}` is a value, `[*]` all of a list or an
object, several values are joined by blanks; `{"\n"}` is a text, and `{range [*]}…{end}` is its
inside for each value. What is not there is empty.
"""

# A library would bring filters, scripts and recursive descent with it, and no templates.

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from netctl.failure import HELP, CommandFailed

_PIECE: Final = re.compile(r'\{((?:"(?:[^"\\]|\\.)*"|[^{}"])*)\}|([^{}]+)')
_STEP: Final = re.compile(r"\.?([\w/-]+)|\.?\[(\*|-?[0-9]{1,9})\]|\.?\['([^']*)'\]|\.(\*)|\.$")

_RANGE: Final = "range "
_END: Final = "end"


def filled(template: str, data: Any) -> str:
    """Return a template with the values of its paths. Raises CommandFailed for a malformed one."""
    pieces = list(_pieces(template))
    return _filled(pieces, data, inside=False)[0]


def _pieces(template: str) -> Iterator[tuple[str, str]]:
    """Yield the inside of braces, or the text between them."""
    at = 0
    while at < len(template):
        found = _PIECE.match(template, at)
        if found is None:
            raise _malformed(template[at:])
        yield (found[1] or "").strip(), found[2] or ""
        at = found.end()


def _filled(
    pieces: Sequence[tuple[str, str]], data: Any, *, inside: bool
) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return the text of pieces, up to the end of the range that they are inside, and the rest."""
    told = ""
    while pieces:
        (path, literal), pieces = pieces[0], pieces[1:]
        if literal:
            told += literal
        elif path == _END and inside:
            return told, pieces
        elif path.startswith(_RANGE):
            within = pieces
            _, pieces = _filled(within, None, inside=True)
            told += "".join(
                _filled(within, one, inside=True)[0] for one in _each(path[len(_RANGE) :], data)
            )
        elif path.startswith('"'):
            told += _text(path)
        else:
            told += " ".join(map(_shown, _values(path, data)))
    if inside:
        raise CommandFailed("-o jsonpath: {range …} has no {end}", HELP)
    return told, pieces


def _each(path: str, data: Any) -> Iterator[Any]:
    for value in _values(path.strip(), data):
        yield from value if isinstance(value, list) else [value]


def _text(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise _malformed(quoted) from None


def _values(path: str, data: Any) -> list[Any]:
    path = path.removeprefix("$").removeprefix("@")
    at, found = 0, [data]
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise _malformed(path)
        name = step[1] if step[1] is not None else step[3]
        number = "*" if step[4] else step[2]
        if name is not None:
            found = [one[name] for one in found if isinstance(one, dict) and name in one]
        elif number is not None:
            found = [inner for one in found for inner in _items(one, number)]
        at = step.end()
    return found


def _items(one: Any, number: str) -> list[Any]:
    if number == "*":
        items = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        return list(items)
    at = int(number)
    return [one[at]] if isinstance(one, list) and -len(one) <= at < len(one) else []


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _malformed(what: str) -> CommandFailed:
    return CommandFailed(
        f"-o jsonpath: {what!r} cannot be read; an example is {{[*].networkName}}", HELP
    )
