"""Logins from end to end: records, passwords, delays, tokens, and what the audit log says."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio

from core.log_lines.extra import extra_of
from daemons.certificates.peers import Role
from netmaster.auth import audit, tokens
from netmaster.auth.audit import RequestOrigin
from netmaster.auth.lockout import Lockout
from netmaster.auth.login import LoginDelayed, Logins
from netmaster.auth.passwords import HashCost, Passwords
from netmaster.auth.roles import Decision, Identity, NotAuthenticated
from netmaster.auth.tokens import TokenKeys, TokenRefused
from netmaster.auth.users import User

PASSWORD = "correct horse"
ORIGIN = RequestOrigin(address="192.0.2.1", method="POST", path="/api/v1/auth_proxy/login/?x=1")


@dataclass
class Accounts:
    """The store."""

    users: dict[str, User] = field(default_factory=dict)
    keys: TokenKeys = field(default_factory=tokens.new_keys)

    async def user(self, name: str) -> User | None:
        return self.users.get(name)

    async def token_keys(self) -> TokenKeys:
        return self.keys


@dataclass
class LoginDesk:
    accounts: Accounts
    logins: Logins
    clock: list[float]

    def change(self, **fields: Any) -> None:
        self.accounts.users["joe"] = replace(self.accounts.users["joe"], **fields)

    async def log_in(self, name: str = "joe", password: str = PASSWORD) -> str:
        return await self.logins.log_in(name, password, ORIGIN)


@pytest_asyncio.fixture
async def desk(caplog: pytest.LogCaptureFixture) -> AsyncIterator[LoginDesk]:
    caplog.set_level(logging.INFO, "audit")
    passwords = Passwords(HashCost(time=1, memory=8), threads=1)
    clock = [1_700_000_000.0]
    joe = User(
        name="joe",
        role=Role.OPERATOR,
        password_hash=await passwords.hash(PASSWORD),
        tenants=frozenset({"blue"}),
    )
    accounts = Accounts({"joe": joe})
    lockout = Lockout(lambda: clock[0])
    logins = Logins(accounts=accounts, passwords=passwords, lockout=lockout, now=lambda: clock[0])
    yield LoginDesk(accounts, logins, clock)
    passwords.close()


async def test_a_login_gives_a_token_that_gives_the_identity(desk: LoginDesk) -> None:
    token = await desk.log_in()
    assert await desk.logins.identity(token) == Identity(Role.OPERATOR, "joe", frozenset({"blue"}))


async def test_rights_are_those_of_the_record_and_not_of_the_token(desk: LoginDesk) -> None:
    token = await desk.log_in()
    desk.change(tenants=frozenset({"green"}))
    assert (await desk.logins.identity(token)).tenants == {"green"}


async def test_a_token_ends_with_its_user(desk: LoginDesk) -> None:
    token = await desk.log_in()
    desk.change(disabled=True)
    with pytest.raises(TokenRefused, match="Invalid user"):
        await desk.logins.identity(token)
    desk.accounts.users.clear()
    with pytest.raises(TokenRefused, match="Invalid user"):
        await desk.logins.identity(token)


async def test_a_changed_password_ends_older_tokens(desk: LoginDesk) -> None:
    token = await desk.log_in()
    desk.change(tokens_from=int(desk.clock[0]) + 1)
    with pytest.raises(TokenRefused, match="Token revoked"):
        await desk.logins.identity(token)
    desk.clock[0] += 1
    assert (await desk.logins.identity(await desk.log_in())).name == "joe"


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("joe", "wrong", "wrong password"),
        ("joe", "", "wrong password"),
        ("eve", PASSWORD, "wrong password"),
        ("", "", "wrong password"),
        ("ann", PASSWORD, "disabled"),
        ("ann", "wrong", "wrong password"),
    ],
)
async def test_every_refusal_has_one_text_and_a_reason_in_the_audit_log(
    desk: LoginDesk,
    caplog: pytest.LogCaptureFixture,
    name: str,
    password: str,
    reason: str,
) -> None:
    desk.accounts.users["ann"] = replace(desk.accounts.users["joe"], name="ann", disabled=True)
    with pytest.raises(NotAuthenticated) as refused:
        await desk.log_in(name, password)
    assert str(refused.value) == "Invalid username/password"
    assert refused.value.http_status == 401
    assert caplog.messages == ["login failed"]
    assert extra_of(caplog.records[0]) == {
        "user": name,
        "address": "192.0.2.1",
        "method": "POST",
        "path": "/api/v1/auth_proxy/login/",
        "reason": reason,
    }


async def test_many_failures_delay_even_the_right_password(desk: LoginDesk) -> None:
    for _ in range(5):
        with pytest.raises(NotAuthenticated):
            await desk.log_in(password="wrong")
    with pytest.raises(LoginDelayed, match="try again in 1 s") as refused:
        await desk.log_in()
    assert (refused.value.http_status, refused.value.retry_after) == (429, 1)
    desk.clock[0] += 1
    assert await desk.log_in()


async def test_no_secret_is_logged(desk: LoginDesk, caplog: pytest.LogCaptureFixture) -> None:
    token = await desk.log_in()
    with pytest.raises(NotAuthenticated):
        await desk.log_in(password="another secret")
    text = "".join(f"{record.getMessage()} {extra_of(record)}" for record in caplog.records)
    for secret in (PASSWORD, "another secret", token, desk.accounts.users["joe"].password_hash):
        assert secret not in text
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


@pytest.mark.parametrize(
    ("who", "decision", "logged"),
    [
        (
            Identity(Role.AGENT, "h1"),
            Decision(allowed=True, reason="own host"),
            ("INFO", "access allowed", {"user": "h1", "role": "agent"}),
        ),
        (
            None,
            Decision(allowed=False, reason="no token"),
            ("WARNING", "access denied", {"user": "anonymous"}),
        ),
    ],
)
def test_each_decision_is_one_line(
    caplog: pytest.LogCaptureFixture,
    who: Identity | None,
    decision: Decision,
    logged: tuple[str, str, dict[str, str]],
) -> None:
    caplog.set_level(logging.INFO, "audit")
    origin = RequestOrigin(address="192.0.2.1", method="GET", path=f"/{'x' * 300}?token=secret")
    audit.request_decided(origin, who, decision)
    (record,) = caplog.records
    level, event, named = logged
    assert (record.levelname, record.getMessage()) == (level, event)
    assert extra_of(record) == {
        **named,
        "address": "192.0.2.1",
        "method": "GET",
        "path": "/" + "x" * 255,
        "reason": decision.reason,
    }
