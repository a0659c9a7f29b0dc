"""Serves the user interface below `/ui/`: a fixed set of files, read once, on every master.

The files (`netmaster/ui`) are the same for everybody and hold no data: what they show they ask of
API v2, with the token of who logged in. A browser may load nothing from anywhere else, and nothing
that is written into a page is a program (`POLICY`).
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from netmaster.api.http.server import ROUTE, Role

ROOT: Final = "/ui/"
INDEX: Final = "index.html"
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""By the ending of a file's name: what is served; other files are not."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked for each time, answered 304: a new release is seen at once
}


def pages() -> dict[str, Role]:
    """Return what answers each path of the user interface."""
    found = {
        f"{ROOT}{name}": _page(body, name.rpartition(".")[2]) for name, body in _files().items()
    }
    return {
        **found,
        ROOT: found[f"{ROOT}{INDEX}"],
        ROOT.rstrip("/"): partial(_moved, ROOT),
    }


def _files() -> Mapping[str, bytes]:
    folder = files("netmaster") / "ui"
    return dict(_below(folder, ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for one in folder.iterdir():
        if one.is_dir():
            found += _below(one, f"{prefix}{one.name}/")
        elif one.name.rpartition(".")[2] in TYPES:
            found.append((f"{prefix}{one.name}", one.read_bytes()))
    return found


def _page(body: bytes, ending: str) -> Role:
    tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    headers = {**_HEADERS, "ETag": tag}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        request[ROUTE] = ROOT
        if any(known.value == tag.strip('"') for known in request.if_none_match or ()):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=body, headers={**headers, "Content-Type": TYPES[ending]})

    return answer


async def _moved(location: str, request: web.BaseRequest) -> web.StreamResponse:
    request[ROUTE] = ROOT
    return web.Response(status=HTTPStatus.MOVED_PERMANENTLY, headers={"Location": location})
