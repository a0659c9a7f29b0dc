"""TLS, users and tokens against real servers."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core import keys
from core.errors import StoreDenied, StoreUnavailable
from core.log_lines.extra import extra_of
from objdb.access import StoreAccess, StoreCredentials, Tls
from objdb.api import Absent, Backend, Change, Committed, Put, Snapshot
from objdb.etcd import EtcdBackend
from tests.bed.certificates import make_certificates, tls
from tests.bed.secured import (
    TOKEN,
    USER,
    Secured,
    SecuredConsul,
    SecuredEtcd,
    client,
    jwt_flags,
    with_acl,
    with_tls,
)
from tests.bed.waiting import WITHIN, eventually_async
from tests.contract.following import following
from tests.integration.objdb.relay import relay

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]

ROOT = "/test/"
TOKEN_TTL = 1


@pytest.fixture(scope="module")
def directory(bed_dirs: Iterator[Path]) -> Path:
    made = next(bed_dirs)
    made.mkdir()
    make_certificates(made)
    return made


@pytest.fixture(scope="module")
def secure(directory: Path, store_kind: str) -> Iterator[Secured]:
    store = with_tls(store_kind, directory)
    store.start()
    yield store
    store.kill()


@pytest.fixture
def with_users(bed_dir: Path) -> Iterator[SecuredEtcd]:
    etcd = SecuredEtcd(bed_dir, "--auth-token-ttl", str(TOKEN_TTL))
    etcd.start()
    etcd.enable_users(ROOT, keys.COMMITS)
    yield etcd
    etcd.kill()


def create(name: str) -> Change:
    return Change((Absent(ROOT + name),), (Put(ROOT + name, b"v"),))


@asynccontextmanager
async def using(store: Secured, **access: Any) -> AsyncIterator[Backend]:
    async with AsyncExitStack() as opened:
        backend = client(store, **access)
        opened.push_async_callback(backend.close)
        yield backend


async def uses_everything(backend: Backend, name: str) -> None:
    """Commit, read, watch, and hold a lock for longer than its lease's time to live."""
    async with following(backend, ROOT) as follower:
        lock = backend.lock(ROOT + "lock", "me", 2)
        fence = await lock.acquire()
        for number in range(3):
            await asyncio.sleep(1.2)
            (outcome,) = await backend.commit([create(f"{name}{number}")], fence=fence, writer="w")
            assert isinstance(outcome, Committed)
        await follower.until(lambda world: f"{ROOT}{name}2" in world)
        await lock.release()


async def test_everything_works_over_tls(secure: Secured, directory: Path) -> None:
    async with using(secure, tls=tls(directory)) as backend:
        await uses_everything(backend, "tls")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ca": "other"}, "CERTIFICATE_VERIFY_FAILED"),
        ({"own": None}, "store 127"),
        ({"own": "other"}, "store 127"),
    ],
)
async def test_wrong_certificates_are_a_store_that_is_away_and_says_why(
    secure: Secured, directory: Path, wrong: dict[str, Any], said: str
) -> None:
    async with using(secure, tls=tls(directory, **wrong)) as backend:
        with pytest.raises(StoreUnavailable, match=said):
            await backend.get(ROOT + "a")


async def test_a_server_of_no_known_authority(secure: Secured) -> None:
    async with using(secure, tls=Tls()) as backend:
        with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await backend.get(ROOT + "a")


async def test_a_plain_client_of_a_tls_server(secure: Secured) -> None:
    async with using(secure) as backend:
        with pytest.raises(StoreUnavailable):
            await backend.get(ROOT + "a")


async def test_everything_works_for_a_user_whose_tokens_expire(with_users: SecuredEtcd) -> None:
    async with using(with_users, credentials=USER) as backend:
        await uses_everything(backend, "user")
        await asyncio.sleep(TOKEN_TTL + 1.5)
        async with following(backend, ROOT) as follower:
            assert ROOT + "user0" in follower.world
        await asyncio.sleep(TOKEN_TTL + 1.5)
        assert isinstance((await backend.commit([create("later")]))[0], Committed)


