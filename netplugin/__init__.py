"""The agent: one per host; realises what the store says in Open vSwitch, and serves CNI.

`netplugin.world` (records -> World, pure) -> `ofnet` (World -> flows -> switch). `netplugin.pods`
adds and removes endpoints of this host, `netplugin.podports` keeps their ports. An agent starts in
`netplugin.daemon`.
"""
