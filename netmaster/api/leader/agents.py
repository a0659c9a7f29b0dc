"""Calls the REST routes of agents: inspect BGP, trace a packet, clean up, ask all hosts at once.

An agent is found in the service registry by its host's label, at the port it registered. Answers
come back as data; every failure is an AgentUnavailable that names the host.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv4Address
from ssl import SSLContext
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
)
from pydantic import TypeAdapter
from yarl import URL

from core import keys
from core.addresses import authority
from core.errors import AgentUnavailable, Invalid
from core.ids import HostLabel
from core.patience import patient
from daemons.certificates.tls import TlsContexts
from daemons.certificates.tls_faults import cause
from daemons.http_client import Connector
from netmaster import agent_answers
from netmaster.agent_answers import HOP, TraceHop
from netmaster.auth.forwarding import FORWARDED_IDENTITY
from netmaster.hosts import host_inventory
from netmaster.hosts.host_inventory import HostInventory
from objdb.api import Backend
from state import codec
from state.records import EndpointRecord, ServiceInstance

CONNECT_TIMEOUT: Final = patient(3.0)
ANSWER_TIMEOUT: Final = patient(10.0)

MAX_ANSWER: Final = 32 << 20
"""Bytes of an agent's answer that are read; a longer one is refused."""
_REFUSAL: Final = 4096
"""Bytes of a refusal that are read."""
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_JSON: Final = MappingProxyType({"Content-Type": "application/json"})
ASKED_AT_ONCE: Final = 50
"""How many agents are asked side by side."""

_TEXTS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "page not found",
    HTTPStatus.FORBIDDEN: "access denied",
}
"""The original's texts for refusals of an agent."""


_BGP: Final = TypeAdapter[dict[str, Any] | None](dict[str, Any] | None)


@dataclass(frozen=True, slots=True)
class Answers:
    """What all hosts replies to one question: the answer's body, or why there is none, by host."""

    replies: Mapping[str, bytes]
    unreachable: Mapping[str, str]


