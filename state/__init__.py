"""Records at rest and in motion: what the store's bytes mean.

`state.records` has the types, `state.codec` their JSON under the original's names, `state.derive`
everything that is computed instead of stored (ADR 18), `state.watch` the typed snapshot+delta
stream the agents and the leader's view are built on.
"""
