"""The two bridges of this host, and all their ports except those of pods.

In come Worlds (`netplugin.world`) and the state of OVSDB and the kernel; out go flows (by
`ofnet.agent`) and ports. `record_events` applies the store's events to the World; `reconciler`
carries changes of the World to the switches, in rounds; `uplink.port_reconciler` runs
`vxlan.tunnels` and `uplink.uplinks` (with `uplink.nics`) on changes of OVSDB, and restores
`bridges`. `host.host_access`, `host.infra` (both by `host.host_ports`) and
`services.service_access` each keep one kind of object, by a `reconcile_loop`: idempotent work that
is repeated after each change, failure and interval. `vxlan.path_mtu` probes the paths to other
hosts, `vxlan.tunnel_neighbours` keeps their next hops resolved.
"""
