"""A store in this process, for tests and for daemons without etcd.

`MemoryStore` is shared by all clients, `MemoryBackend` is one client. `Faults` injects what a real
store may do to a client: outage, lost fence, unknown outcome, merged deltas, delay.
`MemoryStore.restore` goes back to an earlier state. It passes the same contract suite as etcd and
consul (`tests/contract`).
"""

from objdb.memory.backend import MemoryBackend
from objdb.memory.faults import Faults, LostAnswer
from objdb.memory.leases import MemoryLease
from objdb.memory.store import MemoryStore, SavedState

__all__ = ["Faults", "LostAnswer", "MemoryBackend", "MemoryLease", "MemoryStore", "SavedState"]
