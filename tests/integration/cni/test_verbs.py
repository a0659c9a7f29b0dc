"""The verbs of the CNI specification by the plugin: each version with each kind of call.

`tests/unit/netplugin/pods` and `tests/system/test_cni_verbs.py` have what the agent does then.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from contivk8s.main import SINCE, SUPPORTED
from netplugin.cni.errors import InterfaceDiffers, NotReady
from netplugin.cni.server import MAX_BODY, serve
from tests.integration.cni.calls import FakePods, Outcome, environment, run_plugin

VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS")
VALID = "cni.dev/valid-attachments"
PREVIOUS = {"interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": []}


@pytest.fixture
def pods() -> FakePods:
    return FakePods()


@pytest.fixture
async def agent(bed_dir: Path, pods: FakePods) -> AsyncIterator[Path]:
    path = bed_dir / "cni.sock"
    async with serve(path, pods.handlers):
        yield path


def config(version: str, **more: object) -> dict[str, Any]:
    return {"cniVersion": version, "name": "net-a", "prevResult": PREVIOUS, VALID: []} | more


def config_of(verb: str, version: str) -> dict[str, Any]:
    """Return a configuration as the verb needs it: an ADD is the first of its list."""
    return config(version, prevResult=None) if verb == "ADD" else config(version)


async def call(agent: Path, verb: str, conf: dict[str, Any], **env: str) -> Outcome:
    return await run_plugin(environment(verb, **env), json.dumps(conf), socket=agent)


def allowed(version: str, verb: str) -> bool:
    since = SINCE.get(verb, SUPPORTED[0])
    return SUPPORTED.index(version) >= SUPPORTED.index(since)


def calls(pods: FakePods) -> int:
    return len(pods.added) + len(pods.deleted) + len(pods.checked) + len(pods.collected)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("version", SUPPORTED)
async def test_a_valid_call_and_the_same_again(
    agent: Path, pods: FakePods, version: str, verb: str
) -> None:
    first = await call(agent, verb, config_of(verb, version))
    assert await call(agent, verb, config_of(verb, version)) == first
    if not allowed(version, verb):
        assert (first.code, first.json["code"], first.json["cniVersion"]) == (1, 1, version)
        assert not calls(pods)
        return
    assert first.code == 0
    assert (first.stdout != "") is (verb == "ADD")


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
@pytest.mark.parametrize("version", SUPPORTED[1:])
async def test_a_wrong_namespace(agent: Path, pods: FakePods, version: str, verb: str) -> None:
    for netns in ("", "relative"):
        outcome = await call(agent, verb, config(version), CNI_NETNS=netns)
        assert (outcome.code, outcome.json["code"]) == (1, 4)
        assert outcome.json["cniVersion"] == version
    assert not calls(pods)


@pytest.mark.parametrize("version", SUPPORTED)
async def test_an_add_behind_another_plugin(agent: Path, pods: FakePods, version: str) -> None:
    outcome = await call(agent, "ADD", config(version))
    assert (outcome.code, outcome.json["code"], outcome.json["cniVersion"]) == (1, 7, version)
    assert "first in the list" in outcome.json["details"]
    assert not calls(pods)


@pytest.mark.parametrize("version", SUPPORTED[1:])
async def test_a_check_without_previous_result(agent: Path, pods: FakePods, version: str) -> None:
    outcome = await call(agent, "CHECK", config(version, prevResult=None))
    assert (outcome.code, outcome.json["code"]) == (1, 7)
    assert "prevResult" in outcome.json["details"]
    assert not calls(pods)


async def test_a_gc_without_a_list(agent: Path, pods: FakePods) -> None:
    without = {name: value for name, value in config("1.1.0").items() if name != VALID}
    outcome = await call(agent, "GC", without)
    assert (outcome.code, outcome.json["code"]) == (1, 7)
    assert not calls(pods)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_configuration_cut_short(agent: Path, pods: FakePods, verb: str) -> None:
    text = json.dumps(config("1.1.0"))[:-1]
    outcome = await run_plugin(environment(verb), text, socket=agent)
    assert (outcome.code, outcome.json["code"]) == (1, 6)
    assert not calls(pods)


async def test_all_verbs_at_once(agent: Path, pods: FakePods) -> None:
    gate = pods.gate = asyncio.Event()
    outcomes = asyncio.gather(*(call(agent, verb, config_of(verb, "1.1.0")) for verb in VERBS))
    await pods.until_busy(len(VERBS))
    gate.set()
    assert [outcome.code for outcome in await outcomes] == [0] * len(VERBS)


async def test_a_long_list_of_attachments(agent: Path, pods: FakePods) -> None:
    listed = [{"containerID": f"{n:064x}", "ifname": "eth0"} for n in range(2000)]
    conf = config("1.1.0", **{VALID: listed})
    assert len(json.dumps(conf)) > MAX_BODY
    assert (await call(agent, "GC", conf)).code == 0
    (request,) = pods.collected
    assert len(request.keep) == 2000
    assert (await call(agent, "ADD", conf)).json["code"] == 6


@pytest.mark.parametrize(
    ("verb", "error", "code"),
    [
        ("CHECK", InterfaceDiffers("link eth0 is down"), 103),
        ("STATUS", NotReady("no netmaster leads"), 50),
        ("STATUS", NotReady("no OpenFlow session", code=51), 51),
    ],
)
async def test_what_is_wrong_is_said(
    agent: Path, pods: FakePods, verb: str, error: Exception, code: int
) -> None:
    pods.error = error
    outcome = await call(agent, verb, config("1.1.0"))
    assert (outcome.code, outcome.json["code"]) == (1, code)
    assert outcome.json["details"] == f"Err: {error}"


async def test_no_agent(bed_dir: Path) -> None:
    codes = {verb: 50 if verb == "STATUS" else 11 for verb in VERBS}
    for verb, code in codes.items():
        outcome = await call(bed_dir / "none.sock", verb, config("1.1.0"))
        assert (outcome.code, outcome.json["code"]) == (1, code)
