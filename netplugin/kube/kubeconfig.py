"""Reads a kubeconfig: the file of servers and credentials that kubectl uses.

In comes a path; out comes a `netplugin.kube.api_access.KubeAccess` for the file's current context.
A program that gets credentials (`exec`) is `netplugin.kube.exec_plugin`'s. What Kubernetes itself
has given up (`auth-provider`, passwords), and servers whose certificate is not to be verified, are
refused: an agent must know whom it believes.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from core.errors import UsageError
from netplugin.kube import exec_plugin
from netplugin.kube.api_access import Credentials, KubeAccess, Pem

_REFUSED: Final = ("auth-provider", "username", "password")
_LASTING: Final = (
    *("token", "tokenFile", "client-certificate", "client-certificate-data"),
    *("client-key", "client-key-data"),
)


def load(path: Path) -> KubeAccess:
    """Return the access of the current context. Raises UsageError."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return _access(content, path)
    except (
        *(OSError, ValueError, LookupError, TypeError, AttributeError),
        *(RecursionError, OverflowError, yaml.YAMLError),
    ) as exc:
        reason = f"{exc} is missing" if isinstance(exc, KeyError) else exc
        raise UsageError(f"kubeconfig {path}: {reason}") from exc


def _access(content: Mapping[str, Any], path: Path) -> KubeAccess:
    context = _named(content, "contexts", content["current-context"])["context"]
    cluster = _named(content, "clusters", context["cluster"])["cluster"]
    user = _named(content, "users", context["user"])["user"] or {}
    if refused := [name for name in _REFUSED if name in user]:
        raise ValueError(f"{refused[0]} of user {context['user']} is not supported: use a token")
    named = user.get("exec")
    if named and (beside := [name for name in _LASTING if user.get(name)]):
        raise ValueError(f"exec of user {context['user']} beside {beside[0]}: which one is valid?")
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError("insecure-skip-tls-verify is not supported: name certificate-authority")
    server = cluster["server"].rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise ValueError(f"server {server!r} does not begin with https:// or http://")
    credentials = Credentials(
        ca=_pem(cluster, "certificate-authority", path),
        cert=_pem(user, "client-certificate", path),
        key=_pem(user, "client-key", path),
        token=user.get("token", "").strip(),
        token_file=_beside(user.get("tokenFile", ""), path),
        server_name=cluster.get("tls-server-name", ""),
        source=f"certificate-authority in {path}",
    )
    issuer = exec_plugin.plugin_of(named, path.parent, cluster) if named else None
    return KubeAccess(servers=(server,), credentials=credentials, issuer=issuer)


def _named(content: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    """Return the member of a list that has a name."""
    for one in content.get(kind) or ():
        if one["name"] == name:
            found: Mapping[str, Any] = one
            return found
    raise ValueError(f"{kind} have no {name!r}")


def _pem(holder: Mapping[str, Any], name: str, path: Path) -> Pem:
    data = holder.get(f"{name}-data", "")
    if data:
        return Pem(text=base64.b64decode(data, validate=True).decode("ascii"))
    return Pem(_beside(holder.get(name, ""), path))


def _beside(name: str, path: Path) -> str:
    """Return a path that may be relative to the kubeconfig."""
    return str(path.parent / name) if name else ""
