"""The store: one protocol (`objdb.api`), its backends, and what is built on the protocol alone.

This package holds the project's only store clients. `objdb.connect` turns the endpoints of a
command line into a backend; `objdb.registration` is the service registry. What the keys and values
mean is `core.keys`' and `state`'s business.
"""
