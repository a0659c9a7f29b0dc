"""Consul as a `Backend`.

Calls go through `agents`, which is the only place that knows endpoints, deadlines, tokens, TLS and
the client library's errors. `operations` (pure) says what a change is in a transaction, `commit`
sends transactions and finds out their outcomes, `reading` has snapshots and watches, `leases`
keeps sessions alive on threads of their own, `locks` stands on these, `backend` puts them together.

Of py-consul the asyncio client is used, with an HTTP client of ours under it: the library's own
sends no token with a transaction, sets no time limits, drops the client certificate where it is
told not to verify, and builds its TLS context by arguments aiohttp has deprecated. It knows no
session bound to a service's check either, so that request is written here.
"""

from objdb.consul.backend import ConsulBackend

__all__ = ["ConsulBackend"]
