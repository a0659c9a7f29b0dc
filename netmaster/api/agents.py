"""Calls the REST routes of agents: inspect BGP, trace a packet, tear an endpoint down.

An agent is found in the service registry by its host's label, at the port it registered. Answers
come back as data; every failure is an AgentUnavailable that names the host.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from ipaddress import IPv4Address
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from core import keys
from core.errors import AgentUnavailable, Invalid
from core.ids import HostLabel
from daemons.tls import TlsContexts
from daemons.tls_faults import cause
from objdb.api import Backend
from state import codec
from state.records import EndpointRecord

CONNECT_TIMEOUT: Final = 3.0
ANSWER_TIMEOUT: Final = 10.0

_TEXTS: Final = {HTTPStatus.NOT_FOUND: "page not found", HTTPStatus.FORBIDDEN: "access denied"}
"""The original's texts for refusals of an agent."""


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
            connector=TCPConnector(local_addr=(source, 0) if _is_ipv4(source) else None),
            timeout=ClientTimeout(total=answer_timeout, sock_connect=CONNECT_TIMEOUT),
            cookie_jar=DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def vteps(self) -> dict[HostLabel, str]:
        """Return the address of each known host's tunnel endpoint (VTEP)."""
        found = await self._backend.snapshot(keys.HOSTS)
        hosts = (codec.decode_host(key, entry.value) for key, entry in found.entries.items())
        return {host.label: host.vtep_ip for host in hosts}

    async def bgp(self, host: str) -> dict[str, Any]:
        """Return the state of a host's first BGP neighbor, and its routes."""
        body = await self._ask("GET", host, "/inspect/bgp")
        try:
            return bgp_state(json.loads(body))
        except (ValueError, TypeError, AttributeError, LookupError) as exc:
            raise AgentUnavailable(f"host {host}: not a BGP state: {body[:80]!r}") from exc

    async def trace(self, host: str, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a host would do with a packet (`netplugin.trace`).

        Raises Invalid for a question that the agent cannot answer.
        """
        body = await self._ask("POST", host, "/trace", question)
        try:
            found = json.loads(body)
        except ValueError as exc:
            raise AgentUnavailable(f"host {host}: not a trace: {body[:80]!r}") from exc
        if not isinstance(found, dict) or found.get("host") != host:
            raise AgentUnavailable(f"host {host}: not a trace: {body[:80]!r}")
        return found

    async def reclaim(self, endpoint: EndpointRecord) -> None:
        """Have the endpoint's host tear it down, if it has it."""
        path = "/debug/reclaimEndpoint/" + quote(endpoint.key, safe="")
        await self._ask("DELETE", endpoint.homing_host, path)

    async def _ask(
        self, method: str, host: str, path: str, body: Mapping[str, Any] | None = None
    ) -> bytes:
        address = await self._address(host)
        try:
            async with self._session.request(
                method,
                f"{'https' if self._tls else 'http'}://{address}{path}",
                json=body,
                ssl=self._tls.to_agents() if self._tls else True,
            ) as answer:
                read = await answer.read()
        except (ClientError, TimeoutError) as exc:
            raise AgentUnavailable(f"host {host}: {address} does not answer: {cause(exc)}") from exc
        if answer.status == HTTPStatus.OK:
            return read
        if answer.status == HTTPStatus.BAD_REQUEST:
            raise Invalid(read.decode("utf-8", "replace").strip())
        raise AgentUnavailable(f"host {host}: {_refusal(HTTPStatus(answer.status), read)}")

    async def _address(self, host: str) -> str:
        found = await self._backend.snapshot(keys.services(keys.SERVICE_AGENT_REST))
        for key, entry in sorted(found.entries.items()):
            instance = codec.decode_service(key, entry.value)
            if instance.hostname == host:
                return f"{instance.address}:{instance.port}"
        raise AgentUnavailable(f"host {host}: no netplugin is registered")


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


def _refusal(status: HTTPStatus, body: bytes) -> str:
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        return body.decode("utf-8", "replace").strip() or status.phrase
    return _TEXTS.get(status, status.phrase)
