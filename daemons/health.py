"""Health and readiness of a daemon: checks by name in, a status and a JSON text out.

`/healthz` answers while the daemon's event loop runs; `/readyz` carries out all checks side by side
and says why the daemon cannot do its work now. Kubernetes probes both. The servers of the daemons
send the answers: `netmaster.api.http.server` and `netplugin.startup.inspect`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from core.errors import ContivError

HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"
PATHS: Final = frozenset({HEALTHZ, READYZ})
"""Whoever reaches the port may ask these, also without a certificate: kubelet has none."""

ANSWER: Final = 3.0
"""Seconds for each check; kubelet's probes wait longer (`deploy/kubernetes`)."""

Check = Callable[[], Awaitable[None]]
"""Returns if a part works. Raises ContivError, whose text is the reason why it does not."""


class HealthReply(NamedTuple):
    """An answer to `/healthz` or `/readyz`: its text is a line of JSON."""

    status: HTTPStatus
    text: str


class Health:
    """The checks of a daemon. `checks` may be replaced when the daemon's state changes.

    `faults` returns what is wrong besides, in words that anybody may read: checks may pass with it.

    `known` names those that ask nobody: they are looked at once the others have answered, which may
    take them all their time, so that the answer has what came to be known meanwhile.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        limit: float = ANSWER,
        *,
        faults: Callable[[], Sequence[str]] = tuple,
        known: Collection[str] = (),
    ) -> None:
        self.checks = checks
        self._limit = limit
        self._faults = faults
        self._known = frozenset(known)

    async def answer(self, path: str) -> HealthReply:
        """Answer a request for one of `PATHS`."""
        return await self._ready() if path == READYZ else reply(HTTPStatus.OK, {"healthy": True})

    async def report(self) -> str:
        """Return the text of the readiness."""
        return (await self._ready()).text

    async def _ready(self) -> HealthReply:
        checks = dict(self.checks)
        asked = [name for name in checks if name not in self._known]
        looked_at = [name for name in checks if name in self._known]
        found = {
            name: fault
            for names in (asked, looked_at)
            for name, fault in zip(
                names,
                await asyncio.gather(*(self._fault(checks[one]) for one in names)),
                strict=True,
            )
        }
        faults = {name: found[name] for name in checks if found[name]}
        status = HTTPStatus.SERVICE_UNAVAILABLE if faults else HTTPStatus.OK
        states = {name: faults.get(name, "ok") for name in checks}
        further = {"faults": [*told]} if (told := self._faults()) else {}
        return reply(status, {"ready": not faults, "checks": states, **further})

    async def _fault(self, check: Check) -> str:
        try:
            async with asyncio.timeout(self._limit):
                await check()
        except TimeoutError:
            return f"no answer within {self._limit:g} s"
        except ContivError as exc:
            return str(exc) or type(exc).__name__
        return ""


def reply(status: HTTPStatus, content: Mapping[str, object]) -> HealthReply:
    """Return an answer with this content."""
    return HealthReply(status, json.dumps(content) + "\n")