async def test_a_watch_that_resumes_with_an_expired_token(with_users: SecuredEtcd) -> None:
    async with relay(with_users.endpoint) as one, using(with_users, credentials=USER) as writer:
        backend = EtcdBackend(StoreAccess(endpoints=(one.endpoint,), credentials=USER), budget=2.0)
        await writer.commit([create("known")])  # a watch that has seen no key begins anew
        async with following(backend, ROOT) as follower:
            await asyncio.sleep(TOKEN_TTL + 1.5)
            one.cut()
            await writer.commit([create("a")])
            await follower.until(lambda world: ROOT + "a" in world)
            assert sum(isinstance(item, Snapshot) for item in follower.items) == 1
        await backend.close()


@pytest.fixture(params=["jwt", "simple"])
def with_changing_users(bed_dir: Path, request: pytest.FixtureRequest) -> Iterator[SecuredEtcd]:
    etcd = SecuredEtcd(bed_dir, *(jwt_flags(bed_dir) if request.param == "jwt" else ()))
    etcd.start()
    etcd.enable_users(ROOT, keys.COMMITS)
    yield etcd
    etcd.kill()


async def test_users_that_change_end_nothing(with_changing_users: SecuredEtcd) -> None:
    """A JWT is for one revision of users and roles; each kind of call gets another one."""
    etcd = with_changing_users
    changes = iter(range(100))

    async def change() -> None:
        await asyncio.to_thread(etcd.as_root, "user", "add", f"user{next(changes)}:secret")

    async with using(etcd, credentials=USER) as backend, using(etcd, credentials=USER) as other:
        lock = backend.lock(ROOT + "lock", "me", 3)
        async with following(backend, ROOT) as follower:
            fence = await lock.acquire()
            for number in range(4):
                await change()
                (outcome,) = await backend.commit([create(f"a{number}")], fence=fence, writer="w")
                assert isinstance(outcome, Committed)
                await change()
                entry = await backend.get(f"{ROOT}a{number}")
                assert entry is not None
                await change()
                async with following(other, ROOT) as late:
                    assert f"{ROOT}a{number}" in late.world
            await follower.until(lambda world: ROOT + "a3" in world)
            await change()
            await (await other.lease(5)).revoke()
            await change()
            assert (await lock.holder()) == "me"
            await lock.release()


async def test_a_watch_that_resumes_after_users_changed(with_changing_users: SecuredEtcd) -> None:
    etcd = with_changing_users
    async with relay(etcd.endpoint) as one, using(etcd, credentials=USER) as writer:
        backend = EtcdBackend(StoreAccess(endpoints=(one.endpoint,), credentials=USER), budget=2.0)
        await writer.commit([create("known")])
        async with following(backend, ROOT) as follower:
            await asyncio.to_thread(etcd.as_root, "user", "add", "somebody:secret")
            one.cut()
            await writer.commit([create("a")])
            await follower.until(lambda world: ROOT + "a" in world)
            assert sum(isinstance(item, Snapshot) for item in follower.items) == 1
        await backend.close()


async def test_commits_while_users_change_all_the_time(with_changing_users: SecuredEtcd) -> None:
    etcd = with_changing_users

    async def change() -> None:
        for number in range(12):
            await asyncio.to_thread(etcd.as_root, "user", "add", f"user{number}:secret")

    async with using(etcd, credentials=USER) as backend, asyncio.TaskGroup() as tasks:
        changing = tasks.create_task(change())
        done = 0
        while not changing.done():
            assert isinstance((await backend.commit([create(f"n{done}")]))[0], Committed)
            done += 1
        world = await backend.snapshot(ROOT)
        assert set(world.entries) == {f"{ROOT}n{number}" for number in range(done)}


async def test_users_that_are_switched_off_and_on_again(with_changing_users: SecuredEtcd) -> None:
    etcd = with_changing_users
    async with using(etcd, credentials=USER) as backend:
        await backend.commit([create("a")])
        etcd.as_root("auth", "disable")
        assert isinstance((await backend.commit([create("b")]))[0], Committed)
        etcd.ctl("auth", "enable")
        assert isinstance((await backend.commit([create("c")]))[0], Committed)


async def test_what_a_user_may_not_do_is_denied(with_users: SecuredEtcd) -> None:
    async with using(with_users, credentials=USER) as backend:
        with pytest.raises(StoreDenied, match="permission denied"):
            await backend.get("/other/a")
        with pytest.raises(StoreDenied):
            await backend.lock("/other/lock", "me", 5).acquire()
        with pytest.raises(StoreDenied):
            await anext(backend.watch("/other/"))


