"""Recorded answers of a real API server are understood (`tests/golden/kube`)."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.tasks import background
from netplugin.kube.api import KubeApi, KubeChange, KubeList, KubeSign, KubeTiming
from netplugin.kube.api_access import Credentials, KubeAccess
from netplugin.kube.resources import (
    ADMIN_POLICIES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    SERVICES,
    SLICES,
    Resource,
    pods_of,
)
from tests.bed.replayed_api import ReplayedApi
from tests.bed.waiting import eventually_async

RECORDING = Path(__file__).parents[2] / "golden" / "kube" / "apiserver.jsonl"
FOLLOWED = (NAMESPACES, SERVICES, SLICES, NETWORK_POLICIES, ADMIN_POLICIES, NODES, pods_of("n1"))
TIMING = KubeTiming(longest_pause=0.1, not_served=1000.0)


def recorded(session: str = "") -> list[dict[str, Any]]:
    """Return the exchanges of a session, or the heading of the recording."""
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    return [one for one in lines[1:] if one["session"] == session] if session else lines[:1]


class Mirror:
    """What somebody knows who follows resources, and how it came."""

    def __init__(self) -> None:
        self.known: dict[str, set[str]] = {}
        self.lists: Counter[str] = Counter()
        self.bookmarks = 0
        self.faults: list[str] = []

    async def follow(self, client: KubeApi, resource: Resource) -> None:
        names = self.known.setdefault(resource.name, set())
        async for event in client.follow(resource, ""):
            match event:
                case KubeList(_, _, objects):
                    names.clear()
                    names.update(one["metadata"]["name"] for one in objects)
                    self.lists[resource.name] += 1
                case KubeChange(_, _, said, deleted=True):
                    names.discard(said["metadata"]["name"])
                case KubeChange(_, _, said):
                    names.add(said["metadata"]["name"])
                case KubeSign(fault="", version=version):
                    self.bookmarks += bool(version)
                case KubeSign(fault):
                    self.faults.append(fault)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ReplayedApi]:
    with ReplayedApi(recorded(request.param)) as server:
        yield server


@asynccontextmanager
async def following(
    server: ReplayedApi, *resources: Resource, page: int = 1
) -> AsyncIterator[Mirror]:
    """Follow resources in pages of the size that was recorded."""
    mirror = Mirror()
    access = KubeAccess(servers=(server.url,), credentials=Credentials(token="t"))
    async with AsyncExitStack() as stack:
        for one in resources:
            work = mirror.follow(KubeApi(access, TIMING, page=page), one)
            await stack.enter_async_context(background(one.name, work))
        yield mirror


async def replayed(server: ReplayedApi) -> None:
    """Return when all that was recorded was asked for, and nothing else."""

    async def ended() -> bool:
        return not server.left() or bool(server.strange)

    try:
        await eventually_async(ended, "all requests that were recorded")
    except TimeoutError:
        assert server.left() == []
    assert server.strange == []


@pytest.mark.parametrize("server", ["agent"], indirect=True)
async def test_an_agent_knows_what_there_is_in_the_end(server: ReplayedApi) -> None:
    (heading,) = recorded()
    async with following(server, *FOLLOWED, page=2) as mirror:
        await replayed(server)

        async def equal() -> bool:
            now = {name: sorted(names) for name, names in mirror.known.items()}
            return now == dict(heading["known"])

        await eventually_async(equal, f"{heading['known']} are known")
        assert mirror.bookmarks
        assert mirror.lists[SERVICES.name] == 2, "once at the start, once after 410 Gone"
        assert any("too old resource version" in one for one in mirror.faults)
        assert mirror.lists[ADMIN_POLICIES.name] == 1


@pytest.mark.parametrize("server", ["expired"], indirect=True)
async def test_a_page_that_was_compacted_away(server: ReplayedApi) -> None:
    async with following(server, SERVICES) as mirror:
        await replayed(server)
        (fault,) = mirror.faults
        assert "continue parameter is too old" in fault


@pytest.mark.parametrize(
    ("server", "said"),
    [("stranger", "401 Unauthorized"), ("limited", "403 Forbidden")],
    indirect=["server"],
)
async def test_a_refusal_is_told(server: ReplayedApi, said: str) -> None:
    async with following(server, SERVICES) as mirror:

        async def told() -> bool:
            return bool(mirror.faults)

        await eventually_async(told, "a fault")
        assert said in mirror.faults[0]
