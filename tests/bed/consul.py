"""A private consul: one server, its data in the bed's directory, fsync left as it is.

In come a directory and where to listen; out comes `url`, ready for clients. Killing and starting it
again keeps data and ports. It speaks to nobody but itself and its clients.
"""

import http.client
import json
import shutil
import ssl
from base64 import b64decode
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from core.addresses import authority
from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace, free_port

SETTINGS: Final[Mapping[str, Any]] = {
    "performance": {"raft_multiplier": 1},
    "disable_update_check": True,
    "leave_on_terminate": False,
    "skip_leave_on_interrupt": True,
    # A server that starts repeats all changes since its last snapshot before it serves. By default
    # it takes one every half minute at most, so never where it is killed more often.
    "raft_snapshot_interval": "5s",
    "raft_snapshot_threshold": 1000,
}


class Consul(Daemon):
    """One consul server. `settings` go into its configuration file.

    With a `tls` context it speaks HTTPS alone; `token` is what the bed itself asks with.
    """

    kind: Final = "consul"

    def __init__(
        self,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        namespace: Namespace | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        keeper: Keeper | None = None,
        settings: Mapping[str, Any] | None = None,
        tls: ssl.SSLContext | None = None,
        token: str = "",
    ) -> None:
        self.address = address
        self.port = port or free_port(namespace, address)
        self.url = f"{'https' if tls else 'http'}://{authority(address, self.port)}"
        self._tls = tls
        self._token = token
        self._data = dir / "consul"
        ports = {
            "http": -1 if tls else self.port,
            "https": self.port if tls else -1,
            "server": free_port(namespace),
            "serf_lan": free_port(namespace),
            **dict.fromkeys(("dns", "grpc", "serf_wan"), -1),
        }
        config = dir / "consul.json"
        config.write_text(json.dumps({**SETTINGS, "ports": ports, **(settings or {})}))
        super().__init__(
            [
                *("consul", "agent", "-server", "-bootstrap-expect", "1", "-node", "bed"),
                *("-data-dir", self._data, "-config-file", config),
                *("-bind", "127.0.0.1", "-client", address),
            ],
            log=dir / "consul.log",
            namespace=namespace,
            ready=self._leads,
            keeper=keeper,
        )

    def revision(self) -> int:
        """Ask for the index of the last change of a key of ours."""
        return int(self.request("GET", "/v1/kv/contiv.io/?keys&consistent")[1]["X-Consul-Index"])

    def entries(self, prefix: str) -> dict[str, bytes]:
        """Read all that is stored under a prefix."""
        return {"/" + kv["Key"]: b64decode(kv["Value"] or "") for kv in self._under(prefix)}

    def end_leases(self, prefix: str) -> None:
        """End the sessions of all that is stored under a prefix, as time would."""
        for session in {kv["Session"] for kv in self._under(prefix) if "Session" in kv}:
            self.request("PUT", f"/v1/session/destroy/{session}")

    def put(self, key: str, value: bytes) -> None:
        """Write a key behind everybody's back."""
        self.request("PUT", f"/v1/kv{key}", value)

    def delete(self, key: str) -> None:
        """Delete a key behind everybody's back."""
        self.request("DELETE", f"/v1/kv{key}")

    def save(self) -> bytes:
        """Return a snapshot of the store."""
        return self.request("GET", "/v1/snapshot")[2]

    def restore(self, saved: bytes, *, further: int = 0) -> None:
        """Go back to a snapshot, `further` puts on. Consul's index never goes back for a put."""
        self.request("PUT", "/v1/snapshot", saved)
        for number in range(further):
            self.put(f"/further/{number}", b"")

    def empty(self) -> None:
        """Begin with an empty store, as after the loss of a disk."""
        self.kill()
        shutil.rmtree(self._data)
        self.start()

    def request(
        self, method: str, path: str, body: object = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Speak to the server beside all clients: status, headers and body of its answer.

        A body that is not bytes is sent as JSON.
        """
        if self._tls is None:
            connection = http.client.HTTPConnection(self.address, self.port, timeout=60)
        else:
            connection = http.client.HTTPSConnection(
                self.address, self.port, timeout=60, context=self._tls
            )
        try:
            if self.namespace is None:
                connection.connect()
            else:
                self.namespace.call(connection.connect)
            payload = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, payload, {"X-Consul-Token": self._token})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def _under(self, prefix: str) -> list[dict[str, Any]]:
        status, _, answer = self.request("GET", f"/v1/kv{prefix}?recurse&consistent")
        found: list[dict[str, Any]] = json.loads(answer) if status == HTTPStatus.OK else []
        return found

    def _leads(self) -> bool:
        """Whether it has elected itself and serves reads, be it only to those with a token."""
        try:
            status, _, answer = self.request("GET", "/v1/kv/none?consistent")
        except (OSError, http.client.HTTPException):
            return False
        known = b"ACL not found" not in answer  # the token is, once the first leader has written it
        return known and status in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}
