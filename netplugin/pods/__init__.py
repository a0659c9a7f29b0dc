"""The endpoints of this host: ADD, DEL, their ports and interfaces, and garbage collection.

In come the calls of `netplugin.cni` and the state of the host; out go endpoints in the World, OVS
ports, veth pairs and requests to netmaster. `registry.pod_host` is what all modules share.
`handler` serialises the calls of one container, `add` carries out an ADD, `teardown` finishes a DEL
and undoes a failed ADD. `registry.journal` survives the process; `registry.endpoint_registry` is
its content in memory. `pod_ports`, `host_interfaces`, `rate_limits` and `mtu` reconcile ports and
interfaces; `garbage_collection` releases endpoints without a pod.
"""
