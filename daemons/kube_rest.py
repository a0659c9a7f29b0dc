"""The API server of Kubernetes for short programs: JSON over HTTPS, with a service account's token.

`netmaster kube-certificates` and `netplugin enrol` use it, each for a handful of objects that it
reads and writes by path; the agent's own client, which watches, is `netplugin.kube.api`. One
request at a time, standard library alone.
"""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core.addresses import authority
from core.errors import ContivError, OrchestratorUnavailable, UsageError
from core.net import tls_trust
from core.outside_json import read_json
from core.patience import patient

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token and the authority of its service account."""
ANSWER: Final = patient(10.0)
"""Seconds for an answer."""
LIMIT: Final = 8 * 1024 * 1024
"""Bytes of an answer that are read at most."""

Object = dict[str, Any]


class RestRefused(ContivError):
    """The API server refused a request; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class KubeRest:
    """A client of one API server; the token is read for each request, since it is replaced."""

    url: str
    account: Path = ACCOUNT

    @classmethod
    def of_pod(cls, environ: Mapping[str, str], account: Path = ACCOUNT) -> "KubeRest":
        """Return the client that a pod's environment names. Raises UsageError outside a pod."""
        host = environ.get("KUBERNETES_SERVICE_HOST", "")
        port = environ.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise UsageError(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this command "
                "runs in a pod of Kubernetes (deploy/kubernetes)"
            )
        return cls(f"https://{authority(host, port)}", account)

    def get(self, path: str) -> Object | None:
        """Return an object or list, None if there is none.

        Raises KubeRefused, OrchestratorUnavailable.
        """
        try:
            return self._request("GET", path)
        except RestRefused as exc:
            if exc.status == 404:
                return None
            raise

    def create(self, path: str, body: Object) -> Object | None:
        """Create an object in a collection; return it, None if one has its name already.

        Raises KubeRefused, OrchestratorUnavailable.
        """
        return self._unless_conflict("POST", path, body)

    def replace(self, path: str, body: Object) -> Object | None:
        """Replace an object; return it, None if it was changed since `body` was read.

        Raises KubeRefused, OrchestratorUnavailable.
        """
        return self._unless_conflict("PUT", path, body)

    def _unless_conflict(self, method: str, path: str, body: Object) -> Object | None:
        try:
            return self._request(method, path, body)
        except RestRefused as exc:
            if exc.status == 409:
                return None
            raise

    def _request(self, method: str, path: str, body: Object | None = None) -> Object:
        request = urllib.request.Request(  # noqa: S310 - https, from the pod's environment
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Bearer {self._read_account('token').strip()}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=ANSWER, context=self._context()
            ) as answer:
                return self._read(answer.read(LIMIT + 1), path)
        except urllib.error.HTTPError as exc:
            text = exc.read(4096).decode(errors="replace").strip()
            raise RestRefused(f"{method} {path}: {exc.code}: {text}", exc.code) from exc
        except OSError as exc:  # URLError and time-outs are among them
            raise OrchestratorUnavailable(f"{self.url}{path}: {exc}") from exc

    def _read(self, raw: bytes, path: str) -> Object:
        try:
            read = read_json(raw) if len(raw) <= LIMIT else None
        except (ValueError, RecursionError) as exc:
            raise OrchestratorUnavailable(f"{self.url}{path}: no JSON: {exc}") from exc
        if not isinstance(read, dict):
            raise OrchestratorUnavailable(
                f"{self.url}{path}: no object, or more than {LIMIT} bytes"
            )
        return read

    def _context(self) -> ssl.SSLContext:
        return tls_trust.client_context(ca_text=self._read_account("ca.crt"))

    def _read_account(self, name: str) -> str:
        try:
            return (self.account / name).read_text(encoding="ascii")
        except (OSError, ValueError) as exc:
            raise OrchestratorUnavailable(f"{self.account / name}: {exc}") from exc
