"""Leases of consul: sessions bound to a TTL health check, which renewals keep passing."""

# Why not the session's own TTL: consul's minimum is 10 s, and it ends a session only after up to
# twice that time. A TTL check is evaluated by the agent at which it is registered, to the second,
# and the session ends when the check becomes critical.
#
# Why the check of a service: consul removes a service that has been critical for long, so leases of
# dead processes leave nothing behind. A check of the node would make the node critical and take its
# other services out of DNS.
#
# Consequences: check and renewals belong to one agent, so a lease ends with its agent. And the
# agent accepts a renewal even if the servers have ended the session, so each renewal also reads the
# session from the servers.

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

from core.errors import ContivError, StoreUnavailable
from core.logs import fields
from core.outside_json import read_json
from core.patience import patient
from objdb.consul.agents import TOKEN_HEADER, ConsulAgent, ConsulAgents
from objdb.failover import ATTEMPT, NoAnswer, Retry, RetryPolicy
from objdb.keepalive import LEASE_ENDED, REVOKE_BUDGET, Renew, RenewedLease, stop_all

log = logging.getLogger(__name__)

SERVICE: Final = "contiv-lease"
"""The name of the service; each lease registers an instance of it."""

SHORTEST: Final = 2.0
"""Seconds; on a busy machine a shorter lease would expire between renewals."""

_DEREGISTER_AFTER: Final = "1m"
"""How long consul keeps the check of an ended lease; its minimum."""

_UNKNOWN: Final = b"does not have associated TTL"
"""Part of an agent's answer for an unknown check."""

_SYNC_TIMEOUT: Final = patient(2.0)
"""Seconds an agent may take to send a new check to the servers."""

_SHORT_ATTEMPT: Final = patient(0.2)
"""Seconds an agent that has just failed has for one more request, before the next one is asked."""


class ConsulLease(RenewedLease):
    """A session of consul; a `Lease`. `sent` is the time before its check was registered."""

    def __init__(self, leases: "ConsulLeases", at: "_Session", ttl: float, sent: float) -> None:
        self.id = at.id
        self._at = at
        self._agents = leases.agents
        renewer = _renewer(leases.agents, at, ttl)
        super().__init__(leases.active, renewer, ttl=ttl, sent=sent, lone=True)

    async def end(self) -> None:
        """Destroy the session and deregister its check."""
        try:
            await self._agents.call(
                lambda client: client.session.destroy(self.id), Retry.REPEAT, budget=REVOKE_BUDGET
            )
        except StoreUnavailable as exc:
            log.info("lease not revoked, it will expire", extra=fields(error=str(exc)))
        await _deregister(self._at.agent, self._at.check)


class ConsulLeases:
    """All leases of one backend that are being renewed."""

    def __init__(self, agents: ConsulAgents) -> None:
        self.agents = agents
        self.active: set[RenewedLease] = set()

    async def grant(self, ttl: float) -> ConsulLease:
        """Return a new lease with renewals."""
        seconds = max(SHORTEST, ttl)
        # READ, although it creates a session: one whose id was lost expires.
        policy = RetryPolicy(Retry.READ, budget=self.agents.budget)
        return await self.agents.call_members(
            lambda agent, _attempt: self._grant_at(agent, seconds), policy
        )

    async def stop(self) -> None:
        """Stop all renewals."""
        await stop_all(self.active)

    async def _grant_at(self, agent: ConsulAgent, ttl: float) -> ConsulLease:
        check = f"{SERVICE}-{uuid.uuid4()}"
        sent = time.monotonic()
        try:
            await agent.call(lambda client: _registered(client, check, ttl))
            session = await _session_of(agent, check)
        except (NoAnswer, ContivError):
            # While the servers elect a leader, grants fail one after the other, and the agent would
            # keep the check of each, for a minute and over its restarts.
            await _deregister(agent, check, _SHORT_ATTEMPT)
            raise
        return ConsulLease(self, _Session(session, check, agent), ttl, sent)


@dataclass(frozen=True, slots=True)
class _Session:
    """A session, its check, and the agent at which the check is registered."""

    id: str
    check: str
    agent: ConsulAgent


async def _session_of(agent: ConsulAgent, check: str) -> str:
    """Create the session of a check at its agent; return the session's id."""
    stop = time.monotonic() + _SYNC_TIMEOUT
    while True:
        try:
            return await agent.call(lambda client: _created(client, check))
        except NoAnswer as exc:
            # The agent may not have sent the new check to the servers yet.
            if "check" not in str(exc).lower() or time.monotonic() > stop:
                raise
            await asyncio.sleep(0.02)


async def _deregister(agent: ConsulAgent, check: str, attempt: float = ATTEMPT) -> None:
    """Remove a check from its agent; where that fails, consul does so a minute after its end."""
    try:
        await agent.call(lambda client: client.agent.service.deregister(check), attempt)
    except (NoAnswer, ContivError) as exc:
        # Without a leader of the servers the agent removes the check, and does not answer in time.
        log.debug("check of lease not deregistered", extra=fields(error=str(exc)))


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
                    "DeregisterCriticalServiceAfter": _DEREGISTER_AFTER,
                },
            }
        ),
    )
    # A first renewal at once: an agent that is killed and restarted restores the check as critical
    # unless it was renewed before.
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
                "LockDelay": "0s",  # the fence protects against a late holder
            }
        ),
    )
    return session


@contextmanager
def _renewer(agents: ConsulAgents, at: _Session, ttl: float) -> Iterator[Renew]:
    """Renew at the session's own agent, on a connection of the thread."""
    connection = (
        http.client.HTTPConnection(at.agent.address)
        if agents.context is None
        else http.client.HTTPSConnection(at.agent.address, context=agents.context)
    )
    token = agents.access.token
    headers = {TOKEN_HEADER: token} if token else {}

    def request(method: str, path: str) -> tuple[int, bytes]:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def renew(attempt: float) -> float | None:
        connection.timeout = attempt
        try:
            status, text = request("PUT", f"/v1/agent/check/pass/{at.check}")
            if status == HTTPStatus.OK:
                status, text = request("GET", f"/v1/session/info/{at.id}?consistent")
                if status == HTTPStatus.OK:
                    return ttl if read_json(text) else LEASE_ENDED
        except (OSError, http.client.HTTPException) as exc:
            connection.close()
            log.debug("lease renewal failed", extra=fields(error=str(exc)))
            return None
        log.debug("lease renewal failed", extra=fields(error=text.decode(errors="replace")))
        return LEASE_ENDED if status == HTTPStatus.NOT_FOUND or _UNKNOWN in text else None

    with closing(connection):
        yield renew
