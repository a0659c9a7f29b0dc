"""What an API server of Kubernetes holds is known, whatever happens to the watch of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.tasks import background
from netplugin.kube import api
from netplugin.kube.api import KubeApi, KubeChange, KubeList
from netplugin.kube.config import KubeConfig
from netplugin.world.kube_services import SERVICES
from tests.bed.certificates import make_certificates
from tests.bed.kubernetes import ApiServer, service
from tests.bed.waiting import eventually_async


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.put(SERVICES, "shop", "web", **service("10.96.0.1"))
        yield server


def config(server: ApiServer, **values: str) -> KubeConfig:
    return KubeConfig.model_validate({"K8S_API_SERVER": server.url, "K8S_TOKEN": "t", **values})


class Mirror:
    """The services somebody knows who follows a server."""

    def __init__(self, door: KubeApi) -> None:
        self.names: set[str] = set()
        self._door = door

    async def run(self) -> None:
        async for event in self._door.list_and_watch(SERVICES):
            match event:
                case KubeList(objects):
                    self.names = {one["metadata"]["name"] for one in objects}
                case KubeChange(said, deleted=True):
                    self.names.discard(said["metadata"]["name"])
                case KubeChange(said):
                    self.names.add(said["metadata"]["name"])

    async def knows(self, *names: str) -> None:
        async def equal() -> bool:
            return self.names == set(names)

        await eventually_async(equal, f"{names} are known")


@asynccontextmanager
async def following(door: KubeApi) -> AsyncIterator[Mirror]:
    mirror = Mirror(door)
    async with background("mirror", mirror.run()):
        yield mirror


async def watched(server: ApiServer, times: int) -> None:
    async def enough() -> bool:
        return server.watched(SERVICES) >= times

    await eventually_async(enough, f"{times} watches")


async def test_changes_are_told(server: ApiServer) -> None:
    async with following(KubeApi(config(server))) as mirror:
        await mirror.knows("web")
        server.put(SERVICES, "shop", "db", **service("10.96.0.2"))
        await mirror.knows("web", "db")
        server.delete(SERVICES, "shop", "web")
        await mirror.knows("db")
        server.put("endpoints", "shop", "db", subsets=[])
        server.put(SERVICES, "shop", "big", **service("10.96.0.3"), note="x" * 1_000_000)
        await mirror.knows("db", "big")
        assert server.lists(SERVICES) == 1
        assert {one.token for one in server.asked} == {"t"}


async def test_a_watch_that_ends_is_resumed_where_it_was(server: ApiServer) -> None:
    async with following(KubeApi(config(server))) as mirror:
        await mirror.knows("web")
        for number in range(3):
            await watched(server, number + 1)
            server.hang_up()
            server.put(SERVICES, "shop", f"db{number}", **service("10.96.0.2"))
        server.delete(SERVICES, "shop", "web")
        await mirror.knows("db0", "db1", "db2")
        assert server.lists(SERVICES) == 1, "nothing was missed"


async def test_a_bookmark_moves_on_where_to_resume(server: ApiServer) -> None:
    async with following(KubeApi(config(server))) as mirror:
        await watched(server, 1)
        mark = {"metadata": {"name": None, "namespace": None}}
        server.say("BOOKMARK", SERVICES, mark)
        await mirror.knows("web")
        since = server.asked[-1].since

        async def resumed_later() -> bool:
            server.hang_up()
            return server.asked[-1].since not in {None, since}

        await eventually_async(resumed_later, "the watch begins later")
        assert (server.lists(SERVICES), mirror.names) == (1, {"web"})


async def test_what_a_server_has_forgotten_is_listed_again(server: ApiServer) -> None:
    async with following(KubeApi(config(server))) as mirror:
        await mirror.knows("web")
        await watched(server, 1)
        server.hang_up()
        server.put(SERVICES, "shop", "db", **service("10.96.0.2"))
        server.delete(SERVICES, "shop", "web")
        server.forget()
        await mirror.knows("db")


@pytest.mark.parametrize("kind", ["ERROR", "STRANGE"])
async def test_an_error_of_a_watch_is_no_end(server: ApiServer, kind: str) -> None:
    async with following(KubeApi(config(server))) as mirror:
        await watched(server, 1)
        error = {"metadata": {"name": "error"}, "message": "etcdserver: no leader"}
        server.say(kind, SERVICES, error)

        async def listed_again() -> bool:
            return server.lists(SERVICES) > 1

        await eventually_async(listed_again, "it is listed again")
        server.put(SERVICES, "shop", "db", **service("10.96.0.2"))
        await mirror.knows("web", "db")


async def test_a_server_that_is_away_is_waited_for(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "LONGEST_PAUSE", 0.2)
    with ApiServer() as gone:
        port = gone.port
    later = {"K8S_API_SERVER": f"http://127.0.0.1:{port}"}
    async with following(KubeApi(config(server, **later))) as mirror:
        with ApiServer(port=port) as there:
            there.put(SERVICES, "shop", "late", **service("10.96.0.9"))
            await mirror.knows("late")
        another = ApiServer(port=port)
        for name in ("passing", "other"):
            another.put(SERVICES, "shop", name, **service("10.96.0.9"))
        another.delete(SERVICES, "shop", "passing")
        another.forget()
        with another:
            await mirror.knows("other")


async def test_the_accounts_token_may_change(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "LONGEST_PAUSE", 0.2)
    account = tmp_path / "token"
    server.token = "new"
    async with following(KubeApi(config(server, K8S_TOKEN=""), account)) as mirror:
        account.write_text("old")

        async def refused() -> bool:
            return any(one.token == "old" for one in server.asked)

        await eventually_async(refused, "the old one is shown")
        account.write_text("new")
        await mirror.knows("web")


async def test_a_server_is_known_by_its_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_certificates(tmp_path)
    with ApiServer(certificates=tmp_path) as server:
        server.put(SERVICES, "shop", "web", **service("10.96.0.1"))
        own = {"K8S_CERT": f"{tmp_path}/client.pem", "K8S_KEY": f"{tmp_path}/client.key"}
        trusting = config(server, K8S_CA=f"{tmp_path}/ca.pem", **own)
        async with following(KubeApi(trusting)) as mirror:
            await mirror.knows("web")
    with ApiServer(certificates=tmp_path) as server:
        stranger = KubeApi(config(server, K8S_CA=f"{tmp_path}/other.pem"))
        async with following(stranger) as mirror:

            async def refused() -> bool:
                return "Kubernetes watch failed" in caplog.text

            await eventually_async(refused, "the server is not trusted")
        assert (server.asked, mirror.names) == ([], set())
