"""Decisions: the current view and an intent go in, writes and a reply come out. Pure.

`model` has the shape of a plan. `objects` decides about REST objects, `endpoints` about endpoints
and addresses, `external` about what Docker and ACI must be told, `show` about read-only answers.
`grants` (addresses), `docker_network` and `schema` (the stamp in the store) serve several of them.
"""
