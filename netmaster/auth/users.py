"""Users of the REST API as records in the store, and the identities they have. Pure.

Field names are those of the original's authenticating proxy (`username`, `disable`, …), with role
and tenants in the record instead of separate authorizations.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from core import keys
from core.errors import Invalid
from daemons.certificates.peers import NAME, PeerIdentity, Role
from netmaster.auth.roles import Identity

USER_ROLES: Final = frozenset({Role.ADMIN, Role.OPERATOR, Role.READER})


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user. `tenants` are an operator's; other roles have none.

    Tokens issued before `tokens_from` (seconds since the epoch) are refused. A changed password
    sets it to the next full second: tokens say when they were issued in full seconds.
    """

    name: str
    role: Role
    password_hash: str
    tenants: frozenset[str] = frozenset()
    disabled: bool = False
    tokens_from: int = 0
    first_name: str = ""
    last_name: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise Invalid(f"user name {self.name!r}: want letters, digits and any of . _ @ : -")
        if self.role not in USER_ROLES:
            raise Invalid(f"user {self.name}: role {self.role} is for daemons")
        if self.tenants and self.role is not Role.OPERATOR:
            raise Invalid(
                f"user {self.name}: role {self.role} is for all tenants: name none, or give the "
                f"role {Role.OPERATOR}"
            )

    def __repr__(self) -> str:
        # The generated one would print the hash, in a log or a traceback.
        return f"User({self.role}/{self.name})"


def encode(user: User) -> bytes:
    """Return the bytes of a user's record."""
    value = {**shown(user), "password_hash": user.password_hash, "tokens_from": user.tokens_from}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(record_key: str, value: bytes) -> User:
    """Return the user of a record. Raises Invalid, naming the key, for any other value.

    Strict, unlike other records: a field that is missing would otherwise have its zero value, and
    a damaged record would enable a disabled user.
    """
    try:
        parsed = from_json(value, allow_inf_nan=False)
    except ValueError as exc:
        raise Invalid(f"record {record_key}: not JSON: {exc}") from exc
    match parsed:
        case {
            "username": str(name),
            "first_name": str(first_name),
            "last_name": str(last_name),
            "disable": bool(disabled),
            "role": str(role),
            "tenants": [*tenants],
            "password_hash": str(password_hash),
            "tokens_from": int(tokens_from),
        } if keys.user(name) == record_key and role in USER_ROLES and _texts(tenants):
            return User(
                name=name,
                role=Role(role),
                password_hash=password_hash,
                tenants=frozenset(tenants),
                disabled=disabled,
                tokens_from=tokens_from,
                first_name=first_name,
                last_name=last_name,
            )
        case _:
            # Without the value, which has the hash.
            raise Invalid(f"record {record_key}: not a user of that name, or a field is missing")


def shown(user: User) -> dict[str, Any]:
    """Return what REST shows of a user: all but the hash."""
    return {
        "username": user.name,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "disable": user.disabled,
        "role": str(user.role),
        "tenants": sorted(user.tenants),
    }


def identity_of_user(user: User | None) -> Identity | None:
    """Return the identity of a user who has logged in; None if removed or disabled since."""
    if user is None or user.disabled:
        return None
    return Identity(user.role, user.name, user.tenants)


def identity_of_peer(peer: PeerIdentity | None, user: User | None) -> Identity | None:
    """Return the identity of a client with a certificate; `user` is the record of that name.

    A user's certificate needs no record, but one that is disabled or has another role revokes it.
    An operator has the tenants of the record.
    """
    if peer is None:
        return None
    if peer.role not in USER_ROLES or user is None:
        return Identity(peer.role, peer.name)
    if user.role is not peer.role:
        return None
    return identity_of_user(user)


def _texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)
