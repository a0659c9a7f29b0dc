"""From the endpoints of a command line to a backend.

`store_of` parses the two endpoint flags (`parse_endpoints`) or the older single URL
(`parse_store_url`), with the original's messages (docs/original/netmaster-daemon.md §1); `connect`
creates the backend. Credentials are in `objdb.credentials`. The original used the first endpoint
only; here all of them are used.
"""

import json
import os
import ssl
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from core.addresses import authority
from core.errors import UsageError
from daemons.flags import Values
from objdb.access import StoreAccess, Tls
from objdb.api import Backend
from objdb.credentials import CredentialFiles
from objdb.etcd import EtcdBackend

DEFAULT_ETCD: Final = "http://127.0.0.1:2379"

_CONSUL_PEM: Final = ("CONSUL_CACERT", "CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY")


class StoreKind(StrEnum):
    """The stores a command line can name."""

    ETCD = "etcd"
    CONSUL = "consul"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The store's address: kind, `host:port` of each member, TLS or not, credential files."""

    kind: StoreKind
    members: tuple[str, ...]
    secure: bool
    credential_files: CredentialFiles = field(default_factory=CredentialFiles)

    def __str__(self) -> str:
        scheme = "https" if self.secure else "http"
        return f"{self.kind}: " + ",".join(f"{scheme}://{member}" for member in self.members)


def store_of(values: Values) -> StoreAddress:
    """Return the store address and credential files from the flags of either generation.

    Raises UsageError.
    """
    etcd, consul = values["etcd-endpoints"], values["consul-endpoints"]
    url = values["cluster-store"]
    if url and (etcd or consul):
        raise UsageError(
            f"ambiguous {values.daemon} db endpoints, both cluster-store and another specified: "
            f"cluster-store: {url}, etcd: {etcd}, consul: {consul}"
        )
    store = parse_store_url(url) if url else parse_endpoints(values.daemon, etcd, consul)
    files = CredentialFiles(
        ca=values["store-ca"],
        cert=values["store-cert"],
        key=values["store-key"],
        user=values["store-user"],
        password_file=values["store-password-file"],
    )
    if store.kind is StoreKind.CONSUL:
        files.check_unused()
    else:
        files.check(secure=store.secure)
    return replace(store, credential_files=files)


def parse_endpoints(daemon: str, etcd: str, consul: str) -> StoreAddress:
    """Return the store that `--etcd-endpoints` and `--consul-endpoints` name.

    `daemon` is the program's name in the messages. Raises UsageError.
    """
    if etcd and consul:
        raise UsageError(
            f"ambiguous {daemon} db endpoints, both etcd and consul specified: "
            f"etcd: {etcd}, consul: {consul}"
        )
    kind = StoreKind.CONSUL if consul else StoreKind.ETCD
    texts = [text.strip() for text in (consul or etcd or DEFAULT_ETCD).split(",")]
    if not any(texts):
        raise UsageError(f"invalid {daemon} {kind} endpoints: empty")
    return _address(kind, filter(None, texts), f"invalid {daemon} {kind} endpoint")


def parse_store_url(url: str) -> StoreAddress:
    """Parse `--cluster-store`, such as `etcd://host:port`. Raises UsageError."""
    scheme, found, _ = url.partition("://")
    if not found:
        raise UsageError(f"Invalid state-store URL {json.dumps(url)}")
    if scheme not in set(StoreKind):
        raise UsageError(f"Unsupported state-store {json.dumps(scheme)}")
    return _address(StoreKind(scheme), url.split(","), "invalid state-store URL")


def connect(store: StoreAddress, *, environ: Mapping[str, str] = os.environ) -> Backend:
    """Return a client of the store; call it inside a running event loop.

    Consul's token and certificates come from its own environment variables, as in the original.
    Raises UsageError, also for unreadable files.
    """
    if store.kind is StoreKind.CONSUL:
        # Imported here: it costs 7 MiB and a tenth of a daemon's start, which etcd users save.
        from objdb.consul import ConsulBackend  # noqa: PLC0415 - see above

        return ConsulBackend(consul_access(store, environ))
    return EtcdBackend(etcd_access(store))


def tls_context(
    store: StoreAddress, *, environ: Mapping[str, str] = os.environ
) -> ssl.SSLContext | None:
    """Return the TLS context that the store's client uses; None without TLS.

    Raises UsageError for unusable certificates.
    """
    if store.kind is StoreKind.ETCD:
        return store.credential_files.context() if store.secure else None
    from objdb.consul import agents  # noqa: PLC0415 - as in `connect`

    tls = consul_access(store, environ).tls
    return agents.tls_context(tls) if tls else None


def etcd_access(store: StoreAddress) -> StoreAccess:
    """Return address and credentials for etcd. Raises UsageError for unreadable files."""
    return StoreAccess(
        endpoints=store.members,
        tls=store.credential_files.tls() if store.secure else None,
        credentials=store.credential_files.credentials(),
    )


def consul_access(store: StoreAddress, environ: Mapping[str, str]) -> StoreAccess:
    """Return address and credentials for consul, the latter from the environment.

    Raises UsageError for unreadable files.
    """
    token = environ.get("CONSUL_HTTP_TOKEN") or None
    if not store.secure:
        return StoreAccess(endpoints=store.members, token=token)
    pem = {name: _pem(name, environ.get(name)) for name in _CONSUL_PEM}
    ca, cert, key = pem.values()
    if (cert is None) != (key is None):
        raise UsageError("CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY go together or not at all")
    return StoreAccess(endpoints=store.members, token=token, tls=Tls(ca=ca, cert=cert, key=key))


def _pem(name: str, path: str | None) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise UsageError(f"{name}: {exc}") from exc


def _address(kind: StoreKind, texts: Iterable[str], error_prefix: str) -> StoreAddress:
    members: list[str] = []
    schemes: set[str] = set()
    for text in texts:
        scheme, member = _endpoint(kind, text.strip(), error_prefix)
        schemes.add(scheme)
        members.append(member)
    if len(schemes) > 1:
        raise UsageError(f"{error_prefix}: either all with TLS or none: {', '.join(members)}")
    return StoreAddress(kind, tuple(dict.fromkeys(members)), schemes == {"https"})


def _endpoint(kind: StoreKind, text: str, error_prefix: str) -> tuple[str, str]:
    """Return (http or https, host:port) of one endpoint."""
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise UsageError(f"{error_prefix}: {text}: {exc}") from exc
    if parts.scheme not in {"http", "https", kind}:
        raise UsageError(f"{error_prefix}: {text}: want {kind}://host:port or http(s)://host:port")
    if not host or not port or parts.path.strip("/") or parts.query or parts.username:
        raise UsageError(f"{error_prefix}: {text}: want host:port behind the scheme")
    member = authority(host, port)
    return ("https" if parts.scheme == "https" else "http"), member
