"""The endpoints of this host: ADD, DEL, their ports and interfaces, and garbage collection.

In come the calls of `netplugin.cni` and the state of the host; out go endpoints in the World, OVS
ports, veth pairs and requests to netmaster. `handler` serialises the calls of one container, `add`
carries out an ADD, `teardown` a DEL and whatever an ADD has to undo. `journal` survives the
process; `endpoint_registry` is the journal's content in memory. `pod_ports`, `host_interfaces`,
`rate_limits` and `mtu` keep ports and interfaces as they should be; `garbage_collection` releases
endpoints without a pod.
"""
