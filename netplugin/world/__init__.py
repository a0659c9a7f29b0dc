"""Records in, Worlds out: what the switches of this host must know. Pure: no I/O, no clock.

`builder` takes typed records (`state.watch`) and passes each to the modules it concerns:
`networks`, `endpoints`, `peers`, `services` (with `service_records` and `kube_services`),
`policies`, `vrfs`, `aci_announcements`, `forwarding_mode`, `network_tenants`, `dns_records`. What
results is set on the `bridge_state` of each of the two bridges, whose `BridgeState.take` yields an
`ofnet.world.World` and what changed in it. `conversion` translates single records, `port_names`
numbers and names ports.
"""
