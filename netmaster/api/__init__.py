"""The HTTP edge: bytes in, bytes out.

`server` listens and hands each request to the master's current role: `proxy` forwards it to the
leader; `leader` finds its route in `route_table`, asks `access` whether the client may use it (with
TLS), and calls the route's handler (`handlers`).
Handlers use `objects` and `endpoints` (bodies to decisions), `hosts`, `ipam` and `status`
(answers), `agents` (calls to hosts) and `replies` (shapes of answers). `openapi` documents the same
table. Decisions are made by `netmaster.plan`, writes by `netmaster.commit`.
"""
