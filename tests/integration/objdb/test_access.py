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
from objdb.access import Access, Credentials, Tls
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
    with_acl,
    with_tls,
)
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
        backend = EtcdBackend(Access(endpoints=(one.endpoint,), credentials=USER), budget=2.0)
        await writer.commit([create("known")])  # a watch that has seen no key begins anew
        async with following(backend, ROOT) as follower:
            await asyncio.sleep(TOKEN_TTL + 1.5)
            one.cut()
            await writer.commit([create("a")])
            await follower.until(lambda world: ROOT + "a" in world)
            assert sum(isinstance(item, Snapshot) for item in follower.items) == 1
        await backend.close()


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
    [None, Credentials(user="contiv", password="wrong"), Credentials(user="x", password="y")],
)
async def test_strangers_are_denied(
    with_users: SecuredEtcd, credentials: Credentials | None
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
        async with asyncio.timeout(60):
            with pytest.raises(StoreDenied):
                await anext(watch)