class RegisteredAgents:
    """The agents of all hosts; `answer_timeout` is seconds for a whole request.

    Requests come from `source`, the address by which this master is registered: agents do what
    changes them for registered masters alone. A name, or an address of IPv6, is passed over.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        source: str = "",
        answer_timeout: float = ANSWER_TIMEOUT,
        tls: TlsContexts | None = None,
    ) -> None:
        self._backend = backend
        self._tls = tls
        self._session = ClientSession(
            connector=Connector(local_addr=(source, 0) if _is_ipv4(source) else None),
            timeout=ClientTimeout(total=answer_timeout, sock_connect=CONNECT_TIMEOUT),
            cookie_jar=DummyCookieJar(),
            # What an agent sends is limited as it arrives, not by what it would unpack to.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def vteps(self) -> dict[HostLabel, str]:
        """Return the address of each known host's tunnel endpoint (VTEP)."""
        found = await self._backend.snapshot(keys.HOSTS)
        hosts = host_inventory.readable_records(found.entries.values())
        return {host.label: host.vtep_ip for host in hosts}

    async def bgp(self, host: str) -> dict[str, Any]:
        """Return the state of a host's first BGP neighbor, and its routes."""
        body = await self._ask("GET", host, "/inspect/bgp")
        found = agent_answers.read(host, "a BGP state", body, _BGP)
        try:
            return bgp_state(found)
        except (TypeError, AttributeError, LookupError) as exc:
            raise AgentUnavailable(f"host {host}: not a BGP state: {body[:80]!r}") from exc

    async def trace(self, host: str, question: Mapping[str, Any]) -> TraceHop:
        """Return what a host would do with a packet (`netplugin.trace`).

        Raises Invalid for a question that the agent cannot answer.
        """
        body = await self._ask("POST", host, "/trace", question)
        found = agent_answers.read(host, "a trace", body, HOP)
        if found["host"] != host:
            raise AgentUnavailable(f"host {host}: not a trace: {body[:80]!r}")
        return found

    async def send(self, host: str, question: Mapping[str, Any]) -> None:
        """Have a host send a packet in an endpoint's name (`netplugin.diagnostics.live_trace`).

        Raises AgentUnavailable, and Invalid for a packet that it cannot send.
        """
        await self._ask("POST", host, "/trace/send", question)

    async def reclaim(self, endpoint: EndpointRecord) -> None:
        """Have the endpoint's host tear it down, if it has it."""
        path = "/debug/reclaimEndpoint/" + quote(endpoint.key, safe="")
        await self._ask("DELETE", endpoint.homing_host, path)

    async def ask_all(
        self,
        path: str,
        *,
        seconds: float = ANSWER_TIMEOUT,
        most: int = MAX_ANSWER,
        body: bytes | None = None,
        only: Collection[str] | None = None,
    ) -> Answers:
        """Ask the agents of all hosts, those without a registered agent too, or of some `only`.

        `seconds` and `most` bytes are for the answer of each. With a `body`, JSON, it is a POST.
        Whatever an agent registers or answers, the others' answers are there. Raises
        StoreUnavailable.
        """
        hosts = await host_inventory.read(self._backend)
        replies: dict[str, bytes] = {}
        unreachable: dict[str, str] = {}
        places = asyncio.Semaphore(ASKED_AT_ONCE)
        method = "GET" if body is None else "POST"

        async def ask(label: HostLabel) -> None:
            async with places:
                try:
                    address = _rest_address(label, hosts)
                    url = f"{address}{path}"
                    opened = self._open(label, method, url, seconds=seconds, body=body)
                    replies[label] = await _body(label, opened, most)
                except (AgentUnavailable, Invalid) as exc:
                    unreachable[label] = str(exc)

        wanted = [label for label in hosts.known if only is None or label in only]
        await asyncio.gather(*map(ask, wanted))
        return Answers(dict(sorted(replies.items())), dict(sorted(unreachable.items())))

    @asynccontextmanager
    async def stream(
        self, host: str, path: str, *, seconds: float
    ) -> AsyncIterator[ClientResponse]:
        """Provide a host's answer, whose body is not read yet. Raises AgentUnavailable.

        A body that is not read to its end ends with the connection.
        """
        address = await self._address(host)
        async with self._open(host, "GET", f"{address}{path}", seconds=seconds) as answer:
            if answer.status != HTTPStatus.OK:
                body = await answer.content.read(_REFUSAL)
                raise AgentUnavailable(f"host {host}: {_refusal(answer, body)}")
            yield answer

    async def count(self) -> int:
        """Return how many hosts and masters there are to ask. Raises StoreUnavailable."""
        hosts = await host_inventory.read(self._backend)
        masters = await self._backend.snapshot(keys.services(keys.SERVICE_NETMASTER))
        return len(hosts.known) + len(masters.entries)

    async def ask_masters(self, path: str, client: str, *, seconds: float) -> Answers:
        """Ask all registered masters, this one too, for a client (`netmaster.auth.forwarding`).

        By their addresses. Raises StoreUnavailable, and Invalid for a registration of a master that
        cannot be read: agents have no right to write those.
        """
        found = await self._backend.snapshot(keys.services(keys.SERVICE_NETMASTER))
        replies: dict[str, bytes] = {}
        unreachable: dict[str, str] = {}

        async def ask(master: ServiceInstance) -> None:
            address = authority(master.address, master.port)
            try:
                answer = self._open(
                    "of a master",
                    "GET",
                    f"{address}{path}",
                    seconds=seconds,
                    headers={FORWARDED_IDENTITY: client},
                )
                replies[address] = await _body("of a master", answer)
            except AgentUnavailable as exc:
                unreachable[address] = str(exc)

        masters = (codec.decode_service(key, one.value) for key, one in found.entries.items())
        await asyncio.gather(*map(ask, masters))
        return Answers(dict(sorted(replies.items())), dict(sorted(unreachable.items())))

    async def _ask(
        self, method: str, host: str, path: str, body: Mapping[str, Any] | None = None
    ) -> bytes:
        address = await self._address(host)
        sent = None if body is None else json.dumps(body).encode()
        return await _body(host, self._open(host, method, f"{address}{path}", body=sent))

    @asynccontextmanager
    async def _open(
        self,
        host: str,
        method: str,
        url: str,
        *,
        seconds: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
    ) -> AsyncIterator[ClientResponse]:
        """Send a request; failures of the answer's body count as well.

        With `headers` it is sent to a master, which only the certificate of a master proves to be.
        """
        limits = self._session.timeout
        if seconds is not None:
            limits = ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT)
        try:
            async with self._session.request(
                method,
                URL(f"{'https' if self._tls else 'http'}://{url}", encoded=True),
                data=body,
                headers=headers if body is None else {**headers, **_JSON},
                ssl=self._context(host, to_master=bool(headers)),
                timeout=limits,
                # An agent must not send a master elsewhere, with the master's certificate.
                allow_redirects=False,
            ) as answer:
                yield answer
        except (ClientError, TimeoutError) as exc:
            address = url.partition("/")[0]
            raise AgentUnavailable(f"host {host}: {address} does not answer: {cause(exc)}") from exc

    def _context(self, host: str, *, to_master: bool) -> SSLContext | bool:
        if self._tls is None:
            return True
        return self._tls.to_masters() if to_master else self._tls.to_agent(host)

    async def _address(self, host: str) -> str:
        return _rest_address(HostLabel(host), await host_inventory.read(self._backend))


