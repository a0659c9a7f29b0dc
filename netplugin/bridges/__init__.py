"""The two bridges of this host, and everything on them that is not a pod's.

In come Worlds (`netplugin.world`) and the state of OVSDB and the kernel; out go flows (by
`ofnet.agent`) and ports. `reconciler` carries changes of the World to the switches; `bridges`,
`tunnels`, `uplinks` (with `nics`), `host_ports`, `host_access`, `infra` and `node_ports` each keep
one kind of object; `path_mtu` probes the paths to other hosts; `reconcile_loop` repeats an
idempotent piece of work after each change, failure and interval.
"""
