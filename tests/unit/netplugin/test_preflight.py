"""What is lacking is counted, named and remedied; what is there is shown."""

import pytest

from core.errors import HostError
from netplugin import preflight
from netplugin.settings import Settings

FLAGS = ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing"]
FLAGS += ["--ctrl-ip", "192.0.2.1", "--vtep-ip", "192.0.2.2"]


async def there(wanted: Settings) -> str:
    return f"tunnels from {wanted.vtep_ip}"


async def refused(_wanted: Settings) -> str:
    raise HostError("none here")


async def unreadable(_wanted: Settings) -> str:
    raise PermissionError(13, "Permission denied")


def test_what_is_there_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "LOOKS", {"links": (there, "make some")})
    preflight.run(FLAGS, {})
    assert capsys.readouterr().out == "ok     links: tunnels from 192.0.2.2\n"


def test_what_is_lacking_is_counted_and_remedied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = {"a": (refused, "get one"), "b": (there, "-"), "c": (unreadable, "ask root")}
    monkeypatch.setattr(preflight, "LOOKS", looks)
    with pytest.raises(HostError, match="lacks 2 of 3"):
        preflight.run(FLAGS, {})
    assert capsys.readouterr().out == (
        "LACKS  a: none here\n       -> get one\n"
        "ok     b: tunnels from 192.0.2.2\n"
        "LACKS  c: [Errno 13] Permission denied\n       -> ask root\n"
    )


def test_help_looks_at_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "LOOKS", {"a": (refused, "get one")})
    preflight.run(["--help"], {})
    assert "lacks" not in capsys.readouterr().out


def test_rights_are_told_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "_effective_capabilities", lambda: 1 << 12)
    monkeypatch.setattr(preflight, "LOOKS", {"rights": preflight.LOOKS["rights"]})
    with pytest.raises(HostError, match="lacks 1 of 1"):
        preflight.run(FLAGS, {})
    said = capsys.readouterr().out
    assert "no right to NET_RAW, SYS_ADMIN" in said