@pytest.mark.parametrize(
    "credentials",
    [
        None,
        StoreCredentials(user="contiv", password="wrong"),
        StoreCredentials(user="x", password="y"),
    ],
)
async def test_strangers_are_denied(
    with_users: SecuredEtcd, credentials: StoreCredentials | None
) -> None:
    async with using(with_users, credentials=credentials) as backend:
        with pytest.raises(StoreDenied):
            await backend.get(ROOT + "a")
        with pytest.raises(StoreDenied):
            await anext(backend.watch(ROOT))


RULES = """
key_prefix "test/" { policy = "write" }
key_prefix "contiv.io/commit/" { policy = "write" }
session_prefix "" { policy = "write" }
node_prefix "" { policy = "read" }
service "contiv-lease" { policy = "write" }
"""


@pytest.fixture
def with_tokens(bed_dir: Path) -> Iterator[SecuredConsul]:
    consul = with_acl(bed_dir, RULES)
    yield consul
    consul.kill()


async def test_everything_works_with_a_token(with_tokens: SecuredConsul) -> None:
    async with using(with_tokens, token=TOKEN) as backend:
        await uses_everything(backend, "token")


async def test_what_a_token_may_not_do_is_denied(with_tokens: SecuredConsul) -> None:
    async with using(with_tokens, token=TOKEN) as backend:
        put = Change((), (Put("/other/a", b""),))
        for refused in (
            backend.get("/other/a"),
            backend.snapshot("/other/"),
            backend.commit([put], writer="w"),
            backend.lock("/other/lock", "me", 5).acquire(),
            anext(backend.watch("/other/")),
        ):
            with pytest.raises(StoreDenied, match="needs key_prefix"):
                await refused


@pytest.mark.parametrize("token", [None, "33333333-3333-3333-3333-333333333333"])
async def test_consul_denies_strangers(with_tokens: SecuredConsul, token: str | None) -> None:
    async with using(with_tokens, token=token) as backend:
        with pytest.raises(StoreDenied, match="CONSUL_HTTP_TOKEN"):
            await backend.get(ROOT + "a")
        with pytest.raises(StoreDenied):
            await anext(backend.watch(ROOT))
        with pytest.raises(StoreDenied):
            await backend.lease(5)


async def reads_until_refused(backend: Backend) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            await backend.get(ROOT + "a")


LATE = "44444444-4444-4444-4444-444444444444"


async def test_a_token_that_consul_learns_late(
    with_tokens: SecuredConsul, caplog: pytest.LogCaptureFixture
) -> None:
    """Servers and agents know a token once it is replicated to them."""

    def made_known() -> str:
        made = {"SecretID": LATE, "Policies": [{"Name": "own"}]}
        status, _, answer = with_tokens.request("PUT", "/v1/acl/token", made)
        assert status == 200, answer
        return str(json.loads(answer)["AccessorID"])

    async def is_refused() -> bool:
        return any("ACL not found" in extra_of(one).get("error", "") for one in caplog.records)

    caplog.set_level("DEBUG", logger="objdb.failover")
    async with using(with_tokens, token=LATE) as backend:
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(backend.commit([create("a")], writer="w"))
            await eventually_async(is_refused, "a refusal")
            accessor = made_known()
        assert isinstance(first.result()[0], Committed)
        assert with_tokens.request("DELETE", f"/v1/acl/token/{accessor}")[0] == 200
        with pytest.raises(StoreUnavailable, match="ACL not found"):
            await reads_until_refused(backend)
        made_known()
        assert isinstance((await backend.commit([create("b")], writer="w"))[0], Committed)


async def test_a_watch_whose_token_is_taken_away_is_denied(with_tokens: SecuredConsul) -> None:
    """And does not take for deleted what may not be read any more."""
    async with using(with_tokens, token=TOKEN) as backend:
        await backend.commit([create("a")])
        watch = backend.watch(ROOT)
        assert isinstance(await anext(watch), Snapshot)
        policy = {"Name": "own", "Rules": 'session_prefix "" { policy = "write" }'}
        _, _, found = with_tokens.request("GET", "/v1/acl/policy/name/own")
        changed = f"/v1/acl/policy/{json.loads(found)['ID']}"
        assert with_tokens.request("PUT", changed, policy)[0] == 200
        async with asyncio.timeout(WITHIN):
            with pytest.raises(StoreDenied):
                await anext(watch)
