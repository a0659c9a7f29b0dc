"""What is said of a name server that does not answer, and of an endpoint that the guard stops."""

from collections.abc import Iterable
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import HostError
from netplugin.kernel.conntrack import Datagrams
from netplugin.trace.asides import Asides, unanswered
from netplugin.trace.request import read

SERVER = ip_address("192.0.2.53")
TOLD = (
    "name server 192.0.2.53 does not answer: this host sent on questions from 2 ports lately, and "
    "no answer came"
)


def sent(to: str = "192.0.2.53", port: int = 53, *, answered: bool = False) -> Datagrams:
    end = (ip_address(to).packed, port)
    return Datagrams(4, end, end, b"", answered)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ([sent(), sent()], TOLD),
        ([sent(), sent(), sent(port=54), sent("192.0.2.54")], TOLD),
        ([], ""),
        ([sent(), sent(port=54), sent("192.0.2.54")], ""),
        ([sent(), sent(), sent(answered=True)], ""),
    ],
)
def test_a_server_that_answers_nothing(known: list[Datagrams], told: str) -> None:
    assert unanswered(SERVER, known) == told


def asked(**more: Any) -> Any:
    return read({"enter": {"endpoint": "web"}, "to": str(SERVER), **more})


def guard(note: str) -> Any:
    return SimpleNamespace(note=note.format)


def of_family(version: int) -> Iterable[Datagrams]:
    assert version == 4
    return [sent(), sent()]


async def test_notes_are_of_who_sends_and_who_shall_get_it() -> None:
    found = Asides(guard("guard of {}"), of_family)
    assert await found.of(asked()) == ["guard of web"]
    assert await found.of(asked(protocol=6, port=53)) == ["guard of web"]
    assert await found.of(asked(protocol=17, port=53)) == ["guard of web", TOLD]
    assert await Asides(guard(""), of_family).of(asked()) == []


async def test_what_cannot_be_read_is_no_note() -> None:
    def broken(_version: int) -> Iterable[Datagrams]:
        raise HostError("no module")

    assert await Asides(guard(""), broken).of(asked(protocol=17, port=53)) == []
