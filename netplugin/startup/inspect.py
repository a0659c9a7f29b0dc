"""The agent's REST routes on port 9090: inspection and debugging, in the original's shapes.

GET /inspect/driver: state of both bridges (`ofnet.inspection`). GET /inspect/flows/{name}: the
flows that each bridge must have for what has that name, an endpoint's by its key, with their
cookies. GET /inspect/nameserver: the names pods can resolve. GET /inspect/bgp: the session with the
BGP peer and its prefixes (`ofnet.bgp.inspection`). GET /inspect/kubernetes: the watches of the
Kubernetes API, null without. GET /healthz, GET /readyz: `daemons.health`; these two are answered
during the agent's start too. GET /svcstats: counters of the clients of services; this route and the
driver's query the switches for each request. DELETE /debug/reclaimEndpoint/{key}: remove an
endpoint of this host, for netmaster's clean-up; refused to all but registered masters. GET
/debug/leaks: how many objects garbage collection removed, by cause. GET /metrics: numbers for
Prometheus (docs/metrics.md). POST /trace: what this host would do with a packet
(`netplugin.trace`), for netmaster's trace; it changes nothing. What operators ask all hosts at once
is in `netplugin.diagnostics`.

Source: docs/original/netplugin-agent.md §7.
"""

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from core.errors import ContivError, HostError, Invalid
from core.ids import EndpointKey
from core.logs import fields
from core.net.connections import ConnectionGuard, ConnectionLimits
from core.outside_json import read_json
from daemons import metrics_page
from daemons.browsers import BrowserPolicy, CrossSiteRequest
from daemons.certificates.peers import Role, agent_api_allows
from daemons.certificates.tls import TlsContexts, peer_identity
from daemons.health import PATHS, Health
from daemons.http import GuardedSite
from daemons.listen_address import ListenAddress
from daemons.metrics_page import MetricsPage
from daemons.request_stats import UNKNOWN, RequestStats, method_label
from netplugin.bgp.host_bgp import HostBgp
from netplugin.bridges.guards.pod_guard import resolve
from netplugin.diagnostics.large_json import encode, encode_members, send
from netplugin.dns.nameserver import NameServer
from netplugin.kube.feed import KubeFeed
from netplugin.pods.handler import Pods
from netplugin.trace import request as trace_request
from netplugin.trace.tracer import Tracer
from ofnet.agent import BridgeAgent
from ofnet.inspection import ENDPOINTS, AgentIdentity, endpoint_entries
from ofnet.world import Bridge

log = logging.getLogger(__name__)

SIDES = {"vlan": Bridge.VLAN, "vxlan": Bridge.VXLAN}
MAX_BODY = 64 * 1024
KEEP_ALIVE: Final = 75.0
"""Seconds a connection may be idle between two requests."""
LIMITS: Final = ConnectionLimits(total=512, per_peer=128, first_request=10.0, unread=60.0)
_NOT_ROUTED = "Ofnet not initialized in routing mode"
_PUBLIC: Final = frozenset((method, path) for method in ("GET", "HEAD") for path in PATHS)


class Identities(Protocol):
    """What this host is to the cluster (`netplugin.startup.membership`)."""

    def identity(self, bridge: Bridge) -> AgentIdentity:
        """Return who a bridge's agent is, and its masters."""
        ...


