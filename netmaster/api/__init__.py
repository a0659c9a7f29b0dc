"""The HTTP edge: bytes in, bytes out.

`server` listens and hands each request to the master's current role: `leader` (which finds the
target with `routes` and asks `objects`, `endpoints` or `status`) or `proxy`, which sends it on.
`replies` has the shapes of answers. Decisions are `netmaster.plan`'s, writes `netmaster.commit`'s.
"""
