"""Records in, Worlds out: the desired state of this host's switches. Pure: no I/O, no clock.

`builder` takes typed records (`state.watch`) and passes each to the modules it concerns:
`networks`, `endpoint_table`, `endpoints`, `peers`, `services` (with `service_records` and
`kube_services`), `policies`, `vrfs`, `aci_announcements`, `forwarding_mode`, `dns_records`. They
set the results on the `bridge_state` of each bridge. `BridgeState.take` returns an
`ofnet.world.World` and its changes; `change_signal` notifies of them. `conversion` translates
single records; `port_names` has the numbers and names of ports.
"""
