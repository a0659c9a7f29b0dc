"""The asyncio client of netmaster's `/plugin/*` routes, used by the agent.

Takes requests of `contivmodel.rpc`; returns the replies below or raises an error of `core.errors`:
MasterUnavailable without an answer (`outcome_unknown`: the request may have been carried out),
NotLeader if the netmaster knows no leader, otherwise the class for the first line of the error
text. The header of `contivmodel.outcome` tells surely not done from unknown.
`netplugin.masters.leader` chooses the netmaster and retries. Command line programs use
`contivmodel.client_sync`.
"""

# The client never retries by itself: whether a request may be repeated depends on the caller, which
# also knows the other netmasters. So every failure tells whether the request may have been sent.
# A refused connection was not sent; after any other failure the outcome is unknown.

import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ssl import SSLContext
from types import TracebackType
from typing import Final, Generic, NamedTuple, Self, TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError

from contivmodel.outcome import HEADER, Outcome
from contivmodel.wire import WireModel, dumps, field
from core.errors import (
    ContivError,
    Exhausted,
    MasterRefused,
    MasterUnavailable,
    NotFound,
    NotLeader,
    QuotaExceeded,
)
from core.tracing import spans, trace_context
from daemons.http_client import Connector

TIMEOUT: Final = 30.0
"""Seconds for one request, connecting included."""

_IDLE: Final = 15.0
"""Seconds an idle connection is kept; shorter than the server's limit, so that the server does not
close it just as a request is sent."""

_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing ends the connection at once, by a reset."""

_TOLD: Final = 200
"""Characters of an answer that an error repeats."""

_HEADERS: Final = {"Content-Type": "application/json"}
"""The route compares this text exactly (docs/original/netmaster-daemon.md §7)."""


class EndpointConfig(WireModel):
    """The endpoint record in netmaster's answer; addresses are plain text, "" if there is none."""

    id: str = field("id")
    network_id: str = field("netID")
    endpoint_id: str = field("endpointID")
    service_name: str = field("serviceName")
    group_id: int = field("endpointGroupId", default=0)
    group_key: str = field("endpointGroupKey")
    ip_address: str = field("ipAddress")
    ipv6_address: str = field("ipv6Address")
    mac_address: str = field("macAddress")
    homing_host: str = field("homingHost")
    intf_name: str = field("intfName")
    vtep_ip: str = field("vtepIP")
    labels: dict[str, str] | None = field("labels", default=None)
    container_id: str = field("containerId")
    common_name: str = field("epCommonName")


class EndpointReply(WireModel):
    """The answer of createEndpoint and deleteEndpoint.

    `source`, which the original does not have, is the endpoint id of the pod that a machine runs in
    while another pod awaits it: then there is no endpoint yet (`CreateEndpointRequest`).
    """

    endpoint: EndpointConfig = field("EndpointConfig", default_factory=EndpointConfig)
    source: str = field("SourceEndpoint")


class AddressReply(WireModel):
    """The answer of allocAddress; `address` is IPv4 or IPv6, with its prefix length."""

    network_id: str = field("NetworkID")
    address: str = field("IPv4Address")


class HeldAheadReply(WireModel):
    """Addresses for one pod that a host was granted; `ipv6_address` may be ""."""

    network_id: str = field("NetworkID")
    ipv4_address: str = field("IPv4Address")
    ipv6_address: str = field("IPv6Address")


class AddressBlocksReply(WireModel):
    """The answer of addressBlocks: the stored lease, and whether it was renewed as asked."""

    lease: str = field("Lease")
    number: int = field("Number", default=0)
    renewed: bool = field("Renewed", default=False)
    seconds: float = field("Seconds", default=0.0)
    token: str = field("Token")
    granted: list[HeldAheadReply] = field("Granted", default_factory=list)
    drained: bool = field("Drained", default=False)


class PlaceReply(WireModel):
    """The answer of allocNetwork: the network, and the group or "", that docker's stands for."""

    tenant_name: str = field("TenantName")
    network_name: str = field("NetworkName")
    service_name: str = field("ServiceName")


