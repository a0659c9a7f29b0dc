"""What the wanted flows of a bridge do with a packet, and what the switch says of the same. Pure.

`evaluator` and `tracking` are a model of the switch. `steps` follows a packet through the flows and
names the owner of each; `places` says what is behind a port; `switch` writes a packet as Open
vSwitch reads it, and reads its answer to `ofproto/trace`. `netplugin.trace` asks with them.
"""
