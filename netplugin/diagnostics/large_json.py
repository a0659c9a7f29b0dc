"""Encodes and sends JSON objects with very many members, in portions between which others run.

In come the members, as they are computed; out comes the response. An agent of a large cluster knows
tens of thousands of endpoints, and packets of pods wait while its event loop is busy.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from aiohttp import web

PORTION: Final = 100
"""Members that are encoded at once: one or two milliseconds."""


async def encode_members(
    members: Iterable[tuple[str, object]], portion: int = PORTION
) -> list[bytes]:
    """Return the JSON object of these members, in parts. Each name must be there once.

    `portion` is how many are encoded at once.
    """
    remaining = iter(members)
    parts: list[bytes] = []
    while some := list(islice(remaining, portion)):
        text = ",".join(f"{encode(name)}:{encode(value)}" for name, value in some)
        parts.append(f",{text}".encode() if parts else text.encode())
        await asyncio.sleep(0)
    return [b"{", *parts, b"}"]


async def send(request: web.Request, parts: Sequence[bytes]) -> web.StreamResponse:
    """Send a response of these parts, one after the other."""
    response = web.StreamResponse()
    response.content_type, response.charset = "text/plain", "utf-8"
    response.content_length = sum(map(len, parts))
    await response.prepare(request)
    for part in parts:
        await response.write(part)  # waits for the peer to read
        await asyncio.sleep(0)
    await response.write_eof()
    return response


def encode(value: object) -> str:
    """Return a value's JSON, as short as it can be."""
    return json.dumps(value, separators=(",", ":"))
