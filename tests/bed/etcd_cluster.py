"""Three etcd members on loopback, for what happens when one of them dies."""

from pathlib import Path
from typing import Final

from tests.bed.etcd import Etcd
from tests.bed.netns import free_port

SIZE = 3


class EtcdCluster:
    """The members, started and killed together; `url` names all of them."""

    kind: Final = "etcd"

    def __init__(self, directory: Path) -> None:
        peers = {f"m{number}": f"http://127.0.0.1:{free_port()}" for number in range(SIZE)}
        self.members = [Etcd(directory, member=name, peers=peers) for name in peers]
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
