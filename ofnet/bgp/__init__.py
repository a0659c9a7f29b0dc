"""BGP, as far as a host needs it: one session with its top-of-rack peer (ADR 7, 49).

In come a peering and the addresses of this host's pods; out come the peer's routes. `messages`
encodes, `message_reading` decodes, `rib` keeps the peer's routes, `session` is one connection,
`speaker` keeps one up, `inspection` reports it. `peering`, `connection` and `timing` are what the
others are given. `netplugin.bgp.host_bgp` runs a speaker where a host has a peering.
"""
