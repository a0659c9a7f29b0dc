"""The agent's Kubernetes configuration: the file an installation writes on every host.

In comes its path; out goes where the API server is, and how it knows this agent
(`netplugin.kube.api` follows its services, if one is named), and the subnet of the cluster's
services: `netplugin.bridges.infra` routes the host there, `netplugin.pods.add` pods that have no
gateway (docs/original/cni-k8s.md §6, `k8sutils.go: GetK8SConfig`). Without a certificate or a token
of its own an agent shows its service account's token, which Kubernetes changes now and then: it is
read for every request.
"""

import json
import ssl
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from core.errors import OrchestratorUnavailable, UsageError

SERVICES: Final = IPv4Network("10.254.0.0/16")
"""Where the file does not name a subnet."""

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def _subnet(named: object) -> object:
    """Return a subnet as it is meant: the original's default, or none if that is what is said."""
    if named is None:
        return SERVICES
    return IPv4Network(named, strict=False) if named and isinstance(named, str) else named or None


class KubeConfig(BaseModel):
    """What the file says; without one neither a server nor services are known of."""

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
        """Return the token to show, "" for none. Raises OrchestratorUnavailable."""
        if self.token.strip() or self.cert:
            return self.token.strip()
        try:
            return account.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as exc:
            raise OrchestratorUnavailable(f"no token for Kubernetes: {exc}") from exc

    def tls(self) -> ssl.SSLContext | None:
        """Return who is trusted, and our certificate; None without TLS. Raises UsageError."""
        if not self.server.startswith("https://"):
            return None
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ValueError) as exc:  # no such file, or none of a certificate
            raise UsageError(f"certificates for Kubernetes: {exc}") from exc
        return context


def load(path: Path) -> KubeConfig:
    """Return what a file says, or nothing without one. Raises UsageError."""
    try:
        said = json.loads(path.read_bytes())
        return KubeConfig.model_validate({"SVC_SUBNET": None, **said})
    except FileNotFoundError:
        return KubeConfig()
    except (OSError, ValueError, TypeError) as exc:  # TypeError: it is no object
        raise UsageError(f"Kubernetes configuration {path}: {exc}") from exc
