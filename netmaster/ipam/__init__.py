"""Allocation of addresses, tags and group ids. Pure.

In come ranges and values in use; out comes the next free value, or an error. `network_addresses`
combines `pool` (IPv4) and `pool6`; `segments` has VLAN and VXLAN tags, `group_ids` the ids of
groups, `claims` the subnets in use; `spans` and `intervals` are the data structures beneath.
"""
