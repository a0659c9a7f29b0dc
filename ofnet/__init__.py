"""The OpenFlow layer: makes flows from a World and reconciles the switches with them.

In come Worlds (`ofnet.world`) and their changes. `ofnet.pipelines` makes the flows of each object,
`ofnet.desired` adds them up, `ofnet.flow_sync` compares them with the switch's (`ofnet.diff`) and
sends the difference (`ofnet.channel`). `ofnet.agent` puts this together for one bridge and answers
packets (`ofnet.packets.packetin`, `ofnet.packets.dns_answers`, `ofnet.services`). `ofnet.bgp` is
the BGP speaker, `ofnet.rpc` the control channel between masters and agents. Nothing here knows the
store, REST or the host's kernel.
"""
