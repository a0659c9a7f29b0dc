"""A private etcd, alone or a member of a cluster, its data in the bed's directory, with fsync.

In come a directory and where to listen; out comes `url`, ready for clients. Killing and starting it
again keeps data and ports.
"""

import json
import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from core.addresses import authority
from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace, answers, free_port, http_request


class Etcd(Daemon):
    """One etcd server. A cluster is told of by the peer URLs of its members, by their names."""

    kind: Final = "etcd"

    def __init__(
        self,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        namespace: Namespace | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        member: str = "bed",
        peers: Mapping[str, str] | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.address = address
        self.port = port or free_port(namespace, address)
        self.url = f"http://{authority(address, self.port)}"
        peers = peers or {member: f"http://127.0.0.1:{free_port(namespace)}"}
        peer_url = peers[member]
        cluster = ",".join(f"{name}={url}" for name, url in peers.items())
        self._dir = dir
        self._data = dir / f"etcd-{member}"
        self._membership = [
            *("--name", member, "--initial-cluster", cluster),
            *("--initial-advertise-peer-urls", peer_url),
        ]
        super().__init__(
            [
                *("etcd", "--data-dir", str(self._data), *self._membership),
                *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                *("--listen-peer-urls", peer_url),
                # a password costs a millisecond: on a busy machine the default's 60 become seconds
                *("--bcrypt-cost", "4"),
            ],
            log=dir / f"etcd-{member}.log",
            namespace=namespace,
            ready=lambda: answers(f"{self.url}/health", namespace=namespace, text=b'"true"'),
            keeper=keeper,
        )

    def revision(self) -> int:
        """Ask the store for its current revision."""
        return int(self._post("kv/range", {"key": "AA=="})["header"]["revision"])

    def is_compacted(self, revision: int) -> bool:
        """Whether a revision cannot be read any more."""
        body = {"key": "AA==", "revision": revision}
        status, answer = self._ask("kv/range", body)
        if status != 200 and b"compacted" not in answer:
            raise RuntimeError(f"etcd at revision {revision}: {status} {answer.decode()}")
        return status != 200

    def version(self, key: str) -> int:
        """Ask how often a key was written since it was created; 0 for an absent one."""
        found = self._post("kv/range", {"key": _base64(key.encode())}).get("kvs", [])
        return int(found[0]["version"]) if found else 0

    def leads_raft(self) -> bool:
        """Whether this is the member that the others follow."""
        status = self._post("maintenance/status", {})
        return bool(status.get("leader") == status["header"]["member_id"])

    def compact(self) -> int:
        """Forget every revision before the current one, which is returned."""
        revision = self.revision()
        self._post("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def save(self) -> Path:
        """Write a snapshot of the store and return its file."""
        saved = self._dir / f"saved-{self.revision()}"
        self._etcdctl("--endpoints", self.url, "snapshot", "save", saved)
        return saved

    def restore(self, saved: Path, *, further: int = 0) -> None:
        """Go back to a snapshot, with the same cluster id; clients find it `further` puts on."""
        self.kill()
        shutil.rmtree(self._data)
        self._etcdctl("snapshot", "restore", saved, "--data-dir", self._data, *self._membership)
        if further:
            url, command = self.url, self.command
            port = free_port(self.namespace, self.address)
            self.url = f"http://{authority(self.address, port)}"
            self.command = [self.url if word == url else word for word in command]
            self.start()
            for number in range(further):
                self.put(f"/further/{number}", b"")
            self.kill()
            self.url, self.command = url, command
        self.start()

    def empty(self) -> None:
        """Begin with an empty store of the same cluster id, as after the loss of a disk."""
        self.kill()
        shutil.rmtree(self._data)
        self.start()

    def alarm(self, action: str) -> None:
        """ACTIVATE or DEACTIVATE the alarm that a full store raises."""
        self._post("maintenance/alarm", {"action": action, "alarm": "NOSPACE"})

    def entries(self, prefix: str) -> dict[str, bytes]:
        """Read all that is stored under a prefix."""
        found = self._post("kv/range", _under(prefix)).get("kvs", [])
        return {b64decode(kv["key"]).decode(): b64decode(kv.get("value", "")) for kv in found}

    def put(self, key: str, value: bytes) -> None:
        """Write a key behind everybody's back."""
        self._post("kv/put", {"key": _base64(key.encode()), "value": _base64(value)})

    def delete(self, key: str) -> None:
        """Delete a key behind everybody's back."""
        self._post("kv/deleterange", {"key": _base64(key.encode())})

    def remove(self, prefix: str) -> None:
        """Delete all that is stored under a prefix."""
        self._post("kv/deleterange", _under(prefix))

    def end_leases(self, prefix: str) -> None:
        """End the leases of all that is stored under a prefix, as time would."""
        found = self._post("kv/range", _under(prefix)).get("kvs", [])
        for lease in {kv["lease"] for kv in found if "lease" in kv}:
            self._post("lease/revoke", {"ID": lease}, gone=True)

    def _etcdctl(self, *words: str | Path) -> None:
        prefix = [] if self.namespace is None else self.namespace.enter
        subprocess.run(
            [*prefix, "etcdctl", *words],
            check=True,
            capture_output=True,
            env={**os.environ, "ETCDCTL_API": "3"},
        )

    def _post(self, method: str, body: dict[str, Any], *, gone: bool = False) -> dict[str, Any]:
        """Return the answer; `gone` says that what is asked for may be there no more."""
        status, answer = self._ask(method, body)
        if status != 200 and not (gone and status == 404):
            raise RuntimeError(f"etcd {method}: {status} {answer.decode()}")
        parsed: dict[str, Any] = json.loads(answer)
        return parsed

    def _ask(self, method: str, body: dict[str, Any]) -> tuple[int, bytes]:
        return http_request(
            f"{self.url}/v3/{method}",
            namespace=self.namespace,
            method="POST",
            body=json.dumps(body).encode(),
        )


def _under(prefix: str) -> dict[str, str]:
    first = prefix.encode()
    end = first[:-1] + bytes([first[-1] + 1])
    return {"key": _base64(first), "range_end": _base64(end)}


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
