"""Chooses the uplink NIC for the agent's own frames (docs/original/ofnet-pipelines.md §8). Pure.

For all other packets the switch chooses: NORMAL, or `ofnet.openflow.actions.OutputFirst`.
"""

from collections.abc import Sequence
from typing import Final

from ofnet.world import Uplink

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def choose_uplink(uplinks: Sequence[Uplink], mac: str) -> Uplink | None:
    """Return the NIC for frames from a MAC address, None if no NIC works.

    The 32-bit FNV-1a hash of the MAC's text chooses among the working ones, as in the original.
    """
    working = [uplink for uplink in uplinks if uplink.up]
    return working[fnv1a(mac.encode()) % len(working)] if working else None


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value
