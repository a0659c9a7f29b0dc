"""BGP, as far as a host needs it: one IPv4 session with its top-of-rack peer (ADR 7).

`messages` packs and reads, `rib` keeps what the peer told, `session` is one connection, `speaker`
keeps one up. `netplugin.bgp.host` runs it where a host has a peering.
"""
