"""A store in this process: for tests, and for trying the daemons without etcd.

`MemoryStore` is what all clients share, `MemoryBackend` one client of it, `Faults` what a real
store may do to its clients: away, refused fences, commits whose outcome stays unknown, coalesced
watches, delay, rewrites without an event. The same contract suite holds it and etcd.
"""

from objdb.memory.backend import MemoryBackend
from objdb.memory.faults import Faults, LostAnswer
from objdb.memory.leases import MemoryLease
from objdb.memory.store import MemoryStore

__all__ = ["Faults", "LostAnswer", "MemoryBackend", "MemoryLease", "MemoryStore"]
