"""What tests of external effects share."""

from core import keys
from netmaster import codec
from objdb.api import Change, Put
from objdb.memory import MemoryStore


def died_here(store: MemoryStore) -> MemoryStore:
    """Return a store with what the leader has written so far, as its successor finds it."""
    left = MemoryStore()
    found = store.snapshot(keys.ROOT).entries.values()
    ops = tuple(Put(entry.key, entry.value) for entry in found if codec.is_leaders(entry.key))
    left.apply([Change((), ops)])
    return left
