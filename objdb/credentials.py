"""Certificates and password for etcd, from files that the command line names.

Takes paths and a user name and checks their combination; reads the files when a client is created.
Secrets come from files only: any local user can read a command line.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from core.errors import UsageError
from core.net import tls_trust
from objdb.access import StoreCredentials, Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialFiles:
    """Paths of PEM files, the name of a user and the path of its password; "" for none."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    user: str = ""
    password_file: str = ""

    def check(self, *, secure: bool) -> None:
        """Raise UsageError for an invalid combination of settings."""
        if secure and not self.ca:
            raise UsageError(
                "a store at https:// is checked by its authority's certificate: name its file with "
                "--store-ca, or use http:// for a store without TLS"
            )
        if not secure and (self.ca or self.cert or self.key):
            raise UsageError(
                "--store-ca, --store-cert and --store-key are for a store with TLS: "
                "name its endpoints with https://"
            )
        if bool(self.cert) != bool(self.key):
            raise UsageError("--store-cert and --store-key go together")
        if bool(self.user) != bool(self.password_file):
            raise UsageError("--store-user and --store-password-file go together")

    def check_unused(self) -> None:
        """Raise UsageError if anything is set: consul has environment variables for it."""
        if self != CredentialFiles():
            raise UsageError(
                "the --store- flags of certificates and users are for etcd: say what consul asks "
                "for with CONSUL_HTTP_TOKEN, CONSUL_CACERT, CONSUL_CLIENT_CERT and "
                "CONSUL_CLIENT_KEY"
            )

    def tls(self) -> Tls:
        """Read the PEM files. Raises UsageError."""
        return Tls(
            ca=_read("store-ca", self.ca),
            cert=_read("store-cert", self.cert) if self.cert else None,
            key=_read("store-key", self.key) if self.key else None,
        )

    def context(self) -> ssl.SSLContext:
        """Return the certificates as a TLS context of Python. Raises UsageError."""
        self.tls()  # its error names the unreadable file; that of `ssl` does not
        try:
            context = tls_trust.client_context(ca_file=self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except ssl.SSLError as exc:
            files = " ".join(filter(None, (self.ca, self.cert, self.key)))
            raise UsageError(f"{files}: not PEM, or a key of another certificate: {exc}") from exc
        return context

    def credentials(self) -> StoreCredentials | None:
        """Read the password without its line end. Raises UsageError."""
        if not self.user:
            return None
        password = _read("store-password-file", self.password_file)
        try:
            return StoreCredentials(user=self.user, password=password.decode().rstrip("\r\n"))
        except UnicodeDecodeError as exc:
            raise UsageError(f"--store-password-file {self.password_file}: not UTF-8") from exc


def _read(flag: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise UsageError(f"--{flag} {path}: {exc.strerror or exc}") from exc
