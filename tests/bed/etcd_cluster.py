"""Three etcd members on loopback, for what happens when one of them dies."""

import json
from pathlib import Path
from typing import Final

from tests.bed.daemon import Daemon
from tests.bed.netns import answers, free_port, http_request

SIZE = 3


class Member(Daemon):
    """One of the servers."""

    def __init__(self, directory: Path, name: str, port: int, peers: dict[str, str]) -> None:
        self.name_in_cluster = name
        self.endpoint = f"127.0.0.1:{port}"
        self.url = f"http://{self.endpoint}"
        super().__init__(
            [
                *("etcd", "--name", name, "--data-dir", directory / name),
                *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                *("--listen-peer-urls", peers[name]),
                *("--initial-advertise-peer-urls", peers[name]),
                *("--initial-cluster", ",".join(f"{n}={peer}" for n, peer in peers.items())),
            ],
            log=directory / f"{name}.log",
            ready=lambda: answers(f"{self.url}/health", text=b'"true"'),
        )

    def leads_raft(self) -> bool:
        """Say whether this is the member that the others follow."""
        status, answer = http_request(
            f"{self.url}/v3/maintenance/status", method="POST", body=b"{}"
        )
        told = json.loads(answer) if status == 200 else {}
        return bool(told) and told.get("leader") == told["header"]["member_id"]


class EtcdCluster:
    """The members, started and killed together; `url` names all of them."""

    kind: Final = "etcd"

    def __init__(self, directory: Path) -> None:
        peers = {f"m{number}": f"http://127.0.0.1:{free_port()}" for number in range(SIZE)}
        self.members = [Member(directory, name, free_port(), peers) for name in peers]
        self.url = ",".join(member.url for member in self.members)

    def start(self) -> None:
        """Start all of them; they need each other to become ready."""
        for member in self.members:
            member.spawn()
        for member in self.members:
            member.await_ready()

    def kill(self) -> None:
        """End all of them at once."""
        for member in self.members:
            member.kill()
