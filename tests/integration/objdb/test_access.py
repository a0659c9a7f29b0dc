"""TLS, users and tokens against real servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreDenied, StoreUnavailable
from objdb.access import Credentials
from objdb.api import Absent, Change, Committed, Put, Snapshot
from objdb.etcd import EtcdBackend
from tests.contract.following import following
from tests.integration.objdb.relay import relay
from tests.integration.objdb.secured import (
    USER,
    SecuredEtcd,
    client,
    enable_users,
    make_certificates,
    tls,
)

pytestmark = pytest.mark.store

ROOT = "/test/"
TOKEN_TTL = 1


@pytest.fixture(scope="module")
def directory(bed_dirs: Iterator[Path]) -> Path:
    made = next(bed_dirs)
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def secure(directory: Path) -> Iterator[SecuredEtcd]:
    make_certificates(directory)
    etcd = SecuredEtcd(
        directory,
        *(
            "--cert-file",
            str(directory / "server.pem"),
            "--key-file",
            str(directory / "server.key"),
        ),
        *("--client-cert-auth", "--trusted-ca-file", str(directory / "ca.pem")),
        scheme="https",
    )
    etcd.start()
    yield etcd
    etcd.kill()


@pytest.fixture
def with_users(bed_dir: Path) -> Iterator[SecuredEtcd]:
    etcd = SecuredEtcd(bed_dir, "--auth-token-ttl", str(TOKEN_TTL))
    etcd.start()
    enable_users(etcd.endpoint, ROOT)
    yield etcd
    etcd.kill()


def create(name: str) -> Change:
    return Change((Absent(ROOT + name),), (Put(ROOT + name, b"v"),))


@asynccontextmanager
async def using(etcd: SecuredEtcd, **access: Any) -> AsyncIterator[EtcdBackend]:
    async with AsyncExitStack() as opened:
        backend = client(etcd.endpoint, **access)
        opened.push_async_callback(backend.close)
        yield backend


async def uses_everything(backend: EtcdBackend, name: str) -> None:
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


async def test_everything_works_over_tls(secure: SecuredEtcd, directory: Path) -> None:
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
    secure: SecuredEtcd, directory: Path, wrong: dict[str, Any], said: str
) -> None:
    async with using(secure, tls=tls(directory, **wrong)) as backend:
        with pytest.raises(StoreUnavailable, match=said):
            await backend.get(ROOT + "a")


async def test_a_plain_client_of_a_tls_server(secure: SecuredEtcd) -> None:
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
        backend = client(one.endpoint, credentials=USER)
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
