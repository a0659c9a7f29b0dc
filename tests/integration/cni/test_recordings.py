"""Calls recorded from the original and from container runtimes, replayed against plugin and server.

A case of the original's is equal in exit code and words, or stands in `DEVIATIONS` with what we do
instead; each of those is a line in docs/deviations.md.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from typing import Any

import pytest

from contivk8s.main import PATHS
from core.errors import Conflict
from netplugin.cni.request import PodRequest
from netplugin.cni.server import serve
from tests.integration.cni.calls import FakePods, Outcome, run_plugin
from tests.integration.cni.recordings import CASES, Recording, recording, runtime_calls

DEVIATIONS: dict[str, tuple[int, int | None]] = {
    # the agent's reply is no reply: always an error
    "add-404": (1, 100),
    "add-500-text": (1, 100),
    "add-bad-json": (1, 100),
    "add-conn-closed": (1, 11),
    "add-empty-ip": (1, 100),
    "del-404": (1, 100),
    # a DEL that failed is said to have failed
    "del-500": (1, 101),
    "del-no-socket": (1, 11),
    "add-no-socket": (1, 11),
    # a DEL needs no namespace
    "del-netns-missing": (0, None),
    # what the specification requires is required, what it does not is not
    "add-args-trailing-semicolon": (0, None),
    "add-no-args": (0, None),
    "add-bad-args": (1, 4),
    "add-bad-stdin": (1, 6),
    "add-netns-empty": (1, 4),
    "add-no-ifname": (1, 4),
    "add-netns-missing": (0, None),  # the path is the agent's to open
    # every verb is answered
    "version": (0, None),
    "check": (1, 1),  # the recording's configuration is 0.3.1, which has no CHECK
    "bad-command": (1, 4),
    "no-command": (1, 4),
}
"""Case to exit code and CNI error code, None for none."""


def fields_of(reply: list[str] | None) -> dict[str, Any] | None:
    """Return a recorded reply that one of our agents could give, None for any other."""
    if reply is None or reply[0].startswith("404"):
        return None
    try:
        fields = json.loads(reply[2])
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def pods_for(fields: dict[str, Any]) -> FakePods:
    pods = FakePods()
    if "errmsg" in fields:
        pods.error = Conflict(fields["errinfo"].removeprefix("Err: "))
    if "ipv6address" in fields:
        pods.ipv6 = IPv6Interface(fields["ipv6address"])
    if "ipaddress" in fields:
        pods.ipv4 = IPv4Interface(fields["ipaddress"])
    return pods


@asynccontextmanager
async def parrot(path: Path, reply: list[str] | None) -> AsyncIterator[None]:
    """Answer with what the recorder of that day answered, or hang up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if reply is not None:
            head = f"HTTP/1.1 {reply[0]}\r\nContent-Type: {reply[1]}\r\n\r\n"
            writer.write(head.encode() + reply[2].encode())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


async def replay(case: str, call: Recording, path: Path) -> tuple[Outcome, FakePods | None]:
    if case.endswith("no-socket"):
        return await run_plugin(call.env, call.stdin, socket=path), None
    fields = fields_of(call.reply)
    if fields is None or (case == "add-empty-ip"):
        async with parrot(path, call.reply):
            return await run_plugin(call.env, call.stdin, socket=path), None
    pods = pods_for(fields)
    async with serve(path, pods.handlers):
        return await run_plugin(call.env, call.stdin, socket=path), pods


def test_no_case_is_forgotten() -> None:
    assert len(CASES) == 32
    assert set(DEVIATIONS) <= set(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("arg-")])
async def test_the_original_s_call(case: str, bed_dir: Path) -> None:
    call = recording(case)
    outcome, pods = await replay(case, call, bed_dir / "cni.sock")
    if pods is not None and call.request is not None and pods.added:
        same_request(call.request, pods)
    if case in DEVIATIONS:
        code, error = DEVIATIONS[case]
        assert outcome.code == code
        assert error is None or outcome.json["code"] == error
        return
    assert outcome.code == call.exit
    if call.exit:
        same_error(outcome.json, json.loads(call.stdout))
    elif call.stdout:
        same_result(outcome.json, json.loads(call.stdout))
    else:
        assert outcome.stdout == ""


def same_request(recorded: dict[str, str], pods: FakePods) -> None:
    (request,) = pods.added
    assert request.spec.container_id == recorded["K8S_POD_INFRA_CONTAINER_ID"]
    assert request.pod_name == recorded["K8S_POD_NAME"]
    assert request.namespace == recorded["K8S_POD_NAMESPACE"]
    assert request.spec.ifname == recorded["CNI_IFNAME"]


