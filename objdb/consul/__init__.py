"""Consul as a `Backend`.

All calls go through `agents`, the only module with endpoints, deadlines, tokens, TLS and the client
library's errors. `operations` (pure) turns a change into operations of a transaction, `commit`
sends transactions and determines their outcomes, `reading` has snapshots and watches, `leases`
renews sessions, `locks` uses these, and `backend` is the public class.

py-consul's asyncio client is used with an HTTP client of this package: the library's own sends no
token with a transaction, has no timeouts, drops the client certificate when verification is off,
and uses deprecated arguments of aiohttp. It has no session bound to a service check either, so that
request is built here.
"""

from objdb.consul.backend import ConsulBackend

__all__ = ["ConsulBackend"]
