"""Tokens that `X-Auth-Token` carries: JSON Web Tokens, signed with a key from the store. Pure.

The only user of the `jwt` library. Claims are those of the original's authenticating proxy:
`iss`, `exp` after ten hours, `username`, `principals` and `role`. As there, the role is for a
user interface: rights are decided from the user's record at each request, so that a change is in
force at once.
"""

import json
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, Final

from core import keys
from core.errors import Invalid
from core.outside_json import read_json
from daemons.certificates.peers import NAME, Role
from netmaster.auth.roles import Identity, NotAuthenticated

# The library is imported by the first login: its import takes longer than the rest of a command,
# and most clusters have no tokens.

LIFETIME: Final = 10 * 3600
"""Seconds, as the original's TokenValidityInHours."""

_ISSUER: Final = "auth_proxy"
_ALGORITHM: Final = "HS256"
_SECRET_BYTES: Final = 64
_LONGEST: Final = 4096
_ROLE_CLAIMS: Final = {Role.ADMIN: "admin", Role.OPERATOR: "ops", Role.READER: "reader"}
"""The original has the first two."""


class TokenRefused(NotAuthenticated):
    """A token is malformed, has expired, or no key of this cluster signed it; log in again."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key and the identifier that its tokens name it by."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.id})"


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The keys in force: tokens are signed with the current one.

    Those of the previous one are accepted until they have expired, `LIFETIME` after `rotated_at`
    (seconds since the epoch).
    """

    current: SigningKey
    previous: SigningKey | None = None
    rotated_at: int = 0


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """The content of a valid token: the user's name, and when it was issued (epoch seconds)."""

    name: str
    issued_at: int


def new_keys() -> TokenKeys:
    """Return the first keys of a cluster."""
    return TokenKeys(_new_key())


def rotated(token_keys: TokenKeys, now: float) -> TokenKeys:
    """Return keys with a new current one. Twice within `LIFETIME` ends the oldest tokens early."""
    return TokenKeys(_new_key(), token_keys.current, int(now))


def encode_keys(token_keys: TokenKeys) -> bytes:
    """Return the bytes of keys in the store."""
    value = {
        "current": _key_json(token_keys.current),
        "previous": token_keys.previous and _key_json(token_keys.previous),
        "rotated_at": token_keys.rotated_at,
    }
    return json.dumps(value).encode()


def decode_keys(value: bytes) -> TokenKeys:
    """Return the keys in the store. Raises Invalid, without the value."""
    try:
        parsed = read_json(value)
        previous = None if parsed["previous"] is None else _key_of(parsed["previous"])
        return TokenKeys(_key_of(parsed["current"]), previous, int(parsed["rotated_at"]))
    except (ValueError, TypeError, KeyError, OverflowError) as exc:
        raise Invalid(f"record {keys.TOKEN_KEYS}: not the keys of tokens") from exc


def issue(token_keys: TokenKeys, identity: Identity, now: float) -> str:
    """Return a token for a user who has logged in."""
    claims = {
        "iss": _ISSUER,
        "iat": int(now),
        "exp": int(now) + LIFETIME,
        "username": identity.name,
        "principals": identity.name,
        "role": _ROLE_CLAIMS[identity.role],
    }
    import jwt  # noqa: PLC0415 - see the module

    key = token_keys.current
    return jwt.encode(claims, key.secret, algorithm=_ALGORITHM, headers={"kid": key.id})


def verify(token_keys: TokenKeys, token: str, now: float) -> TokenClaims:
    """Return the claims of a token. Raises TokenRefused."""
    import jwt  # noqa: PLC0415 - see the module

    if len(token) > _LONGEST:
        raise TokenRefused("Bad token")
    try:
        key = _key_for(token_keys, jwt.get_unverified_header(token).get("kid"), now)
        # The algorithm is fixed: the header is the client's, and `none` is an algorithm. Times
        # are compared below, with the caller's clock instead of the library's.
        claims = jwt.decode(
            token,
            key.secret,
            algorithms=[_ALGORITHM],
            issuer=_ISSUER,
            options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
        )
    except jwt.InvalidTokenError as exc:
        raise TokenRefused("Bad token") from exc
    return _checked(claims, now)


def _checked(claims: dict[str, Any], now: float) -> TokenClaims:
    match claims:
        case {"username": str(name), "iat": int(issued_at), "exp": int(expires_at)}:
            if now >= expires_at:
                raise TokenRefused("Token expired")
            if not NAME.fullmatch(name):
                raise TokenRefused("Bad token")
            return TokenClaims(name, issued_at)
        case _:
            raise TokenRefused("Bad token")


def _key_for(token_keys: TokenKeys, key_id: object, now: float) -> SigningKey:
    if key_id == token_keys.current.id:
        return token_keys.current
    previous = token_keys.previous
    if previous and key_id == previous.id and now < token_keys.rotated_at + LIFETIME:
        return previous
    raise TokenRefused("Bad token")


def _new_key() -> SigningKey:
    return SigningKey(secrets.token_hex(8), secrets.token_bytes(_SECRET_BYTES))


def _key_json(key: SigningKey) -> dict[str, str]:
    return {"id": key.id, "secret": b64encode(key.secret).decode()}


def _key_of(value: dict[str, Any]) -> SigningKey:
    secret = b64decode(value["secret"], validate=True)
    # An empty or short secret would be a valid HMAC key, which anyone could guess.
    if len(secret) < _SECRET_BYTES or not isinstance(value["id"], str):
        raise ValueError("a key is too short")
    return SigningKey(value["id"], secret)
