"""Where the labels of pods and namespaces place the pods of ADDs."""

import asyncio
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from core.errors import Invalid, OrchestratorUnavailable
from core.ids import GroupName, NetworkName, TenantName
from netplugin.cni.request import PodRequest
from netplugin.kube.api import KubeApi
from netplugin.kube.api_access import KubeAccess
from netplugin.kube.pods import PodHandler, PodPlacement
from netplugin.kube.resources import NAMESPACES, Resource, pods_of
from netplugin.world.kubernetes.kube_objects import KubeObject
from tests.bed.kubernetes import pod
from tests.unit.netplugin.records import asking, interface

PODS = pods_of("n1")
REQUEST = PodRequest(
    spec=interface(network="default-net"),
    pod_name="web-1",
    namespace="shop",
    cni_version="1.0.0",
    pod_uid="u1",
)


class Server(KubeApi):
    """Answers for single objects, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(KubeAccess(servers=("http://192.0.2.1",)))
        self.objects: dict[str, KubeObject | OrchestratorUnavailable] = {}
        self.asked: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> KubeObject | None:
        key = f"{resource.name} {namespace}/{name}"
        self.asked.append(key)
        found = self.objects.get(key)
        if isinstance(found, OrchestratorUnavailable):
            raise found
        return found


def said(name: str, body: dict[str, Any], namespace: str = "shop") -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {**body, "metadata": {**meta, **body["metadata"]}}


def named(labels: dict[str, str]) -> dict[str, str]:
    """Return labels by their names, from words: _ stands for a dot, __ for a hyphen."""
    return {name.replace("__", "-").replace("_", "."): value for name, value in labels.items()}


def web(uid: str = "u1", **labels: str) -> dict[str, Any]:
    return said("web-1", pod("n1", uid, named(labels)))


def shop(**labels: str) -> dict[str, Any]:
    return said("shop", pod("", "", named(labels)), namespace="")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def known() -> PodHandler:
    return PodHandler()


def placement(server: Server, known: PodHandler, wait: float = 0.01) -> PodPlacement:
    return PodPlacement(server, PODS, known, wait)


@pytest.mark.parametrize(
    ("of_pod", "of_namespace", "place"),
    [
        ({}, {}, ("conf-t", "conf-n", "conf-g")),
        ({"io_contiv_tenant": "blue"}, {}, ("blue", "conf-n", "conf-g")),
        (
            {"io_contiv_tenant": "blue", "io_contiv_network": "n2", "io_contiv_net__group": "web"},
            {"io_contiv_tenant": "red", "io_contiv_network": "n3", "io_contiv_net__group": "db"},
            ("red", "n2", "web"),
        ),
        ({"io_contiv_tenant": "blue"}, {"io_contiv_tenant": ""}, ("blue", "conf-n", "conf-g")),
        (
            {"io_contiv_network": "n2", "io_contiv_tenant": ""},
            {"io_contiv_tenant": "red"},
            ("red", "n2", "conf-g"),
        ),
    ],
)
async def test_each_label_counts_by_itself(
    server: Server,
    known: PodHandler,
    of_pod: dict[str, str],
    of_namespace: dict[str, str],
    place: tuple[str, str, str],
) -> None:
    known.put("pods", web(**of_pod))
    known.put("namespaces", shop(**of_namespace))
    asked = asking(
        REQUEST,
        tenant=TenantName("conf-t"),
        network=NetworkName("conf-n"),
        group=GroupName("conf-g"),
    )
    found = await placement(server, known).place(asked)
    assert (found.spec.tenant, found.spec.network, found.spec.group) == place
    assert server.asked == []


async def test_a_pod_chooses_no_tenant_where_that_is_forbidden(
    server: Server, known: PodHandler, caplog: pytest.LogCaptureFixture
) -> None:
    known.put("pods", web(io_contiv_tenant="blue", io_contiv_network="n2"))
    known.put("namespaces", shop())
    pods = PodPlacement(server, PODS, known, 0.01, tenant_by_pod=False)
    found = await pods.place(REQUEST)
    assert (found.spec.tenant, found.spec.network) == ("default", "n2")
    assert "pod asks for a tenant that its namespace has not" in caplog.text
    known.put("namespaces", shop(io_contiv_tenant="red"))
    assert (await pods.place(REQUEST)).spec.tenant == "red"


async def test_annotations_ask_where_the_runtime_does_not(
    server: Server, known: PodHandler
) -> None:
    wishes = {
        "io.contiv.ip": "10.1.1.7",
        "io.contiv.ip6": "2001:db8::7",
        "io.contiv.mac": "52:54:00:12:34:56",
        "io.contiv.sticky": "true",
    }
    known.put("pods", said("web-1", pod("n1", "u1", annotations=wishes)))
    known.put("namespaces", shop())
    found = await placement(server, known).place(REQUEST)
    assert (str(found.ipv4), str(found.ipv6)) == ("10.1.1.7", "2001:db8::7")
    assert (found.spec.mac, found.spec.keep) == ("52:54:00:12:34:56", "shop/web-1")
    asked = replace(asking(REQUEST, mac="02:aa:00:00:00:01"), ipv4=IPv4Address("10.1.1.9"))
    found = await placement(server, known).place(asked)
    assert (str(found.ipv4), found.spec.mac) == ("10.1.1.9", "02:aa:00:00:00:01")
    further = asking(REQUEST, ifname="net1", endpoint="c1@net1")
    found = await placement(server, known).place(further)
    assert (found.ipv4, found.spec.mac, found.spec.keep) == (None, "", "")
    known.put("pods", said("web-1", pod("n1", "u1", annotations={"io.contiv.ip": "x"})))
    with pytest.raises(Invalid, match=r"pod shop/web-1: annotation io\.contiv\.ip"):
        await placement(server, known).place(REQUEST)


async def test_the_endpoint_has_the_pods_labels_and_its_name(
    server: Server, known: PodHandler
) -> None:
    known.put("pods", web(app="web"))
    known.put("namespaces", shop(team="a"))
    found = await placement(server, known).place(REQUEST)
    assert found.spec.labels == {
        "app": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.name": "web-1",
        "io.kubernetes.pod.uid": "u1",
    }


async def test_a_further_interface_is_placed_by_its_configuration(
    server: Server, known: PodHandler
) -> None:
    known.put("pods", web(io_contiv_tenant="blue", io_contiv_network="n2", app="web"))
    known.put("namespaces", shop(io_contiv_net__group="db"))
    asked = asking(REQUEST, ifname="net1", network=NetworkName("conf-n"))
    found = await placement(server, known).place(asked)
    assert (found.spec.tenant, found.spec.network, found.spec.group) == (
        REQUEST.spec.tenant,
        "conf-n",
        REQUEST.spec.group,
    )
    assert found.spec.labels["app"] == "web"


async def test_a_request_without_a_pod_is_as_it_is(server: Server, known: PodHandler) -> None:
    asked = replace(REQUEST, namespace="")
    assert await placement(server, known).place(asked) is asked


async def test_the_watch_is_waited_for(server: Server, known: PodHandler) -> None:
    async with asyncio.TaskGroup() as group:
        placing = group.create_task(placement(server, known, wait=60).place(REQUEST))
        await asyncio.sleep(0)
        known.put("namespaces", shop())
        await asyncio.sleep(0)
        assert not placing.done()
        known.put("pods", web(io_contiv_tenant="blue"))
    assert placing.result().spec.tenant == "blue"
    assert server.asked == []


async def test_the_server_is_asked_for_what_no_watch_told(
    server: Server, known: PodHandler
) -> None:
    server.objects["pods shop/web-1"] = web(io_contiv_tenant="blue")
    server.objects["namespaces /shop"] = shop(io_contiv_network="n2")
    found = await placement(server, known).place(REQUEST)
    assert (found.spec.tenant, found.spec.network) == ("blue", "n2")
    assert server.asked == ["pods shop/web-1", "namespaces /shop"]


async def test_no_pod_gets_the_labels_of_an_earlier_one_of_its_name(
    server: Server, known: PodHandler
) -> None:
    known.put("pods", web("u0", io_contiv_tenant="red"))
    known.put("namespaces", shop())
    server.objects["pods shop/web-1"] = web("u1", io_contiv_tenant="blue")
    assert (await placement(server, known).place(REQUEST)).spec.tenant == "blue"
    server.objects["pods shop/web-1"] = web("u0")
    with pytest.raises(OrchestratorUnavailable, match="has UID u0 in Kubernetes and u1 here"):
        await placement(server, known).place(REQUEST)


async def test_without_a_uid_the_server_says_which_pod_it_is(
    server: Server, known: PodHandler
) -> None:
    known.put("pods", web("u0", io_contiv_tenant="red"))
    known.put("namespaces", shop())
    server.objects["pods shop/web-1"] = web("u1", io_contiv_tenant="blue")
    found = await placement(server, known, wait=60).place(replace(REQUEST, pod_uid=""))
    assert found.spec.tenant == "blue"


async def test_a_static_pod_is_known_by_the_uid_of_its_mirror(
    server: Server, known: PodHandler
) -> None:
    mirror = web("u0", io_contiv_tenant="blue")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "u1", "other": "x"}
    known.put("pods", PODS.reduced(mirror))
    known.put("namespaces", shop())
    assert (await placement(server, known).place(REQUEST)).spec.tenant == "blue"


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ({}, "pod shop/web-1 does not exist in Kubernetes, or not yet"),
        ({"pods shop/web-1": web()}, "namespace shop does not exist"),
        ({"pods shop/web-1": OrchestratorUnavailable("refused")}, "refused"),
    ],
)
async def test_an_add_is_to_be_tried_later(
    server: Server, known: PodHandler, objects: dict[str, Any], text: str
) -> None:
    server.objects = objects
    with pytest.raises(OrchestratorUnavailable, match=text):
        await placement(server, known).place(REQUEST)


def test_pods_come_and_go(known: PodHandler) -> None:
    changed = known.changed()
    known.put("pods", web())
    assert changed.is_set()
    known.put("namespaces", shop(a="b"))
    assert known.pod("shop/web-1", "u1") is not None
    assert known.namespace("shop") == {"a": "b"}
    known.retain("pods", {"shop/web-1"})
    known.retain("namespaces", ())
    assert known.pod("shop/web-1", "u1") is not None
    assert known.namespace("shop") is None
    known.remove("pods", "shop/web-1")
    known.remove("pods", "shop/web-1")
    assert known.pod("shop/web-1", "u1") is None
    with pytest.raises(Invalid, match="shop/web-1"):
        known.put("pods", said("web-1", {"metadata": {}}))


def test_of_a_pod_no_secret_is_kept() -> None:
    http = {"name": "http", "containerPort": 80}
    containers = [{"env": [{"value": "secret"}], "ports": [http]}]
    whole = {**web(app="a"), "spec": {"containers": containers, "nodeName": "n"}}
    assert PODS.reduced(whole) == {
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1", "labels": {"app": "a"}},
        "spec": {"containers": [{"ports": [http]}]},
    }
    assert NAMESPACES.reduced({}) == {"metadata": {}}
