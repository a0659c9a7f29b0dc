"""The agent's Kubernetes configuration: the file an installation writes on every host.

In comes its path; out goes what of it concerns the host's edge, the subnet of the cluster's
services (spec/cni-k8s.md §6, `k8sutils.go: GetK8SConfig`): `netplugin.infra` routes the host there,
`netplugin.pods` the pods that have no gateway. Without a file no services are known of.
"""

import json
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

from core.errors import UsageError

SERVICES: Final = "10.254.0.0/16"
"""Where the file does not name a subnet."""


def service_subnet(path: Path) -> IPv4Network | None:
    """Return the subnet of services, None if there is no file or it names none.

    Raises UsageError for a file that does not say what it should.
    """
    try:
        named = _fields(path.read_bytes()).get("SVC_SUBNET")
        subnet = SERVICES if named is None else named
        return IPv4Network(subnet, strict=False) if subnet else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise UsageError(f"Kubernetes configuration {path}: {exc}") from exc


def _fields(text: bytes) -> dict[str, Any]:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("not an object")  # noqa: TRY004 - a fault of the file
    return fields