def same_error(ours: dict[str, Any], recorded: dict[str, Any]) -> None:
    """All but the code, which is the specification's now."""
    for name in ("cniVersion", "msg", "details"):
        assert ours[name] == recorded[name]


def same_result(ours: dict[str, Any], recorded: dict[str, Any]) -> None:
    """All the original said; we say interfaces, gateways and routes besides."""
    assert ours["cniVersion"] == recorded["cniVersion"]
    assert ours["dns"] == recorded["dns"]
    for our_ip, ip in zip(ours["ips"], recorded["ips"], strict=True):
        assert our_ip.items() >= ip.items()


@pytest.mark.parametrize("flag", ["version", "bogus"])
async def test_the_original_s_flags(flag: str) -> None:
    call = recording(f"arg-{flag}")
    outcome = await run_plugin(call.env, call.stdin, argv=f"-{flag}")
    assert outcome.code == call.exit
    names = [line.partition(":")[0] for line in outcome.stdout.strip().splitlines()]
    assert names == [line.partition(":")[0] for line in call.stdout.strip().splitlines()]


@pytest.mark.parametrize("call", runtime_calls())
async def test_a_runtime_s_call(call: dict[str, Any], bed_dir: Path) -> None:
    pods = FakePods()
    path = bed_dir / "cni.sock"
    env, config = call["env"], call["stdin"]
    async with serve(path, pods.handlers):
        outcome = await run_plugin(env, json.dumps(config), socket=path)
    assert outcome.stderr == ""
    if env["CNI_COMMAND"] == "VERSION":
        assert outcome.code == 0
        assert outcome.json["cniVersion"] == config["cniVersion"]
        return
    if config["cniVersion"] == "0.1.0":
        assert (outcome.code, outcome.json["code"]) == (1, 1)
        return
    assert outcome.code == 0
    if env["CNI_COMMAND"] == "ADD":
        assert outcome.json["cniVersion"] == config["cniVersion"]
        same_shape(outcome.json, json.loads(call["stdout"]))
    else:
        assert outcome.stdout == ""
    if env["CNI_COMMAND"] == "GC":
        (kept,) = pods.collected
        listed = config["cni.dev/valid-attachments"] or []
        assert kept.keep == {(one["containerID"], one["ifname"]) for one in listed}
    elif env["CNI_COMMAND"] != "STATUS":
        (request,) = pods.added or pods.deleted or pods.checked
        same_pod(request, env)
        if env["CNI_COMMAND"] == "ADD":
            assert read_of(request) == call.get("asked", {})


def same_pod(request: PodRequest, env: dict[str, str]) -> None:
    """As the environment has it; docker-like runtimes (nerdctl) name no pod."""
    arguments = dict(one.split("=", 1) for one in env["CNI_ARGS"].split(";") if one)
    assert request.spec.container_id == env["CNI_CONTAINERID"]
    assert request.spec.netns == env["CNI_NETNS"]
    assert request.pod_name == arguments.get("K8S_POD_NAME", "")
    assert request.namespace == arguments.get("K8S_POD_NAMESPACE", "")
    assert request.pod_uid == arguments.get("K8S_POD_UID", "")


def read_of(request: PodRequest) -> dict[str, Any]:
    """Return what the agent has read that a runtime asked for, as recordings have it (`asked`)."""
    read = {
        "ports": sorted(f"{one} to {one.container_port}" for one in request.spec.mappings),
        "sends": [*request.spec.limit],
        "receives": [*request.spec.receive_limit],
        "dns": request.dns,
        "mac": request.spec.mac,
        "ips": [str(one) for one in (request.ipv4, request.ipv6) if one],
    }
    nothing: list[Any] = [[0, 0], "", [], {}]
    return {name: value for name, value in read.items() if value not in nothing}


def test_every_verb_and_every_wish_was_recorded() -> None:
    calls = [one.values[0] for one in runtime_calls()]
    assert {call["env"]["CNI_COMMAND"] for call in calls} == {"VERSION", *PATHS}
    asked = {name for call in calls for name in call.get("asked", {})}
    assert asked == {"ports", "sends", "receives", "dns", "mac", "ips"}


def same_shape(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """As the reference plugin answered the same call: same members, and of the address too."""
    assert ours.keys() == theirs.keys()
    assert ours["ips"][0].keys() == theirs["ips"][0].keys()
    ours_inside, theirs_inside = ours["interfaces"][-1], theirs["interfaces"][-1]
    # new in 1.1.0, which the recorded plugin did not speak
    assert ours_inside.keys() - {"mtu"} == theirs_inside.keys()
    assert ours_inside["sandbox"] == theirs_inside["sandbox"]
    assert ours["ips"][0]["interface"] == len(ours["interfaces"]) - 1
