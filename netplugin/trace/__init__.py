"""Answers what this host would do with a packet, and whether its switch would (`POST /trace`).

`request` reads the question, `tracer` follows the packet through the wanted flows and asks the
switch for the same, `flow_reasons` says in words why a flow is there, `dataplane_checks` looks at
what flows rest on. Nothing is sent and nothing changed.
"""
