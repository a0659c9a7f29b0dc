"""What the wanted flows of a bridge do with a packet, and what the switch says of the same. Pure.

`evaluator` and `tracking` are a model of a switch. `journey` follows a packet through flows and
says what is behind the port by which it leaves; `packets` makes the packets that a trace begins
with. `switch` writes a packet as Open vSwitch reads it, and reads the answer to `ofproto/trace`.
`netplugin.trace` asks with them.
"""
