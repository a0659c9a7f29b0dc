"""BGP on this host: runs `ofnet.bgp` where the host's record names a peer.

In come the peering of the World and the routes the peer announces; out go routes in the World.
`host_bgp` owns the session, `router_port` is the interface it uses, `learned_routes` carries the
peer's routes to the World, and `nexthops` resolves next hops to MAC addresses.
"""
