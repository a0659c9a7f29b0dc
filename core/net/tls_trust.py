"""What TLS clients and servers of this product check of a peer's certificate: one policy for all.

In come the authorities that a caller names; out comes an `ssl.SSLContext` that verifies. Used by
`objdb` for stores, by `daemons.certificates.tls`, `daemons.kube_rest`, `netplugin.kube` and
`contivmodel`.
"""

# Why the flags are set here: `ssl.create_default_context` changes with the interpreter. Since
# Python 3.13 it checks authorities as RFC 5280 words it, and refuses those without keyUsage, which
# `openssl req -x509` makes; it also takes an intermediate authority for a root. An upgrade of
# Python must neither cut daemons off from their store nor widen whom they trust. Signatures, dates,
# names, basicConstraints and path lengths are checked in any case. `strict` is for
# `netplugin preflight`, which says what other clients would refuse.

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

OLDEST_VERSION: Final = ssl.TLSVersion.TLSv1_2
_LEFT_TO_INTERPRETERS: Final = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN

_BY_CLOCK: Final[Mapping[int, str]] = {9: "is the clock right?", 10: "issue a new one"}
"""Remedies by OpenSSL's X509_V_ERR number, for checks that depend on the time."""


def client_context(*, ca_file: str = "", ca_text: str = "") -> ssl.SSLContext:
    """Return a context for clients, with the system's authorities if none are named.

    Raises OSError (SSLError included) or ValueError for what is no certificate.
    """
    context = policed(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    if ca_file or ca_text:
        context.load_verify_locations(ca_file or None, cadata=ca_text or None)
    else:
        context.load_default_certs()
    return context


def unverifying_context() -> ssl.SSLContext:
    """Return a context for clients that trust whoever answers: told to, or to probe."""
    context = policed(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def policed(context: ssl.SSLContext) -> ssl.SSLContext:
    """Give a new context the checks that all contexts have; return it."""
    context.minimum_version = OLDEST_VERSION
    context.verify_flags &= ~_LEFT_TO_INTERPRETERS
    return context


def strict(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a context refuse what RFC 5280 forbids, as clients of Python 3.13 do; return it."""
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def failed_check(exc: ssl.SSLCertVerificationError) -> str:
    """Return which check a certificate did not pass; for dates also this machine's clock."""
    remedy = _BY_CLOCK.get(exc.verify_code)
    if remedy is None:
        return exc.verify_message
    now = datetime.now(UTC).isoformat(" ", "seconds")
    return f"{exc.verify_message} by the clock of this machine, {now}: {remedy}"
