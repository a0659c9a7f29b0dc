"""Health while the agent starts: `/healthz` and `/readyz` on the port of inspection, nothing else.

In come the steps of the start (`netplugin.startup.daemon`); out go answers that name the step which
is under way, so that an operator sees what an agent waits for. `netplugin.startup.servers` closes
this server when it opens the one with all routes (`netplugin.startup.inspect`) on the same socket.
"""

# The second server takes over the socket and does not bind the address anew: a subprocess that is
# being started just then holds the first server's socket until its `exec`, and the address would be
# in use.

import socket
from contextlib import AsyncExitStack

from core.errors import HostError
from daemons.health import Health
from daemons.http import BACKLOG
from daemons.listen_address import ListenAddress
from netplugin.cni.errors import NotReady
from netplugin.startup import inspect
from netplugin.startup.context import Context


class EarlyHealth:
    """The server of one start; `step` is what the agent does now.

    Raises HostError if the port is taken.
    """

    def __init__(self, context: Context) -> None:
        self.step = ""
        self._context = context
        self._listening = context.stack.enter_context(_bound(context.settings.rest))
        self._open = AsyncExitStack()

    async def start(self) -> None:
        """Open the server. Raises HostError."""
        self._context.stack.push_async_callback(self.close)
        app = inspect.application(Health({"start": self._under_way}))
        serving = inspect.serve(self.listening(), app, self._context.tls)
        await self._open.enter_async_context(serving)

    def listening(self) -> socket.socket:
        """Return the socket once more, for a server that closes it."""
        return self._listening.dup()

    async def close(self) -> None:
        """Close the server; may be repeated."""
        await self._open.aclose()

    async def _under_way(self) -> None:
        raise NotReady(f"the agent starts: {self.step}")


def _bound(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as exc:
        raise HostError(f"cannot serve on {address}: {exc}") from exc
