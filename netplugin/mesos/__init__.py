"""The server for `contivk8s.netcontiv`, the CNI plugin of Mesos: docs/original/mesos-plugin.md.

`server` is HTTP, `messages` reads requests and builds answers; `netplugin.pods` carries the calls
out. `namespace_links` names the namespaces of containers for `ip netns`.
"""
