"""The host's kernel: links, addresses, routes, network namespaces, iptables, ICMP.

In come plain values (names, addresses); out come effects, facts, or a `HostError` that names the
object. `netns` is the asyncio side; it runs the blocking modules (`links.host_links`,
`links.pod_links`, `links.namespaces`, on `netlink.requests`) in threads. `firewall.iptables` keeps
the agent's own rules, `packets.icmp` sends probes. Nothing here knows a record, a World or OVSDB.
"""
