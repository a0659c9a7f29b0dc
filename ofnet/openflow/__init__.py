"""The vocabulary of OpenFlow 1.3: fields, matches, actions, and the packets switches send up. Pure.

Bytes on one side, values on the other: `fields` and `oxm` (field encodings), `match`, `actions`,
`packets` (Ethernet, ARP, IPv6 neighbour discovery, DNS transport). `packets` is the only module
that uses os-ken.
"""
