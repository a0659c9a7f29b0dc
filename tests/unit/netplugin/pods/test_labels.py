"""Labels of endpoints follow those of their pods in Kubernetes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.change_notifier import ChangeNotifier
from core.errors import Invalid, MasterUnavailable
from core.tasks import background
from netplugin.pods.labels import PodLabels
from netplugin.world.kubernetes.kube_pods import KubePod, endpoint_labels
from tests.unit.netplugin.agent import Agent, Outside, eventually, request, running, stays
from tests.unit.netplugin.records import asking, key

pytestmark = pytest.mark.usefixtures("hurried")


class Known:
    """What Kubernetes knows: one pod."""

    def __init__(self) -> None:
        self.labels = {"app": "web"}
        self._changed = ChangeNotifier()

    @property
    def current(self) -> KubePod:
        return KubePod("shop", "web-1", frozenset({"u1"}), self.labels)

    def pod(self, key: str, uid: str) -> KubePod | None:
        return self.current if (key, uid) == ("shop/web-1", "u1") else None

    def changed(self) -> asyncio.Event:
        return self._changed.next

    def relabel(self, **labels: str) -> None:
        self.labels = labels
        self._changed.notify()


@asynccontextmanager
async def following(agent: Agent, known: Known) -> AsyncIterator[None]:
    labels = PodLabels(agent.pod_services.host, known, interval=60)
    async with background("labels", labels.run()):
        yield


async def add(agent: Agent, known: Known) -> None:
    labels = endpoint_labels(known.current, "u1")
    await agent.pods.add(asking(request(), labels=labels))
    agent.learn("k", agent.outside.master.endpoints[key("c1")])


def stored(outside: Outside) -> dict[str, str]:
    labels = outside.master.endpoints[key("c1")].labels or {}
    return {name: value for name, value in labels.items() if "kubernetes" not in name}


async def test_an_endpoint_is_created_with_the_labels_of_its_pod(outside: Outside) -> None:
    known = Known()
    async with running(outside) as agent:
        await add(agent, known)
        assert stored(outside) == {"app": "web"}
        assert outside.journal.entries[key("c1")].spec.labels["io.kubernetes.pod.uid"] == "u1"


async def test_changes_are_sent_once(outside: Outside) -> None:
    known = Known()
    async with running(outside) as agent, following(agent, known):
        await add(agent, known)
        known.relabel(app="db", tier="back")
        await eventually(lambda: stored(outside) == {"app": "db", "tier": "back"})
        known.relabel(app="db", tier="back")
        await stays(lambda: outside.faults.reached["labels"] == 1)
        agent.learn("k", outside.master.endpoints[key("c1")])
        known.relabel(tier="back")
        await eventually(lambda: stored(outside) == {"tier": "back"})


async def test_what_changed_while_the_agent_was_away_is_sent(outside: Outside) -> None:
    known = Known()
    async with running(outside) as agent:
        await add(agent, known)
    known.labels = {"app": "db"}
    async with running(outside) as agent, following(agent, known):
        await eventually(lambda: stored(outside) == {"app": "db"})


async def test_a_netmaster_that_is_away_is_asked_again(outside: Outside) -> None:
    known = Known()
    async with running(outside) as agent, following(agent, known):
        await add(agent, known)
        outside.faults.failing["labels"] = MasterUnavailable("no netmaster leads")
        known.relabel(app="db")
        await eventually(lambda: outside.faults.reached["labels"] > 1)
        outside.faults.failing.clear()
        await eventually(lambda: stored(outside) == {"app": "db"})


async def test_labels_that_are_refused_are_not_sent_again(outside: Outside) -> None:
    known = Known()
    async with running(outside) as agent, following(agent, known):
        await add(agent, known)
        outside.faults.failing["labels"] = Invalid("too many labels")
        known.relabel(app="db")
        await eventually(lambda: outside.faults.reached["labels"] == 1)
        known.relabel(app="db")
        await stays(lambda: outside.faults.reached["labels"] == 1)


async def test_a_pod_that_kubernetes_does_not_know_keeps_its_labels(outside: Outside) -> None:
    known = Known()
    async with running(outside) as agent, following(agent, known):
        await agent.pods.add(asking(request(), labels={"io.kubernetes.pod.uid": "other"}))
        agent.learn("k", outside.master.endpoints[key("c1")])
        known.relabel(app="db")
        await stays(lambda: outside.faults.reached["labels"] == 0)