NO_LEADER: Final = "Leader not found"
"""The original's answer of a netmaster that knows no leader; nothing was changed."""

_NO_HEADERS: Final[Mapping[str, str]] = {}

REVISIONS_HEADER: Final = "Contiv-Revisions"
"""Header of createEndpoint's answer: JSON, store prefix -> revision of the last change there, for
the prefixes that determine the endpoint's policies. An agent that has applied these revisions has
the endpoint's policies in place."""

HISTORY_HEADER: Final = "Contiv-History"
"""Header of the same answer: the id of the leader's term, in whose history of the store these
revisions are."""

R = TypeVar("R", bound=WireModel)
T = TypeVar("T")


class CreatedEndpoint(NamedTuple):
    """The created endpoint, the revisions of `REVISIONS_HEADER` by prefix, and their history.

    The history is "" from a netmaster of a release without it. `source` is as in `EndpointReply`.
    """

    endpoint: EndpointConfig
    revisions: dict[str, int]
    history: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class PluginCall(Generic[T]):
    """A route below `/plugin/`, and what its answer is read as."""

    route: str
    read: Callable[[bytes, Mapping[str, str]], T]


class MasterClient:
    """A client with kept-alive connections; close it, or use it in `async with`.

    Each call may name the netmaster (`base_url`, such as `http://10.0.0.1:9999`); the default is
    that of the constructor. `ssl` returns the TLS context for the next request to an https URL; a
    new context makes a new connection.
    """

    def __init__(
        self,
        base_url: str = "",
        *,
        timeout: float = TIMEOUT,
        ssl: Callable[[], SSLContext] | None = None,
    ) -> None:
        self._base_url = base_url
        self._ssl = ssl
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def scheme(self) -> str:
        """The scheme of netmasters' URLs."""
        return "https" if self._ssl else "http"

    async def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(
        self, call: PluginCall[T], request: WireModel, *, base_url: str | None = None
    ) -> T:
        """Send a request and return what was answered."""
        with spans.part(call.route, trace_context.SpanRole.CLIENT):
            answer, headers = await self._post(call.route, request, base_url)
        return call.read(answer, headers)

    async def check_ready(self, *, base_url: str | None = None) -> None:
        """Return if the netmaster says that it can do its work. Raises MasterUnavailable."""
        url = f"{(self._base_url if base_url is None else base_url).rstrip('/')}/readyz"
        try:
            async with self._open().get(
                url, allow_redirects=False, ssl=self._ssl() if self._ssl else True
            ) as response:
                answer = await response.text(errors="replace")
                status = response.status
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise MasterUnavailable(f'Get "{url}": {str(exc) or "no answer in time"}') from exc
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise MasterUnavailable(f"it is not ready: {answer.strip()[:_TOLD]}")

    async def _post(
        self, route: str, request: WireModel, base_url: str | None
    ) -> tuple[bytes, Mapping[str, str]]:
        url = f"{(self._base_url if base_url is None else base_url).rstrip('/')}/plugin/{route}"
        try:
            async with self._open().post(
                url,
                data=dumps(request),
                headers={**_HEADERS, **trace_context.headers()},
                allow_redirects=False,
                ssl=self._ssl() if self._ssl else True,
            ) as response:
                answer = await response.read()
                status, reason = response.status, response.reason or ""
                told = response.headers
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as exc:
            raise MasterUnavailable(f'Post "{url}": {exc}') from exc
        except (aiohttp.ClientError, TimeoutError) as exc:
            why = str(exc) or "no answer in time"
            raise MasterUnavailable(f'Post "{url}": {why}', outcome_unknown=True) from exc
        if status != HTTPStatus.OK:
            raise _refusal(status, reason, answer, told)
        return answer, told

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                connector=Connector(keepalive_timeout=_IDLE, socket_factory=_forgetful_socket),
            )
        return self._session


