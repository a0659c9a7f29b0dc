"""Logins: a name and a password in, a token out; then a token in, an identity out.

The one place where records (`users`), passwords, delays (`lockout`), tokens and the audit log come
together. It knows nothing of HTTP. The texts of errors are those of the original's proxy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from core.errors import ContivError
from netmaster.auth import audit, tokens
from netmaster.auth.audit import RequestOrigin
from netmaster.auth.lockout import Lockout
from netmaster.auth.passwords import Passwords
from netmaster.auth.roles import Identity, NotAuthenticated
from netmaster.auth.tokens import TokenKeys, TokenRefused
from netmaster.auth.users import User, identity_of_user


class LoginDelayed(ContivError):
    """Too many attempts failed; `retry_after` is in whole seconds."""

    http_status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, seconds: float) -> None:
        self.retry_after = math.ceil(seconds)
        super().__init__(f"too many failed logins: try again in {self.retry_after} s")


class AccountStore(Protocol):
    """Records in the store, as they are now. Both raise StoreUnavailable."""

    async def user(self, name: str) -> User | None:
        """Return a user, None if there is none of that name."""

    async def token_keys(self) -> TokenKeys:
        """Return the keys of tokens, made if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """Logs users in, and recognizes them by their token. `now` is the wall clock, in seconds."""

    accounts: AccountStore
    passwords: Passwords
    lockout: Lockout
    now: Callable[[], float]

    async def log_in(self, name: str, password: str, origin: RequestOrigin) -> str:
        """Return a token.

        Raises NotAuthenticated for a wrong name or password and a disabled user, all with one
        text; LoginDelayed, PasswordsBusy or StoreUnavailable.
        """
        delay = self.lockout.begin(name, origin.address)
        if delay > 0:
            audit.login_failed(origin, name, "too many failed logins")
            raise LoginDelayed(delay)
        user = await self.accounts.user(name)
        right = await self.passwords.verify(user.password_hash if user else None, password)
        # After the hash, so that a disabled user is not told apart by the time.
        who = identity_of_user(user)
        if who is None or not right:
            audit.login_failed(origin, name, "disabled" if user and right else "wrong password")
            raise NotAuthenticated("Invalid username/password")
        # A token of before the user's record was written is refused, by whole seconds. One issued
        # within that second is later than the record, which has just been read.
        issued_at = max(self.now(), float(user.tokens_from) if user else 0.0)
        token = tokens.issue(await self.accounts.token_keys(), who, issued_at)
        self.lockout.succeeded(name, origin.address)
        audit.login_succeeded(origin, who)
        return token

    async def identity(self, token: str) -> Identity:
        """Return who shows a token, with the rights of now.

        Raises TokenRefused, also for a user who was removed or disabled since, or StoreUnavailable.
        """
        claims = tokens.verify(await self.accounts.token_keys(), token, self.now())
        user = await self.accounts.user(claims.name)
        who = identity_of_user(user)
        if user is None or who is None:
            raise TokenRefused("Invalid user")
        if claims.issued_at < user.tokens_from:
            raise TokenRefused("Token revoked")
        return who
