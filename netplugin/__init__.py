"""The agent: one per host; programs Open vSwitch from the store's records, and serves CNI.

Records of the store -> `netplugin.world` (pure) -> `netplugin.bridges` -> `ofnet` (flows, switch).
CNI call -> `netplugin.cni` -> `netplugin.pods` -> `netplugin.masters`, `netplugin.kernel`,
`netplugin.ovsdb`. `netplugin.startup` builds and runs all of it; `main` is the command.
"""
