"""Texts for failed TLS handshakes: what is wrong with which certificate, and the remedy. Pure.

OpenSSL names the failed check ("unable to get local issuer certificate"), or the alert of the peer
("tlsv1 alert unknown ca"). Neither tells an operator which of two certificates to replace.
"""

import ssl
from collections.abc import Mapping
from typing import Final

_ISSUE: Final = "issue a new one with `netmaster ca issue`"
_OTHER_CA: Final = "the peer's certificate is not from the authority in --tls-ca"

_CHECKS: Final[Mapping[int, str]] = {
    9: "the peer's certificate is not valid yet: compare the clocks of both hosts",
    10: f"the peer's certificate has expired: {_ISSUE} on the peer",
    18: _OTHER_CA,
    19: _OTHER_CA,
    20: _OTHER_CA,
    21: _OTHER_CA,
    26: "the peer's certificate is not for this use: users' certificates are for clients only",
    62: f"the peer's certificate is for another host name: {_ISSUE}, with this --address",
    64: f"the peer's certificate is for another IP address: {_ISSUE}, with this --address",
}
"""By OpenSSL's X509_V_ERR number."""

_NO_CERTIFICATE: Final = "the peer sent no certificate: give it --tls-ca, --tls-cert and --tls-key"
_OWN_REQUIRED: Final = "the peer requires a certificate: name one with --tls-cert and --tls-key"
_OWN_OTHER_CA: Final = "the peer does not know the authority of this certificate: compare --tls-ca"
_PLAIN: Final = "the peer does not speak TLS: give it --tls-ca, --tls-cert and --tls-key"
_REASONS: Final[Mapping[str, str]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _NO_CERTIFICATE,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _OWN_REQUIRED,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer refused the handshake: see the log of the peer",
    "TLSV1_ALERT_UNKNOWN_CA": _OWN_OTHER_CA,
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer refused this certificate: see the log of the peer",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"the own certificate has expired: {_ISSUE}",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the peer does not accept certificates of this role",
    "HTTP_REQUEST": _PLAIN,
    "RECORD_LAYER_FAILURE": _PLAIN,
    "UNSUPPORTED_PROTOCOL": "the peer is older than TLS 1.2",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer does not accept TLS 1.2 or later",
    "WRONG_VERSION_NUMBER": _PLAIN,
}
"""By OpenSSL's name of the error or alert."""


def cause(exc: BaseException) -> str:
    """Return the text of an error; for one of a failed handshake also what failed in it."""
    inner: BaseException | None = exc
    while inner is not None:
        # aiohttp's own errors are of this class as well, and have what failed as their cause.
        if isinstance(inner, ssl.SSLError) and hasattr(inner, "reason"):
            return explain(inner) if inner is exc else f"{exc}: {explain(inner)}"
        inner = inner.__cause__
    return str(exc) or type(exc).__name__


def explain(exc: Exception) -> str:
    """Return what failed in a handshake, with the remedy if it is known, else OpenSSL's text."""
    match exc:
        case ssl.SSLCertVerificationError():
            return _CHECKS.get(exc.verify_code, f"the peer's certificate: {exc.verify_message}")
        case ssl.SSLError():
            return _REASONS.get(exc.reason or "", str(exc))
        case _:
            return str(exc) or type(exc).__name__
