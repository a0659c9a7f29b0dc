"""The whole system on an etcd with TLS, client certificates and users."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from netmaster.commands import store_acl
from netmaster.commands.store_acl import AgentHost
from tests.bed.certificates import make_certificates
from tests.bed.cluster import STORE_PORT, Bed, networked
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.secured import (
    USER,
    SecuredEtcd,
    identity_flags,
    tls_flags,
)
from tests.bed.store import Store
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system]


class SecuredBed(Bed):
    """A cluster whose store asks for a certificate and a password.

    Each daemon has a user of its own, with the rights that `netmaster store-acl` prints.
    """

    def store_flags(self, label: str = "") -> list[str]:
        url = f"https://{FABRIC_ADDRESS}:{STORE_PORT}"
        user = f"contiv-agent-{label}" if label else store_acl.MASTER
        return ["--etcd", url, *identity_flags(self.dir, user)]

    def new_store(self) -> Store:
        make_certificates(self.dir, FABRIC_ADDRESS)
        etcd = SecuredEtcd(
            self.dir,
            *tls_flags(self.dir),
            scheme="https",
            namespace=self.fabric.namespace,
            address=FABRIC_ADDRESS,
            port=STORE_PORT,
        )
        etcd.start()
        hosts = [AgentHost(host.label, (host.address,)) for host in self.hosts]
        etcd.run_commands(store_acl.etcd_commands(hosts), USER.password)
        etcd.stop()
        return etcd


@pytest.fixture
def secured(bed_dir: Path) -> Iterator[Bed]:
    with networked(SecuredBed(bed_dir, hosts=1)) as bed:
        yield bed


def test_pods_come_and_go_with_tls_and_a_password(secured: Bed) -> None:
    (host,) = secured.hosts
    one, two = secured.add_pod(host, "one"), secured.add_pod(host, "two")
    eventually(lambda: one.ping(two.address), "pods reach each other")
    secured.store.restart()
    secured.netmaster.await_ready()
    secured.delete_pod(two)
    three = secured.add_pod(host, "three")
    eventually(lambda: one.ping(three.address), "a pod that came later is reached")
    for daemon in (secured.netmaster, *secured.agents):
        shown = Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
        assert b"--store-user" in shown
        assert f"\0{USER.password}\0".encode() not in shown
