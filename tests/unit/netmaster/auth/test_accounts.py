"""Accounts in the store, also where two masters change them at the same time."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from core import keys
from core.errors import Conflict, Invalid
from daemons.certificates.peers import Role
from netmaster.auth import tokens
from netmaster.auth.accounts import StoredAccounts
from netmaster.auth.users import User
from objdb.api import Change, Entry, Put
from objdb.memory import MemoryBackend, MemoryStore

JOE = User(name="joe", role=Role.ADMIN, password_hash="$argon2id$x")
NOW = 1_700_000_000.0


class Interrupted(MemoryBackend):
    """Lets another client act once, after the first read."""

    def __init__(self, store: MemoryStore, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(store)
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    async def get(self, key: str) -> Entry | None:
        found = await super().get(key)
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def accounts(store: MemoryStore) -> StoredAccounts:
    return StoredAccounts(MemoryBackend(store))


async def test_a_user_is_made_changed_and_removed(accounts: StoredAccounts) -> None:
    assert await accounts.user("joe") is None
    await accounts.change_user("joe", lambda before: JOE if before is None else None)
    assert await accounts.user("joe") == JOE
    disabled = replace(JOE, disabled=True)
    await accounts.change_user("joe", lambda before: disabled if before == JOE else None)
    assert await accounts.user("joe") == disabled
    await accounts.change_user("joe", lambda _: None)
    assert await accounts.user("joe") is None


def _become(user: User, _before: User | None) -> User:
    return user


async def test_all_users_come_by_name(accounts: StoredAccounts) -> None:
    ann = replace(JOE, name="ann")
    for user in (JOE, ann):
        await accounts.change_user(user.name, partial(_become, user))
    assert await accounts.all_users() == [ann, JOE]


@pytest.mark.parametrize("name", ["", "joe/x", "../token-keys", "joe\n", "j" * 65])
async def test_a_name_that_no_user_has_is_not_looked_up(store: MemoryStore, name: str) -> None:
    backend = MemoryBackend(store)
    await backend.commit([Change((), (Put(keys.USERS + "joe/x", b"not a user"),))])
    assert await StoredAccounts(backend).user(name) is None


async def test_a_damaged_record_is_an_error_and_not_an_absent_user(store: MemoryStore) -> None:
    backend = MemoryBackend(store)
    await backend.commit([Change((), (Put(keys.user("joe"), b"{}"),))])
    with pytest.raises(Invalid, match="users/joe"):
        await StoredAccounts(backend).user("joe")


async def test_a_change_of_another_client_is_not_overwritten(
    store: MemoryStore, accounts: StoredAccounts
) -> None:
    await accounts.change_user("joe", lambda _: JOE)
    disabled = replace(JOE, disabled=True)
    mine = StoredAccounts(
        Interrupted(store, lambda: accounts.change_user("joe", lambda _: disabled))
    )
    with pytest.raises(Conflict, match="try again"):
        await mine.change_user("joe", lambda before: before and replace(before, first_name="J"))
    assert await accounts.user("joe") == disabled


async def test_keys_are_made_once(store: MemoryStore, accounts: StoredAccounts) -> None:
    first = await accounts.token_keys()
    assert await accounts.token_keys() == first
    assert await StoredAccounts(MemoryBackend(store)).token_keys() == first


async def test_two_masters_make_the_same_keys(store: MemoryStore, accounts: StoredAccounts) -> None:
    async def make() -> None:
        await accounts.token_keys()

    mine = await StoredAccounts(Interrupted(store, make)).token_keys()
    assert mine == await accounts.token_keys()


async def test_rotation_keeps_the_former_key(accounts: StoredAccounts) -> None:
    before = await accounts.token_keys()
    await accounts.rotate_token_keys(NOW)
    after = await accounts.token_keys()
    assert (after.previous, after.rotated_at) == (before.current, NOW)
    assert after.current != before.current


async def test_the_first_rotation_makes_the_keys(accounts: StoredAccounts) -> None:
    await accounts.rotate_token_keys(NOW)
    assert (await accounts.token_keys()).previous is not None


async def test_two_rotations_at_the_same_time_are_one(
    store: MemoryStore, accounts: StoredAccounts
) -> None:
    """Two in a row would end every login of before."""
    before = await accounts.token_keys()
    other = MemoryBackend(store)
    theirs = tokens.encode_keys(tokens.rotated(before, NOW))

    class Raced(MemoryBackend):
        reads = 0

        async def get(self, key: str) -> Entry | None:
            found = await super().get(key)
            self.reads += 1
            if self.reads == 2:
                await other.commit([Change((), (Put(keys.TOKEN_KEYS, theirs),))])
            return found

    with pytest.raises(Conflict, match="keys of tokens"):
        await StoredAccounts(Raced(store)).rotate_token_keys(NOW)
    assert (await accounts.token_keys()).previous == before.current
