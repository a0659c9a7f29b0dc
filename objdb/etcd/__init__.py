"""etcd (v3 API) as a `Backend`.

Calls go through `channel`, which is the only place that knows endpoints, deadlines, tokens and
gRPC's errors. `commit` builds and reads transactions, `watching` has snapshots and watches,
`leases` keeps leases alive on threads of their own, `locks` stands on these three, and `backend`
puts them together. Of aetcd only the generated messages and stubs are used, for what stands above
them knows neither TLS nor a second endpoint (spec/store-notes.md §1.7).
"""

from objdb.etcd.backend import EtcdBackend

__all__ = ["EtcdBackend"]
