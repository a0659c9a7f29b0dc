"""Certificates for stores and their clients (made by openssl)."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

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
    parts = ((directory / name).read_bytes() for name in ("server.pem", "ca.pem", "ca.key"))
    pem = dated(*parts, begins=timedelta(days=-2))
    (directory / "expired.pem").write_bytes(pem)
    return directory / "expired.pem"


def dated(certificate: bytes, ca: bytes, ca_key: bytes, *, begins: timedelta) -> bytes:
    """Return, as PEM, the same certificate signed anew, for a day from `begins` after now on."""
    # openssl 3.5 refuses a negative number of days, and 3.0 takes no dates
    old, issuer = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificate(ca)
    key = load_pem_private_key(ca_key, None)
    assert isinstance(key, EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer_name=issuer.subject,
        subject_name=old.subject,
        public_key=old.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now + begins,
        not_valid_after=now + begins + timedelta(days=1),
        extensions=list(old.extensions),
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def tls(directory: Path, *, ca: str = "ca", own: str | None = "client") -> Tls:
    """Return the files of a directory as a client uses them."""
    return Tls(
        ca=(directory / f"{ca}.pem").read_bytes(),
        cert=(directory / f"{own}.pem").read_bytes() if own else None,
        key=(directory / f"{own}.key").read_bytes() if own else None,
    )


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
