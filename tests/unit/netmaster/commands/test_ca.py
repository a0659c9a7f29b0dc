"""Certificates as `netmaster.commands.ca` issues them. Handshakes with them are in `test_tls`."""

import ipaddress
from base64 import b64decode, b64encode
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from core.errors import Invalid
from daemons.certificates.certificate_requests import new_request, renewal_is_due
from daemons.certificates.peers import Role
from netmaster.commands import ca
from netmaster.commands.ca import CertificateRequest, KeyPair
from tests.unit.certificates import NOW, request

AUTHORITY = ca.new_authority(NOW)


def read(issued: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.certificate)


def test_an_authority_lasts_ten_years_and_issues_certificates_of_daemons_only() -> None:
    certificate = read(AUTHORITY)
    assert certificate.not_valid_after_utc == (NOW + timedelta(days=3650)).replace(microsecond=0)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    key = load_pem_private_key(AUTHORITY.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"


def test_two_authorities_have_two_names() -> None:
    assert read(AUTHORITY).subject != read(ca.new_authority(NOW)).subject


@pytest.mark.parametrize("role", Role)
def test_a_certificate_has_role_name_addresses_and_use(role: Role) -> None:
    listens = role in {Role.MASTER, Role.AGENT}
    addresses = ("192.0.2.1", "2001:db8::1", "h1.example.org", "192.0.2.1") if listens else ()
    certificate = read(ca.issue(AUTHORITY, request(role, "n1", addresses), NOW))
    certificate.verify_directly_issued_by(read(AUTHORITY))
    assert certificate.subject.rfc4514_string() == f"CN=n1,OU={role},O=contiv"
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert (ExtendedKeyUsageOID.SERVER_AUTH in uses) is listens
    assert ExtendedKeyUsageOID.CLIENT_AUTH in uses
    if listens:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert list(names) == [
            x509.IPAddress(ipaddress.ip_address("192.0.2.1")),
            x509.IPAddress(ipaddress.ip_address("2001:db8::1")),
            x509.DNSName("h1.example.org"),
        ]


def test_each_certificate_has_a_key_of_its_own() -> None:
    first, second = (ca.issue(AUTHORITY, request(), NOW) for _ in range(2))
    assert first.key not in {second.key, AUTHORITY.key}
    assert "PRIVATE" not in repr(first)


def test_a_certificate_is_valid_for_its_days_and_no_longer_than_its_authority() -> None:
    wanted = CertificateRequest(role=Role.ADMIN, name="root", days=30)
    certificate = read(ca.issue(AUTHORITY, wanted, NOW))
    assert certificate.not_valid_before_utc == (NOW - ca.CLOCK_SKEW).replace(microsecond=0)
    assert certificate.not_valid_after_utc == (NOW + timedelta(days=30)).replace(microsecond=0)
    late = NOW + timedelta(days=3640)
    certificate = read(ca.issue(AUTHORITY, wanted, late))
    assert certificate.not_valid_after_utc == read(AUTHORITY).not_valid_after_utc


def test_an_expired_authority_issues_nothing() -> None:
    with pytest.raises(Invalid, match=r"the authority expired on .*: make a new one"):
        ca.issue(AUTHORITY, request(), NOW + timedelta(days=3651))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (request(name=""), "name ''"),
        (request(name="h1,OU=admin/x"), "at most 64 letters"),
        (request(name="h" * 65), "at most 64 letters"),
        (request(addresses=()), "needs an address"),
        (request(Role.READER, "r", ("192.0.2.1",)), "has no address"),
        (request(addresses=("192.0.2.256",)), "neither an IP address nor a DNS name"),
        (request(addresses=("192.0.2.1/24",)), "neither an IP address nor a DNS name"),
        (request(addresses=("*.example.org",)), "neither an IP address nor a DNS name"),
        (request(addresses=("a..b",)), "neither an IP address nor a DNS name"),
        (CertificateRequest(role=Role.ADMIN, name="a", days=0), "days: want 1 to 3650"),
        (CertificateRequest(role=Role.ADMIN, name="a", days=3651), "days: want 1 to 3650"),
    ],
)
def test_what_cannot_be_issued(wanted: CertificateRequest, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        ca.issue(AUTHORITY, wanted, NOW)


@pytest.mark.parametrize(
    ("authority", "said"),
    [
        (KeyPair(b"", AUTHORITY.key), "not PEM certificates"),
        (KeyPair(AUTHORITY.certificate, b""), "key cannot be read"),
        (KeyPair(AUTHORITY.certificate, ca.new_authority(NOW).key), "not that of its key"),
        (ca.issue(AUTHORITY, request(), NOW), "not that of its key"),
    ],
)
def test_what_is_no_authority(authority: KeyPair, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        ca.issue(authority, request(), NOW)


def test_a_bundle_has_each_authority_once() -> None:
    old, new = AUTHORITY.certificate, ca.new_authority(NOW).certificate
    assert ca.bundle([old]) == old
    assert ca.bundle([old, new, old + new]) == old + new
    with pytest.raises(Invalid, match="not PEM"):
        ca.bundle([old, b""])
    with pytest.raises(Invalid, match="not an authority: CN=h1"):
        ca.bundle([old, ca.issue(AUTHORITY, request(), NOW).certificate])


def other_version(pem: bytes, own: bytes, other: bytes) -> bytes:
    """Return a PEM text whose structure names another version."""
    head, *lines, foot = pem.decode().strip().splitlines()
    changed = b64encode(b64decode("".join(lines)).replace(own, other, 1)).decode()
    return f"{head}\n{changed}\n{foot}\n".encode()


def test_a_version_that_nobody_knows_is_refused() -> None:
    """The library has an error of its own for it, which is no ValueError."""
    version = b"\xa0\x03\x02\x01"
    strange = other_version(AUTHORITY.certificate, version + b"\x02", version + b"\x0a")
    with pytest.raises(Invalid, match="not PEM certificates"):
        ca.bundle([strange])
    assert renewal_is_due(strange, NOW)
    asked = other_version(new_request()[1], b"\x02\x01\x00", b"\x02\x01\x01")
    with pytest.raises(Invalid, match="cannot be read"):
        ca.sign(AUTHORITY, asked, request(), NOW)
