"""The plugin in Python and in C: the same bytes out, to the agent too, and the same exit code.

Every call that was recorded, and malformed calls of each kind. The compiled program runs as it is
installed, and with sanitizers, which end it at a fault that had no effect.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from contivk8s import main
from contivk8s.main import MAX_BYTES
from tests.bed.plugin import SANITIZED, SCRIPT, compiled
from tests.integration.cni.calls import CONFIG, environment
from tests.integration.cni.malformed import (
    CONFIGURATIONS,
    ENVIRONMENTS,
    OK,
    REPLIES,
    http,
    versioned,
)
from tests.integration.cni.recordings import CASES, recording, runtime_calls

TRACE = f"00-{'4b' * 16}-{'a0' * 8}-01"


@pytest.fixture
def which_plugin() -> None:
    """Each test runs all of them."""


@pytest.fixture
def programs() -> dict[str, Path]:
    return {"python": SCRIPT, "c": compiled(), "sanitized": compiled(SANITIZED)}


@pytest.fixture
def functions() -> dict[str, Path | None]:
    """For what is the same to a function as to a process: the reference needs no interpreter."""
    return {"python": None, "sanitized": compiled(SANITIZED)}


@dataclass
class Parrot:
    """An agent with one answer; None hangs up. Keeps what it was asked."""

    path: Path
    reply: bytes | None = OK
    asked: list[bytes] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
        self.asked.append(head + await reader.readexactly(length))
        writer.write(self.reply or b"")
        writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        async with await asyncio.start_unix_server(self.answer, self.path, limit=8 * MAX_BYTES):
            yield


@pytest.fixture
async def parrot(bed_dir: Path) -> AsyncIterator[Parrot]:
    parrot = Parrot(bed_dir / "cni.sock")
    async with parrot.listening():
        yield parrot


async def outcome(
    program: Path | None, argv: tuple[Any, ...], env: Mapping[Any, Any], stdin: bytes
) -> tuple[int | None, bytes, bytes]:
    if program is None:
        code, text = await asyncio.to_thread(main.answer, dict(env), stdin)
        return code, text.encode(), b""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program, *argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe
    )
    out, err = await process.communicate(stdin)
    return process.returncode, out, err


async def same(
    programs: Mapping[str, Path | None],
    env: Mapping[Any, Any],
    stdin: bytes = CONFIG.encode(),
    *,
    argv: tuple[Any, ...] = (),
    parrot: Parrot | None = None,
) -> tuple[int | None, bytes]:
    """Make a call to each; return exit code and stdout, which are those of all."""
    found: dict[str, tuple[int | None, bytes, bytes, list[bytes]]] = {}
    env = {"TRACEPARENT": TRACE, **env}
    if parrot is not None:
        env = {"CONTIV_CNI_SOCKET": str(parrot.path), **env}
    for name, program in programs.items():
        # nothing is freed, and nothing needs to be
        quiet = {"ASAN_OPTIONS": "detect_leaks=0"} if name == "sanitized" else {}
        code, out, err = await outcome(program, argv, {**env, **quiet}, stdin)
        found[name] = code, out, err, list(parrot.asked) if parrot else []
        if parrot:
            parrot.asked.clear()
    assert found == dict.fromkeys(programs, found["python"])
    return found["python"][:2]


@pytest.mark.parametrize("case", CASES)
async def test_a_call_of_the_original_s(
    case: str, parrot: Parrot, programs: Mapping[str, Path]
) -> None:
    call = recording(case)
    if case.startswith("arg-"):
        await same(programs, call.env, argv=(f"-{case.removeprefix('arg-')}",))
        return
    parrot.reply = None if call.reply is None else http(call.reply[0], call.reply[2].encode())
    if case.endswith("no-socket"):
        await same(programs, call.env | {"CONTIV_CNI_SOCKET": f"{parrot.path}.none"})
    else:
        await same(programs, call.env, call.stdin.encode(), parrot=parrot)


@pytest.mark.parametrize("call", runtime_calls())
async def test_a_call_of_a_runtime(
    call: dict[str, Any], parrot: Parrot, programs: Mapping[str, Path]
) -> None:
    stdin = json.dumps(call["stdin"]).encode()
    parrot.reply = http("200 OK", json.dumps({"cni": call["stdout"]}).encode())
    assert (await same(programs, call["env"], stdin, parrot=parrot))[0] in {0, 1}


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
async def test_a_malformed_configuration(
    number: int, parrot: Parrot, functions: Mapping[str, Path | None]
) -> None:
    code, _ = await same(functions, environment("ADD"), CONFIGURATIONS[number], parrot=parrot)
    assert code in {0, 1}
    await same(functions, environment("VERSION"), CONFIGURATIONS[number])


@pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC", "STATUS", "add", "", "\u00e4\n"])
@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0", "1.1.0"])
async def test_a_verb_in_a_version(
    version: str, verb: str, parrot: Parrot, functions: Mapping[str, Path | None]
) -> None:
    stdin = versioned(f'"{version}"'.encode())
    await same(functions, environment(verb), stdin, parrot=parrot)
    away = {"CONTIV_CNI_SOCKET": f"{parrot.path}.none"}
    await same(functions, environment(verb) | away, stdin)


@pytest.mark.parametrize("number", range(len(ENVIRONMENTS)))
async def test_a_malformed_environment(
    number: int, parrot: Parrot, programs: Mapping[str, Path]
) -> None:
    await same(programs, ENVIRONMENTS[number], parrot=parrot)


@pytest.mark.parametrize(
    "section",
    [
        *('"x"', "null", "[]", "{}", '{"socket":5}', '{"socket":""}', '{"socket":null}'),
        *('{"socket":"/nonexistent"}', '{"SOCKET":"/nonexistent"}', '{"soc\u212aet":"/none"}'),
        *('{"socket":"\\u0000x"}', '{"socket":"/a\\u0000b"}', '{"socket":"/\\ud800"}'),
        '{"socket":"/nonexistent"},"contiv":{}',
    ],
)
async def test_the_socket_of_a_configuration(
    section: str, parrot: Parrot, functions: Mapping[str, Path | None]
) -> None:
    stdin = f'{{"cniVersion":"0.4.0","contiv":{section}}}'.encode()
    await same(functions, environment("DEL"), stdin, parrot=parrot)


@pytest.mark.parametrize("number", range(len(REPLIES)))
async def test_a_broken_reply(
    number: int, parrot: Parrot, functions: Mapping[str, Path | None]
) -> None:
    parrot.reply = REPLIES[number]
    code, _ = await same(functions, environment("ADD"), parrot=parrot)
    assert code in {0, 1}


@pytest.mark.parametrize(
    "argv",
    [
        *(("-version",), ("--version",), ("-h",), ("-help",), ("--help",), ("-bogus",), ("-",)),
        *(("",), ("stray",), ("stray", "-version"), ("-version", "x"), ("--x=$%",)),
        (b"-\xff\xe2\x82",),
    ],
)
async def test_arguments(argv: tuple[Any, ...], programs: Mapping[str, Path]) -> None:
    assert (await same(programs, {}, argv=argv))[0] in {0, 2}


async def test_an_agent_that_hangs(bed_dir: Path) -> None:
    """`tests/integration/cni/test_end_to_end.py` has the same of the reference."""
    path = bed_dir / "cni.sock"
    impatient = compiled("-DTIMEOUT=1")

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(hang, path):
        env = environment("ADD", CONTIV_CNI_SOCKET=str(path), TRACEPARENT=TRACE)
        code, out, _ = await outcome(impatient, (), env, CONFIG.encode())
    error = json.loads(out)
    told = f"{path}: nothing for 1 s, trace {'4b' * 16}"
    assert (code, error["code"], error["details"]) == (1, 11, told)


async def test_no_stdin_and_nobody_who_reads(programs: Mapping[str, Path]) -> None:
    found = {}
    script = 'exec 3>&1 1>&-; "$0" <&- >&3; echo $? >&3; "$0"; echo $? >&3'
    for name, program in programs.items():
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", script, program),
            stdout=asyncio.subprocess.PIPE,
            env={"CNI_COMMAND": "VERSION", "ASAN_OPTIONS": "detect_leaks=0"},
        )
        found[name] = (await process.communicate())[0]
    assert b"Bad file descriptor" in found["python"]
    assert found == dict.fromkeys(programs, found["python"])


@pytest.mark.parametrize("given", ["", "00", TRACE[:-1], f"{TRACE}0", TRACE.upper(), f"{TRACE}-x"])
async def test_a_call_without_a_trace_begins_one(
    given: str, parrot: Parrot, programs: Mapping[str, Path]
) -> None:
    env = {**environment("ADD"), "CONTIV_CNI_SOCKET": str(parrot.path), "TRACEPARENT": given}
    for program in (*programs.values(), programs["c"]):
        assert (await outcome(program, (), env, CONFIG.encode()))[0] == 0
    traces = {re.findall(rb"traceparent: 00-(.*)-(.*)-01\r\n", head)[0] for head in parrot.asked}
    assert len(traces) == len(parrot.asked) == 4
    for trace, span in traces:
        assert (len(bytes.fromhex(trace.decode())), len(bytes.fromhex(span.decode()))) == (16, 8)
        assert b"0" * 16 not in {trace, span}


async def test_an_agent_that_hangs_up_is_told_with_the_trace(
    parrot: Parrot, programs: Mapping[str, Path]
) -> None:
    parrot.reply = None
    code, told = await same(programs, environment("ADD"), parrot=parrot)
    assert (code, json.loads(told)["details"]) == (1, f"trace {'4b' * 16}")
