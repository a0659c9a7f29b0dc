"""JSON-RPC 1.0 as Go's `net/rpc/jsonrpc` speaks it: one JSON object per line over TCP.

A request is `{"method": "Service.Method", "params": [argument], "id": 1}`, a response
`{"id": 1, "result": …, "error": null or text}`; only the error says whether a call succeeded. The
connection may be TLS, with a guard that decides about each call.
`ofnet.rpc.control` has the methods and their types.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from ssl import SSLContext, SSLObject
from typing import Any, Final, cast

from core.errors import ContivError, Invalid, TooLarge
from core.logs import fields
from core.net.connections import ConnectionGuard, ConnectionLimits, is_logged
from core.net.guarded_protocols import guarded, stop_listening
from core.outside_json import read_json
from core.patience import patient

log = logging.getLogger(__name__)

# Peers are untrusted: the port is open on the network, and without TLS there is no authentication,
# as in the original. So every resource a peer can use has a limit. A call ends within MAX_CALL
# bytes and CALL_TIME, or the connection ends: without a limit one peer could fill the memory.
# Connections are limited too, and the one that has been silent for longest makes room for a new
# one. A line that is no request ends its connection, because it has no id to answer. A request with
# a wrong argument is answered with an error and the connection goes on. Methods check all arguments
# themselves and raise ContivError; nothing a peer sends raises anything else.

MAX_LINE: Final = 1024 * 1024
"""Bytes of a response: that of an inspection is long."""
MAX_CALL: Final = 64 * 1024
"""Bytes of a call."""
CALL_TIME: Final = patient(10.0)
"""Seconds for a call to arrive, from its first byte on."""
LIMITS: Final = ConnectionLimits(total=4096, per_peer=1024)
"""An agent keeps one connection to every master, and is silent while nothing changes."""

RpcMethod = Callable[[Any], Awaitable[Any]]
"""Takes the decoded argument, returns a JSON value; raises ContivError to refuse the call."""


RpcGuard = Callable[[SSLObject | None, str, Any], str]
"""Returns why the peer of a connection may not call a method with an argument; "" if it may."""


class RpcFailed(ContivError):
    """A call could not be made, was not answered in time, or was answered with an error."""


class RpcServer:
    """Answers calls of the methods in its table. `counters` counts calls, refusals and drops.

    With `ssl` all connections are TLS. `refuses` decides about each call. `call_time` is
    the number of seconds a call may take to arrive.
    """

    def __init__(
        self,
        methods: Mapping[str, RpcMethod],
        *,
        host: str,
        port: int = 0,
        ssl: SSLContext | None = None,
        refuses: RpcGuard | None = None,
        limits: ConnectionLimits = LIMITS,
        call_time: float = CALL_TIME,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.connections = ConnectionGuard("RPC", limits)
        self._call_time = call_time
        self._methods = methods
        self._ssl = ssl
        self._refuses = refuses
        self._address = (host, port)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Start listening. Raises RpcFailed if the address is not available."""
        host, port = self._address
        self.connections.start()
        factory = guarded(self.connections, self._protocol, self._ssl)
        try:
            self._server = await asyncio.get_running_loop().create_server(factory, host, port)
        except OSError as exc:
            raise RpcFailed(f"cannot listen on {host}:{port}: {exc}") from exc

    async def close(self) -> None:
        """End the listener and all connections."""
        if self._server is None:
            return
        await stop_listening(self._server, self.connections)
        self.connections.end_all()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """The port listened on, also when it was given as 0."""
        if self._server is None:
            raise RpcFailed("the RPC server is not started")
        return int(self._server.sockets[0].getsockname()[1])

    def _protocol(self) -> asyncio.Protocol:
        reader = asyncio.StreamReader(MAX_CALL)
        return asyncio.StreamReaderProtocol(reader, self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await _line(reader, self._call_time):
                with self.connections.busy(writer.transport):
                    writer.write(_encode(await self._answer(_request(line), writer)))
                async with asyncio.timeout(self._call_time):
                    await writer.drain()
        except Invalid as exc:
            self._dropped("not JSON-RPC", writer, exc)
        except OSError as exc:
            # the kernel's own time-out, of keepalive, has a number: nobody was slow
            if isinstance(exc, TimeoutError) and exc.errno is None:
                self._dropped("too slow", writer)
            else:
                self._lost(exc, writer)
        finally:
            writer.transport.abort()

    def _lost(self, exc: OSError, writer: asyncio.StreamWriter) -> None:
        self.counters["dropped: connection lost"] += 1
        log.debug("RPC connection lost", extra=fields(error=str(exc), peer=_peer(writer)))

    def _dropped(
        self, reason: str, writer: asyncio.StreamWriter, exc: Exception | None = None
    ) -> None:
        counter = f"dropped: {reason}"
        self.counters[counter] += 1
        if is_logged(self.counters[counter]):
            count = self.counters[counter]
            log.warning(
                "RPC connection dropped",
                extra=fields(error=str(exc or reason), peer=_peer(writer), count=count),
            )

    async def _answer(self, request: "_Request", writer: asyncio.StreamWriter) -> dict[str, Any]:
        method = self._methods.get(request.method)
        self.counters["calls"] += 1
        try:
            if method is None:
                raise Invalid(f"rpc: can't find service {request.method}")
            connection = writer.get_extra_info("ssl_object")
            if self._refuses and (
                reason := self._refuses(connection, request.method, request.argument)
            ):
                log.warning(
                    "RPC call denied to this certificate",
                    extra=fields(method=request.method, peer=_peer(writer), error=reason),
                )
                raise Invalid(f"rpc: {request.method}: {reason}")
            return {"id": request.id, "result": await method(request.argument), "error": None}
        except ContivError as exc:
            self.counters["refused"] += 1
            return {"id": request.id, "result": None, "error": str(exc)}


class RpcClient:
    """A persistent connection to a server, opened by the first call and again after a loss.

    Calls may run concurrently; their ids match responses to calls. `ssl` returns the context of a
    new connection; without it connections are not encrypted.
    """

    # A call on a connection that an earlier call opened is tried once more on a new one, because
    # the loss of an idle connection (a restarted server) often shows only when it is written to. So
    # a call may be executed twice: methods must be idempotent. Registering,
    # reporting and inspecting are.

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout: float = patient(5.0),
        ssl: Callable[[], SSLContext] | None = None,
    ) -> None:
        self._address = (host, port)
        self._timeout = timeout
        self._ssl = ssl
        self._connection: _Connection | None = None
        self._lock = asyncio.Lock()

    async def call(self, method: str, argument: Any) -> Any:
        """Return the method's result. Raises RpcFailed."""
        host, port = self._address
        where = f"{method} on {host}:{port}"
        try:
            async with asyncio.timeout(self._timeout):
                return await self._call(method, argument)
        except TimeoutError as exc:
            self.close()
            raise RpcFailed(f"{where}: no answer within {self._timeout:g} s") from exc
        except OSError as exc:
            raise RpcFailed(f"{where}: {exc}") from exc

    def close(self) -> None:
        """End the connection; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _call(self, method: str, argument: Any) -> Any:
        connection, fresh = await self._connected()
        try:
            return await connection.call(method, argument)
        except ConnectionError:
            if fresh:
                raise
        connection, _ = await self._connected()
        return await connection.call(method, argument)

    async def _connected(self) -> "tuple[_Connection, bool]":
        async with self._lock:
            if self._connection is not None and self._connection.open:
                return self._connection, False
            loop = asyncio.get_running_loop()
            _, self._connection = await loop.create_connection(
                _Connection, *self._address, ssl=self._ssl() if self._ssl else None
            )
            return self._connection, True


class _Connection(asyncio.Protocol):
    """The client's side of one TCP connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._next = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def call(self, method: str, argument: Any) -> Any:
        if self._transport is None or not self.open:
            raise ConnectionResetError("connection lost")
        number, self._next = self._next, self._next + 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._transport.write(_encode({"method": method, "params": [argument], "id": number}))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # a cast: uvloop's transports do not inherit from asyncio's, but have the same methods
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        try:
            for line in lines:
                self._take(line)
            if len(rest) > MAX_LINE:
                raise TooLarge(f"response of more than {MAX_LINE} bytes")
        except ContivError as exc:
            self._fail(exc)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionResetError(str(exc) if exc is not None else "closed by the peer"))

    def _take(self, line: bytes) -> None:
        number, error, result = _response(line)
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(RpcFailed(str(error)))
        else:
            future.set_result(result)

    def _fail(self, exc: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(exc)


def _response(line: bytes) -> tuple[int, Any, Any]:
    """Return number, error and result of a response. Raises RpcFailed."""
    try:
        match read_json(line):
            case {"id": int(number), "error": error, **others}:
                return number, error, others.get("result")
            case _:
                raise ValueError("no response")  # noqa: TRY301 - one refusal for both
    except ValueError as exc:
        raise RpcFailed(f"not a JSON-RPC response: {line[:80]!r}") from exc


class _Request:
    """A decoded request."""

    __slots__ = ("argument", "id", "method")

    def __init__(self, method: str, argument: Any, id: Any) -> None:  # noqa: A002 - its name
        self.method = method
        self.argument = argument
        self.id = id


def _request(line: bytes) -> _Request:
    try:
        decoded = read_json(line)
    except ValueError as exc:
        raise Invalid(f"not JSON: {line[:80]!r}") from exc
    match decoded:
        case {"method": str(method), "params": [argument], "id": number}:
            return _Request(method, argument, number)
        case _:
            raise Invalid(f"not a request with one parameter: {line[:80]!r}")


async def _line(reader: asyncio.StreamReader, within: float) -> bytes:
    """Return the next line; empty at the end. TimeoutError if it does not end in time."""
    first = await reader.read(1)  # a peer may be silent between its calls for as long as it likes
    if first in {b"", b"\n"}:
        return first
    try:
        async with asyncio.timeout(within):
            return first + await reader.readline()
    except ValueError as exc:
        raise Invalid(f"line of more than {MAX_CALL} bytes") from exc


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _peer(writer: asyncio.StreamWriter) -> str:
    return str(writer.get_extra_info("peername"))
