"""Users and the keys of tokens in the store.

Each call reads the store, as the original's proxy did: a removed user or a replaced key is in
force at every master with the next request. Records are encoded by `users` and `tokens`.
"""

from collections.abc import Callable

from core import keys
from core.errors import Conflict
from daemons.certificates.peers import NAME
from netmaster.auth import tokens, users
from netmaster.auth.tokens import TokenKeys
from netmaster.auth.users import User
from objdb.api import Absent, Backend, Change, Delete, Entry, Put, Refused, Unchanged


class StoredAccounts:
    """Reads and changes accounts. All methods raise StoreUnavailable, and Invalid for a record."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def user(self, name: str) -> User | None:
        """Return a user, None if there is none of that name."""
        # The name is a client's: with a "/" it could be that of another record.
        if not NAME.fullmatch(name):
            return None
        return _user(await self._backend.get(keys.user(name)))

    async def all_users(self) -> list[User]:
        """Return all users by name."""
        found = await self._backend.snapshot(keys.USERS)
        return [users.decode(key, found.entries[key].value) for key in sorted(found.entries)]

    async def change_user(self, name: str, change: Callable[[User | None], User | None]) -> None:
        """Replace a user by what `change` returns for it; None is no user, before and after.

        Raises Conflict if the user is changed by another client meanwhile, or as `change`.
        """
        key = keys.user(name)
        entry = await self._backend.get(key)
        user = change(_user(entry))
        op = Delete(key) if user is None else Put(key, users.encode(user))
        if await self._commit(entry, op) is not None:
            raise Conflict(f"user {name} was changed by another client meanwhile: try again")

    async def token_keys(self) -> TokenKeys:
        """Return the keys of tokens, made if there are none."""
        entry = await self._backend.get(keys.TOKEN_KEYS)
        if entry is not None:
            return _keys(entry)
        made = tokens.new_keys()
        # Masters may do this at the same time. The first one's keys are kept: tokens that it
        # issued with others would be refused.
        refused = await self._commit(None, Put(keys.TOKEN_KEYS, tokens.encode_keys(made)))
        if refused is None:
            return made
        return await self.token_keys() if refused.current is None else _keys(refused.current)

    async def rotate_token_keys(self, now: float) -> None:
        """Sign new tokens with a new key; `now` is in seconds since the epoch.

        Raises Conflict if another client does the same meanwhile.
        """
        await self.token_keys()
        entry = await self._backend.get(keys.TOKEN_KEYS)
        refused = None
        if entry is not None:
            fresh = tokens.encode_keys(tokens.rotated(_keys(entry), now))
            refused = await self._commit(entry, Put(keys.TOKEN_KEYS, fresh))
        if entry is None or refused is not None:
            raise Conflict("the keys of tokens were changed by another client meanwhile: try again")

    async def _commit(self, before: Entry | None, op: Put | Delete) -> Refused | None:
        """Apply an operation to a key that is as before; return the refusal if it is not."""
        check = Absent(op.key) if before is None else Unchanged(op.key, before.rev)
        (outcome,) = await self._backend.commit([Change((check,), (op,))])
        return outcome if isinstance(outcome, Refused) else None


def _user(entry: Entry | None) -> User | None:
    return None if entry is None else users.decode(entry.key, entry.value)


def _keys(entry: Entry) -> TokenKeys:
    return tokens.decode_keys(entry.value)
