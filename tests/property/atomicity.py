"""What tests of atomicity share."""

from collections.abc import Mapping

from core import keys
from netmaster import codec
from objdb.memory import MemoryStore

Content = Mapping[str, bytes]


def content(store: MemoryStore) -> Content:
    """Return what a store holds of the leader's."""
    found = store.snapshot(keys.ROOT).entries.items()
    return {key: entry.value for key, entry in found if codec.is_leaders(key)}
