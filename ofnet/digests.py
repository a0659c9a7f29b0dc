"""Digests that number flows, groups and meters, under a key of the host.

In comes content; out comes a digest, the same for the same content and key. Without a key anybody
could look for content whose digest is that of another tenant's flow or group (2^32 tries for the
number of a group) and have this host take the two for one. With a key that tenants do not know they
can only guess.

The key is the process's, because flows are values that are made in many places, and all flows of a
switch must be numbered under one key. An agent sets it before its first flow, and has the same one
after a restart: else no flow of the switch would be the one that is wanted.
"""

from hashlib import blake2b
from typing import Final

COOKIE_SIZE: Final = 6
"""Bytes of a flow's digest."""
_NUMBER_SIZE: Final = 4


class _Hashers:
    """The hashers that have taken in the key and nothing else."""

    # A copy of one costs a flow a fifth of what a new one with a key costs.

    __slots__ = ("cookie", "number")

    def __init__(self, key: bytes) -> None:
        self.use(key)

    def use(self, key: bytes) -> None:
        self.cookie = blake2b(digest_size=COOKIE_SIZE, key=key)
        self.number = blake2b(digest_size=_NUMBER_SIZE, key=key)


_hashers: Final = _Hashers(b"")


def use_key(key: bytes) -> None:
    """Digest under a key of up to 64 bytes from now on; under none if it is empty."""
    _hashers.use(key)


def cookie_digest(content: bytes) -> int:
    """Return 48 bits that stand for the content of a flow."""
    hasher = _hashers.cookie.copy()
    hasher.update(content)
    return int.from_bytes(hasher.digest(), "big")


def number(content: bytes) -> int:
    """Return 32 bits that stand for some content."""
    hasher = _hashers.number.copy()
    hasher.update(content)
    return int.from_bytes(hasher.digest(), "big")
