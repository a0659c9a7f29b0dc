"""Certificates for stores and their clients (made by openssl)."""

import subprocess
from pathlib import Path

from objdb.access import Tls


def make_certificates(directory: Path, *addresses: str) -> None:
    """Make `ca`, and `server` and `client` signed by it, and `other`, a stranger's authority."""
    for name in ("ca", "other"):
        _openssl(
            directory,
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"),
        )
    named = ",".join(f"IP:{address}" for address in ("127.0.0.1", *addresses))
    for name in ("server", "client"):
        _openssl(
            directory,
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"),
        )
        (directory / "ext").write_text(
            f"subjectAltName={named}\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        _openssl(
            directory,
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-out", f"{name}.pem", "-extfile", "ext", "-days", "2"),
        )


def expired(directory: Path) -> Path:
    """Make a certificate for the server's key that ended yesterday."""
    _openssl(
        directory,
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-out", "expired.pem", "-extfile", "ext", "-days", "-1"),
    )
    return directory / "expired.pem"


def tls(directory: Path, *, ca: str = "ca", own: str | None = "client") -> Tls:
    """Return the files of a directory as a client uses them."""
    return Tls(
        ca=(directory / f"{ca}.pem").read_bytes(),
        cert=(directory / f"{own}.pem").read_bytes() if own else None,
        key=(directory / f"{own}.key").read_bytes() if own else None,
    )


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
