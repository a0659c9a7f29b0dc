"""Access to the API servers: their URLs, and with what the agent identifies itself there.

`netplugin.kube.discovery` makes a `KubeAccess`; `netplugin.kube.api` asks it for a TLS context and
a bearer token. Kubernetes replaces tokens and certificates in place: a token is read for each
request, and a context is built anew when a file of it has changed. An issuer, such as
`netplugin.kube.exec_plugin`, has others in their place before they expire.
"""

import ssl
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from core.errors import OrchestratorUnavailable
from core.net import tls_trust

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts token and CA of a pod's service account."""


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key: the path of its file, or its text."""

    path: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.path or self.text)

    def stamp(self) -> object:
        """Return what differs when the file was replaced. Raises OSError."""
        if not self.path:
            return self.text
        found = Path(self.path).stat()
        return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What identifies both sides; each may be absent. `source` says where they are named."""

    ca: Pem = Pem()
    cert: Pem = Pem()
    key: Pem = Pem()
    token: str = ""
    token_file: str = ""
    server_name: str = ""
    """The name in the server's certificate, where it is not that of the URL."""

    source: str = "K8S_CA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """Credentials that hold for a while; each may be "". Certificate and key are PEM."""

    token: str = ""
    cert: str = ""
    key: str = ""
    expires: float | None = None
    """The end, in seconds of the wall clock."""


class Issuer(Protocol):
    """Issues credentials, again and again."""

    @property
    def name(self) -> str:
        """What issues, in words."""
        ...

    async def issued(self) -> Issued:
        """Return credentials that hold now. Raises OrchestratorUnavailable."""
        ...

    def refused(self, used: Issued) -> bool:
        """Note that a server refused credentials; return whether there are or will be others."""
        ...


@dataclass(kw_only=True)
class KubeAccess:
    """Servers and credentials of one cluster; those of an `issuer` are current after `renew`."""

    servers: tuple[str, ...]
    credentials: Credentials = Credentials()
    issuer: Issuer | None = None
    _context: ssl.SSLContext | None = field(default=None, init=False)
    _stamps: tuple[object, ...] = field(default=(), init=False)

    @property
    def identity(self) -> str:
        """What the agent identifies itself with, in words."""
        if self.issuer is not None:
            return f"what {self.issuer.name} issues"
        held = self.credentials
        if held.token:
            return "the configured token"
        if held.token_file:
            return f"the token in {held.token_file}"
        return f"the certificate {held.cert.path}" if held.cert else "a request without credentials"

    @property
    def authority(self) -> str:
        """The authority that a server's certificate must be from, in words."""
        return self.credentials.ca.path or self.credentials.source

    async def renew(self) -> Issued | None:
        """Have the issuer's credentials for the next request, and return them; None without one.

        Raises OrchestratorUnavailable.
        """
        if self.issuer is None:
            return None
        held = await self.issuer.issued()
        self.credentials = replace(
            self.credentials, token=held.token, cert=Pem(text=held.cert), key=Pem(text=held.key)
        )
        return held

    def refused(self, used: Issued | None) -> bool:
        """Note that a server refused what `renew` returned; return whether it brings others."""
        return self.issuer is not None and used is not None and self.issuer.refused(used)

    def bearer(self) -> str:
        """Return the bearer token of this moment, "" for none. Raises OrchestratorUnavailable."""
        held = self.credentials
        if held.token or not held.token_file:
            return held.token
        try:
            token = Path(held.token_file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as exc:
            raise OrchestratorUnavailable(
                f"no token for Kubernetes: {_why(exc)}: name one with K8S_TOKEN, or mount the "
                f"service account at {ACCOUNT}"
            ) from exc
        if not token:
            raise OrchestratorUnavailable(f"no token for Kubernetes: {held.token_file} is empty")
        return token

    def tls(self, server: str) -> ssl.SSLContext | None:
        """Return the TLS context for a server; None without TLS.

        Raises OrchestratorUnavailable if a file is missing or is no certificate.
        """
        if not server.startswith("https://"):
            return None
        held = self.credentials
        try:
            stamps = tuple(pem.stamp() for pem in (held.ca, held.cert, held.key))
        except OSError as exc:
            raise OrchestratorUnavailable(self._unreadable(exc)) from exc
        if self._context is None or stamps != self._stamps:
            self._context, self._stamps = self._build(), stamps
        return self._context

    def _build(self) -> ssl.SSLContext:
        held = self.credentials
        if not held.ca:
            raise OrchestratorUnavailable(
                f"no CA for Kubernetes: {held.source} must name the file with the certificate of "
                "the cluster's authority"
            )
        try:
            context = tls_trust.client_context(ca_file=held.ca.path, ca_text=held.ca.text)
        except (OSError, ValueError) as exc:  # SSLError is an OSError: not a certificate
            raise OrchestratorUnavailable(self._unreadable(exc, held.ca)) from exc
        if held.cert:
            try:
                _load_pair(context, held.cert, held.key)
            except (OSError, ValueError) as exc:
                raise OrchestratorUnavailable(self._unreadable(exc, held.cert)) from exc
        return context

    def _unreadable(self, exc: Exception, pem: Pem | None = None) -> str:
        if isinstance(exc, ssl.SSLError):
            named = (pem.path if pem else "") or self.credentials.source
            return f"certificates for Kubernetes: {named} is no certificate or key in PEM"
        return f"certificates for Kubernetes: {_why(exc)}: mend {self.credentials.source}"


def _load_pair(context: ssl.SSLContext, cert: Pem, key: Pem) -> None:
    if cert.path:
        context.load_cert_chain(cert.path, key.path or None)
        return
    # The ssl module reads certificates of its own from files only.
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        file.write(f"{cert.text}\n{key.text}\n")
        file.flush()
        context.load_cert_chain(file.name)


def _why(exc: Exception) -> str:
    if isinstance(exc, OSError) and exc.filename is not None:
        return f"{exc.filename}: {exc.strerror}"
    return str(exc)