class Inspector:
    """The handlers of the routes.

    `collected` counts garbage collections by cause.
    """

    def __init__(
        self,
        *,
        agents: Mapping[Bridge, BridgeAgent],
        membership: Identities,
        names: NameServer,
        pods: Pods,
        bgp: HostBgp,
        collected: Mapping[str, int],
        kubernetes: KubeFeed | None = None,
        metrics: MetricsPage | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._metrics = metrics or MetricsPage()
        self._agents = agents
        self._membership = membership
        self._names = names
        self._pods = pods
        self._bgp = bgp
        self._collected = collected
        self._encoding = asyncio.Lock()
        self._kubernetes = kubernetes
        self._tracer = tracer

    def report(self) -> dict[str, Any]:
        """Return the state of both bridges, without counters of services."""
        return {
            side: self._agents[bridge].inspect(self._membership.identity(bridge))
            for side, bridge in SIDES.items()
        }

    async def text(self) -> str:
        """Return what the routes of inspection say, as JSON."""
        kubernetes = self._kubernetes.report() if self._kubernetes is not None else None
        whole = {
            "bgp": self._bgp.report(),
            "kubernetes": kubernetes,
            "collected": dict(self._collected),
            "nameserver": self._names.report(),
            "driver": self.report(),
        }
        return json.dumps(whole, default=str) + "\n"

    async def _counters(self) -> dict[Bridge, dict[str, Any]]:
        """Return the counters of services, by bridge."""
        asked = [self._agents[bridge].service_stats() for bridge in SIDES.values()]
        return dict(zip(SIDES.values(), await asyncio.gather(*asked), strict=True))

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/inspect/driver", self._driver),
            web.get("/inspect/flows/{name:.+}", self._flows),
            web.get("/inspect/nameserver", self._nameserver),
            web.get("/inspect/bgp", self._bgp_state),
            web.get("/inspect/kubernetes", self._kubernetes_state),
            web.get("/svcstats", self._service_stats),
            web.get("/debug/leaks", self._leaks),
            web.get(metrics_page.PATH, self._page),
            web.post("/trace", self._trace),
            web.delete("/debug/reclaimEndpoint/{key:.+}", self._reclaim),
        ]

    async def _driver(self, request: web.Request) -> web.StreamResponse:
        # Encoded one at a time: side by side they would only share the processor. They are sent
        # side by side, since a client may read slowly.
        async with self._encoding:
            counters = await self._counters()
            parts = [b"{"]
            for side, bridge in SIDES.items():
                parts.append(f'{"," if len(parts) > 1 else ""}"{side}":'.encode())
                parts += await self._side(bridge, counters[bridge])
            parts.append(b"}")
        return await send(request, parts)

    async def _side(self, bridge: Bridge, counters: Mapping[str, Any]) -> list[bytes]:
        """Return the JSON of one bridge, in parts."""
        agent, identity = self._agents[bridge], self._membership.identity(bridge)
        # A World is never changed, only replaced: both parts are of the one that is there now.
        endpoints = endpoint_entries(agent.world, identity)
        report = agent.inspect(identity, counters, endpoints={})
        del report[ENDPOINTS]
        return [
            encode(report)[:-1].encode(),
            f",{encode(ENDPOINTS)}:".encode(),
            *await encode_members(endpoints),
            b"}",
        ]

    async def _flows(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        lines = [
            f"{bridge}: cookie={flow.cookie:#x}, {flow}\n"
            for bridge, agent in self._agents.items()
            for flow in sorted(agent.desired.named(name), key=lambda one: one.key)
        ]
        if not lines:
            text = (
                "no flows: this host has no such endpoint; `netctl endpoint ls` tells the hosts\n"
            )
            return web.Response(status=HTTPStatus.NOT_FOUND, text=text)
        return web.Response(text="".join(lines))

    async def _nameserver(self, _request: web.Request) -> web.Response:
        return web.Response(text=encode(self._names.report()))

    async def _bgp_state(self, _request: web.Request) -> web.Response:
        report = self._bgp.report()
        if report is None:
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=f"{_NOT_ROUTED}\n")
        return web.Response(text=encode(report))

    async def _kubernetes_state(self, _request: web.Request) -> web.Response:
        report = self._kubernetes.report() if self._kubernetes is not None else None
        return web.Response(text=encode(report), content_type="application/json")

    async def _service_stats(self, _request: web.Request) -> web.Response:
        counters = await self._counters()
        merged = {**counters[Bridge.VLAN], **counters[Bridge.VXLAN]}
        return web.Response(text=encode(merged), content_type="application/json")

    async def _leaks(self, _request: web.Request) -> web.Response:
        return web.Response(text=encode(dict(self._collected)), content_type="application/json")

    async def _page(self, _request: web.Request) -> web.Response:
        headers = {"Content-Type": metrics_page.CONTENT_TYPE}
        return web.Response(body=await self._metrics.text(), headers=headers)

    async def _trace(self, request: web.Request) -> web.Response:
        if self._tracer is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="no tracer\n")
        try:
            asked = read_json(await request.read())
        except (ValueError, RecursionError):
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="the body is no JSON\n")
        try:
            answer = await self._tracer.trace(trace_request.read(asked))
        except Invalid as exc:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{exc}\n")
        return web.Response(text=encode(answer), content_type="application/json")

    async def _reclaim(self, request: web.Request) -> web.Response:
        # With TLS the role in the certificate has been checked, which says more than an address.
        if not request.secure and not await self._is_master(request.remote or ""):
            log.warning("reclaim refused", extra=fields(peer=request.remote, path=request.path))
            return web.Response(
                status=HTTPStatus.FORBIDDEN,
                text=f"{request.remote} is not the address of a registered netmaster: release"
                " endpoints with netctl\n",
            )
        try:
            await self._pods.reclaim(EndpointKey(request.match_info["key"]))
        except ContivError as exc:
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=f"{exc}\n")
        return web.Response(text="null\n", content_type="application/json")

    async def asked_by_master(self, request: web.Request) -> bool:
        """Return whether a request comes from a master: by its certificate, or its address."""
        if request.secure:
            transport = request.transport
            peer = peer_identity(transport.get_extra_info("ssl_object")) if transport else None
            return peer is not None and peer.role is Role.MASTER
        return await self._is_master(request.remote or "")

    async def _is_master(self, peer: str) -> bool:
        """Return whether a peer has the address of a master that is registered in the store."""
        # A pod has such an address only on its way out of a master's host, and is stopped before
        # (`ofnet.pipelines.features.pod_guard`).
        masters = self._membership.identity(Bridge.VXLAN).masters
        return peer in masters or peer in {
            address for name in masters for address in await resolve(name)
        }


