"""Certificates for tests: authorities, issued files, and the outcome of handshakes."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemons.certificates.peers import PeerIdentity, Role
from daemons.certificates.tls import TlsFiles, peer_identity, shake_hands
from daemons.certificates.tls_faults import explain
from netmaster.commands import ca
from netmaster.commands.ca import CertificateRequest, KeyPair

NOW = datetime.now(UTC)
"""OpenSSL compares with the wall clock, so tests issue from it; it is read once."""


def request(
    role: Role = Role.AGENT, name: str = "h1", addresses: Sequence[str] | None = None
) -> CertificateRequest:
    if addresses is None:
        addresses = ("192.0.2.1",) if role in ca.SERVERS else ()
    return CertificateRequest(role=role, name=name, addresses=addresses)


@dataclass(frozen=True)
class Issuer:
    """An authority that writes files into a directory."""

    directory: Path
    authority: KeyPair

    @classmethod
    def new(cls, directory: Path) -> "Issuer":
        return cls(directory, ca.new_authority(NOW))

    def files(
        self,
        wanted: CertificateRequest,
        *,
        at: datetime = NOW,
        under: str = "",
        trusted: bytes = b"",
    ) -> TlsFiles:
        """Write a new certificate, its key and the authority's certificate; return the paths."""
        issued = ca.issue(self.authority, wanted, at)
        directory = self.directory / (under or f"{wanted.role}-{wanted.name}")
        directory.mkdir(parents=True, exist_ok=True)
        paths = {name: directory / f"{name}.pem" for name in ("ca", "cert", "key")}
        contents = {
            "ca": trusted or self.authority.certificate,
            "cert": issued.certificate,
            "key": issued.key,
        }
        for name, path in paths.items():
            fresh = path.with_suffix(".new")
            fresh.write_bytes(contents[name])
            fresh.replace(path)
        return TlsFiles(**{name: str(path) for name, path in paths.items()})

    def expired_files(self, wanted: CertificateRequest) -> TlsFiles:
        """As `files`, of a certificate that has expired."""
        return self.files(wanted, at=NOW - timedelta(days=wanted.days + 1), under="expired")


def raw_client(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a client, without a check of the files themselves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(files.ca)
    context.load_cert_chain(files.cert, files.key)
    return context


def anonymous_client(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a client that trusts the authority and has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(files.ca)
    return context


def met(
    client: ssl.SSLContext, server: ssl.SSLContext, address: str = "192.0.2.1"
) -> PeerIdentity | str | None:
    """Return whom the server sees after a handshake, else why the handshake failed."""
    try:
        _, far = shake_hands(client, server, server_hostname=address)
    except ssl.SSLError as exc:
        return explain(exc)
    return peer_identity(far)
