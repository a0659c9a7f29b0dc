"""Records of users: round trip, strictness, and the identity they give."""

import json
from dataclasses import replace
from typing import Any

import pytest

from core import keys
from core.errors import Invalid
from daemons.certificates.peers import PeerIdentity, Role
from netmaster.auth import users
from netmaster.auth.roles import Identity
from netmaster.auth.users import User, identity_of_peer, identity_of_user

JOE = User(
    name="joe",
    role=Role.OPERATOR,
    password_hash="$argon2id$x",
    tenants=frozenset({"blue", "green"}),
    tokens_from=17,
    first_name="Joe",
    last_name="Böe",
)


@pytest.mark.parametrize("user", [JOE, replace(JOE, disabled=True)])
def test_a_record_is_read_as_it_was_written(user: User) -> None:
    assert keys.user("joe") == "/contiv.io/auth/users/joe"
    assert users.decode(keys.user("joe"), users.encode(user)) == user


@pytest.mark.parametrize(
    "change",
    [
        {"disable": None},
        {"disable": "false"},
        {"role": "agent"},
        {"role": "root"},
        {"tenants": "blue"},
        {"tenants": ["blue", 1]},
        {"tenants": [""]},
        {"password_hash": None},
        {"tokens_from": "17"},
        {"username": "eve"},
    ],
)
def test_a_damaged_record_is_refused_without_its_hash(change: dict[str, Any]) -> None:
    value = json.loads(users.encode(JOE)) | change
    with pytest.raises(Invalid, match=r"record /contiv\.io/auth/users/joe") as refused:
        users.decode(keys.user("joe"), json.dumps(value).encode())
    assert "argon2" not in str(refused.value)


@pytest.mark.parametrize("missing", json.loads(users.encode(JOE)))
def test_no_field_has_a_default(missing: str) -> None:
    value = json.loads(users.encode(JOE))
    del value[missing]
    with pytest.raises(Invalid):
        users.decode(keys.user("joe"), json.dumps(value).encode())


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_record(value: bytes) -> None:
    with pytest.raises(Invalid):
        users.decode(keys.user("joe"), value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a/b"}, "user name 'a/b'"),
        ({"name": ""}, "user name ''"),
        ({"role": Role.AGENT, "tenants": frozenset()}, "role agent is for daemons"),
        ({"role": Role.ADMIN}, "role admin is for all tenants"),
    ],
)
def test_what_is_no_user(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        replace(JOE, **change)


def test_the_hash_is_not_shown() -> None:
    assert users.shown(JOE) == {
        "username": "joe",
        "first_name": "Joe",
        "last_name": "Böe",
        "disable": False,
        "role": "operator",
        "tenants": ["blue", "green"],
    }
    assert "argon2" not in repr(JOE)


def test_a_user_has_an_identity_unless_disabled() -> None:
    assert identity_of_user(JOE) == Identity(Role.OPERATOR, "joe", JOE.tenants)
    assert identity_of_user(replace(JOE, disabled=True)) is None
    assert identity_of_user(None) is None


AGENT = PeerIdentity(Role.AGENT, "h1", frozenset({"192.0.2.1"}))
OPERATOR = PeerIdentity(Role.OPERATOR, "joe")
STRANGER = PeerIdentity(Role.OPERATOR, "eve")


@pytest.mark.parametrize(
    ("peer", "user", "identity"),
    [
        (None, None, None),
        (AGENT, None, Identity(Role.AGENT, "h1")),
        (AGENT, replace(JOE, name="h1", disabled=True), Identity(Role.AGENT, "h1")),
        (OPERATOR, JOE, Identity(Role.OPERATOR, "joe", JOE.tenants)),
        (OPERATOR, replace(JOE, disabled=True), None),
        (STRANGER, None, Identity(Role.OPERATOR, "eve")),
        (PeerIdentity(Role.ADMIN, "root"), None, Identity(Role.ADMIN, "root")),
        (PeerIdentity(Role.ADMIN, "joe"), JOE, None),
    ],
)
def test_a_certificate_gives_an_identity_unless_the_record_revokes_it(
    peer: PeerIdentity | None, user: User | None, identity: Identity | None
) -> None:
    assert identity_of_peer(peer, user) == identity
