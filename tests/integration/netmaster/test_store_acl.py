"""The rights that `netmaster store-acl` prints, in a real etcd and a real consul."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from core import keys
from core.errors import StoreDenied
from core.ids import EndpointKey, HostLabel
from core.tasks import background
from netmaster.commands import store_acl
from netmaster.commands.store_acl import AgentHost
from netplugin.masters.label_claim import claim_label
from objdb.access import StoreCredentials
from objdb.api import Backend, Change, Committed, Put, Snapshot
from objdb.registration import Registration
from state.records import HostRecord
from state.watch import AGENT_PREFIXES
from tests.bed.secured import TOKEN, Secured, SecuredEtcd, client, with_acl

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]

PASSWORD = "secret"
MASTER_TOKEN = "44444444-4444-4444-4444-444444444444"
HOSTS = (AgentHost("h1", ("192.0.2.1",)), AgentHost("h2", ("192.0.2.11",)))
OWN = HostRecord(
    label=HostLabel("h1"), control_ip="192.0.2.1", vtep_ip="192.0.2.1", vxlan_port=4789, version="1"
)


class Store:
    """A store with these rights, and clients of it as the agent of h1 and as a master."""

    def __init__(self, kind: str, directory: Path) -> None:
        if kind == "etcd":
            etcd = SecuredEtcd(directory)
            etcd.start()
            etcd.run_commands(store_acl.etcd_commands(HOSTS), PASSWORD)
            self.server: Secured = etcd
        else:
            policies = store_acl.consul_policies(HOSTS)
            more = {MASTER_TOKEN: policies[store_acl.MASTER]}
            self.server = with_acl(directory, policies[HOSTS[0].user], more)

    def connect(self) -> None:
        """Connect the clients, which belong to the event loop of a test."""
        if isinstance(self.server, SecuredEtcd):
            agent, master = (
                StoreCredentials(user=name, password=PASSWORD)
                for name in (HOSTS[0].user, store_acl.MASTER)
            )
            self.agent = client(self.server, credentials=agent)
            self.master = client(self.server, credentials=master)
        else:
            self.agent = client(self.server, token=TOKEN)
            self.master = client(self.server, token=MASTER_TOKEN)

    async def agent_writes(self, key: str) -> bool:
        """Say whether the agent may write a key."""
        if isinstance(self.server, SecuredEtcd):
            # Without a nested transaction: this etcd may not check those (GHSA-rfx7-8w68-q57q).
            user = f"{HOSTS[0].user}:{PASSWORD}"
            return self.server.ctl("--user", user, "put", key, "x", check=False)
        try:
            return await put(self.agent, key)
        except StoreDenied:
            return False


@pytest.fixture
def running(store_kind: str, bed_dir: Path) -> Iterator[Store]:
    store = Store(store_kind, bed_dir)
    yield store
    store.server.kill()


@pytest.fixture
async def store(running: Store) -> AsyncIterator[Store]:
    running.connect()
    yield running
    await running.agent.close()
    await running.master.close()


async def put(backend: Backend, key: str) -> bool:
    (outcome,) = await backend.commit([Change((), (Put(key, b"x"),))])
    return isinstance(outcome, Committed)


async def test_an_agent_does_its_work_and_nothing_else(store: Store) -> None:
    agent = store.agent
    await claim_label(agent, OWN)
    for name in (keys.SERVICE_NETPLUGIN, keys.SERVICE_VTEP, keys.SERVICE_AGENT_REST):
        registered = Registration(agent, keys.service(name, "192.0.2.1", 9002), b"x")
        async with background("registration", registered.run()):
            await registered.synced()
    followed = (*AGENT_PREFIXES, keys.LOCKS, keys.services(keys.SERVICE_NETMASTER_RPC))
    for prefix in followed:
        assert isinstance(await anext(agent.watch(prefix)), Snapshot)
    await agent.get(keys.SCHEMA)

    written = {
        "record of another host": keys.host(HostLabel("h2")),
        "record of a host with a like name": keys.host(HostLabel("h11")),
        "service of a like address": keys.service("netplugin", "192.0.2.11", 1),
        "service of netmaster": keys.service("netmaster", "192.0.2.1", 1),
        "endpoint": keys.endpoint(EndpointKey("e")),
        "object": keys.obj("tenant", "default"),
        "lock": keys.LEADER_LOCK,
        "user": keys.user("joe"),
    }
    assert await store.agent_writes(keys.host(HostLabel("h1")))
    assert [what for what, key in written.items() if await store.agent_writes(key)] == []
    for read in (
        *(agent.get(key) for key in (keys.user("joe"), keys.TOKEN_KEYS)),
        *(agent.snapshot(prefix) for prefix in (keys.USERS, keys.ROOT)),
    ):
        with pytest.raises(StoreDenied):
            await read


async def test_a_master_does_everything(store: Store) -> None:
    master = store.master
    lock = master.lock(keys.LEADER_LOCK, "me", 5)
    fence = await lock.acquire()
    change = Change((), (Put(keys.obj("tenant", "default"), b"x"),))
    (outcome,) = await master.commit([change], fence=fence, writer="me")
    assert isinstance(outcome, Committed)
    for key in (keys.host(HostLabel("h2")), keys.user("joe"), keys.TOKEN_KEYS):
        assert await put(master, key)
    await lock.release()
