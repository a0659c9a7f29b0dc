"""Which card of the uplink the agent's own frames leave by (docs/original/ofnet-pipelines.md §8).

Pure. What the switch sends is its own choice: NORMAL's, or `ofnet.openflow.actions.OutputFirst`'s.
"""

from collections.abc import Sequence
from typing import Final

from ofnet.world import Uplink

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def choose_uplink(uplinks: Sequence[Uplink], mac: str) -> Uplink | None:
    """Return the card for frames from a MAC address: always the same among those that work.

    As in the original the 32-bit FNV-1a hash of the address' text chooses.
    """
    working = [uplink for uplink in uplinks if uplink.up]
    return working[fnv1a(mac.encode()) % len(working)] if working else None


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value
