"""Follows the leading netmaster and sends it requests.

`follow` watches the leader lock in the store; while the store is unreachable the last known leader
is used. A call waits for an election to end, but fails soon once no leader has served for longer
than an election takes, so that the runtime is told to try later. Requests are idempotent at
netmaster, so a leader that dies in between costs the caller time, not correctness. Next module:
`contivmodel.client`. What is asked is `netplugin.masters.master_api`'s.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TypeVar

from contivmodel.client import MasterClient, PluginCall
from contivmodel.wire import WireModel
from core import keys
from core.errors import (
    ContivError,
    MasterUnavailable,
    NotLeader,
    outcome_is_unknown,
)
from core.logs import fields
from core.patience import patient
from objdb.api import Backend, Snapshot

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderTiming:
    """Time limits and pauses, in seconds."""

    answer: float = patient(8.0)
    """A leader must answer within this time; runtimes wait longer for an ADD."""
    election: float = patient(4.0)
    """Without a serving leader for longer than this, it is an outage, not an election."""
    outage_wait: float = patient(1.0)
    """A call still waits so long for a leader during an outage."""
    retry: float = 0.1
    """Pause between two attempts of one call."""


class LeaderClient:
    """Follows the leader lock and sends requests to the leader."""

    def __init__(
        self, backend: Backend, client: MasterClient, timing: LeaderTiming | None = None
    ) -> None:
        self.timing = timing or LeaderTiming()
        self._backend = backend
        self._client = client
        self._leader: str | None = None
        self._known = asyncio.Event()
        self._ended = False
        self._unserved_since: float | None = None

    @property
    def leader(self) -> str | None:
        """The leader's `ip:port`; None while the lock is free."""
        return self._leader

    async def follow(self) -> None:
        """Keep `leader` in sync with the lock for ever; calls fail once this has ended."""
        try:
            async for item in self._backend.watch(keys.LOCKS):
                if isinstance(item, Snapshot):
                    entry = item.entries.get(keys.LEADER_LOCK)
                    self._set_leader(entry.value if entry is not None else None)
                    continue
                if keys.LEADER_LOCK in item.deletes:
                    self._set_leader(None)
                for put in item.puts:
                    if put.key == keys.LEADER_LOCK:
                        self._set_leader(put.value)
        finally:
            self._ended = True
            self._known.set()

    # Which failures are retried:
    #
    # * A connection refused or broken, and NotLeader: retried until the wait is over. The leader
    #   changes, and both requests may be repeated, also when the first one was carried out:
    #   netmaster returns the same endpoint for the same container, and a release is idempotent.
    # * A leader that accepts the request and stays silent: not retried. A runtime does not
    #   wait for a second time limit of this length; the ADD is undone and the runtime tries again.
    # * Any other ContivError is netmaster's decision (exhausted, conflict, ...): it is the caller's
    #   at once, and shows that a leader serves.

    async def call(self, call: PluginCall[T], request: WireModel) -> T:
        """Send a request to the leader and return its answer.

        Raises MasterUnavailable when no leader answered in time, or the ContivError of a refusal.
        """
        give_up_at = time.monotonic() + self._wait()
        # Once one attempt may have been carried out, no later failure takes that back.
        unknown = False
        while True:
            leader = await self._wait_for_leader(give_up_at, outcome_unknown=unknown)
            try:
                async with asyncio.timeout(self.timing.answer):
                    url = f"{self._client.scheme}://{leader}"
                    answer = await self._client.call(call, request, base_url=url)
            except TimeoutError as exc:
                self._note_outage()
                silent = f"netmaster {leader} does not answer"
                raise MasterUnavailable(silent, outcome_unknown=True) from exc
            except (MasterUnavailable, NotLeader) as exc:
                self._note_outage()
                unknown = unknown or outcome_is_unknown(exc)
                if time.monotonic() >= give_up_at:
                    text = f"netmaster {leader}: {exc}"
                    raise MasterUnavailable(text, outcome_unknown=unknown) from exc
            except ContivError:
                self._unserved_since = None
                raise
            else:
                self._unserved_since = None
                return answer
            await asyncio.sleep(self.timing.retry)  # `follow` may see another leader meanwhile

    async def ready(self) -> None:
        """Return if a netmaster leads, after an election if there is one. Raises as above."""
        await self._wait_for_leader(time.monotonic() + self._wait(), outcome_unknown=False)

    async def ask(self) -> None:
        """Return if the leader answers and can do its work. Raises MasterUnavailable.

        Nothing is waited for, and what requests know of an outage does not change.
        """
        if self._leader is None:
            raise MasterUnavailable("no netmaster leads: start one, or wait for the election")
        try:
            await self._client.check_ready(base_url=f"{self._client.scheme}://{self._leader}")
        except MasterUnavailable as exc:
            raise MasterUnavailable(
                f"netmaster {self._leader}: {exc}: is it up, and does a firewall let this host "
                f"reach it?"
            ) from exc

    def _set_leader(self, value: bytes | None) -> None:
        leader = value.decode("utf-8", "replace") if value else None
        if leader != self._leader:
            log.info("netmaster leader changed", extra=fields(master=leader or "none"))
            self._unserved_since = None if leader else time.monotonic()
        self._leader = leader
        if leader is None:
            self._known.clear()
        else:
            self._known.set()

    def _wait(self) -> float:
        """Return how many seconds a call waits for a leader that serves."""
        # The time of an election is waited for once, by all calls together. Later calls of the same
        # outage fail soon: a runtime that starts fifty pods must not wait fifty elections.
        if self._unserved_since is None:
            return self.timing.election
        election_ends = self._unserved_since + self.timing.election
        return max(self.timing.outage_wait, election_ends - time.monotonic())

    def _note_outage(self) -> None:
        if self._unserved_since is None:
            self._unserved_since = time.monotonic()

    async def _wait_for_leader(self, give_up_at: float, *, outcome_unknown: bool) -> str:
        try:
            async with asyncio.timeout(give_up_at - time.monotonic()):
                while self._leader is None and not self._ended:
                    await self._known.wait()
        except TimeoutError as exc:
            self._note_outage()
            raise MasterUnavailable(
                "no netmaster leads: start one, or wait for the election",
                outcome_unknown=outcome_unknown,
            ) from exc
        if self._leader is None or self._ended:
            raise MasterUnavailable("the agent stops", outcome_unknown=outcome_unknown)
        return self._leader
