"""etcd (v3 API) as a `Backend`.

All calls go through `channel`, the only module with endpoints, deadlines and tokens; `grpc_errors`
translates gRPC errors and etcd's texts. `commit` builds and reads transactions, `watching` has
snapshots and watches, which share a stream (`watch_stream`) and prove together that the store
still has their history (`history`), `leases` renews leases, `locks` uses these three, `compaction`
deletes old revisions, and `backend` is the public class. Of aetcd only the generated messages and
stubs are used: its client supports neither TLS nor several endpoints (docs/notes/stores.md §1.7).
"""

from objdb.etcd.backend import EtcdBackend

__all__ = ["EtcdBackend"]
