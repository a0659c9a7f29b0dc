"""What a daemon tells of itself in a bundle of `netctl diag`: texts by name, bounded, no secrets.

In come parts, each of which computes one text; out come the texts. A part that fails or takes too
long is a text that says so. Every text is cut to a share of the whole and cleared of what looks
like a secret, whatever part it comes from.
"""

import asyncio
import dataclasses
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Set
from enum import Enum
from typing import Any, Final

from core.errors import ContivError
from core.log_lines.recent import recent_lines
from core.patience import patient

Part = Callable[[], Awaitable[str]]
"""Returns a text. Raises ContivError."""

SECONDS: Final = patient(5.0)
"""Seconds that each part may take."""
MOST: Final = 8 << 20
"""Bytes of all texts of a daemon."""
HIDDEN: Final = "(hidden)"

_NAMES: Final = (
    r"[\w.-]*(?:passw(?:or)?d|secret|token|credential|private[_-]?key|api[_-]?key)[\w.-]*"
)
_SECRETS: Final = (
    # PEM blocks of keys; in JSON their line ends are written as \n
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|$)", re.DOTALL
        ),
        HIDDEN,
    ),
    (re.compile(r"(://)[^/@\s\"']+@"), rf"\g<1>{HIDDEN}@"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"), HIDDEN),  # JSON Web Tokens
    (re.compile(r"(\bBearer\s+)[^\s\"',]+", re.IGNORECASE), rf"\g<1>{HIDDEN}"),
    (re.compile(rf"(\"{_NAMES}\"\s*:\s*)\"(?:[^\"\\]|\\.)*\"", re.IGNORECASE), rf'\g<1>"{HIDDEN}"'),
    (
        re.compile(rf"(\b{_NAMES}=)(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"'&,;]+)", re.IGNORECASE),
        rf"\g<1>{HIDDEN}",
    ),
)


async def collect(
    parts: Mapping[str, Part], *, most: int = MOST, seconds: float = SECONDS
) -> dict[str, str]:
    """Return the text of each part by its name, of at most `most` bytes in all."""
    texts = await asyncio.gather(*(_text(part, seconds) for part in parts.values()))
    share = most // max(len(parts), 1)
    return {name: cut(redacted(text), share) for name, text in zip(parts, texts, strict=True)}


async def _text(part: Part, seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await part()
    except TimeoutError:
        return f"not available: no answer within {seconds:g} s\n"
    except ContivError as exc:
        return f"not available: {exc}\n"


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` bytes of UTF-8, and a note if that is not all of it."""
    data = text.encode()
    if len(data) <= most:
        return text
    note = f"\n(cut: {len(data)} bytes in all)\n"
    return data[: max(most - len(note), 0)].decode("utf-8", "ignore") + note[:most]


def redacted(text: str) -> str:
    """Return a text without keys, passwords and tokens."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def as_json(value: Any) -> str:
    """Return plain data, or a frozen dataclass such as a daemon's settings, as indented JSON."""
    return json.dumps(_plain(value), indent=1) + "\n"


async def constant_text(text: str) -> str:
    """Return a text that is known already."""
    return text


async def log_lines() -> str:
    """Return the last lines of the log."""
    return "".join(f"{line}\n" for line in recent_lines()) or "no lines are kept\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        names = (one.name for one in dataclasses.fields(value))
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | Set):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return HIDDEN  # settings have bytes for keys alone
    if isinstance(value, bool | int | float) and not isinstance(value, Enum):
        return value
    return None if value is None else str(value)
