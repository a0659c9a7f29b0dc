"""API v1, as the original has it, and the calls of agents (`/plugin/*`).

`routes` is the table of its paths; `handlers` take `objects` and `agent_calls` from bodies to
decisions.
"""
