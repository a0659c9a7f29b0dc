"""What an agent's certificate request is answered with, in a cluster of Kubernetes. Pure.

In come a CertificateSigningRequest (`daemons.certificates.enrolment`) and the pod whose token made
it, as the API server has them; out comes the certificate to issue. The API server wrote the
request's `spec` fields `username` and `extra` from the token; nothing else in the request is
believed. Next: `netmaster.commands.kube_certificates`, which asks for both and writes the answer.
"""

from collections.abc import Mapping
from typing import Any

from core.errors import Invalid
from daemons.certificates import enrolment
from daemons.certificates.peers import Role
from netmaster.commands.ca import CertificateRequest

Object = Mapping[str, Any]


def pod_of(request: Object, namespace: str) -> str:
    """Return the name of the pod that made a request.

    Raises Invalid if it was not a pod of the agents' service account in that namespace.
    """
    spec = request.get("spec") or {}
    wanted = enrolment.ACCOUNT.format(namespace=namespace)
    if spec.get("username") != wanted:
        raise Invalid(f"made by {spec.get('username')!r}: only {wanted} gets one")
    return _noted(spec, enrolment.POD_NAME)


def grant(request: Object, pod: Object | None, days: int) -> CertificateRequest:
    """Return the certificate for the node that the pod of a request runs on.

    Raises Invalid if the pod is gone or another one, or is not on a node yet.
    """
    spec = request.get("spec") or {}
    if pod is None or pod.get("metadata", {}).get("uid") != _noted(spec, enrolment.POD_UID):
        raise Invalid("made by a pod that is gone")
    node = pod.get("spec", {}).get("nodeName", "")
    status = pod.get("status") or {}
    named = [status.get("hostIP"), *(one.get("ip") for one in status.get("hostIPs") or [])]
    addresses = list(dict.fromkeys(str(one) for one in named if one))
    if not node or not addresses:
        raise Invalid("made by a pod that is on no node yet")
    return CertificateRequest(role=Role.AGENT, name=node, addresses=addresses, days=days)


def _noted(spec: Object, what: str) -> str:
    values = (spec.get("extra") or {}).get(what) or []
    if len(values) != 1 or not values[0]:
        raise Invalid(
            f"the API server noted no {what}: the token that made it is not bound to a pod"
        )
    return str(values[0])
