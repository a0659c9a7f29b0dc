"""Answers health checks of load balancers for services that only hosts with targets serve.

A service with externalTrafficPolicy Local has a port of every host at which a load balancer asks
whether this host has targets. In come the ports with their services; each is answered over HTTP as
kube-proxy does: 200 if there are targets here, else 503, and how many as JSON.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from core.errors import HostError
from core.logs import fields
from core.patience import patient

log = logging.getLogger(__name__)

_PATIENCE: Final = patient(5.0)
"""Seconds a client may take for its request."""
_LONGEST: Final = 8192
"""Size in bytes of a request's head."""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """A service, and the number of its targets on this host."""

    namespace: str
    name: str
    targets: int

    def reply(self) -> bytes:
        """Return the reply, headers and all."""
        status = HTTPStatus.OK if self.targets else HTTPStatus.SERVICE_UNAVAILABLE
        body = json.dumps(
            {
                "service": {"namespace": self.namespace, "name": self.name},
                "localEndpoints": self.targets,
                "serviceProxyHealthy": True,
            }
        )
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}",
            "Content-Type: application/json",
            "X-Content-Type-Options: nosniff",
            f"X-Load-Balancing-Endpoint-Weight: {self.targets}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


class HealthChecks:
    """The ports that answer. One per agent."""

    def __init__(self) -> None:
        self._known: dict[int, ServiceHealth] = {}
        self._servers: dict[int, asyncio.Server] = {}

    async def keep(self, wanted: Mapping[int, ServiceHealth]) -> None:
        """Answer at these ports and no others.

        Raises HostError if a port cannot be used; the others answer nevertheless.
        """
        self._known = dict(wanted)
        for port in self._servers.keys() - wanted.keys():
            self._servers.pop(port).close()
        failure: HostError | None = None
        for port in wanted.keys() - self._servers.keys():
            try:
                self._servers[port] = await self._listen(port)
            except OSError as exc:
                failure = HostError(f"health check port {port}: {exc.strerror or exc}")
        if failure is not None:
            raise failure

    async def _listen(self, port: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._answer(port, reader, writer)
            except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as exc:
                log.debug("health check not answered", extra=fields(port=port, error=exc))
            finally:
                writer.close()

        return await asyncio.start_server(serve, port=port, limit=_LONGEST)

    async def _answer(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with asyncio.timeout(_PATIENCE):
            await reader.readuntil(b"\r\n\r\n")
            health = self._known.get(port)
            if health is not None:
                writer.write(health.reply())
                await writer.drain()
