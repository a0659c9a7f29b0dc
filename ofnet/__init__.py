"""The OpenFlow layer: from a World to flows, and from flows to a switch.

`ofnet.world` has the types of what a switch must know; `ofnet.pipelines` turns a World into flows
(pure); `ofnet.diff` compares them with what the switch reports; `ofnet.channel.switch` alone talks
to the switch. `ofnet.rpc.jsonrpc` is the JSON-RPC control channel between netmaster and agents.
Nothing here knows the store, REST or the host's kernel.
"""