def application(
    health: Health, inspector: Inspector | None = None, asked: Iterable[web.RouteDef] = ()
) -> web.Application:
    """Return the routes as an application; during the agent's start there is no inspector.

    `asked` are routes of `netplugin.diagnostics`.
    """
    app = web.Application(client_max_size=MAX_BODY)

    async def answer(request: web.Request) -> web.Response:
        status, text = await health.answer(request.path)
        return web.Response(status=status, text=text, content_type="application/json")

    app.router.add_routes([web.get(path, answer) for path in sorted(PATHS)])
    if inspector is not None:
        app.router.add_routes([*inspector.routes(), *asked])
    return app


@asynccontextmanager
async def serve(
    where: ListenAddress | socket.socket,
    app: web.Application,
    tls: TlsContexts | None = None,
    limits: ConnectionLimits = LIMITS,
    stats: RequestStats | None = None,
) -> AsyncIterator[int]:
    """Serve for the length of the body; yield the port in use. Raises HostError if it is taken.

    With TLS clients need a certificate of a role that may do what they ask for; only health is told
    to anyone.
    """
    connections = ConnectionGuard("REST of the agent", limits)
    app.middlewares.append(_counting(stats or RequestStats()))
    app.middlewares.append(_log_failure)
    app.middlewares.append(_refuse_cross_site)
    if tls:
        app.middlewares.append(_check_role)
    app.middlewares.append(_keeping(connections))
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=1.0)
    await runner.setup()
    try:
        context = tls.server(certificate_optional=True) if tls else None
        site = GuardedSite(runner, connections, where, tls=context)
        try:
            await site.start()
        except OSError as exc:
            raise HostError(f"cannot serve on {site.name}: {exc}") from exc
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _keeping(connections: ConnectionGuard) -> Any:
    """Return what keeps a connection open while its request is answered."""

    @web.middleware
    async def keep(request: web.Request, handler: Handler) -> web.StreamResponse:
        with connections.busy(request.transport):
            return await handler(request)

    return keep


def _counting(stats: RequestStats) -> Any:
    """Return what counts requests and their answers."""

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        began, status = time.monotonic(), HTTPStatus.INTERNAL_SERVER_ERROR.value
        try:
            answer = await handler(request)
            status = answer.status
        except web.HTTPException as exc:
            status = exc.status
            raise
        finally:
            resource = request.match_info.route.resource
            route = resource.canonical if resource is not None else UNKNOWN
            took = time.monotonic() - began
            stats.count(status, took, method_label(request.method), route)
        return answer

    return count


@web.middleware
async def _log_failure(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (web.HTTPException, ConnectionError):  # an answer of its own; the client has gone
        raise
    except Exception:
        # `core.logs` silences what aiohttp says of it, since that may be about any broken request
        about = fields(method=request.method, path=request.path)
        log.exception("request failed", extra=about)
        raise


@web.middleware
async def _refuse_cross_site(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        BrowserPolicy().check(request.method, request.path, request.headers, secure=request.secure)
    except CrossSiteRequest as exc:
        return web.Response(status=exc.http_status, text=f"{exc}\n")
    return await handler(request)


@web.middleware
async def _check_role(request: web.Request, handler: Handler) -> web.StreamResponse:
    transport = request.transport
    peer = peer_identity(transport.get_extra_info("ssl_object")) if transport else None
    if agent_api_allows(peer, request.method) or (request.method, request.path) in _PUBLIC:
        return await handler(request)
    log.warning(
        "access denied",
        extra=fields(user=peer, address=request.remote, method=request.method, path=request.path),
    )
    return web.Response(status=HTTPStatus.FORBIDDEN, text="access denied\n")
