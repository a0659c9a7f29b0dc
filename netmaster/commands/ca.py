"""The certificate authority of a cluster: PEM bytes in, PEM bytes out.

The authority of `netmaster ca` and `netmaster kube-certificates`. Deterministic apart from fresh
keys and serial numbers: the clock is an argument. Files and command lines are in
`netmaster.commands.ca_command` and `netmaster.commands.kube_certificates`; the subject of a
certificate is read again by `daemons.certificates.peers`.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from core.errors import Invalid
from daemons.certificates.peers import NAME, ORGANIZATION, Role

AUTHORITY_DAYS: Final = 3650
DAYS: Final = 365
"""Validity of a certificate unless the caller names another one."""
CLOCK_SKEW: Final = timedelta(minutes=5)
"""Certificates are valid from this long ago: hosts' clocks differ."""
SERVERS: Final = frozenset({Role.MASTER, Role.AGENT})
"""Roles that listen; the others are users, whose certificates no client accepts of a server."""

_DNS_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, both PEM. The key is PKCS #8 without a passphrase."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        # The generated one would print the key, in a traceback for instance.
        return "KeyPair(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest:
    """A certificate to issue, for a number of days.

    `name` is the host label of an agent, else the name of the master or user. `addresses` are IP
    addresses and DNS names at which clients reach a master or agent: at least one; a user has none.
    """

    role: Role
    name: str
    addresses: Sequence[str] = ()
    days: int = DAYS


def new_authority(now: datetime) -> KeyPair:
    """Return a new authority: EC P-256, self-signed, valid for `AUTHORITY_DAYS`."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # The serial in the name tells two authorities of a cluster apart, while one replaces the
    # other: OpenSSL looks an issuer up by its name first.
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, f"authority {serial:x}"),
        ]
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, serial_number=serial)
        .public_key(key.public_key())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate.public_bytes(Encoding.PEM), _pem(key))


def issue(authority: KeyPair, request: CertificateRequest, now: datetime) -> KeyPair:
    """Return a new key and its certificate, issued by an authority.

    A certificate is valid no longer than its authority. Raises Invalid for a request that breaks
    the rules of `CertificateRequest`, and for an authority that cannot be read or has expired.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    return KeyPair(_certify(authority, request, key.public_key(), now), _pem(key))


def sign(authority: KeyPair, pem: bytes, request: CertificateRequest, now: datetime) -> bytes:
    """Return a certificate, issued by an authority, for the key in a PEM signing request.

    All else that the signing request says is ignored: `request` says whose key it is. Raises
    Invalid as `issue`, and for a key other than EC P-256 or a request not signed by its key.
    """
    try:
        asked = x509.load_pem_x509_csr(pem)
        key = asked.public_key()
        genuine = asked.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as exc:
        raise Invalid(f"the certificate request cannot be read: {exc}") from exc
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Invalid("the certificate request has a key that is not EC P-256")
    if not genuine:
        raise Invalid("the certificate request is not signed by its key")
    return _certify(authority, request, key, now)


def _certify(
    authority: KeyPair, request: CertificateRequest, key: ec.EllipticCurvePublicKey, now: datetime
) -> bytes:
    """Return the PEM certificate of a key. Raises Invalid."""
    issuer, issuer_key = _load(authority)
    if now >= issuer.not_valid_after_utc:
        raise Invalid(
            f"the authority expired on {issuer.not_valid_after_utc:%Y-%m-%d}: make a new one with "
            "`netmaster ca init`"
        )
    builder = (
        x509.CertificateBuilder()
        .issuer_name(issuer.subject)
        .subject_name(_subject(request))
        .serial_number(x509.random_serial_number())
        .public_key(key)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(min(now + _validity(request), issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_uses(request.role)), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    names = _alternative_names(request)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(Encoding.PEM)


def bundle(files: Iterable[bytes]) -> bytes:
    """Return the authorities in some PEM files as one, each once, in the order given.

    Daemons that trust both the old and the new authority let certificates be replaced one by one.
    Raises Invalid for a file without certificates, or with one that is not an authority's.
    """
    found: dict[bytes, None] = {}
    for file in files:
        for certificate in _certificates(file):
            if not _is_authority(certificate):
                raise Invalid(f"not an authority: {certificate.subject.rfc4514_string()}")
            found[certificate.public_bytes(Encoding.PEM)] = None
    return b"".join(found)


def _load(authority: KeyPair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate = _certificates(authority.certificate)[0]
    try:
        key = load_pem_private_key(authority.key, password=None)
    except (ValueError, TypeError) as exc:
        raise Invalid(f"the authority's key cannot be read: {exc}") from exc
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid("the authority's key is not an elliptic curve key")
    if key.public_key() != certificate.public_key() or not _is_authority(certificate):
        raise Invalid("the authority's certificate is not that of its key")
    return certificate, key


def _certificates(file: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(file)
    except (ValueError, x509.InvalidVersion) as exc:
        raise Invalid(f"not PEM certificates: {exc}") from exc


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False


def _subject(request: CertificateRequest) -> x509.Name:
    if not NAME.fullmatch(request.name):
        raise Invalid(
            f"name {request.name!r}: want at most 64 letters, digits and any of . _ @ : - "
            "after the first"
        )
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, request.role),
            x509.NameAttribute(NameOID.COMMON_NAME, request.name),
        ]
    )


def _validity(request: CertificateRequest) -> timedelta:
    if not 1 <= request.days <= AUTHORITY_DAYS:
        raise Invalid(f"days: want 1 to {AUTHORITY_DAYS}, got {request.days}")
    return timedelta(days=request.days)


def _uses(role: Role) -> list[x509.ObjectIdentifier]:
    client = [ExtendedKeyUsageOID.CLIENT_AUTH]
    return [ExtendedKeyUsageOID.SERVER_AUTH, *client] if role in SERVERS else client


def _alternative_names(request: CertificateRequest) -> list[x509.GeneralName]:
    listens = request.role in SERVERS
    if listens and not request.addresses:
        raise Invalid(f"a certificate of role {request.role} needs an address that it listens on")
    if not listens and request.addresses:
        raise Invalid(f"a certificate of role {request.role} is a user's and has no address")
    return [_alternative_name(address) for address in dict.fromkeys(request.addresses)]


def _alternative_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        pass
    labels = address.split(".")
    # Digits alone in the last label are a mistyped IPv4 address: no such top-level domain exists.
    well_formed = all(_DNS_LABEL.fullmatch(label) for label in labels)
    if not well_formed or len(address) > 253 or labels[-1].isdigit():
        raise Invalid(f"address {address!r}: neither an IP address nor a DNS name")
    return x509.DNSName(address)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
