"""The lock of consul: a key that is locked by a session; the session id is the fence."""

# Why the session id: a fenced commit checks that the session holds the key. Each term has a session
# of its own, and a session that has lost the key never holds it again. So a process that was
# stopped past its lease cannot write after it wakes up.
#
# Why a lost answer is harmless: a session may lock a key that it holds already, so the request is
# repeated.

from contextlib import aclosing

from core.errors import StoreUnavailable
from objdb.api import Fence
from objdb.consul.agents import ConsulAgents, transaction
from objdb.consul.leases import ConsulLease, ConsulLeases
from objdb.consul.operations import Operation
from objdb.consul.reading import ConsulReader
from objdb.failover import Retry
from objdb.locking import KeyLock


class ConsulLock(KeyLock[ConsulLease]):
    """A lock of consul; a `Lock`."""

    def __init__(
        self,
        agents: ConsulAgents,
        leases: ConsulLeases,
        reader: ConsulReader,
        *,
        key: str,
        holder: str,
        ttl: float,
    ) -> None:
        super().__init__(leases.grant, key=key, holder=holder, ttl=ttl)
        self._agents = agents
        self._reader = reader

    async def holder(self) -> str | None:
        """Return the current holder's text from the store; None if the lock is free."""
        found = await self._reader.get(self._key)
        return None if found is None else found.value.decode()

    async def try_lock(self, lease: ConsulLease) -> Fence | int:
        """Lock the key; return 0 if another session holds it."""
        lock = Operation("lock", self._key, self._holder.encode(), session=lease.id).json()
        answer = await self._agents.call(
            lambda client: transaction(client, [lock]),
            Retry.READ,  # a second copy locks it again for our session
        )
        if not answer["Errors"]:
            return Fence(self._key, lease.id)
        if "invalid session" in answer["Errors"][0]["What"]:
            raise StoreUnavailable("the session of the lock has ended")
        return 0

    async def wait_until_free(self, since: int | str) -> None:  # noqa: ARG002 - see below
        """Return when no session holds the key."""
        # No position is needed: `states` begins with the current state.
        async with aclosing(self._reader.states(self._key)) as states:
            async for state in states:
                if state is None or "Session" not in state:
                    return

    async def wait_until_lost(self, fence: Fence) -> None:
        """Return when the fence's session does not hold the key."""
        async with aclosing(self._reader.states(self._key)) as states:
            async for state in states:
                if state is None or state.get("Session") != fence.token:
                    return

    async def unlock(self, fence: Fence) -> None:
        """Do nothing: the end of the session, which follows, deletes the key."""
