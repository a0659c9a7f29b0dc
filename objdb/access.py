"""How to reach a store: the addresses of its members, TLS and credentials."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM texts: the servers' certificate authority, the client's certificate and key.

    Without an authority, those that this machine trusts are used.
    """

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCredentials:
    """A user of etcd."""

    user: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """`host:port` of a store's members; `credentials` are for etcd, `token` for consul."""

    endpoints: tuple[str, ...]
    tls: Tls | None = None
    credentials: StoreCredentials | None = None
    token: str | None = None
