"""Users of etcd that change while the system works: no daemon ends, and pods come and go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.cluster import STORE_PORT, Bed, networked
from tests.bed.daemon import Daemon
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.netns import answers
from tests.bed.secured import PASSWORD_FILE, USER, SecuredEtcd, jwt_flags
from tests.bed.store import Store
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system]

SECOND_PORT = 9989


class UsersBed(Bed):
    """A cluster whose etcd asks for a user and gives JWT tokens."""

    def store_flags(self, _label: str = "") -> list[str]:
        password = self.dir / PASSWORD_FILE
        password.write_text(f"{USER.password}\n")
        url = f"http://{FABRIC_ADDRESS}:{STORE_PORT}"
        return [
            *("--etcd", url, "--store-user", USER.user),
            *("--store-password-file", str(password)),
        ]

    def new_store(self) -> Store:
        etcd = SecuredEtcd(
            self.dir,
            *jwt_flags(self.dir),
            namespace=self.fabric.namespace,
            address=FABRIC_ADDRESS,
            port=STORE_PORT,
        )
        etcd.start()
        etcd.enable_users("/contiv.io/")
        etcd.stop()
        return etcd


@pytest.fixture
def bed(bed_dir: Path) -> Iterator[Bed]:
    with networked(UsersBed(bed_dir, hosts=1)) as bed:
        yield bed


def test_users_and_roles_that_change_end_no_daemon(bed: Bed) -> None:
    (host,) = bed.hosts
    store = bed.store
    assert isinstance(store, SecuredEtcd)
    second: Daemon = bed.another_master(SECOND_PORT)
    second.start()
    daemons = (bed.netmaster, second, *bed.agents)
    try:
        stays = bed.add_pod(host, "stays")
        for number, words in enumerate(
            (
                ("user", "add", "somebody:secret"),
                ("role", "add", "other"),
                ("role", "grant-permission", "other", "--prefix=true", "read", "/other/"),
                ("user", "grant-role", "somebody", "other"),
                ("user", "delete", "somebody"),
            )
        ):
            store.as_root(*words)
            pod = bed.add_pod(host, f"pod{number}")
            eventually(lambda pod=pod: stays.ping(pod.address), "the new pod is reached")  # type: ignore[misc]
            store.as_root("user", "add", f"late{number}:secret")
            bed.delete_pod(pod)
        store.as_root("user", "add", "last:secret")
        bed.netmaster.kill()
        eventually(lambda: _leads(bed), "the second master leads")
        bed.add_pod(host, "after")
        assert second.running
        assert all(agent.running for agent in bed.agents)
    finally:
        ended = [daemon.command for daemon in daemons if "ended: store" in daemon.log_text()]
        second.kill()
    assert not ended


def _leads(bed: Bed) -> bool:
    address = f"{bed.fabric.address}:{SECOND_PORT}"
    text = f'"leader-ip":"{address}"'.encode()
    return answers(f"http://{address}/info", namespace=bed.fabric.namespace, text=text)
