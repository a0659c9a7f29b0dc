"""Several masters on one machine, and masters that come, go and are killed."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contivmodel.objects import Tenant
from core import keys
from core.errors import NotLeader
from core.tasks import Supervisor
from netmaster.commits.commit import Committer, WriteAuthority
from netmaster.commits.standby import following
from netmaster.plan.objects import tenant
from state import codec
from tests.bed.master import MODES, Answer, Master, assert_not_done, is_unknown
from tests.bed.store import Store, client
from tests.bed.waiting import WITHIN, eventually, eventually_async

pytestmark = pytest.mark.store

on_both = pytest.mark.stores("etcd", "consul")
"""For what a store has a part in: its locks, leases and outages."""

TENANT = {"tenantName": "t"}
LONG_LEASE = (*MODES, "--lease-ttl", "300")
"""With it, only who is told can lead next before a test gives up."""


@pytest.fixture
def flags() -> tuple[str, ...]:
    """Give the flags of both masters."""
    return MODES


@pytest.fixture
def first(bed_dir: Path, store: Store, flags: tuple[str, ...]) -> Iterator[Master]:
    """Run the leader."""
    master = Master(bed_dir, store, name="first", flags=flags)
    master.start()
    yield master
    master.kill()


@pytest.fixture
def second(bed_dir: Path, store: Store, first: Master, flags: tuple[str, ...]) -> Iterator[Master]:
    """Run another master beside the leader."""
    master = Master(bed_dir, store, name="second", leads=False, flags=flags)
    master.start()
    assert first.ask("GET", "/info").status == 200
    yield master
    master.kill()


def leads(master: Master) -> bool:
    """Say whether a master answers as the leader."""
    answer = master.ask("GET", "/info")
    return answer.status == 200 and f'"leader-ip":"{master.address}"' in answer.text


def create(master: Master, name: str) -> Answer:
    """Create a tenant."""
    return master.ask("POST", f"/api/v1/tenants/{name}/", {"tenantName": name})


def test_a_follower_sends_requests_to_the_leader(first: Master, second: Master) -> None:
    assert create(second, "t").body == b'{"key":"t","tenantName":"t","link-sets":{}}\n'
    assert create(second, "t").text == "Cant change tenant parameters after its created"
    for method, path, body in (
        ("GET", "/api/v1/tenants/", None),
        ("GET", "/api/v1/tenants/t/?a=b%20c", None),
        ("GET", "/api/v1/tenants//t/", None),
        ("HEAD", "/version", None),
        ("PATCH", "/version", None),
        ("GET", "/nope%2Fx", None),
        ("GET", "/version", None),
        ("POST", "/plugin/createEndpoint", "{"),
        ("POST", "/api/v1/tenants/x/", "x" * (2 << 20)),
        ("DELETE", "/api/v1/tenants/nope/", None),
    ):
        through, direct = second.ask(method, path, body), first.ask(method, path, body)
        assert (through.status, through.body) == (direct.status, direct.body)
        for header in ("Content-Type", "X-Content-Type-Options", "Location", "Content-Length"):
            assert through.headers.get(header) == direct.headers.get(header)


def test_info_through_a_follower_is_the_leaders(first: Master, second: Master) -> None:
    def told() -> dict[str, object]:
        answer = second.ask("GET", "/info").json()
        assert isinstance(answer, dict)
        return answer

    assert told()["leader-ip"] == first.address
    both = ["127.0.0.1", "127.0.0.1"]
    eventually(lambda: told()["netmaster-nodes"] == both, "both masters are registered")


@on_both
@pytest.mark.parametrize("flags", [LONG_LEASE], ids=["long lease"])
def test_a_leader_that_ends_hands_over_at_once(first: Master, second: Master) -> None:
    create(first, "t")
    assert first.terminate() == 0
    eventually(lambda: leads(second), "the second leads")
    assert second.ask("GET", "/api/v1/tenants/t/").status == 200
    assert create(second, "u").status == 200


class Writer(threading.Thread):
    """Creates tenants over one kept connection at a time, until told to stop."""

    def __init__(self, master: Master, name: str) -> None:
        super().__init__()
        self._master = master
        self._name = name
        self.stop = threading.Event()
        self.acknowledged: list[str] = []
        self.statuses: set[int] = set()

    def run(self) -> None:
        """Write; a connection that ends without an answer is opened anew."""
        number = 0
        while not self.stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._master.port, timeout=WITHIN)
            try:
                while not self.stop.is_set():
                    number += 1
                    self._create(connection, f"{self._name}{number}")
            except (OSError, http.client.HTTPException):
                self.stop.wait(0.02)
            finally:
                connection.close()

    def _create(self, connection: http.client.HTTPConnection, name: str) -> None:
        body = json.dumps({"tenantName": name})
        connection.request(
            "POST", f"/api/v1/tenants/{name}/", body, {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        answer.read()
        self.statuses.add(answer.status)
        if answer.status == 200:
            self.acknowledged.append(name)


@on_both
def test_a_hand_over_loses_no_acknowledged_write(first: Master, second: Master) -> None:
    writers = [
        Writer(master, f"{name}{number}x")
        for master, name in ((first, "a"), (second, "b"))
        for number in range(4)
    ]
    for writer in writers:
        writer.start()
    try:
        eventually(lambda: all(len(w.acknowledged) > 5 for w in writers), "writes are served")
        assert first.terminate() == 0
        before = [len(writer.acknowledged) for writer in writers[4:]]
        eventually(
            lambda: all(
                len(w.acknowledged) > n + 5 for w, n in zip(writers[4:], before, strict=True)
            ),
            "writes are served by the second",
        )
    finally:
        for writer in writers:
            writer.stop.set()
        for writer in writers:
            writer.join()
    stored = second.ask("GET", "/api/v1/tenants/").json()
    assert isinstance(stored, list)
    names = {tenant["tenantName"] for tenant in stored}
    for writer in writers:
        assert names.issuperset(writer.acknowledged)
        assert writer.statuses <= {200, 500, 502}
    for master in (first, second):
        assert "internal error" not in master.log_text()
        assert "request failed" not in master.log_text()


@on_both
def test_a_leader_that_is_killed_is_followed_by_the_next(first: Master, second: Master) -> None:
    create(first, "t")
    first.kill()
    eventually(lambda: create(second, "u").status == 200, "a write is served")
    assert second.ask("GET", "/api/v1/tenants/t/").status == 200


@on_both
async def test_roles_in_the_registry_follow_the_leadership(
    first: Master, second: Master, store: Store
) -> None:
    backend = client(store)

    async def roles(service: str) -> list[str]:
        found = await backend.snapshot(keys.services(service))
        instances = [codec.decode_service(key, entry.value) for key, entry in found.entries.items()]
        return sorted(instance.role for instance in instances)

    async def until(*wanted: str) -> None:
        for service in (keys.SERVICE_NETMASTER, keys.SERVICE_NETMASTER_RPC):

            async def reached(service: str = service) -> bool:
                return await roles(service) == list(wanted)

            await eventually_async(reached, f"{service}: {wanted}")

    await until("follower", "leader")
    first.kill()  # its registration ends with its lease
    await until("leader")
    first.spawn()
    await until("follower", "leader")
    assert second.terminate() == 0
    await until("leader")
    await backend.close()


def test_without_a_leader_a_follower_says_so(first: Master, second: Master) -> None:
    first.pause()
    answers = set()

    def refused() -> bool:
        answer = create(second, "t")
        answers.add((answer.status, answer.text))
        return leads(second)

    eventually(refused, "the second leads")
    first.resume()
    unexpected = {status for status, _ in answers} - {200, 500, 502}
    assert not unexpected


@on_both
def test_a_leader_that_wakes_from_a_long_sleep_changes_nothing(
    first: Master, second: Master
) -> None:
    first.pause()
    late: list[Answer] = []
    asking = threading.Thread(target=lambda: late.append(create(first, "late")))
    asking.start()
    eventually(lambda: leads(second), "the second leads")
    assert create(second, "t").status == 200
    first.resume()
    asking.join(WITHIN)
    if late[0].status != 200 and not is_unknown(late[0]):
        assert_not_done(late[0])
    is_there = second.ask("GET", "/api/v1/tenants/late/").status == 200
    assert is_there == (late[0].status == 200)  # then the first had passed it on
    eventually(lambda: first.ask("GET", "/api/v1/tenants/t/").status == 200, "the first follows")
    assert leads(second)


@on_both
async def test_a_write_fenced_by_a_lost_lock_is_refused(store: Store) -> None:
    backend = client(store)
    before = backend.lock(keys.LEADER_LOCK, "10.0.0.1:1", 5)
    after = backend.lock(keys.LEADER_LOCK, "10.0.0.2:1", 5)
    authority = WriteAuthority(
        fence=await before.acquire(),
        writer="deposed",
        valid_until=lambda: time.monotonic() + 60,  # it has not noticed
    )
    async with following(backend) as standby:
        deposed = await Committer.begin(backend, authority, standby)
        await before.release()
        await after.acquire()
        tasks = Supervisor()
        tasks.spawn("commits", deposed.run())
        with pytest.raises(NotLeader):
            await deposed.submit(lambda view: tenant.create(view, Tenant(tenant_name="t")))
        await tasks.close()
    assert await backend.get(keys.obj("tenant", "t")) is None
    await after.release()
    await backend.close()


def test_a_killed_master_finds_everything_again(bed_dir: Path, store: Store) -> None:
    master = Master(bed_dir, store)
    master.start()
    try:
        settings = {
            "name": "global",
            "networkInfraType": "default",
            "vlans": "1-100",
            "vxlans": "1-500",
            "fwdMode": "routing",
            "arpMode": "flood",
            "pvtSubnet": "172.20.0.0/16",
        }
        assert master.ask("POST", "/api/v1/globals/global/", settings).status == 200
        network = {
            "tenantName": "default",
            "networkName": "n",
            "encap": "vxlan",
            "subnet": "10.1.0.0/24",
            "gateway": "10.1.0.1",
        }
        assert master.ask("POST", "/api/v1/networks/default:n/", network).status == 200
        group = {"tenantName": "default", "groupName": "g", "networkName": "n"}
        assert master.ask("POST", "/api/v1/endpointGroups/default:g/", group).status == 200
        endpoint = {
            "TenantName": "default",
            "NetworkName": "n",
            "EndpointID": "c",
            "ConfigEP": {"Container": "c", "Host": "h1", "ServiceName": "g"},
        }
        created = master.ask("POST", "/plugin/createEndpoint", endpoint)
        paths = [
            "/api/v1/globals/",
            "/api/v1/tenants/",
            "/api/v1/networks/",
            "/api/v1/endpointGroups/",
            "/api/v1/inspect/globals/global/",
            "/api/v1/inspect/networks/default:n/",
            "/api/v1/inspect/endpointGroups/default:g/",
            "/api/v1/inspect/endpoints/c/",
        ]
        before = [master.ask("GET", path).body for path in paths]
        master.kill()
        master.start()
        assert [master.ask("GET", path).body for path in paths] == before
        assert master.ask("POST", "/plugin/createEndpoint", endpoint).body == created.body
    finally:
        master.kill()


@on_both
def test_the_store_may_come_late_and_go(bed_dir: Path, store: Store) -> None:
    store.kill()
    master = Master(bed_dir, store)
    master.spawn()
    try:
        eventually(
            lambda: b"leadership" not in master.log.read_bytes() and _listens(master),
            "the master listens",
        )
        store.start()
        eventually(lambda: leads(master), "the master leads")
        assert create(master, "t").status == 200
        store.kill()
        assert create(master, "u").status == 500
        store.start()
        eventually(lambda: create(master, "v").status == 200, "writes are served")
        assert master.ask("GET", "/api/v1/tenants/t/").status == 200
    finally:
        master.kill()


@on_both
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_the_service_manager_hears_of_a_master_that_serves(
    bed_dir: Path, store: Store, monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    """Whoever starts the unit asks next, and is not told that there is no leader."""
    first = Master(bed_dir, store, name="first")
    told = Master(bed_dir, store, name="told")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(WITHIN)
        manager.bind(str(bed_dir / "notify"))
        try:
            if not leads:
                first.start()
            monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
            told.spawn()
            assert manager.recv(100) == b"READY=1"
            assert create(told, "t").status == 200
        finally:
            told.kill()
            first.kill()


def _listens(master: Master) -> bool:
    try:
        return master.ask("GET", "/version").status == 500
    except OSError:
        return False


def test_external_and_internal_addresses_are_both_served(bed_dir: Path, store: Store) -> None:
    master = Master(bed_dir, store, leads=False)
    master.command[-1] = "127.0.0.2:0"
    master.start()
    try:
        eventually(lambda: master.ask("GET", "/info").status == 200, "the master leads")
        answer = master.ask("GET", "/info").json()
        assert isinstance(answer, dict)
        assert answer["local-ip"] == "127.0.0.2"
        host, _, port = answer["leader-ip"].partition(":")
        assert (host, port != "0") == ("127.0.0.2", True)
        connection = http.client.HTTPConnection(host, int(port), timeout=WITHIN)
        connection.request("GET", "/version")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        master.kill()
