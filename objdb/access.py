"""How to reach a store: its members, and what they ask of a client. Backends say what they use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM texts: the authority that signed the servers, and our own certificate and key.

    Without an authority those that this machine trusts are asked.
    """

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user of etcd."""

    user: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`host:port` of a store's members; etcd knows users, consul tokens."""

    endpoints: tuple[str, ...]
    tls: Tls | None = None
    credentials: Credentials | None = None
    token: str | None = None
