"""Records in, Worlds out: the desired state of this host's switches. Pure: no I/O, no clock.

`builder` takes typed records (`state.watch`) and passes each to the modules it concerns:
`bridges.networks`, `cluster_endpoints.endpoint_table`, `cluster_endpoints.endpoints`, `peers`,
`services.bridge_services` (with `services.service_records` and `kubernetes.kube_services`),
`contiv_policies.policies`, `bridges.vrfs`, `aci_announcements`, `bridges.forwarding_mode`,
`dns.dns_records`. They set the results on the `bridges.bridge_state` of each bridge.
`BridgeState.take` returns an `ofnet.world.World` and its changes; `bridges.change_signal`
notifies of them.
`bridges.conversion` translates single records; `bridges.port_names` has the numbers and names of
ports.
"""
