"""The lock of consul: a key locked by a session; the session is the fence.

A fenced commit checks who holds the key. Each term has a session of its own, which never holds
the key again once it has lost it, so a holder that was stopped past its lease and woken cannot
write any more. A lost answer is no riddle: a session may lock again what it holds.
"""

from contextlib import aclosing

from core.errors import StoreUnavailable
from objdb.api import Fence
from objdb.consul.agents import ConsulAgents, transaction
from objdb.consul.leases import ConsulLease, ConsulLeases
from objdb.consul.operations import Operation
from objdb.consul.reading import Reading
from objdb.failover import Retry
from objdb.locking import KeyLock


class ConsulLock(KeyLock[ConsulLease]):
    """A lock of consul; a `Lock`."""

    def __init__(
        self,
        agents: ConsulAgents,
        leases: ConsulLeases,
        reading: Reading,
        *,
        key: str,
        holder: str,
        ttl: float,
    ) -> None:
        super().__init__(leases.grant, key=key, holder=holder, ttl=ttl)
        self._agents = agents
        self._reading = reading

    async def holder(self) -> str | None:
        """Return the holder's text as the store has it now; None if nobody holds the lock."""
        found = await self._reading.get(self._key)
        return None if found is None else found.value.decode()

    async def take(self, lease: ConsulLease) -> Fence | int:
        """Lock the key; 0 if another has it."""
        lock = Operation("lock", self._key, self._holder.encode(), session=lease.id).json()
        answer = await self._agents.call(
            lambda client: transaction(client, [lock]),
            Retry.READ,  # a second copy finds it locked by our session
        )
        if not answer["Errors"]:
            return Fence(self._key, lease.id)
        if "invalid session" in answer["Errors"][0]["What"]:
            raise StoreUnavailable("the session of the lock has ended")
        return 0

    async def gone(self, since: int | str) -> None:  # noqa: ARG002 - states begin with the present
        """Return when nobody holds the key."""
        async with aclosing(self._reading.states(self._key)) as states:
            async for state in states:
                if state is None or "Session" not in state:
                    return

    async def taken(self, fence: Fence) -> None:
        """Return when the fence's session does not hold the key."""
        async with aclosing(self._reading.states(self._key)) as states:
            async for state in states:
                if state is None or state.get("Session") != fence.token:
                    return

    async def give_back(self, fence: Fence) -> None:
        """Leave it to the end of the session, which deletes the key at once."""
