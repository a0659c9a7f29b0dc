"""The store clients: one protocol (`objdb.api`), its backends etcd, consul and memory.

`connect` turns the endpoints of a command line into a backend, with `credentials` and `access`.
`failover`, `keepalive`, `locking` and `writer_marker` are shared by the backends. `registration`
(service registry, under a `shared_lease`), `wait_for_store` and `examination` (start-up) use any
backend. `original` reads
the stores of the original. Takes and returns keys and bytes; their meaning is in `core.keys` and
`state`.
"""
