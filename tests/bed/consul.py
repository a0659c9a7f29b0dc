"""A private consul: one server, its data in the bed's directory, fsync left as it is.

In come a directory and where to listen; out comes `url`, ready for clients. Killing and starting it
again keeps data and ports. It speaks to nobody but itself and its clients.
"""

import http.client
import json
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace, free_port, http_request


class Consul(Daemon):
    """One consul server. `settings` are merged into its configuration file."""

    def __init__(
        self,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        namespace: Namespace | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        keeper: Keeper | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.address = address
        self.port = port or free_port(namespace, address)
        self.url = f"http://{address}:{self.port}"
        config = dir / "consul.json"
        own = {"serf_lan": free_port(namespace), "server": free_port(namespace)}
        ports = {"http": self.port, "dns": -1, "grpc": -1, "serf_wan": -1, **own}
        config.write_text(json.dumps(_merged(_SETTINGS | {"ports": ports}, settings or {})))
        super().__init__(
            [
                *("consul", "agent", "-server", "-bootstrap-expect", "1", "-node", "bed"),
                *("-data-dir", dir / "consul", "-config-file", config),
                *("-bind", "127.0.0.1", "-client", address),
            ],
            log=dir / "consul.log",
            namespace=namespace,
            ready=self.leads,
            keeper=keeper,
        )

    def leads(self) -> bool:
        """Whether reads are served: it has elected itself."""
        try:
            status, _ = self.request("GET", "/v1/kv/none?consistent")
        except (OSError, http.client.HTTPException):
            return False
        # 403: it leads, and asks for a token
        return status in {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.FORBIDDEN}

    def entries(self, prefix: str) -> dict[str, bytes]:
        """Read all that is stored under a prefix."""
        status, answer = self.request("GET", f"/v1/kv{prefix}?recurse&consistent")
        if status == http.HTTPStatus.NOT_FOUND:
            return {}
        return {"/" + kv["Key"]: b64decode(kv["Value"] or "") for kv in json.loads(answer)}

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Speak to the server beside all clients."""
        return http_request(
            self.url + path, namespace=self.namespace, method=method, body=body, timeout=10
        )


_SETTINGS: dict[str, Any] = {
    "performance": {"raft_multiplier": 1},
    "disable_update_check": True,
    "leave_on_terminate": False,
    "skip_leave_on_interrupt": True,
}


def _merged(config: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with more settings; ports are merged one by one."""
    return config | dict(more) | {"ports": config["ports"] | more.get("ports", {})}
