"""etcd (v3 API) as a `Backend`.

Calls go through `channel`, which is the only place that knows endpoints, deadlines and tokens;
`errors` knows gRPC's errors and etcd's words. `commit` builds and reads transactions, `watching`
has snapshots and watches, `leases` keeps leases alive on threads of their own, `locks` stands on
these three, `compaction` forgets what is past, and `backend` puts them together. Of aetcd only the
generated messages and stubs are used, for what stands above them knows neither TLS nor a second
endpoint (docs/notes/stores.md §1.7).
"""

from objdb.etcd.backend import EtcdBackend

__all__ = ["EtcdBackend"]
