"""Decisions: the current view and an intent come in, writes and a reply go out. Pure.

`model` has the shape of a plan. `objects` decides about REST objects, `endpoints` about endpoints
and addresses, `external` about operations of the ACI gateway, `show` about read-only answers.
`grants` (addresses), `docker_network` and `lineage` serve several of them; `migrations` are of the
store's schema.
"""
