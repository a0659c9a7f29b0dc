"""OpenFlow 1.3 values and their bytes: fields, matches, actions, packets. Pure.

`fields` (metadata bits), `oxm` (match field encodings), `match`, `actions`; `packets` parses and
builds the frames of packet-ins and packet-outs, and is the only module that uses os-ken.
"""
