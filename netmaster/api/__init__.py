"""The HTTP edge: bytes in, bytes out.

`http.server` listens and hands each request to the master's current role: `http.proxy` forwards it
to the leader; `dispatch` finds its route in `route_table`, asks `http.access` whether the client
may use it (with TLS), and calls the route's handler. Rooms, each of which knows those before it
alone: `http` (requests, answers and routes as such), `leader` (what a leader answers from), `v1`
(the original's paths and those of agents), `v2` (the API for programs). Decisions are made by
`netmaster.plan`, writes by `netmaster.commits.commit`.
"""
