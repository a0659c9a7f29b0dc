"""What daemons tell of themselves is bounded and has no secrets."""

import asyncio
import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from core.errors import HostError
from daemons.diagnosis_parts import HIDDEN, Part, as_json, collect, constant_text, cut, redacted

KEY = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\nabc=\n-----END PRIVATE KEY-----\n"
ADDRESS = IPv4Address("10.0.0.1")
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJ1c2VyIjoiam9lIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"before {KEY} after", "MIGHAgEAMBMG"),
        (json.dumps({"file": KEY}), "MIGHAgEAMBMG"),
        ("-----BEGIN EC PRIVATE KEY-----\nMIGHAgEAMBMG", "MIGHAgEAMBMG"),
        ("https://contiv:s3cr3t@10.0.0.1:2379/", "s3cr3t"),
        (f"X-Auth-Token {TOKEN}", TOKEN),
        ("Authorization: Bearer 0123456789", "0123456789"),
        (json.dumps({"storePassword": 'a"s3cr3t'}), "s3cr3t"),
        ('{"token": "s3cr3t"}', "s3cr3t"),
        ('level=info msg="x" password=s3cr3t host=h1', "s3cr3t"),
        ('CONSUL_HTTP_TOKEN="a s3cr3t" x', "s3cr3t"),
        ("GET /x?token=s3cr3t&y=1", "s3cr3t"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str) -> None:
    assert secret not in redacted(text)
    assert HIDDEN in redacted(text)


def test_what_is_no_secret_stays() -> None:
    text = 'time="x" level=info msg="endpoint programmed" key=n1.default-c1 host=h1\n'
    assert redacted(text) == text
    assert (
        redacted('{"key": "default:n1", "secure": true}') == '{"key": "default:n1", "secure": true}'
    )


class Mode(StrEnum):
    ROUTING = "routing"


@dataclass(frozen=True)
class Settings:
    mode: Mode = Mode.ROUTING
    address: IPv4Address = ADDRESS
    cards: tuple[str, ...] = ("eth1",)
    directory: Path = Path("/run/contiv")
    port: int | None = None
    key: bytes = b"s3cr3t"
    inner: dict[str, object] = field(default_factory=lambda: {"on": True})


def test_settings_are_shown_as_plain_data() -> None:
    assert json.loads(as_json(Settings())) == {
        "mode": "routing",
        "address": "10.0.0.1",
        "cards": ["eth1"],
        "directory": "/run/contiv",
        "port": None,
        "key": HIDDEN,
        "inner": {"on": True},
    }


async def test_a_part_that_fails_or_hangs_is_a_text_that_says_so() -> None:
    async def fails() -> str:
        raise HostError("no such link")

    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    parts: dict[str, Part] = {"a": partial(constant_text, "fine"), "b": fails, "c": hangs}
    assert await collect(parts, seconds=0.01) == {
        "a": "fine",
        "b": "not available: no such link\n",
        "c": "not available: no answer within 0.01 s\n",
    }


async def test_every_text_has_its_share_of_the_whole() -> None:
    parts = {"long": partial(constant_text, "ä" * 5000), "short": partial(constant_text, "x")}
    found = await collect(parts, most=2000)
    assert len(found["long"].encode()) <= 1000
    assert found["long"].endswith("(cut: 10000 bytes in all)\n")
    assert found["short"] == "x"
    assert [len(cut("x" * 50, most)) for most in (0, 10, 49)] == [0, 10, 49]
