"""Attacks on a running cluster, with figures: `make adversary`.

Each module is a place that an attacker stands at (a pod, REST, an agent's host, the underlay, the
store), each test an attack: its docstring is its row in the table that the run prints and writes to
`build/adversary.md`. What fails has fallen. Not part of `make test`, which has a smaller test for
each fault that an attack once found.
"""
