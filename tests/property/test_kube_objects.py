"""Objects of Kubernetes with wrong parts cost themselves alone.

Objects that a real API server answered, and some with more fields, get random values of JSON at
random places. Each is given to the feed of an agent between good ones.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netplugin.kube.api import KubeApi, KubeList
from netplugin.kube.api_access import KubeAccess
from netplugin.kube.cache import KubeCache
from netplugin.kube.feed import FanOut, KubeFeed, KubeHandler
from netplugin.kube.pods import PodHandler
from netplugin.kube.policy_peers import PeerHandler
from netplugin.kube.resources import (
    ENDPOINTS,
    NAMESPACES,
    NODES,
    POLICIES,
    SERVICES,
    SLICES,
    Resource,
    pods_of,
)
from netplugin.kube.services import ServiceHandler
from netplugin.world.builder import WorldBuilder
from ofnet.world import FwdMode
from tests.unit.netplugin.records import HOST
from tests.unit.netplugin.world.kube_services import SERVING, WEB, said

OTHER: Final = {**WEB, "metadata": {"name": "other", "namespace": "shop"}}
RECORDED: Final = Path(__file__).parents[1] / "golden" / "kube" / "apiserver.jsonl"
PODS: Final = pods_of("n1")
RESOURCES: Final = {
    one.name: one for one in (SERVICES, ENDPOINTS, SLICES, NAMESPACES, NODES, PODS, *POLICIES)
}
FULL_SERVICE: Final = said(
    {
        "spec": {
            "type": "LoadBalancer",
            "clusterIP": "10.96.0.7",
            "clusterIPs": ["10.96.0.7", "fd00::7"],
            "externalIPs": ["192.0.2.7"],
            "externalTrafficPolicy": "Local",
            "internalTrafficPolicy": "Cluster",
            "healthCheckNodePort": 30007,
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            "publishNotReadyAddresses": False,
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [{"name": "a", "port": 80, "nodePort": 30080, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ipMode": "VIP"}]}},
    },
    "full",
)
FULL_POLICY: Final = {
    "metadata": {"name": "admin"},
    "spec": {
        "priority": 1,
        "subject": {"namespaces": {"matchLabels": {"a": "b"}}},
        "ingress": [
            {
                "action": "Deny",
                "from": [{"pods": {"namespaceSelector": {}, "podSelector": {}}}],
                "ports": [{"portRange": {"start": 1, "end": 9}}],
            }
        ],
        "egress": [{"action": "Allow", "to": [{"networks": ["10.0.0.0/8"]}]}],
    },
}
FULL_NODE: Final = {
    "metadata": {"name": "n9", "labels": {"kubernetes.io/hostname": "n9"}},
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
}


def recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object of the recording, with its resource."""
    for line in RECORDED.read_text().splitlines()[1:]:
        call = json.loads(line)
        resource = call["path"].rpartition("/")[2]
        body = call.get("body")
        found = list(body.get("items") or ()) if isinstance(body, dict) else []
        for event in call.get("lines") or ():
            read = json.loads(event) if isinstance(event, str) else event
            if read.get("type") in {"ADDED", "MODIFIED"}:
                found.append(read["object"])
        for one in found:
            if resource in RESOURCES:
                yield resource, one


SEEDS: Final = [
    *recorded(),
    ("services", FULL_SERVICE),
    ("endpoints", SERVING),
    ("nodes", FULL_NODE),
    ("adminnetworkpolicies", FULL_POLICY),
    ("baselineadminnetworkpolicies", FULL_POLICY),
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**40, -1, 65536, 1e308, float("inf"), float("nan"), 0]),
    st.text(max_size=8),
    st.sampled_from(
        ["", "None", "\ud800", "a/b", "10.0.0.1", "010.001.0.1", "::1%lo", "1.2.3.4/33", "x" * 5000]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each part of an object."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from places(one, (*path, at))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    resource, seed = draw(st.sampled_from(SEEDS))
    one = deepcopy(seed)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(list(places(one))))
        within: Any = one
        for step in way:
            within = within[step]
        if draw(st.booleans()):
            within[last] = draw(values)
        elif isinstance(within, dict) and len(one) > 1:
            del within[last]
    return resource, one


def feed_of(world: WorldBuilder, directory: Path) -> KubeFeed:
    services, pods = ServiceHandler(world), PodHandler()
    peers = PeerHandler(world.pod_policies)
    followed: Mapping[Resource, KubeHandler] = {
        SERVICES: services,
        SLICES: services,
        PODS: pods,
        NAMESPACES: FanOut((pods, peers)),
        NODES: peers,
        **dict.fromkeys(POLICIES, world.pod_policies),
    }
    api = KubeApi(KubeAccess(servers=("http://192.0.2.1",)))
    return KubeFeed(api, KubeCache(directory), followed, lambda: 0.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
@given(st.lists(mutated(), min_size=1, max_size=3))
def test_an_object_of_wrong_parts_costs_itself_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: list[tuple[str, dict[str, Any]]]
) -> None:
    caplog.clear()
    world = WorldBuilder(HOST, FwdMode.ROUTING)
    feed = feed_of(world, tmp_path)
    with caplog.at_level(logging.WARNING):
        for resource, one in broken:
            objects = (WEB, one, OTHER) if resource == "services" else (one,)
            root = SLICES if resource == ENDPOINTS.name else RESOURCES[resource]
            feed.apply(root, KubeList(RESOURCES[resource], "7", objects))
        feed.apply(SERVICES, KubeList(SERVICES, "8", (WEB, OTHER)))
    assert {"shop/web", "shop/other"} <= world.services.kube.keys()
    assert "not understood" not in caplog.text, caplog.records[-1].exc_info
