"""Passwords: argon2id hashes, computed in threads. The only user of the `argon2` library.

A hash takes some 50 ms of a core and 19 MiB, on purpose; both are bounded here, since anyone who
reaches the API may try to log in.
"""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from core.errors import ContivError, Invalid

SHORTEST: Final = 8
LONGEST: Final = 1024
"""Bytes of a password; longer ones would take the time and memory of their request."""

_T = TypeVar("_T")


class PasswordsBusy(ContivError):
    """Too many passwords are waiting to be verified; try again later."""

    http_status = HTTPStatus.SERVICE_UNAVAILABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class HashCost:
    """Parameters of argon2id; `memory` is in KiB. The defaults are OWASP's second choice."""

    time: int = 2
    memory: int = 19 * 1024
    parallelism: int = 1


class Passwords:
    """Hashes and verifies, `threads` at a time with at most `waiting` callers; close it."""

    def __init__(
        self, cost: HashCost | None = None, *, threads: int = 2, waiting: int = 64
    ) -> None:
        cost = cost or HashCost()
        self._hasher = PasswordHasher(
            time_cost=cost.time, memory_cost=cost.memory, parallelism=cost.parallelism
        )
        # A pool of its own bounds the memory: a semaphore around asyncio.to_thread would be
        # released by a cancelled request while its thread still hashes.
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="password")
        self._waiting = 0
        self._limit = waiting
        self._absent_hash = cache(lambda: self._hasher.hash(secrets.token_bytes()))

    def close(self) -> None:
        """Drop what is waiting, and end the threads after what they are doing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def hash(self, password: str) -> str:
        """Return the hash of a new password.

        Raises Invalid for its length and for what UTF-8 cannot encode, or PasswordsBusy.
        """
        if len(password) < SHORTEST or _length(password) > LONGEST:
            raise Invalid(f"a password has at least {SHORTEST} characters, at most {LONGEST} bytes")
        return await self._in_thread(lambda: self._hasher.hash(password))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return whether a password is the one of a hash. Raises PasswordsBusy.

        Without a hash (no such user) the answer is no, after the same time: who measures it does
        not find out which users exist.
        """
        if _length(password) > LONGEST:
            return False
        return await self._in_thread(lambda: self._matches(password_hash, password))

    def outdated(self, password_hash: str) -> bool:
        """Return whether a hash was made at another cost, and is to be made anew at a login."""
        return self._hasher.check_needs_rehash(password_hash)

    def _matches(self, password_hash: str | None, password: str) -> bool:
        known = self._absent_hash() if password_hash is None else password_hash
        try:
            self._hasher.verify(known, password)  # raises for a password that does not match
        except (Argon2Error, InvalidHashError):
            return False
        return password_hash is not None

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._waiting >= self._limit:
            raise PasswordsBusy("too many logins at the same time: try again later")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1


def _length(password: str) -> int:
    """Return the bytes of a password, more than the limit for one that is no UTF-8 text."""
    try:
        return len(password.encode())
    except UnicodeEncodeError:  # JSON can carry half of a surrogate pair
        return LONGEST + 1
