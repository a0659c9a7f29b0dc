"""Texts for what is wrong with an API server."""

import errno
import os
import socket
import ssl

import pytest

from netplugin.kube.faults import connection_fault, refusal
from netplugin.kube.resources import SLICES


def unverified(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "said by OpenSSL"
    return error


def wrapped(inner: BaseException) -> Exception:
    outer = ValueError("outer")
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (unverified(20), "its certificate is not from the authority in /ca: name the cluster's CA"),
        (unverified(10), "its certificate has expired"),
        (unverified(64), "its certificate is for another address"),
        (unverified(1), "its certificate: said by OpenSSL"),
        (wrapped(unverified(20)), "its certificate is not from the authority in /ca"),
        (socket.gaierror(-2, "Name or service not known"), "cannot be resolved (Name or service"),
        (TimeoutError(), "no answer within 5 s"),
        (OSError(errno.EPERM, os.strerror(errno.EPERM)), "Operation not permitted"),
        (ValueError(), "ValueError"),
        *(
            (OSError(number, os.strerror(number)), text)
            for number, text in (
                (errno.ECONNREFUSED, "connection refused: does the API server run there"),
                (errno.EHOSTUNREACH, "no route to the host"),
                (errno.ENETUNREACH, "network unreachable"),
                (errno.ECONNRESET, "connection reset"),
            )
        ),
    ],
)
def test_a_failed_connection_says_what_to_do(exc: Exception, text: str) -> None:
    said = connection_fault(exc, "https://s", "/ca", 5.0)
    assert said.startswith("https://s: ")
    assert text in said


@pytest.mark.parametrize(
    ("status", "message", "text"),
    [
        (401, "", "does not accept the token (401 Unauthorized)"),
        (403, "", 'ClusterRole needs - {apiGroups: ["discovery.k8s.io"], resources: ["endpointsl'),
        (404, "", "does not serve endpointslices (apis/discovery.k8s.io/v1 or"),
        (400, "Client sent an HTTP request to an HTTPS server.", "write https://"),
        (500, "etcd is away", "endpointslices: 500 etcd is away"),
        (429, "", "endpointslices: 429"),
    ],
)
def test_a_refusal_says_what_to_do(status: int, message: str, text: str) -> None:
    said = refusal(status, message, "https://s", SLICES, "the token")
    assert said.startswith("https://s: ")
    assert text in said
