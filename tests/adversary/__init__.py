"""Attacks on a running cluster, with figures: `make adversary`.

Each module is a place that an attacker stands at (a pod, REST, the wire, what daemons stand on),
each test an attack and a row in the table that the run prints and writes to `build/adversary.md`
(`tests.adversary.table`). What fails has fallen. Not part of `make test`, which has a smaller test
for each fault that an attack once found; `make adversary` runs those too, with more of everything.
"""
