"""The files of the user interface: how they are served, and that they need nothing from outside."""

import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest

import netmaster
from daemons.listen_address import ListenAddress
from netmaster.api.http import ui
from netmaster.api.http.server import RestServer

FOLDER: Final = Path(netmaster.__file__).with_name("ui")
FILES: Final = sorted(path for path in FOLDER.rglob("*") if path.is_file())
NAMES: Final = [str(path.relative_to(FOLDER)) for path in FILES]
NAMESPACE: Final = "http://www.w3.org/2000/svg"
"""The one URL that may be in a file: a name, which nobody asks."""


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Serve on loopback, without a leader and without a token."""
    server = RestServer()
    server.own |= ui.pages()
    address = await server.listen(ListenAddress("127.0.0.1", 0))
    try:
        async with aiohttp.ClientSession() as session:
            yield session, f"http://{address}"
    finally:
        await server.close()


async def test_every_file_is_served_with_its_type_and_the_policy() -> None:
    async with serving() as (session, url):
        for path, name in zip(FILES, NAMES, strict=True):
            async with session.get(f"{url}/ui/{name}") as answer:
                assert answer.status == 200, name
                assert await answer.read() == path.read_bytes()
                assert answer.headers["Content-Type"] == ui.TYPES[path.suffix[1:]]
                assert answer.headers["Content-Security-Policy"] == ui.POLICY
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_index_is_at_the_root() -> None:
    async with serving() as (session, url):
        async with session.get(f"{url}/ui/") as answer:
            assert await answer.read() == (FOLDER / "index.html").read_bytes()
        async with session.get(f"{url}/ui", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (301, "/ui/")


async def test_who_has_a_file_is_not_sent_it_again() -> None:
    async with serving() as (session, url):
        async with session.get(f"{url}/ui/app.js") as answer:
            tag = answer.headers["ETag"]
        for known, status in ((tag, 304), (f'"other", {tag}', 304), ('"other"', 200)):
            async with session.get(f"{url}/ui/app.js", headers={"If-None-Match": known}) as answer:
                assert (answer.status, answer.headers["ETag"]) == (status, tag)
                assert bool(await answer.read()) == (status == 200)


@pytest.mark.parametrize("path", ["nothing.js", "../settings.py", "%2e%2e/settings.py", "views"])
async def test_what_is_no_file_of_it_is_not_there(path: str) -> None:
    assert f"/ui/{path}" not in ui.pages()
    async with serving() as (session, url), session.get(f"{url}/ui/{path}") as answer:
        assert answer.status != 200


def test_every_file_is_of_a_type_that_is_served() -> None:
    assert {path.suffix[1:] for path in FILES} <= set(ui.TYPES)


def test_every_file_is_in_the_wheel() -> None:
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["netmaster"]
    found = {path for pattern in patterns for path in FOLDER.parent.glob(pattern)}
    assert set(FILES) <= found


@pytest.mark.parametrize("name", NAMES)
def test_every_file_that_is_named_exists(name: str) -> None:
    text = (FOLDER / name).read_text()
    named = re.findall(r'(?:from|import) "(\.[^"]+)"', text)
    named += re.findall(r'(?:href|src)="([^"#]+)"', text) if name.endswith("html") else []
    for one in named:
        assert ((FOLDER / name).parent / one).resolve() in FILES, one


def test_every_view_that_is_named_exists() -> None:
    text = (FOLDER / "sections.js").read_text()
    table = text.partition("const SECTIONS = {")[2].partition("};")[0]
    views = set(re.findall(r', "(\w+)"\]', table))
    assert {f"views/{name}.js" for name in views} == {n for n in NAMES if n.startswith("views/")}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_file_is_from_outside(name: str) -> None:
    text = (FOLDER / name).read_text().replace(NAMESPACE, "")
    assert re.findall(r"(?:https?:)?//\w[\w.-]*\.\w+", text) == []
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []


@pytest.mark.parametrize("name", NAMES)
def test_no_file_makes_programs_or_markup_of_data(name: str) -> None:
    text = (FOLDER / name).read_text()
    doors = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")
    assert [word for word in (*doors, "javascript:", "DOMParser") if word in text] == []
    if name.endswith("html"):
        assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", text) == []
