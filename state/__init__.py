"""The records in the store: their types, their JSON, and what is computed from them.

`records` has the types, `codec` (with `reading` and `creation`) their JSON with the original's
names, `intents` the REST objects that agents read, `schema` the version of the store. `derive`,
`policy_rules` and `service_providers` compute what is not stored (ADR 18). `watch` turns store
watches into one queue of typed events for the agents and the leader's view.
"""
