"""Tokens: what they carry, how long they are valid, and what is refused."""

import hmac
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import jwt
import pytest

from core.errors import Invalid
from daemons.certificates.peers import Role
from netmaster.auth import tokens
from netmaster.auth.roles import Identity
from netmaster.auth.tokens import LIFETIME, TokenClaims, TokenKeys, TokenRefused

NOW = 1_700_000_000.5
ISSUED = int(NOW)
KEYS = tokens.new_keys()
JOE = Identity(Role.OPERATOR, "joe", frozenset({"blue"}))


def test_a_token_has_the_originals_claims_and_says_whose_it_is() -> None:
    token = tokens.issue(KEYS, JOE, NOW)
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims == {
        "iss": "auth_proxy",
        "iat": ISSUED,
        "exp": ISSUED + 36000,
        "username": "joe",
        "principals": "joe",
        "role": "ops",
    }
    assert tokens.verify(KEYS, token, NOW) == TokenClaims("joe", ISSUED)


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READER])
def test_roles_of_users_have_tokens(role: Role) -> None:
    assert tokens.verify(KEYS, tokens.issue(KEYS, Identity(role, "u"), NOW), NOW).name == "u"


def test_a_token_expires_after_ten_hours() -> None:
    token = tokens.issue(KEYS, JOE, NOW)
    assert tokens.verify(KEYS, token, ISSUED + LIFETIME - 0.1).name == "joe"
    with pytest.raises(TokenRefused, match="Token expired") as refused:
        tokens.verify(KEYS, token, ISSUED + LIFETIME)
    assert refused.value.http_status == 401


def test_keys_are_replaced_without_ending_logins() -> None:
    old = tokens.issue(KEYS, JOE, NOW)
    later = tokens.rotated(KEYS, NOW + 60)
    new = tokens.issue(later, JOE, NOW + 60)
    assert tokens.verify(later, old, NOW + 60).name == "joe"
    assert tokens.verify(later, new, NOW + 60).name == "joe"
    with pytest.raises(TokenRefused):
        tokens.verify(KEYS, new, NOW + 60)
    latest = tokens.rotated(later, NOW + 120)
    assert tokens.verify(latest, new, NOW + 120).name == "joe"
    with pytest.raises(TokenRefused):
        tokens.verify(latest, old, NOW + 120)


def test_the_previous_key_signs_nothing_once_its_tokens_have_expired() -> None:
    """A key that leaked is of no use any more, whatever expiry its tokens claim."""
    later = tokens.rotated(KEYS, NOW)
    forged = tokens.issue(KEYS, JOE, NOW + LIFETIME)
    with pytest.raises(TokenRefused, match="Bad token"):
        tokens.verify(later, forged, NOW + LIFETIME)


CLAIMS = {"iss": "auth_proxy", "iat": ISSUED, "exp": ISSUED + 60, "username": "joe"}
HEADER = {"alg": "HS256", "typ": "JWT", "kid": KEYS.current.id}


def signed(
    claims: Mapping[str, Any] | None = None, *, key: bytes = KEYS.current.secret, **header: Any
) -> str:
    """Return a token with other claims and header fields, made without the library."""
    text = f"{part(HEADER | header)}.{part(CLAIMS | dict(claims or {}))}"
    digest = "sha512" if header.get("alg") == "HS512" else "sha256"
    return f"{text}.{encoded(hmac.digest(key, text.encode(), digest))}"


def encoded(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


def part(value: object) -> str:
    return encoded(json.dumps(value).encode())


def unsigned() -> str:
    return f"{part(HEADER | {'alg': 'none'})}.{part(CLAIMS)}."


def renamed() -> str:
    """Return a valid token whose claims were changed afterwards."""
    header, _, signature = signed().split(".")
    return f"{header}.{part(CLAIMS | {'username': 'root'})}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "é.é.é",
        "x" * 5000,
        unsigned(),
        renamed(),
        signed(key=b"k" * 64),
        signed(kid="other"),
        signed(kid=None),
        signed(kid=["a"]),
        signed(alg="HS512"),
        signed({"iss": "other"}),
        signed({"username": ""}),
        signed({"username": "a/b"}),
        signed({"username": 7}),
        signed({"exp": "never"}),
        signed({"exp": None}),
        signed({"iat": None}),
        signed(crit=["x"]),
    ],
)
def test_any_other_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused, match="Bad token"):
        tokens.verify(KEYS, token, NOW)


def test_a_token_made_by_hand_is_accepted() -> None:
    """The tokens above are refused for what is wrong with each, not for how they are made."""
    assert tokens.verify(KEYS, signed(), NOW).name == "joe"


@pytest.mark.parametrize("kept", [KEYS, tokens.rotated(KEYS, NOW)])
def test_keys_are_read_as_they_were_written(kept: TokenKeys) -> None:
    assert tokens.decode_keys(tokens.encode_keys(kept)) == kept


@pytest.mark.parametrize(
    "change",
    [
        {"current": None},
        {"current": {"id": "a", "secret": ""}},
        {"current": {"id": "a", "secret": b64encode(b"short").decode()}},
        {"current": {"id": "a", "secret": "!"}},
        {"current": {"id": 1, "secret": b64encode(b"k" * 64).decode()}},
        {"previous": {}},
        {"rotated_at": None},
    ],
)
def test_damaged_keys_are_refused(change: dict[str, Any]) -> None:
    value = json.loads(tokens.encode_keys(KEYS)) | change
    with pytest.raises(Invalid, match=r"record /contiv\.io/auth/token-keys"):
        tokens.decode_keys(json.dumps(value).encode())


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b"null"])
def test_what_are_no_keys(value: bytes) -> None:
    with pytest.raises(Invalid, match="token-keys"):
        tokens.decode_keys(value)


def test_secrets_are_not_printed() -> None:
    assert repr(KEYS.current.secret) not in repr(KEYS)
