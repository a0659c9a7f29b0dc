"""The agent's REST routes on port 9090: inspection and debugging, in the original's shapes.

GET /inspect/driver: state of both bridges (`ofnet.inspection`). GET /inspect/nameserver: the names
pods can resolve. GET /inspect/bgp: the session with the BGP peer and its prefixes
(`ofnet.bgp.inspection`). GET /svcstats: counters of the clients of services; this route and the
driver's query the switches for each request. DELETE /debug/reclaimEndpoint/{key}: remove an
endpoint of this host, for netmaster's clean-up; refused to all but registered masters. GET
/debug/leaks: how many objects garbage collection removed, by cause.

Source: docs/original/netplugin-agent.md §7.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from core.connections import ConnectionGuard, ConnectionLimits
from core.errors import ContivError, HostError
from core.ids import EndpointKey
from core.logs import fields
from daemons.peers import agent_api_allows
from daemons.tls import TlsContexts, peer_identity
from netplugin.bgp.host import HostBgp
from netplugin.bridges.pod_guard import resolve
from netplugin.dns.nameserver import NameServer
from netplugin.pods.handler import Pods
from netplugin.settings import ListenAddress
from ofnet.agent import BridgeAgent
from ofnet.inspection import AgentIdentity
from ofnet.world import Bridge

log = logging.getLogger(__name__)

SIDES = {"vlan": Bridge.VLAN, "vxlan": Bridge.VXLAN}
MAX_BODY = 64 * 1024
KEEP_ALIVE: Final = 75.0
"""Seconds a connection may be idle between two requests."""
LIMITS: Final = ConnectionLimits(total=512, per_peer=128, first_request=10.0, unread=60.0)
_NOT_ROUTED = "Ofnet not initialized in routing mode"


class Inspector:
    """The handlers of the routes; `collected` counts garbage collections by cause."""

    def __init__(
        self,
        *,
        agents: Mapping[Bridge, BridgeAgent],
        identity: Callable[[Bridge], AgentIdentity],
        names: NameServer,
        pods: Pods,
        bgp: HostBgp,
        collected: Mapping[str, int],
    ) -> None:
        self._agents = agents
        self._identity = identity
        self._names = names
        self._pods = pods
        self._bgp = bgp
        self._collected = collected

    def report(self) -> dict[str, Any]:
        """Return the state of both bridges, without counters of services."""
        return {
            side: self._agents[bridge].inspect(self._identity(bridge))
            for side, bridge in SIDES.items()
        }

    async def _clients(self) -> dict[Bridge, dict[str, Any]]:
        """Return the counters of the clients of services, by bridge."""
        asked = [self._agents[bridge].service_stats() for bridge in SIDES.values()]
        return dict(zip(SIDES.values(), await asyncio.gather(*asked), strict=True))

    def application(self) -> web.Application:
        """Return the routes as an application."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_get("/inspect/driver", self._driver)
        app.router.add_get("/inspect/nameserver", self._nameserver)
        app.router.add_get("/inspect/bgp", self._bgp_state)
        app.router.add_get("/svcstats", self._service_stats)
        app.router.add_get("/debug/leaks", self._leaks)
        app.router.add_delete("/debug/reclaimEndpoint/{key:.+}", self._reclaim)
        return app

    async def _driver(self, _request: web.Request) -> web.Response:
        clients = await self._clients()
        report = {
            side: self._agents[bridge].inspect(self._identity(bridge), clients[bridge])
            for side, bridge in SIDES.items()
        }
        return web.Response(text=_json(report))

    async def _nameserver(self, _request: web.Request) -> web.Response:
        return web.Response(text=_json(self._names.report()))

    async def _bgp_state(self, _request: web.Request) -> web.Response:
        report = self._bgp.report()
        if report is None:
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=f"{_NOT_ROUTED}\n")
        return web.Response(text=_json(report))

    async def _service_stats(self, _request: web.Request) -> web.Response:
        clients = await self._clients()
        merged = {**clients[Bridge.VLAN], **clients[Bridge.VXLAN]}
        return web.Response(text=_json(merged), content_type="application/json")

    async def _leaks(self, _request: web.Request) -> web.Response:
        return web.Response(text=_json(dict(self._collected)), content_type="application/json")

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

    async def _is_master(self, peer: str) -> bool:
        """Return whether a peer has the address of a master that is registered in the store."""
        # A pod has such an address only on its way out of a master's host, and is stopped before
        # (`ofnet.pipelines.pod_guard`).
        masters = self._identity(Bridge.VXLAN).masters
        return peer in masters or peer in {
            address for name in masters for address in await resolve(name)
        }


@asynccontextmanager
async def serve(
    address: ListenAddress,
    app: web.Application,
    tls: TlsContexts | None = None,
    limits: ConnectionLimits = LIMITS,
) -> AsyncIterator[int]:
    """Serve for the length of the body; yield the port in use. Raises HostError if it is taken.

    With TLS clients need a certificate of a role that may do what they ask for.
    """
    connections = ConnectionGuard("REST of the agent", limits)
    if tls:
        app.middlewares.append(_check_role)
    app.middlewares.append(_keeping(connections))
    runner = _GuardedRunner(
        connections, app, access_log=None, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        site = web.TCPSite(
            runner,
            address.host,
            address.port,
            ssl_context=tls.server() if tls else None,
        )
        try:
            await site.start()
        except OSError as exc:
            raise HostError(f"cannot serve on {address.host}:{address.port}: {exc}") from exc
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


class _GuardedRunner(web.AppRunner):
    """A runner of an application behind a guard of its connections."""

    def __init__(self, connections: ConnectionGuard, app: web.Application, **options: Any) -> None:
        super().__init__(app, **options)
        self._connections = connections

    @property
    def server(self) -> Any:
        """The factory of protocols for the sites of this runner."""
        server = super().server
        return None if server is None else self._connections.guarded(server)


@web.middleware
async def _check_role(request: web.Request, handler: Handler) -> web.StreamResponse:
    transport = request.transport
    peer = peer_identity(transport.get_extra_info("ssl_object")) if transport else None
    if agent_api_allows(peer, request.method):
        return await handler(request)
    log.warning(
        "access denied",
        extra=fields(user=peer, address=request.remote, method=request.method, path=request.path),
    )
    return web.Response(status=HTTPStatus.FORBIDDEN, text="access denied\n")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
