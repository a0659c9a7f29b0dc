"""The host's kernel: links, addresses, routes, network namespaces, iptables, ICMP.

In come plain values (names, addresses); out come effects, facts, or a `HostError` that names the
object. `netns` is the asyncio side; it runs the blocking modules (`host_links`, `pod_links`,
`namespaces`, on `netlink`) in threads. `iptables` keeps the agent's own rules, `icmp` sends probes.
Nothing here knows a record, a World or OVSDB.
"""
