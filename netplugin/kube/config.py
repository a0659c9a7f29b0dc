"""The agent's Kubernetes configuration: a file that an installation writes on every host.

In comes its path; out go the address of the API server (`netplugin.kube.api`), the agent's
credentials, and the subnet of the cluster's services, to which `netplugin.bridges.infra` routes the
host and `netplugin.pods.add` pods without a gateway (docs/original/cni-k8s.md §6,
`k8sutils.go: GetK8SConfig`). An agent without certificate and token uses its service account's
token, which Kubernetes rotates: it is read for every request.
"""

import json
import ssl
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from core.errors import OrchestratorUnavailable, UsageError

SERVICES: Final = IPv4Network("10.254.0.0/16")
"""The original's default where the file names no subnet."""

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def _subnet(named: object) -> object:
    """Return the subnet named; the default for null, None for an empty value."""
    if named is None:
        return SERVICES
    return IPv4Network(named, strict=False) if named and isinstance(named, str) else named or None


class KubeConfig(BaseModel):
    """The content of the file; without one there is neither a server nor a subnet."""

    model_config = ConfigDict(frozen=True)

    server: str = Field("", alias="K8S_API_SERVER", pattern="^(https?://[^/]+/?)?$")
    services: Annotated[IPv4Network | None, BeforeValidator(_subnet)] = Field(
        None, alias="SVC_SUBNET"
    )
    ca: str = Field("", alias="K8S_CA")
    cert: str = Field("", alias="K8S_CERT")
    key: str = Field("", alias="K8S_KEY")
    token: str = Field("", alias="K8S_TOKEN")

    def bearer(self, account: Path) -> str:
        """Return the bearer token, "" for none. Raises OrchestratorUnavailable."""
        if self.token.strip() or self.cert:
            return self.token.strip()
        try:
            return account.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as exc:
            raise OrchestratorUnavailable(f"no token for Kubernetes: {exc}") from exc

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, with CA and certificate; None without TLS. Raises UsageError."""
        if not self.server.startswith("https://"):
            return None
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ValueError) as exc:  # no such file, or not a certificate
            raise UsageError(f"certificates for Kubernetes: {exc}") from exc
        return context


def load(path: Path) -> KubeConfig:
    """Return the content of a file, empty if it does not exist. Raises UsageError."""
    try:
        content = json.loads(path.read_bytes())
        return KubeConfig.model_validate({"SVC_SUBNET": None, **content})
    except FileNotFoundError:
        return KubeConfig()
    except (OSError, ValueError, TypeError) as exc:  # TypeError: not a JSON object
        raise UsageError(f"Kubernetes configuration {path}: {exc}") from exc
