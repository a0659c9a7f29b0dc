"""The agent's Kubernetes configuration: a file that an installation writes on every host.

In comes its path; out go the addresses of the API servers and the credentials, from which
`netplugin.kube.discovery` makes what `netplugin.kube.api` uses, and the subnet of the cluster's
services, to which `netplugin.bridges.host.infra` routes the host and `netplugin.pods.add` pods
without a gateway (docs/original/cni-k8s.md §6, `k8sutils.go: GetK8SConfig`).
"""

import socket
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from core.errors import UsageError
from core.outside_json import read_json

SERVICES: Final = IPv4Network("10.254.0.0/16")
"""The original's default where the file names no subnet."""


def _subnet(named: object) -> object:
    """Return the subnet named; the default for null, None for an empty value."""
    if named is None:
        return SERVICES
    if not isinstance(named, str):
        raise ValueError("not a subnet")  # noqa: TRY004 - for pydantic
    return IPv4Network(named, strict=False) if named else None


def _several(named: object) -> object:
    """Return the words of a text that commas separate."""
    if not isinstance(named, str):
        return named
    return tuple(word.strip().rstrip("/") for word in named.split(",") if word.strip())


_Url = Annotated[str, Field(pattern="^https?://[^/]+$")]


class KubeConfig(BaseModel):
    """The content of the file; without one there is no subnet, and perhaps no server."""

    model_config = ConfigDict(frozen=True)

    servers: Annotated[tuple[_Url, ...], BeforeValidator(_several)] = Field(
        (), alias="K8S_API_SERVER"
    )
    """URLs of the API servers; one that fails is followed by the next."""

    services: Annotated[IPv4Network | None, BeforeValidator(_subnet)] = Field(
        None, alias="SVC_SUBNET"
    )
    ca: str = Field("", alias="K8S_CA")
    cert: str = Field("", alias="K8S_CERT")
    key: str = Field("", alias="K8S_KEY")
    token: str = Field("", alias="K8S_TOKEN")
    kubeconfig: str = Field("", alias="K8S_KUBECONFIG")
    """A file of kubectl's format, which then has servers and credentials."""

    node: str = Field("", alias="K8S_NODE_NAME")
    """The name of this host's Node object; "" for the default of `node_name`."""

    def node_name(self, environ: Mapping[str, str]) -> str:
        """Return the name of this host's Node object: without another, kubelet takes the host's."""
        return self.node or environ.get("NODE_NAME") or socket.gethostname().lower()


def load(path: Path) -> KubeConfig:
    """Return the content of a file, empty if it does not exist. Raises UsageError."""
    try:
        content = read_json(path.read_bytes())
        return KubeConfig.model_validate({"SVC_SUBNET": None, **content})
    except FileNotFoundError:
        return KubeConfig()
    except (OSError, ValueError, TypeError) as exc:  # TypeError: not a JSON object
        raise UsageError(f"Kubernetes configuration {path}: {exc}") from exc
