"""Finds the API servers and the credentials for them: a kubeconfig, the configuration, or a pod's.

In come the agent's configuration (`netplugin.kube.config`), the environment of a pod and the files
of its service account; out comes a `netplugin.kube.api_access.KubeAccess`.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from core.addresses import authority
from netplugin.kube.api_access import ACCOUNT, Credentials, KubeAccess, Pem
from netplugin.kube.config import KubeConfig


def access_of(
    config: KubeConfig, environ: Mapping[str, str], account: Path = ACCOUNT
) -> KubeAccess | None:
    """Return the access that the configuration names, else that of a pod in the cluster.

    None if there is neither. Raises UsageError for a kubeconfig that cannot be used.
    """
    if config.kubeconfig:
        from netplugin.kube import kubeconfig  # noqa: PLC0415 - YAML, which others need not load

        return kubeconfig.load(Path(config.kubeconfig))
    servers = config.servers or _in_cluster(environ)
    if not servers:
        return None
    own_ca = config.ca or (str(account / "ca.crt") if _in_pod(account) else "")
    own_token = "" if config.token.strip() or config.cert else str(account / "token")
    credentials = Credentials(
        ca=Pem(own_ca),
        cert=Pem(config.cert),
        key=Pem(config.key or config.cert) if config.cert else Pem(),
        token=config.token.strip(),
        token_file=own_token,
    )
    return KubeAccess(servers=servers, credentials=credentials)


def api_hosts(config: KubeConfig, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of the API servers, by name or address; none without Kubernetes.

    Raises UsageError as `access_of`.
    """
    access = access_of(config, environ)
    hosts = (urlsplit(one).hostname for one in access.servers) if access is not None else ()
    return tuple(host for host in hosts if host)


def _in_pod(account: Path) -> bool:
    return (account / "ca.crt").exists()


def _in_cluster(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the server that Kubernetes names to every pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return ()
    return (f"https://{authority(host, port)}",)
