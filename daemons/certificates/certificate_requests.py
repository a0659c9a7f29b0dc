"""A key and the request for its certificate; and when a certificate is to be replaced.

PEM bytes in, PEM bytes out; the clock is an argument. Used by `netplugin enrol` and `netmaster
kube-certificates`; `netmaster.commands.ca` signs.
"""

from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

LEFT: Final = 1 / 3
"""The part of its validity that a certificate has left when it is replaced."""


def new_request() -> tuple[bytes, bytes]:
    """Return a new key (EC P-256) and a request for it; it names nobody, for the signer knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    signed = request.sign(key, hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem, signed.public_bytes(Encoding.PEM)


def renewal_is_due(certificate: bytes, now: datetime) -> bool:
    """Return whether a PEM certificate is to be replaced: it is near its end, or unreadable."""
    try:
        read = x509.load_pem_x509_certificate(certificate)
        begin, end = read.not_valid_before_utc, read.not_valid_after_utc
    except (ValueError, x509.InvalidVersion):
        return True
    return not begin <= now < end - (end - begin) * LEFT
