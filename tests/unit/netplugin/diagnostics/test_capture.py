"""The bounds of captures, and who may ask for them."""

import pytest
from aiohttp import ClientSession

from core.errors import Invalid
from netplugin.diagnostics.capture import CaptureBounds, bounds_of
from tests.unit.netplugin.diagnostics.captures import KEY, serving


def test_bounds_have_greatest_values() -> None:
    assert bounds_of({}) == CaptureBounds()
    asked = {"seconds": "50", "count": "7", "snaplen": "64", "filter": "tcp"}
    assert bounds_of(asked) == CaptureBounds(seconds=50, count=7, snaplen=64, filter="tcp")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("seconds", "51"), ("count", "0"), ("count", "-1"), ("snaplen", "x")),
        *(("size", "9" * 13), ("colour", "red")),
    ],
)
def test_other_bounds_are_refused(name: str, text: str) -> None:
    with pytest.raises(Invalid, match=name):
        bounds_of({name: text})


async def test_others_than_masters_are_refused() -> None:
    async with (
        serving(master=False) as url,
        ClientSession() as session,
        session.get(url) as answer,
    ):
        assert answer.status == 403


async def test_an_endpoint_without_a_port_here_is_refused() -> None:
    async with serving() as url, ClientSession() as session, session.get(f"{url}x") as answer:
        assert (answer.status, await answer.text()) == (
            500,
            f"endpoint {KEY}x has no port on this host\n",
        )
