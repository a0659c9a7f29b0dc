"""How the agent of a node gets certificates in a cluster of Kubernetes: the request's form. Pure.

`netplugin enrol` makes a CertificateSigningRequest (certificates.k8s.io/v1) for each of `SIGNERS`
with the token of its pod; the API server notes in it whose token that was. A master's
`netmaster.commands.agent_requests` decides about it by that note alone, and signs. Whose
certificate it is, is nowhere said by the one who asks.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.errors import Conflict, Invalid

API: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER_AGENT: Final = "contiv.io/agent"
"""Certificates for the connections between agents and masters."""
SIGNER_STORE: Final = "contiv.io/store"
"""Certificates for agents as clients of the store, by an authority of its own: a user of REST, who
has a certificate of the other one, must not be let into the store by it."""
SIGNERS: Final = (SIGNER_AGENT, SIGNER_STORE)
ACCOUNT: Final = "system:serviceaccount:{namespace}:contiv-netplugin"
"""The user that agents' pods are at the API server."""
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
"""What the API server notes of a token that is bound to a pod."""


def request_object(signer: str, pem: bytes) -> dict[str, Any]:
    """Return the object that asks a signer for a certificate of the key in a PEM request."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "contiv-"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": signer,
            "usages": ["digital signature", "client auth", "server auth"],
        },
    }


def certificate_in(request: Mapping[str, Any]) -> bytes | None:
    """Return the PEM certificate in a request object, None while nobody has decided.

    Raises Conflict if it was denied or could not be signed, Invalid if it cannot be read.
    """
    status = request.get("status") or {}
    for kind, message in _conditions(status):
        if kind in {"Denied", "Failed"}:
            name = request.get("metadata", {}).get("name", "")
            raise Conflict(f"the certificate request {name} was not granted: {message}")
    issued = status.get("certificate")
    return None if not issued else decoded(issued)


def is_pending(request: Mapping[str, Any]) -> bool:
    """Return whether a request waits for its signer."""
    status = request.get("status") or {}
    refused = any(kind in {"Denied", "Failed"} for kind, _ in _conditions(status))
    return not refused and not status.get("certificate")


def decoded(text: Any) -> bytes:
    """Return the bytes in a field of the API. Raises Invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as exc:
        raise Invalid(f"not base64: {exc}") from exc


def _conditions(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for one in status.get("conditions") or ():
        yield str(one.get("type", "")), str(one.get("message", ""))