def _forgetful_socket(found: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that drops what it has not sent yet when it is closed."""
    # Otherwise the kernel goes on sending a request that was given up, for minutes if the host is
    # cut off: a creation would arrive after the deletion that undoes it, and leave an endpoint.
    family, kind, protocol, _, _ = found
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    return made


def _read(model: type[R], answer: bytes) -> R:
    try:
        return model.model_validate_json(answer)
    except ValidationError as exc:
        raise MasterRefused(f"netmaster's answer cannot be read: {exc}") from exc


_REVISIONS: Final = TypeAdapter(dict[str, int])


def _revisions(text: str) -> dict[str, int]:
    try:
        return _REVISIONS.validate_json(text)
    except ValidationError as exc:
        raise MasterRefused(f"netmaster's revisions cannot be read: {exc}") from exc


def _created(answer: bytes, headers: Mapping[str, str]) -> CreatedEndpoint:
    reply = _read(EndpointReply, answer)
    revisions = _revisions(headers.get(REVISIONS_HEADER, "{}"))
    history = headers.get(HISTORY_HEADER, "")
    return CreatedEndpoint(reply.endpoint, revisions, history, reply.source)


def _nothing(_answer: bytes, _headers: Mapping[str, str]) -> None:
    """Read nothing: that it was answered says all."""


def _as(model: type[R]) -> Callable[[bytes, Mapping[str, str]], R]:
    return lambda answer, _: _read(model, answer)


CREATE_ENDPOINT: Final = PluginCall("createEndpoint", _created)
"""Creates an endpoint and returns its record; idempotent. CreateEndpointRequest."""
DELETE_ENDPOINT: Final = PluginCall("deleteEndpoint", _as(EndpointReply))
"""Deletes an endpoint and returns its record; NotFound if there was none. DeleteEndpointRequest."""
UPDATE_ENDPOINT: Final = PluginCall("updateEndpoint", _nothing)
"""Records what happened to an endpoint's container, or NotFound. UpdateEndpointRequest."""
ALLOC_ADDRESS: Final = PluginCall("allocAddress", _as(AddressReply))
"""Reserves an address and returns it. AllocAddressRequest."""
RELEASE_ADDRESS: Final = PluginCall("releaseAddress", _nothing)
"""Releases an address; one that was not reserved is no error. ReleaseAddressRequest."""
ADDRESS_BLOCKS: Final = PluginCall("addressBlocks", _as(AddressBlocksReply))
"""Renews the lease of held addresses; a copy of it is harmless. AddressBlocksRequest."""
ALLOC_NETWORK: Final = PluginCall("allocNetwork", _as(PlaceReply))
"""Records what a network of docker's swarm stands for; idempotent. AllocNetworkRequest."""
FREE_NETWORK: Final = PluginCall("freeNetwork", _nothing)
"""Forgets such a network; one that is not known is no error. FreeNetworkRequest."""


def _refusal(
    status: int, reason: str, answer: bytes, headers: Mapping[str, str] = _NO_HEADERS
) -> ContivError:
    """Return the error for an answer other than 200.

    Netmasters before 0.2 have no header `Contiv-Outcome`, and `Retry-After` where it is unknown.
    """
    text = answer.decode("utf-8", "replace").partition("\n")[0].strip()
    if status == HTTPStatus.INTERNAL_SERVER_ERROR and text == NO_LEADER:
        return NotLeader(text)
    if "Retry-After" in headers:
        surely_not = headers.get(HEADER) in {Outcome.REFUSED, Outcome.ABSENT}
        return MasterUnavailable(text, outcome_unknown=not surely_not)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR and text:
        return _error_of(text)
    if status == HTTPStatus.FORBIDDEN and "by its quota" in text:
        return QuotaExceeded(text)
    # The original's follower answers 500 or 502 without a body if its leader is unreachable.
    unreachable = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.BAD_GATEWAY)
    if status in {*unreachable, HTTPStatus.SERVICE_UNAVAILABLE}:
        return MasterUnavailable(f"{status} {reason}", outcome_unknown=True)
    return MasterRefused(f"{status} {reason}")


def _error_of(text: str) -> ContivError:
    match text:
        case "Self proxying error":
            return MasterUnavailable(text)
        case _ if "address exhaustion" in text:
            return Exhausted(text)
        case _ if text.endswith("not found"):
            return NotFound(text)
        case _:
            return MasterRefused(text)
