"""Texts for what is wrong between this agent and the Kubernetes API server, with the remedy. Pure.

In come the exceptions of a request and the server's refusals; out come the texts that logs,
`netplugin preflight` and `netctl host ls` show.
"""

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final

from netplugin.kube.resources import Resource

_OTHER_CA: Final = "its certificate is not from the authority in {ca}: name the cluster's CA there"
_CHECKS: Final[Mapping[int, str]] = {
    9: "its certificate is not valid yet: compare the clocks",
    10: "its certificate has expired: renew it on the API server",
    18: _OTHER_CA,
    19: _OTHER_CA,
    20: _OTHER_CA,
    21: _OTHER_CA,
    62: "its certificate is for another name: use a name or address that is in the certificate",
    64: "its certificate is for another address: use a name or address that is in the certificate",
}
"""By OpenSSL's X509_V_ERR number."""

_NO_TLS: Final = "it does not speak TLS: is it http:// there, or another port?"
_HANDSHAKES: Final[Mapping[str, str]] = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of the client certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a client certificate: name one in K8S_CERT",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses the client certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client certificate has expired",
}
"""By OpenSSL's name of the error or alert."""

_SYSTEM: Final[Mapping[int, str]] = {
    errno.ECONNREFUSED: "connection refused: does the API server run there, at this port?",
    errno.EHOSTUNREACH: "no route to the host: check address, routes and firewalls",
    errno.ENETUNREACH: "network unreachable: check address and routes",
    errno.ETIMEDOUT: "the connection timed out: check address, routes and firewalls",
    errno.ECONNRESET: "connection reset by the server or a proxy in between",
}


def connection_fault(exc: BaseException, server: str, ca: str, limit: float) -> str:
    """Return why a server could not be asked; `limit` is the time limit that may have passed."""
    return f"{server}: {_reason(exc, ca, limit)}"


def _reason(exc: BaseException, ca: str, limit: float) -> str:
    # aiohttp wraps the system's exception, which alone says what happened.
    for cause in _chain(exc):
        match cause:
            case ssl.SSLCertVerificationError():
                text = _CHECKS.get(cause.verify_code, f"its certificate: {cause.verify_message}")
                return text.format(ca=ca)
            case ssl.SSLError():
                return _HANDSHAKES.get(cause.reason or "", f"TLS: {cause}")
            case socket.gaierror():
                return (
                    f"its name cannot be resolved ({cause.strerror}): name the server by its "
                    "address, or mend the DNS of this host"
                )
            case OSError() if cause.errno is not None and cause.errno in _SYSTEM:
                return _SYSTEM[cause.errno]
            case TimeoutError():
                return f"no answer within {limit:g} s: check address, routes and firewalls"
            case _:
                continue
    return str(exc) or type(exc).__name__


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an exception, the innermost first."""
    causes: list[BaseException] = []
    inner: BaseException | None = exc
    while inner is not None and inner not in causes:
        causes.append(inner)
        wrapped = getattr(inner, "certificate_error", None) or getattr(inner, "os_error", None)
        inner = wrapped or inner.__cause__ or inner.__context__
    return reversed(causes)


def refusal(status: int, said: str, server: str, resource: Resource, identity: str) -> str:
    """Return what a server's refusal means; `identity` says what the agent identifies with."""
    match status:
        case 401:
            return (
                f"{server}: does not accept {identity} (401 Unauthorized): is it of this cluster, "
                "and has it expired?"
            )
        case 403:
            return (
                f"{server}: {identity} may not read {resource.name} (403 Forbidden): its "
                f"ClusterRole needs {rule(resource)}"
            )
        case 404:
            served = " or ".join(resource.versions)
            return f"{server}: does not serve {resource.name} ({served}): is it an API server?"
        case 400 if "HTTP request to an HTTPS server" in said:
            return f"{server}: it speaks TLS: write https:// in K8S_API_SERVER"
        case _:
            return f"{server}: {resource.name}: {status} {said[:200]}".rstrip()


def rule(resource: Resource) -> str:
    """Return the rule of a ClusterRole that allows to follow a resource."""
    return (
        f'- {{apiGroups: ["{resource.group}"], resources: ["{resource.name}"], '
        'verbs: ["get", "list", "watch"]}'
    )
