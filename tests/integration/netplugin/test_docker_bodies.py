"""What any process of root may send to the docker plugin's socket: refused, and the agent lives.

Both drivers behind real HTTP. An answer is a refusal of the plugin's own, or one that carries out
what was asked; nothing is a crash, and the next request is answered.
"""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector
from hypothesis import given, settings
from hypothesis import strategies as st

from netplugin.libnetwork.calls import LONGEST_REFUSAL
from netplugin.libnetwork.server import MAX_BODY, PluginServer
from netplugin.startup.docker import handlers
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.libnetwork.any_body import GOOD
from tests.unit.netplugin.libnetwork.scene import drivers

CALLS = sorted(set(GOOD) - {"NetworkDriver.AllocateNetwork", "NetworkDriver.FreeNetwork"})
GENERIC = "com.docker.network.generic"


@pytest.fixture
async def socket(tmp_path: Path) -> AsyncIterator[Path]:
    path = tmp_path / "netplugin.sock"
    async with drivers(Outside.new(), tmp_path / "networks") as it:
        server = PluginServer("local")
        server.serve_calls(handlers(it.driver, it.ipam))
        async with server.listening(path, body_time=0.5):
            yield path


async def ask(
    path: Path, call: str, body: bytes, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    async with (
        ClientSession(connector=UnixConnector(str(path))) as client,
        client.post(f"http://x/{call}", data=BytesIO(body), headers=headers) as answer,
    ):
        return answer.status, json.loads(await answer.read())


async def lives(path: Path) -> None:
    assert (
        await ask(path, "NetworkDriver.Leave", json.dumps(GOOD["NetworkDriver.Leave"]).encode())
    )[0] == 200


DEEP = b"[" * 100_000 + b"]" * 100_000
DEEPER = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
ODD = {
    "deep": DEEP,
    "deep object": DEEPER,
    "deep in options": b'{"NetworkID":"d1","Options":' + DEEPER + b"}",
    "deep in an unknown member": b'{"NetworkID":"d1","EndpointID":"e1","x":' + DEEP + b"}",
    "half": b'{"NetworkID":',
    "no UTF-8": b'{"NetworkID":"\xff\xfe"}',
    "half a surrogate": b'{"NetworkID":"d1","SandboxKey":"\\ud800","EndpointID":"e1"}',
    "half a surrogate as a name": b'{"NetworkID":"d1","Options":{"\\ud800":"\\udfff"}}',
    "not a number": b'{"NetworkID":NaN}',
    "beyond a float": b'{"NetworkID":"d1","Options":{"a":1e999}}',
    "a long number": b'{"NetworkID":"d1","Options":{"a":' + b"9" * 10_000 + b"}}",
    "a long number as an id": b'{"NetworkID":' + b"9" * 10_000 + b"}",
    "a long name": b'{"NetworkID":"d1","Options":{"' + b"a" * 500_000 + b'":1}}',
    "a long text": b'{"NetworkID":"' + b"a" * 500_000 + b'"}',
    "many members": json.dumps({"NetworkID": "d1", **{f"m{n}": n for n in range(50_000)}}).encode(),
    "the same member twice": b'{"NetworkID":"d1","NetworkID":["d2"]}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"NetworkID":"d1"}'.encode("utf-16"),
    "a null byte": b'{"NetworkID":"d1\\u0000"}',
    "a path": b'{"NetworkID":"../../etc","EndpointID":"../e1"}',
    "a text": b'"NetworkID"',
    "null": b"null",
    "nothing": b"",
    "large": b" " * (MAX_BODY + 1),
}


@pytest.mark.parametrize("odd", sorted(ODD))
async def test_what_is_odd_is_refused_in_few_words(socket: Path, odd: str) -> None:
    refusals = 0
    for call in CALLS:
        status, answer = await ask(socket, call, ODD[odd])
        text = str(answer.get("Err") or answer.get("Error") or "")
        assert "unexpected failure" not in text, (call, text[:200])
        assert len(text) <= LONGEST_REFUSAL
        assert (status == 200) == (not text), (call, status, text)
        refusals += status in {400, 413, 500}
    # a network is created whatever its options say; what needs nothing done is not read
    assert refusals >= len(CALLS) // 2 or odd in {"deep in an unknown member", "many members"}
    await lives(socket)


PACKED = json.dumps(GOOD["NetworkDriver.Leave"]).encode()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(PACKED)),
        ("gzip", gzip.compress(b" " * (64 * MAX_BODY))),
        ("deflate", zlib.compress(b"[" * (64 * MAX_BODY))),
        ("gzip", b"no gzip at all"),
        ("br", b"\xff" * 100),
    ],
)
async def test_nothing_is_unpacked(socket: Path, encoding: str, body: bytes) -> None:
    status, answer = await ask(socket, "NetworkDriver.Leave", body, {"Content-Encoding": encoding})
    assert (status, "Invalid JSON" in answer["Err"]) == (400, True)
    plain = await ask(socket, "NetworkDriver.Leave", PACKED, {"Content-Encoding": encoding})
    assert plain[0] == 200
    await lives(socket)


RAW = st.sampled_from(
    [
        b"POST /NetworkDriver.Leave HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        b"POST /IpamDriver.ReleasePool HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /NetworkDriver.Leave HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /%00/../%2e%2e HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0" * 200,
        b"POST /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    ]
) | st.binary(max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*GOOD["NetworkDriver.CreateEndpoint"], GENERIC]) | st.text(max_size=8),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=25)
@given(
    bodies=st.lists(st.tuples(st.sampled_from(CALLS), JSON), max_size=8),
    raw=st.lists(RAW, max_size=3),
)
def test_whatever_is_sent_the_agent_lives(bodies: list[tuple[str, Any]], raw: list[bytes]) -> None:
    asyncio.run(_send(bodies, raw))


async def _send(bodies: list[tuple[str, Any]], raw: list[bytes]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "netplugin.sock"
        async with drivers(Outside.new(), Path(directory) / "networks") as it:
            server = PluginServer("local")
            server.serve_calls(handlers(it.driver, it.ipam))
            async with server.listening(path, body_time=0.2):
                for one in raw:
                    reader, writer = await asyncio.open_unix_connection(str(path))
                    writer.write(one)
                    writer.write_eof()
                    assert b"unexpected failure" not in await reader.read()
                    writer.close()
                for call, body in bodies:
                    status, answer = await ask(path, call, json.dumps(body).encode())
                    text = str(answer.get("Err") or answer.get("Error") or "")
                    assert "unexpected failure" not in text
                    assert status == 200 or text
                await lives(path)
