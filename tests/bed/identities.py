"""Certificates of a cluster's daemons and users, made by the command `netmaster ca`.

In come a directory, roles and names; out come the flags of a program and the context of a client.
"""

import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from core.net import tls_trust
from daemons.certificates.tls import TlsFiles
from tests.bed.certificates import dated

PROGRAM = Path(sys.executable).with_name("netmaster")


class Identities:
    """An authority, and a directory for each name that it issued a certificate for."""

    def __init__(self, directory: Path, tell: Callable[[str, str], None]) -> None:
        self.directory = directory
        self._tell = tell
        self._authority = directory / "authority"

    def initialize(self) -> None:
        """Make the authority."""
        self._run("ca", "init", str(self._authority))

    def issue(self, role: str, name: str, *addresses: str) -> None:
        """Issue a certificate; a second one of the same name replaces the first."""
        named = [word for address in addresses for word in ("--address", address)]
        words = ["--role", role, "--name", name, *named, "--out", str(self.directory / name)]
        self._run("ca", "issue", str(self._authority), *words)

    def expire(self, role: str, name: str, *addresses: str) -> None:
        """Issue a certificate that has ended already."""
        self.issue_for(timedelta(days=-2), role, name, *addresses)

    def issue_for(self, begins: timedelta, role: str, name: str, *addresses: str) -> None:
        """Issue a certificate for a day that begins so long after now."""
        self.issue(role, name, *addresses)
        cert = self.directory / name / "cert.pem"
        signer = [(self._authority / file).read_bytes() for file in ("ca.pem", "ca-key.pem")]
        cert.write_bytes(dated(cert.read_bytes(), *signer, begins=begins))

    def files(self, name: str) -> TlsFiles:
        """Return the files of a name."""
        own = self.directory / name
        return TlsFiles(ca=f"{own}/ca.pem", cert=f"{own}/cert.pem", key=f"{own}/key.pem")

    def flags(self, name: str) -> list[str]:
        """Return the flags of a daemon, or of netctl."""
        files = self.files(name)
        return ["--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key]

    def context(self, name: str) -> ssl.SSLContext:
        """Return the context of a client."""
        files = self.files(name)
        context = tls_trust.client_context(ca_file=files.ca)
        context.load_cert_chain(files.cert, files.key)
        return context

    def _run(self, *words: str) -> None:
        self._tell("netmaster", " ".join(["netmaster", *words]))
        subprocess.run([str(PROGRAM), *words], check=True, capture_output=True)
