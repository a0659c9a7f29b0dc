"""Hashes in threads, at a cost that tests can afford."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from core.errors import Invalid
from netmaster.auth.passwords import LONGEST, HashCost, Passwords, PasswordsBusy

CHEAP = HashCost(time=1, memory=8)
RIGHT = "correct horse"


@pytest_asyncio.fixture
async def passwords() -> AsyncIterator[Passwords]:
    passwords = Passwords(CHEAP, threads=1, waiting=2)
    yield passwords
    passwords.close()


async def test_a_password_matches_its_hash_only(passwords: Passwords) -> None:
    kept = await passwords.hash(RIGHT)
    assert kept.startswith("$argon2id$")
    assert RIGHT not in kept
    assert await passwords.verify(kept, RIGHT)
    assert not await passwords.verify(kept, "wrong horse")
    assert not await passwords.verify(kept, "")
    assert await passwords.hash(RIGHT) != kept


async def test_no_hash_is_matched_by_nothing(passwords: Passwords) -> None:
    for password in (RIGHT, "", "password of no user"):
        assert not await passwords.verify(None, password)


@pytest.mark.parametrize("damaged", ["", "x", "$argon2id$v=19$m=8,t=1,p=1$", "$2b$12$abc"])
async def test_a_damaged_hash_is_matched_by_nothing(passwords: Passwords, damaged: str) -> None:
    assert not await passwords.verify(damaged, RIGHT)
    assert not await passwords.verify(damaged, "password of no user")


@pytest.mark.parametrize(
    "password", ["short", "", "x" * (LONGEST + 1), "ä" * LONGEST, "\ud800" * 10]
)
async def test_a_new_password_has_a_proper_length(passwords: Passwords, password: str) -> None:
    with pytest.raises(Invalid, match="at least 8 characters, at most 1024 bytes"):
        await passwords.hash(password)


@pytest.mark.parametrize("password", ["x" * (LONGEST + 1), "\ud800" * 10])
async def test_what_cannot_be_a_password_matches_nothing(
    passwords: Passwords, password: str
) -> None:
    assert not await passwords.verify(await passwords.hash(RIGHT), password)


async def test_callers_beyond_the_limit_are_refused(passwords: Passwords) -> None:
    """The only thread is held, so that one caller runs, one waits, and a third is too many."""
    held, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(held.set)
        release.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(passwords._in_thread(hold))
        await held.wait()
        waiting = group.create_task(passwords.verify(None, RIGHT))
        await asyncio.sleep(0)
        with pytest.raises(PasswordsBusy) as refused:
            await passwords.verify(None, RIGHT)
        release.set()
    assert refused.value.http_status == 503
    assert waiting.result() is False
    assert not await passwords.verify(None, RIGHT)


async def test_a_hash_of_another_cost_is_outdated(passwords: Passwords) -> None:
    other = Passwords(HashCost(time=2, memory=8))
    try:
        assert passwords.outdated(await other.hash(RIGHT))
        assert not passwords.outdated(await passwords.hash(RIGHT))
    finally:
        other.close()
