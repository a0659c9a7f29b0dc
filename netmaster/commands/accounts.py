"""The commands about accounts: `netmaster set-user` and its like, `COMMANDS`.

They need the store but no running netmaster, so that a cluster gets its first administrator, and
its last one back in. A password comes from standard input, never from a command line: any local
user can read those. `netmaster.commands.dispatch` runs them; the records are in
`netmaster.auth.accounts`.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from getpass import getpass
from typing import Final

from core.errors import NotFound, UsageError
from daemons import flags
from daemons.certificates.peers import Role
from daemons.flags import Flag, Generation, Values
from netmaster.auth.accounts import StoredAccounts
from netmaster.auth.passwords import Passwords
from netmaster.auth.users import USER_ROLES, User
from objdb.api import Backend

NAME: Final = Flag(
    names=("name",), env="USER_NAME", help="name of the user", generation=Generation.OURS
)
ROLE: Final = Flag(
    names=("role",),
    env="USER_ROLE",
    help=f"its role: {', '.join(sorted(USER_ROLES))}",
    generation=Generation.OURS,
)
TENANT: Final = Flag(
    names=("tenant",),
    env="USER_TENANT",
    help="tenant of an operator; may be repeated",
    repeatable=True,
    generation=Generation.OURS,
)
DISABLED: Final = Flag(
    names=("disabled",),
    env="USER_DISABLED",
    help="refuse its logins and tokens",
    switch=True,
    generation=Generation.OURS,
)

AccountCommand = Callable[[Backend, Values], Awaitable[None]]


async def set_user(backend: Backend, values: Values) -> None:
    """Make a user, or replace all of one, and end its tokens; the password is read.

    Raises UsageError, Invalid, Conflict or StoreUnavailable.
    """
    name, role = _name(values), _role(values)
    passwords = Passwords()
    try:
        password_hash = await passwords.hash(_read_password(name))
    finally:
        passwords.close()
    wanted = User(
        name=name,
        role=role,
        password_hash=password_hash,
        tenants=frozenset(filter(None, values["tenant"].split(","))),
        disabled=values.on("disabled"),
        tokens_from=int(_now()) + 1,
    )

    def change(before: User | None) -> User:
        if before is None:
            return wanted
        return replace(wanted, first_name=before.first_name, last_name=before.last_name)

    await StoredAccounts(backend).change_user(name, change)


async def remove_user(backend: Backend, values: Values) -> None:
    """Remove a user. Raises NotFound, UsageError, Conflict or StoreUnavailable."""
    name = _name(values)

    def change(before: User | None) -> None:
        if before is None:
            raise NotFound(f"user {name} not found")

    await StoredAccounts(backend).change_user(name, change)


async def list_users(backend: Backend, _: Values) -> None:
    """Print all users, one per line: name, role, tenants, and whether it is disabled."""
    for user in await StoredAccounts(backend).all_users():
        state = "disabled" if user.disabled else "enabled"
        tenants = ",".join(sorted(user.tenants)) or "-"
        sys.stdout.write(f"{user.name}\t{user.role}\t{tenants}\t{state}\n")


async def rotate_token_keys(backend: Backend, _: Values) -> None:
    """Sign new tokens with a new key; those of the former one are valid until they expire."""
    await StoredAccounts(backend).rotate_token_keys(_now())


COMMANDS: Final[Mapping[str, tuple[AccountCommand, tuple[Flag, ...]]]] = {
    "set-user": (set_user, (*flags.STORE, NAME, ROLE, TENANT, DISABLED)),
    "remove-user": (remove_user, (*flags.STORE, NAME)),
    "list-users": (list_users, flags.STORE),
    "rotate-token-keys": (rotate_token_keys, flags.STORE),
}
"""By the first word of the command line, as `netmaster.commands.dispatch` has its own."""


def _name(values: Values) -> str:
    if not values["name"]:
        raise UsageError("name the user with --name")
    return values["name"]


def _role(values: Values) -> Role:
    if values["role"] not in USER_ROLES:
        raise UsageError(f"--role is one of {', '.join(sorted(USER_ROLES))}")
    return Role(values["role"])


def _read_password(name: str) -> str:
    if sys.stdin.isatty():
        return getpass(f"Password of {name}: ")
    return sys.stdin.readline().rstrip("\r\n")


def _now() -> float:
    return datetime.now(UTC).timestamp()
