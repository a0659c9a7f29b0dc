"""The two bridges of this host, and all their ports except those of pods.

In come Worlds (`netplugin.world`) and the state of OVSDB and the kernel; out go flows (by
`ofnet.agent`) and ports. `record_events` applies the store's events to the World; `reconciler`
carries changes of the World to the switches, in rounds; `port_reconciler` runs `tunnels` and
`uplinks` (with `nics`) on changes of OVSDB, and restores `bridges`. `host_access`, `infra` (both by
`host_ports`) and `service_access` each keep one kind of object, by a `reconcile_loop`: idempotent
work that is repeated after each change, failure and interval. `path_mtu` probes the paths to other
hosts, `tunnel_neighbours` keeps their next hops resolved.
"""
