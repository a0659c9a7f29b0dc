"""What is lacking is counted, named and remedied; what is there is shown."""

import asyncio
from contextlib import nullcontext

import pytest

from core.errors import HostError, SwitchUnavailable, UsageError
from netplugin.bridges.host import host_access
from netplugin.commands import preflight, switch_state
from netplugin.commands.findings import Note
from netplugin.ovsdb import Ovsdb
from netplugin.settings import AgentSettings
from tests.unit.netplugin.commands.preflight import FLAGS
from tests.unit.netplugin.settings import settings_of

FLAGS += ["--ctrl-ip", "192.0.2.1", "--vtep-ip", "192.0.2.2"]


async def there(wanted: AgentSettings) -> str:
    return f"tunnels from {wanted.vtep_ip}"


async def doubted(_wanted: AgentSettings) -> Note:
    return Note("pods may miss it")


async def refused(_wanted: AgentSettings) -> str:
    raise HostError("none here")


async def unreadable(_wanted: AgentSettings) -> str:
    raise PermissionError(13, "Permission denied")


def test_what_is_there_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    preflight.run(FLAGS, {}, {"links": (there, "make some")})
    assert capsys.readouterr().out == "ok     links: tunnels from 192.0.2.2\n"


def test_what_is_lacking_is_counted_and_remedied(capsys: pytest.CaptureFixture[str]) -> None:
    looks = {"a": (refused, "get one"), "b": (there, "-"), "c": (unreadable, "ask root")}
    with pytest.raises(HostError, match="lacks 2 of 3"):
        preflight.run(FLAGS, {}, looks)
    assert capsys.readouterr().out == (
        "LACKS  a: none here\n       -> get one\n"
        "ok     b: tunnels from 192.0.2.2\n"
        "LACKS  c: [Errno 13] Permission denied\n       -> ask root\n"
    )


def test_without_settings_it_says_where_they_are() -> None:
    with pytest.raises(UsageError, match=r"mode is not set: .* \. /etc/default/netplugin;"):
        preflight.run([], {})


def test_a_note_is_remedied_and_lacks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    preflight.run(FLAGS, {}, {"a": (doubted, "get one"), "b": (there, "-")})
    assert capsys.readouterr().out == (
        "NOTE   a: pods may miss it\n       -> get one\nok     b: tunnels from 192.0.2.2\n"
    )


@pytest.mark.parametrize(("fwd_mode", "verdict"), [("bridge", "NOTE"), ("routing", "LACKS")])
def test_a_host_that_forwards_nothing_lacks_it_where_pods_leave_by_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fwd_mode: str,
    verdict: str,
) -> None:
    monkeypatch.setattr(host_access, "forwards", lambda: False)
    checks = {"forwarding": preflight.CHECKS["forwarding"]}
    net_mode = {"bridge": ["--netmode", "vlan", "--vlan-uplinks", "eth1"], "routing": []}[fwd_mode]
    with pytest.raises(HostError) if verdict == "LACKS" else nullcontext():
        preflight.run([*FLAGS, "--fwdmode", fwd_mode, *net_mode], {}, checks)
    said = capsys.readouterr().out
    assert said.startswith(f"{verdict:6} forwarding: net.ipv4.ip_forward is 0: ")


def test_help_looks_at_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    preflight.run(["--help"], {}, {"a": (refused, "get one")})
    said = capsys.readouterr().out
    assert said.startswith("usage: netplugin preflight [flags]")
    assert "lacks" not in said


def test_rights_are_told_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "_effective_capabilities", lambda: 1 << 12)
    with pytest.raises(HostError, match="lacks 1 of 1"):
        preflight.run(FLAGS, {}, {"rights": preflight.CHECKS["rights"]})
    said = capsys.readouterr().out
    assert "no right to NET_RAW, SYS_ADMIN" in said


async def test_the_database_is_read_once_and_its_fault_is_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def away(remote: str, **_more: object) -> None:
        asked.append(remote)
        await asyncio.sleep(0)
        raise SwitchUnavailable(f"no Open vSwitch database at {remote}")

    async def reads(wanted: AgentSettings) -> str:
        return str(await switch_state.switch_state(wanted))

    monkeypatch.setattr(Ovsdb, "connect", away)
    checks = dict.fromkeys("abcd", (reads, "start it"))
    found = await preflight.findings_of(settings_of(FLAGS), checks)
    assert len(asked) == 1
    assert {one.found for one in found} == {f"no Open vSwitch database at {asked[0]}"}
