"""Network policies of Kubernetes on real pods, in all four modes.

Between two hosts. Each check asks with new connections, since what is established stays allowed.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
)
from ofnet.tables import TableId
from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.kubernetes import ApiServer
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials
from tests.system.kube_site import api_beside, api_flags
from tests.system.planes import FWD_MODES, NETWORKS, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

OPEN, OTHER = 8080, 8081
PATIENCE = 0.7
"""Seconds that a connection may take; a policy drops, so what is denied takes that long."""

NAMESPACE = "default"
DENY: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}


@dataclass(frozen=True)
class PolicyHosts:
    """Two hosts with an API server, a server pod on the first and clients on both."""

    bed: Bed
    api: ApiServer
    has_gateway: bool
    """Whether pods have a gateway to answer their host by: on a bridged VLAN it is a machine."""

    network: str
    server: Pod
    near: Pod
    far: Pod

    def put(self, name: str, **spec: Any) -> None:
        self.api.put(NETWORK_POLICIES, NAMESPACE, name, spec=spec)

    def reached(self, port: int = OPEN) -> set[str]:
        """Return the names of the clients that connect to a port of the server."""
        clients = (self.near, self.far)
        return {one.name for one in clients if opens(one, self.server, port)}

    def becomes(self, *clients: Pod, port: int = OPEN) -> None:
        wanted = {one.name for one in clients}
        eventually(lambda: self.reached(port) == wanted, f"{wanted} connect to {port}")


@pytest.fixture(scope="module", params=product(FWD_MODES, ("dual", "v6")), ids="-".join)
def cluster(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Bed, ApiServer]]:
    """Run a cluster of two hosts beside an API server, with networks of both families or IPv6."""
    mode, family = request.param
    flags = {"netplugin": api_flags(tmp_path_factory)}
    with (
        planes(next(bed_dirs), mode, family=family, flags=flags) as bed,
        api_beside(bed, "apis/policy.networking.k8s.io/v1alpha1") as api,
    ):
        yield bed, api


@pytest.fixture(params=list(NETWORKS))
def scene(request: pytest.FixtureRequest, cluster: tuple[Bed, ApiServer]) -> Iterator[PolicyHosts]:
    """Run the pods; leave no policy and no pod."""
    bed, api = cluster
    network = request.param
    has_gateway = network == "vxlan" or bed.fwd_mode == "routing"
    one, two = bed.hosts
    made: list[Pod] = []
    with ExitStack() as stack:
        for name, host in (("server", one), ("near", one), ("far", two)):
            pod = bed.add_pod(host, name, network=network, labels={"app": name, "role": "test"})
            made.append(pod)
            stack.callback(bed.delete_pod, pod)
        server, near, far = made
        for port in (OPEN, OTHER):
            stack.enter_context(answering(server.namespace, server.address, port))
        scene = PolicyHosts(bed, api, has_gateway, network, server, near, far)
        scene.becomes(near, far)
        stack.callback(forget, api)
        yield scene


def forget(api: ApiServer) -> None:
    for resource, key in [key for key in api.objects if "networkpolic" in key[0]]:
        namespace, _, name = key.rpartition("/")
        api.delete(resource, namespace, name)


def opens(client: Pod, server: Pod, port: int = OPEN) -> bool:
    return dials(client.namespace, server.address, port, patience=PATIENCE)


def test_policies_are_enforced(scene: PolicyHosts) -> None:
    host = scene.bed.hosts[0]
    scene.put("deny", **DENY)
    scene.becomes()
    if scene.has_gateway:
        assert dials(host.namespace, scene.server.address, OPEN), "a node reaches its own pods"

    far = {"podSelector": {"matchLabels": {"app": "far"}}}
    selected = {"podSelector": {"matchLabels": {"app": "server"}}}
    scene.put("far", **selected, ingress=[{"from": [far], "ports": [{"port": OPEN}]}])
    scene.becomes(scene.far)
    assert scene.reached(OTHER) == set()

    block = {"ipBlock": {"cidr": str(ip_network(scene.near.address))}}
    scene.put(
        "block", **selected, ingress=[{"from": [block], "ports": [{"port": 8000, "endPort": 8081}]}]
    )
    scene.becomes(scene.near, scene.far)
    scene.becomes(scene.near, port=OTHER)

    out = {"podSelector": {"matchLabels": {"app": "near"}}, "policyTypes": ["Egress"]}
    scene.put("out", **out, egress=[{"ports": [{"port": OTHER}]}])
    scene.becomes(scene.far)
    scene.becomes(scene.near, port=OTHER)

    for name in ("deny", "far", "block", "out"):
        scene.api.delete(NETWORK_POLICIES, NAMESPACE, name)
    scene.becomes(scene.near, scene.far)


def test_administrators_policies_come_first_and_last(scene: PolicyHosts) -> None:
    everything: dict[str, Any] = {"namespaces": {}}
    far = {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "far"}}}}
    scene.api.put(
        BASELINE_POLICIES,
        "",
        "default",
        spec={"subject": everything, "ingress": [{"action": "Deny", "from": [everything]}]},
    )
    scene.becomes()
    scene.put("open", podSelector={}, ingress=[{}])
    scene.becomes(scene.near, scene.far)
    rules = [
        {
            "action": "Deny",
            "from": [far],
            "ports": [{"portNumber": {"protocol": "TCP", "port": OPEN}}],
        },
        {"action": "Pass", "from": [everything]},
    ]
    scene.api.put(
        ADMIN_POLICIES, "", "strict", spec={"subject": everything, "priority": 7, "ingress": rules}
    )
    scene.becomes(scene.near)
    scene.becomes(scene.near, scene.far, port=OTHER)


def test_a_new_pod_is_judged_from_its_first_packet(scene: PolicyHosts) -> None:
    bed = scene.bed
    out = {"podSelector": {"matchLabels": {"app": "new"}}, "policyTypes": ["Egress"]}
    scene.put("silent", **out)
    scene.put("other", podSelector={"matchLabels": {"app": "near"}}, policyTypes=["Egress"])
    scene.becomes(scene.far)
    for number in range(5):
        labels = {"app": "new"}
        new = bed.add_pod(bed.hosts[0], f"new{number}", network=scene.network, labels=labels)
        try:
            assert not opens(new, scene.server)
        finally:
            bed.delete_pod(new)


def test_policies_outlive_the_agent_and_the_api_server(scene: PolicyHosts) -> None:
    agent = scene.bed.agents[0]
    # A change after another, and an end as soon as it is in force: none may wait to be saved.
    open_flows = isolations(scene.bed)
    scene.put("before", **DENY)
    eventually(lambda: isolations(scene.bed) > open_flows, "a policy is in force")
    scene.api.delete(NETWORK_POLICIES, NAMESPACE, "before")
    eventually(lambda: isolations(scene.bed) == open_flows, "it is gone")
    scene.put("deny", **DENY)
    eventually(lambda: isolations(scene.bed) > open_flows, "the policy is in force")
    agent.kill()
    scene.api.failing = 503
    try:
        assert scene.reached() == set()
        agent.start()
        eventually(partial(is_ready, scene.bed), "the agent is ready")
        assert scene.reached() == set()
    finally:
        scene.api.failing = 0
    scene.api.delete(NETWORK_POLICIES, NAMESPACE, "deny")
    scene.becomes(scene.near, scene.far)


def isolations(bed: Bed) -> int:
    """Return how many flows on the server's host end what no policy of Kubernetes allows."""
    table = f"table={TableId.KUBE_INGRESS.value}"
    switch = bed.hosts[0].ovs
    return sum(len(switch.ofctl("dump-flows", one, table).splitlines()) for one in Bridge)


def is_ready(bed: Bed) -> bool:
    return bed.agents[0].log_text().count("agent ready") >= 2