async def _body(
    host: str, opened: AbstractAsyncContextManager[ClientResponse], most: int = MAX_ANSWER
) -> bytes:
    """Return the body of an answer that is no failure. Raises AgentUnavailable, and Invalid."""
    async with opened as answer:
        parts, size = [], 0
        async for part in answer.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > most:
                raise AgentUnavailable(f"host {host}: the answer is longer than {most} bytes")
    body = b"".join(parts)
    if answer.status == HTTPStatus.OK:
        return body
    if answer.status == HTTPStatus.BAD_REQUEST:
        raise Invalid(_text(body))
    raise AgentUnavailable(f"host {host}: {_refusal(answer, body)}")


def _rest_address(host: HostLabel, hosts: HostInventory) -> str:
    """Return where the REST of a host's agent is. Raises AgentUnavailable."""
    for instance in hosts.services.get(host, ()):
        if instance.service == keys.SERVICE_AGENT_REST:
            return authority(instance.address, instance.port)
    why = "; ".join(["no netplugin is registered", *hosts.faults.get(host, ())])
    raise AgentUnavailable(f"host {host}: {why}")


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def bgp_state(inspected: dict[str, Any] | None) -> dict[str, Any]:
    """Return an agent's BGP state under the names of REST; None stands for an agent without BGP."""
    oper: dict[str, Any] = {}
    if inspected is None:
        return oper
    # Agents of the original write these names in lower case, which Go's decoder accepts.
    found = {name.lower(): value for name, value in inspected.items()}
    peers, routes = found.get("peers") or [], found.get("dsts") or []
    if peers:
        state = peers[0]["State"]
        oper["adminStatus"] = state.get("AdminState", "")
        oper["neighborStatus"] = state.get("SessionState", "")
    return {**oper, "numRoutes": len(routes), "routes": list(routes)}


def _refusal(answer: ClientResponse, body: bytes) -> str:
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = f"status {answer.status}"
    if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _text(body) or phrase
    return _TEXTS.get(answer.status, phrase)


def _text(body: bytes) -> str:
    """Return what a refusal says."""
    return body[:_REFUSAL].decode("utf-8", "replace").strip()
