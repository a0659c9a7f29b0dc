"""Leases of consul: sessions that end with a health check, and the check's life sign.

A session's own time to live is at least 10 s and lasts twice as long. A TTL check is judged by the
agent it was registered at, to the second, and the session ends with it. The check is one of a
service, for consul removes what has long been dead of those, and a critical check of the node
itself would take the node's other services out of DNS. Check and life signs belong to one agent: a
lease ends with it. A life sign counts only if the servers still have the session.
"""

import asyncio
import http.client
import json
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from consul.callback import CB

from core.errors import StoreUnavailable
from core.logs import fields
from objdb.consul.agents import TOKEN_HEADER, ConsulAgent, ConsulAgents
from objdb.failover import Effort, Missed, Retry
from objdb.keepalive import GONE, PARTING, KeptLease, Renew, stop_all

log = logging.getLogger(__name__)

SERVICE: Final = "contiv-lease"
"""The service by whose instances consul knows our leases."""

SHORTEST: Final = 2.0
"""Seconds; a shorter lease would be lost to a busy machine."""

_FORGET: Final = "1m"
"""How long consul keeps the check of a lease that has ended; it grants no less."""

_UNKNOWN: Final = b"does not have associated TTL"
"""What an agent says of a check it does not know (any more)."""

_HEARD: Final = 2.0
"""Seconds an agent may take to tell the servers of a new check."""


class ConsulLease(KeptLease):
    """A session of consul; a `Lease`. `sent` is when its check was registered."""

    def __init__(self, leases: "ConsulLeases", at: "_Session", ttl: float, sent: float) -> None:
        self.id = at.id
        self._at = at
        self._agents = leases.agents
        super().__init__(leases.kept, _renewer(leases.agents, at, ttl), ttl=ttl, sent=sent)

    async def end(self) -> None:
        """Destroy the session, and have the agent forget its check."""
        try:
            await self._agents.call(
                lambda client: client.session.destroy(self.id), Retry.REPEAT, budget=PARTING
            )
            await self._at.agent.asked(
                lambda client: client.agent.service.deregister(self._at.check)
            )
        except (StoreUnavailable, Missed) as exc:
            log.info("lease not revoked", extra=fields(error=str(exc)))


class ConsulLeases:
    """All leases of one backend that are being renewed."""

    def __init__(self, agents: ConsulAgents) -> None:
        self.agents = agents
        self.kept: set[KeptLease] = set()

    async def grant(self, ttl: float) -> ConsulLease:
        """Return a new lease that keeps itself alive."""
        seconds = max(SHORTEST, ttl)
        effort = Effort(Retry.READ, budget=self.agents.budget)  # one that got lost ends by itself
        return await self.agents.retried(lambda agent: self._grant_at(agent, seconds), effort)

    async def stop(self) -> None:
        """Renew none of them any more."""
        await stop_all(self.kept)

    async def _grant_at(self, agent: ConsulAgent, ttl: float) -> ConsulLease:
        check = f"{SERVICE}-{uuid.uuid4()}"
        sent = time.monotonic()
        await agent.asked(lambda client: _registered(client, check, ttl))
        stop = time.monotonic() + _HEARD
        while True:
            try:
                session = await agent.asked(lambda client: _created(client, check))
            except Missed as exc:
                # the servers may not have heard of the check yet
                if "check" not in str(exc).lower() or time.monotonic() > stop:
                    raise
                await asyncio.sleep(0.02)
            else:
                return ConsulLease(self, _Session(session, check, agent), ttl, sent)


@dataclass(frozen=True, slots=True)
class _Session:
    """A session, the check it ends with, and the agent the check is at."""

    id: str
    check: str
    agent: ConsulAgent


async def _registered(client: Any, check: str, ttl: float) -> None:
    await client.http.put(
        CB.boolean(),
        "/v1/agent/service/register",
        data=json.dumps(
            {
                "ID": check,
                "Name": SERVICE,
                "Check": {
                    "CheckID": check,
                    "TTL": f"{ttl:g}s",
                    "Status": "passing",
                    "DeregisterCriticalServiceAfter": _FORGET,
                },
            }
        ),
    )
    # an agent that is killed and started again takes the check for dead unless it had a life sign
    await client.agent.check.ttl_pass(check)


async def _created(client: Any, check: str) -> str:
    session: str = await client.http.put(
        CB.json(is_id=True),
        "/v1/session/create",
        data=json.dumps(
            {
                "Name": SERVICE,
                "NodeChecks": ["serfHealth"],
                "ServiceChecks": [{"ID": check}],
                "Behavior": "delete",
                "LockDelay": "0s",  # the fence does what a delay is for
            }
        ),
    )
    return session


@contextmanager
def _renewer(agents: ConsulAgents, at: _Session, ttl: float) -> Iterator[Renew]:
    """Renew at the session's own agent, on a connection that nothing else uses."""
    connection = (
        http.client.HTTPConnection(at.agent.address)
        if agents.context is None
        else http.client.HTTPSConnection(at.agent.address, context=agents.context)
    )
    token = agents.access.token
    headers = {TOKEN_HEADER: token} if token else {}

    def said(method: str, path: str) -> tuple[int, bytes]:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def renew(attempt: float) -> float | None:
        connection.timeout = attempt
        try:
            status, text = said("PUT", f"/v1/agent/check/pass/{at.check}")
            if status == HTTPStatus.OK:
                status, text = said("GET", f"/v1/session/info/{at.id}?consistent")
                if status == HTTPStatus.OK:
                    return ttl if json.loads(text) else GONE
        except (OSError, http.client.HTTPException) as exc:
            connection.close()
            log.debug("lease not renewed", extra=fields(error=str(exc)))
            return None
        log.debug("lease not renewed", extra=fields(error=text.decode(errors="replace")))
        return GONE if status == HTTPStatus.NOT_FOUND or _UNKNOWN in text else None

    with closing(connection):
        yield renew
