"""Read-only answers computed from the view, in the original's shapes. Pure.

`inspect` has `/inspect/*`, `ofnet_endpoints`, `ofnet_rules` and `service_states` the parts of
`/debug/ofnet`, `ipam_check` compares the addresses in use with the grants.
"""
