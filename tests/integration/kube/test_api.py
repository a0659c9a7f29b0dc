"""What an API server of Kubernetes holds is known, whatever happens to the watch of it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from core.errors import OrchestratorUnavailable
from core.tasks import background
from netplugin.kube.api import KubeApi, KubeChange, KubeList, KubeSign, KubeTiming
from netplugin.kube.api_access import Credentials, KubeAccess, Pem
from netplugin.kube.policy_kinds import GROUP, PolicyKinds
from netplugin.kube.resources import (
    CLUSTER_POLICIES,
    NAMESPACES,
    SERVICES,
    SLICES,
    Resource,
    pods_of,
)
from tests.bed.certificates import make_certificates
from tests.bed.kubernetes import ApiServer, pod, service
from tests.bed.waiting import eventually_async

SOON = KubeTiming(longest_pause=0.2)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.put("services", "shop", "web", **service("10.96.0.1"))
        yield server


def access(*servers: ApiServer | str, **credentials: object) -> KubeAccess:
    urls = tuple(one if isinstance(one, str) else one.url for one in servers)
    held = Credentials(**{"token": "t", **credentials})  # type: ignore[arg-type]
    return KubeAccess(servers=urls, credentials=held)


class Mirror:
    """The objects somebody knows who follows a resource, and what went wrong."""

    def __init__(self, api: KubeApi, resource: Resource, known: str) -> None:
        self.names: set[str] = set()
        self.resource = ""
        self.version = ""
        self.faults: list[str] = []
        self.signs = 0
        self._events = api.follow(resource, known)

    async def run(self) -> None:
        async for event in self._events:
            match event:
                case KubeList(resource, version, objects):
                    self.names = {one["metadata"]["name"] for one in objects}
                    self.resource, self.version = resource.name, version
                case KubeChange(_, version, said, deleted=True):
                    self.names.discard(said["metadata"]["name"])
                    self.version = version
                case KubeChange(_, version, said):
                    self.names.add(said["metadata"]["name"])
                    self.version = version
                case KubeSign(fault, version):
                    self.faults += [fault] if fault else []
                    self.signs += not fault
                    self.version = version or self.version

    async def knows(self, *names: str) -> None:
        async def equal() -> bool:
            return self.names == set(names)

        await eventually_async(equal, f"{names} are known")

    async def fails(self, text: str) -> None:
        async def said() -> bool:
            return any(text in one for one in self.faults)

        await eventually_async(said, text)


@asynccontextmanager
async def following(
    api: KubeApi, resource: Resource = SERVICES, known: str = "0"
) -> AsyncIterator[Mirror]:
    mirror = Mirror(api, resource, known)
    async with background("mirror", mirror.run()):
        yield mirror


async def watched(server: ApiServer, times: int) -> None:
    async def enough() -> bool:
        return server.watched("services") >= times

    await eventually_async(enough, f"{times} watches")


async def test_changes_are_told(server: ApiServer) -> None:
    async with following(KubeApi(access(server))) as mirror:
        await mirror.knows("web")
        server.put("services", "shop", "db", **service("10.96.0.2"))
        await mirror.knows("web", "db")
        server.delete("services", "shop", "web")
        await mirror.knows("db")
        server.put("endpoints", "shop", "db", subsets=[])
        server.put("services", "shop", "big", **service("10.96.0.3"), note="x" * 1_000_000)
        await mirror.knows("db", "big")
        assert server.lists("services") == 1
        assert {one.token for one in server.asked} == {"t"}


async def test_a_watch_that_ends_is_resumed_where_it_was(server: ApiServer) -> None:
    async with following(KubeApi(access(server))) as mirror:
        await mirror.knows("web")
        for number in range(3):
            await watched(server, number + 1)
            server.hang_up()
            server.put("services", "shop", f"db{number}", **service("10.96.0.2"))
        server.delete("services", "shop", "web")
        await mirror.knows("db0", "db1", "db2")
        assert server.lists("services") == 1, "nothing was missed"


async def test_a_bookmark_moves_on_where_to_resume(server: ApiServer) -> None:
    async with following(KubeApi(access(server))) as mirror:
        await watched(server, 1)
        server.bookmark("services")
        await mirror.knows("web")
        since = server.asked[-1].since

        async def resumed_later() -> bool:
            server.hang_up()
            return server.asked[-1].since not in {None, since}

        await eventually_async(resumed_later, "the watch begins later")
        assert (server.lists("services"), mirror.names) == (1, {"web"})


async def test_what_a_server_has_forgotten_is_listed_again(server: ApiServer) -> None:
    async with following(KubeApi(access(server))) as mirror:
        await mirror.knows("web")
        await watched(server, 1)
        server.hang_up()
        server.put("services", "shop", "db", **service("10.96.0.2"))
        server.delete("services", "shop", "web")
        server.forget()
        await mirror.knows("db")
    last = [one for one in server.asked if one.since is None][-1]
    assert "resourceVersion" not in last.query, "from the store, not from a cache that lags"


@pytest.mark.parametrize("kind", ["ERROR", "STRANGE"])
async def test_an_error_of_a_watch_is_no_end(server: ApiServer, kind: str) -> None:
    async with following(KubeApi(access(server))) as mirror:
        await watched(server, 1)
        error = {"metadata": {"name": "error"}, "message": "etcdserver: no leader"}
        server.say(kind, "services", error)

        async def listed_again() -> bool:
            return server.lists("services") > 1

        await eventually_async(listed_again, "it is listed again")
        server.put("services", "shop", "db", **service("10.96.0.2"))
        await mirror.knows("web", "db")
        await mirror.fails("etcdserver: no leader")


async def test_a_server_that_is_away_is_waited_for() -> None:
    with ApiServer() as gone:
        port = gone.port
    url = f"http://127.0.0.1:{port}"
    async with following(KubeApi(access(url), SOON)) as mirror:
        await mirror.fails("connection refused")
        with ApiServer(port=port) as there:
            there.put("services", "shop", "late", **service("10.96.0.9"))
            await mirror.knows("late")
        another = ApiServer(port=port)
        for name in ("passing", "other"):
            another.put("services", "shop", name, **service("10.96.0.9"))
        another.delete("services", "shop", "passing")
        another.forget()
        with another:
            await mirror.knows("other")


# -- health ----------------------------------------------------------------------------------------


async def test_a_silent_watch_is_opened_again_without_a_list(server: ApiServer) -> None:
    quick = KubeTiming(silence=0.3, longest_pause=0.2)
    async with following(KubeApi(access(server), quick)) as mirror:
        await watched(server, 1)
        server.silent = True
        server.put("services", "shop", "db", **service("10.96.0.2"))
        await watched(server, 3)
        assert mirror.names == {"web"}
        server.let_go()
        await mirror.knows("web", "db")
    assert server.lists("services") == 1, "nothing was missed"


async def test_silence_of_a_resource_that_never_changes_is_no_fault(server: ApiServer) -> None:
    quick = KubeTiming(silence=0.1, longest_pause=60.0)
    async with following(KubeApi(access(server), quick)) as mirror:
        # With pauses that grow, so many watches would take minutes.
        await watched(server, 12)
        assert mirror.faults == []
    assert server.lists("services") == 1


async def test_a_connection_notices_a_peer_that_is_gone() -> None:
    api = KubeApi(access("http://127.0.0.1:1"))
    with api._socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", None)) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        again = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        times = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert idle + again * times <= 60
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000


async def test_another_server_takes_over() -> None:
    with ApiServer() as second:
        second.put("services", "shop", "web", **service("10.96.0.1"))
        second.put("services", "shop", "second", **service("10.96.0.1"))
        first = ApiServer()
        first.put("services", "shop", "web", **service("10.96.0.1"))
        with first:
            api = KubeApi(access(first, second), SOON)
            async with following(api) as mirror:
                await mirror.knows("web")
                assert not second.asked
                first.failing = 503
                first.hang_up()
                await mirror.knows("web", "second")


async def test_a_refused_connection_leads_to_the_other_server(server: ApiServer) -> None:
    with ApiServer() as gone:
        url = gone.url
    async with following(KubeApi(access(url, server), SOON)) as mirror:
        await mirror.knows("web")
    assert len(mirror.faults) == 1
    assert await KubeApi(access(url, server)).probe(SERVICES) == server.url


async def test_any_server_is_asked_for_one_object(server: ApiServer) -> None:
    with ApiServer() as silent:
        silent.silent = True
        quick = KubeTiming(one_object=0.2)
        api = KubeApi(access(silent, server), quick)
        found = await api.get(SERVICES, "shop", "web")
        assert found is not None
        assert found["spec"]["clusterIP"] == "10.96.0.1"
        assert await api.get(SERVICES, "shop", "db") is None
        assert len(silent.asked) == 1, "the other one is asked first from then on"


# -- lists -----------------------------------------------------------------------------------------


async def test_a_list_comes_in_pages(server: ApiServer) -> None:
    names = {f"s{number}" for number in range(20)}
    for name in names:
        server.put("services", "shop", name, **service("10.96.0.2"))
    server.largest_page = 6
    async with following(KubeApi(access(server))) as mirror:
        await mirror.knows("web", *names)
    assert server.lists("services") == 4


async def test_a_list_that_expires_between_pages_is_begun_again(server: ApiServer) -> None:
    for number in range(5):
        server.put("services", "shop", f"s{number}", **service("10.96.0.2"))
    server.largest_page = 4
    pages = server._list

    def forgetful(resource: str, query: dict[str, str]) -> bytes:
        if "continue" in query and server.largest_page == 4:
            server.largest_page = 0
            server.forget()
        return pages(resource, query)

    server._list = forgetful  # type: ignore[method-assign]
    async with following(KubeApi(access(server), SOON)) as mirror:
        await mirror.knows("web", *(f"s{number}" for number in range(5)))


async def test_a_list_is_no_older_than_what_was_known(server: ApiServer) -> None:
    async with following(KubeApi(access(server)), known="2") as mirror:
        await mirror.knows("web")
    assert server.asked[0].query == {
        "resourceVersion": "2",
        "resourceVersionMatch": "NotOlderThan",
    }


async def test_a_version_that_no_server_has_any_more_is_dropped(server: ApiServer) -> None:
    async with following(KubeApi(access(server), SOON), known="999") as mirror:
        await mirror.knows("web")


async def test_the_first_list_may_come_from_the_servers_cache(server: ApiServer) -> None:
    async with following(KubeApi(access(server))) as mirror:
        await mirror.knows("web")
    assert server.asked[0].query["resourceVersion"] == "0"


# -- what is served --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "resource"),
    [
        ("apis/discovery.k8s.io/v1", "endpointslices"),
        ("apis/discovery.k8s.io/v1beta1", "endpointslices"),
        ("", "endpoints"),
    ],
)
async def test_the_newest_that_is_served_is_followed(
    server: ApiServer, version: str, resource: str
) -> None:
    server.served = {"api/v1", version}
    async with following(KubeApi(access(server)), SLICES) as mirror:
        server.put("endpointslices", "shop", "piece")
        server.put("endpoints", "shop", "all")
        await mirror.knows("piece" if version else "all")
        server.put(resource, "shop", "more")
        await mirror.knows("piece" if version else "all", "more")
        assert mirror.resource == resource


async def test_an_optional_resource_may_be_missing(server: ApiServer) -> None:
    policies = Resource(
        name="adminnetworkpolicies",
        versions=("apis/policy.networking.k8s.io/v1alpha1",),
        optional=True,
    )
    soon = KubeTiming(not_served=0.05)
    async with following(KubeApi(access(server), soon), policies) as mirror:

        async def asked_again() -> bool:
            return server.lists("adminnetworkpolicies") > 2

        await eventually_async(asked_again, "it is asked for again")
        assert (mirror.resource, mirror.faults) == ("adminnetworkpolicies", [])
        server.served.add("apis/policy.networking.k8s.io/v1alpha1")
        server.put("adminnetworkpolicies", "", "first")
        await mirror.knows("first")


async def test_pods_of_one_node_are_followed(server: ApiServer) -> None:
    server.put("pods", "shop", "here", **pod("n1", "u1"))
    server.put("pods", "shop", "there", **pod("n2", "u2"))
    async with following(KubeApi(access(server)), pods_of("n1")) as mirror:
        await mirror.knows("here")
        server.put("pods", "shop", "elsewhere", **pod("n2", "u3"))
        server.put("pods", "shop", "new", **pod("n1", "u4"))
        await mirror.knows("here", "new")


async def test_one_object_is_asked_for(server: ApiServer) -> None:
    server.put("pods", "shop", "web-1", **pod("n1", "u1"))
    server.put("namespaces", "", "shop", metadata={"labels": {"a": "b"}})
    api = KubeApi(access(server))
    found = await api.get(pods_of("n1"), "shop", "web-1")
    assert found is not None
    assert found["metadata"]["uid"] == "u1"
    assert await api.get(pods_of("n1"), "shop", "web-2") is None
    namespace = await api.get(NAMESPACES, "", "shop")
    assert namespace is not None
    assert namespace["metadata"]["labels"] == {"a": "b"}


# -- credentials -----------------------------------------------------------------------------------


async def test_the_accounts_token_may_change(server: ApiServer, tmp_path: Path) -> None:
    account = tmp_path / "token"
    server.token = "new"
    own = access(server, token="", token_file=str(account))
    async with following(KubeApi(own, SOON)) as mirror:
        await mirror.fails(f"no token for Kubernetes: {account}: No such file or directory")
        account.write_text("old")
        await mirror.fails(f"does not accept the token in {account} (401 Unauthorized)")
        account.write_text("new")
        await mirror.knows("web")


async def test_a_server_is_known_by_its_certificate(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    own = {"cert": Pem(f"{tmp_path}/client.pem"), "key": Pem(f"{tmp_path}/client.key")}
    with ApiServer(certificates=tmp_path) as server:
        server.put("services", "shop", "web", **service("10.96.0.1"))
        trusting = access(server, ca=Pem(f"{tmp_path}/ca.pem"), **own)
        async with following(KubeApi(trusting)) as mirror:
            await mirror.knows("web")
    with ApiServer(certificates=tmp_path) as server:
        stranger = KubeApi(access(server, ca=Pem(f"{tmp_path}/other.pem")), SOON)
        async with following(stranger) as mirror:
            await mirror.fails(f"not from the authority in {tmp_path}/other.pem")
        assert (server.asked, mirror.names) == ([], set())


class CountedApi(KubeApi):
    """Knows the sockets of its connections."""

    def __init__(self, known: KubeAccess) -> None:
        super().__init__(known)
        self.made: list[socket.socket] = []

    def _socket(self, info: Any) -> socket.socket:
        self.made.append(super()._socket(info))
        return self.made[-1]

    def open(self) -> int:
        """Return how many of them are open."""
        return sum(one.fileno() != -1 for one in self.made)


async def test_a_watch_that_is_given_up_leaves_no_connection(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    with ApiServer(certificates=tmp_path) as server:
        api = CountedApi(access(server, ca=Pem(f"{tmp_path}/ca.pem")))
        async with following(api):
            await watched(server, 1)
            assert api.open()
        await asyncio.sleep(0)  # the loop closes a socket in its next turn
        assert not api.open()


async def test_the_authority_may_be_replaced(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    ca = tmp_path / "mounted.pem"
    with ApiServer(certificates=tmp_path) as server:
        server.put("services", "shop", "web", **service("10.96.0.1"))
        async with following(KubeApi(access(server, ca=Pem(str(ca))), SOON)) as mirror:
            await mirror.fails(f"{ca}: No such file or directory")
            ca.write_bytes((tmp_path / "other.pem").read_bytes())
            await mirror.fails("its certificate is not from the authority")
            ca.unlink()
            ca.write_bytes((tmp_path / "ca.pem").read_bytes())
            await mirror.knows("web")


async def test_a_refusal_names_the_rule_that_is_needed(server: ApiServer) -> None:
    server.forbidden = {"endpointslices"}
    with pytest.raises(OrchestratorUnavailable) as refused:
        await KubeApi(access(server)).probe(SLICES)
    assert str(refused.value) == (
        f"{server.url}: the configured token may not read endpointslices (403 Forbidden): its "
        'ClusterRole needs - {apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], '
        'verbs: ["get", "list", "watch"]}'
    )


async def test_faults_are_told_apart(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    trusting = {"ca": Pem(f"{tmp_path}/ca.pem")}

    async def fault(url: str, **credentials: object) -> str:
        short = KubeTiming(connect=0.2, answer=0.2)
        with pytest.raises(OrchestratorUnavailable) as failed:
            await KubeApi(access(url, **credentials), short).probe(SERVICES)
        return str(failed.value)

    with ApiServer(certificates=tmp_path) as secure, ApiServer() as plain:
        plain.silent = True
        assert "no answer within 0.2 s" in await fault(plain.url)
        assert "does not speak TLS" in await fault(f"https://127.0.0.1:{plain.port}", **trusting)
        assert "no CA for Kubernetes: K8S_CA" in await fault(secure.url)
        assert "cannot be resolved" in await fault("http://nowhere.invalid:1")
    assert "connection refused" in await fault(plain.url)


async def test_an_answer_that_makes_no_sense_is_a_fault(server: ApiServer) -> None:
    server._list = lambda *_: b'["not a list of Kubernetes"]'  # type: ignore[method-assign]
    async with following(KubeApi(access(server), SOON)) as mirror:
        await mirror.fails("not an object of Kubernetes")


async def test_who_may_not_read_what_is_not_installed_lacks_nothing(server: ApiServer) -> None:
    """An agent of this release keeps its node ready under the ClusterRole of an older one."""
    server.forbidden.add(CLUSTER_POLICIES.name)
    soon = KubeTiming(longest_pause=0.2, not_served=0.05)
    async with following(KubeApi(access(server), soon), CLUSTER_POLICIES) as mirror:
        await asked_often(server)
        assert (mirror.faults, mirror.names) == ([], set())
        server.kinds[GROUP] = {"v1beta1": [CLUSTER_POLICIES.name], "v1alpha2": ["others"]}
        await asked_often(server)
        assert mirror.faults == [], "that version would not be followed anyway"
        server.kinds[GROUP] = {"v1alpha2": [CLUSTER_POLICIES.name]}
        await mirror.fails("may not read clusternetworkpolicies (403 Forbidden)")


async def test_kinds_of_policies_that_are_not_followed_are_told(server: ApiServer) -> None:
    shown: list[tuple[str, ...]] = []
    soon = KubeTiming(not_served=0.05)
    feed = Mock()
    kinds = PolicyKinds(KubeApi(access(server), soon), feed)
    feed.notify = lambda: shown.append(kinds.faults)
    async with background("kinds", kinds.run()):
        await asked_often(server)
        assert shown == [], "there are none"
        server.kinds[GROUP] = {"v1beta1": ["clusternetworkpolicies"]}
        await eventually_async(told(shown, 1), "the new version is told")
        assert "clusternetworkpolicies" in shown[0][0]
        assert "serve v1alpha2" in shown[0][0]
        server.kinds[GROUP]["v1alpha2"] = ["clusternetworkpolicies"]
        await eventually_async(told(shown, 2), "the version that is followed is served")
        assert shown[1] == ()
        server.forbidden.add("")
        await eventually_async(told(shown, 3), "who may not look knows that")
        assert "is not known" in shown[2][0]
        server.failing = 503
        await asked_often(server)
        server.forbidden.clear()
        server.failing = 0
        await eventually_async(told(shown, 4), "it may again")
        assert shown[3:] == [()]


async def asked_often(server: ApiServer) -> None:
    before = len(server.asked)

    async def more() -> bool:
        return len(server.asked) > before + 3

    await eventually_async(more, "the server was asked")


def told(shown: list[tuple[str, ...]], times: int) -> Callable[[], Awaitable[bool]]:
    async def enough() -> bool:
        return len(shown) >= times

    return enough
