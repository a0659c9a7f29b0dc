"""What a master needs to do its work: a store that answers, and a leader, which it may be itself.

In come the store and what the daemon repeats; out come the checks of `/readyz` (`daemons.health`),
the same for a leader and a follower, which hands requests to the leader. Next:
`netmaster.api.http.server`.
"""

from collections.abc import Mapping

from core import keys
from core.errors import ContivError, NotLeader
from core.retry import Loops
from daemons.health import Check
from objdb.api import Backend


def checks(backend: Backend, loops: Loops) -> Mapping[str, Check]:
    """Return what makes a master ready."""

    async def store() -> None:
        await backend.get(keys.LEADER_LOCK)

    async def leader() -> None:
        if await backend.get(keys.LEADER_LOCK) is None:
            raise NotLeader("no netmaster leads: wait for the election, or look at its log")

    async def repeated() -> None:
        if faults := loops.faults(vital=True):
            raise ContivError("; ".join(faults))

    return {"store": store, "leader": leader, "loops": repeated}
