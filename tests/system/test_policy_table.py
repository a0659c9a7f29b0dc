"""A spread of the policies' truth tables on real pods: every pair asks, and the oracle judges.

Two hosts with pods of four namespaces, which stay; the policies are replaced from case to case.
Each connection has a port of its own, since what is established stays allowed. SCTP, which this
kernel may lack, is asked by `tests/integration/ofnet/test_network_policy.py` instead.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from netplugin.world.kubernetes.cluster_policies import CLUSTER_POLICIES
from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
)
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.kubernetes import ApiServer
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Pod, new_sandbox
from tests.bed.waiting import eventually
from tests.system.kube_site import api_beside, api_flags
from tests.system.probes import Ends, Probe, answered, serving
from tests.unit.netplugin.world.kubernetes import oracle
from tests.unit.netplugin.world.kubernetes.admin_cases import STEPS
from tests.unit.netplugin.world.kubernetes.cases import CASES
from tests.unit.netplugin.world.kubernetes.random_policies import random_cluster
from tests.unit.netplugin.world.kubernetes.world import SERVED, new_pod

pytestmark = [pytest.mark.system, pytest.mark.ovs]

SUBNETS = ("--subnet=10.1.0.0/16", "--gateway=10.1.255.254")
SUBNETS6 = ("--subnetv6=fd00:1::/64", "--gatewayv6=fd00:1::ffff:1")
PODS = {"xa": "10.1.0.2", "xb": "10.1.0.3", "ya": "10.1.1.2", "yb": "10.1.1.3", "za": "10.1.2.2"}
PODS |= {"wa": "10.1.3.2"}
PORTS = (80, 81)
NAMED = {**SERVED, "web": ("TCP", 80), "dns": ("UDP", 81)}
PATIENCE = 2.0
"""Seconds in which what is allowed is answered; if not, all is asked again."""

EVERY = {"peers": 7, "ports": 6, "target": 2, "rules": 1, "conflict": 4, "ipv6": 2, "upstream": 3}
"""Of each group of cases every so many-th."""
SEEDS = range(6)


def _spread() -> Iterator[str]:
    for group, step in EVERY.items():
        yield from [name for name in CASES if name.startswith(group)][::step]


_TOGETHER = ("priority", "what", "an administrator")
_ALONE = [name for name in STEPS if "SCTP" not in name and not name.startswith(_TOGETHER)]
ADMIN = [*_ALONE[::6], *[name for name in STEPS if name.startswith(_TOGETHER)][::2]]
"""Half of the steps in the words of v1alpha1, half in those of v1alpha2."""


@dataclass(frozen=True)
class PolicyTable:
    """The API server, and the cluster as the oracle sees it."""

    api: ApiServer
    known: oracle.KubeCluster
    pods: dict[str, Ends]

    def has(self, other: oracle.KubeCluster) -> None:
        """Have the policies of another cluster and no others; see that packets obey."""
        now = {
            NETWORK_POLICIES: other.policies,
            ADMIN_POLICIES: other.admin,
            BASELINE_POLICIES: other.baseline,
            CLUSTER_POLICIES: other.tiered,
        }
        keys = set()
        for resource, policies in now.items():
            for one in policies:
                meta = one["metadata"]
                namespace, name = meta.get("namespace", ""), meta["name"]
                self.api.put(resource, namespace, name, spec=one["spec"])
                keys.add((resource, f"{namespace}/{name}" if namespace else name))
        for resource, key in self.api.objects:
            if resource in now and (resource, key) not in keys:
                self.api.delete(resource, *_parted(key))
        wanted = replace(
            self.known,
            policies=other.policies,
            admin=other.admin,
            baseline=other.baseline,
            tiered=other.tiered,
        )
        self.obeys(wanted)

    def obeys(self, wanted: oracle.KubeCluster) -> None:
        """Wait until exactly what the oracle allows is answered."""
        probes = [
            Probe(source, target, family, protocol, port)
            for source, target in permutations(PODS, 2)
            for family, protocol in ((4, "TCP"), (4, "UDP"), (6, "TCP"))
            for port in PORTS
        ]
        expected = {probe for probe in probes if self._allowed(wanted, probe)}
        last: list[Probe] = []

        def same() -> bool:
            last[:] = sorted(answered(self.pods, probes, expected, PATIENCE) ^ expected)
            return not last

        try:
            eventually(same, "policies are obeyed")
        except TimeoutError as exc:
            lines = [f"{'denied' if one in expected else 'allowed'} {one}" for one in last]
            raise AssertionError("\n".join(["wrongly:", *lines])) from exc

    def _allowed(self, wanted: oracle.KubeCluster, probe: Probe) -> bool:
        ends = (self.pods[end].addresses[probe.family] for end in (probe.source, probe.target))
        source, target = ends
        return oracle.allowed(wanted, source, target, probe.protocol, probe.port)


def _parted(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name


@pytest.fixture(scope="module")
def table(
    bed_dirs: Iterator[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PolicyTable]:
    """Run two hosts, an API server and the pods."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, 2, flags={"netplugin": api_flags(tmp_path_factory)})
    with ExitStack() as stack:
        bed.start()
        stack.callback(bed.stop)
        served = [f"apis/policy.networking.k8s.io/{one}" for one in ("v1alpha1", "v1alpha2")]
        api = stack.enter_context(api_beside(bed, *served))
        bed.netctl("net", "create", *SUBNETS, *SUBNETS6, "default-net")
        known, pods = oracle.KubeCluster({}, {}), {}
        for number, (name, address) in enumerate(PODS.items()):
            pod = _pod(name, address)
            known.pods[pod.namespace, pod.name] = pod
            known.namespaces[pod.namespace] = _labels(pod.namespace)
            added = _added(bed, api, bed.hosts[number % 2], pod)
            stack.callback(bed.runtime.delete, added)
            pods[name] = Ends(added.namespace, {4: pod.address, 6: pod.address6})
        stack.enter_context(serving([pod.namespace for pod in pods.values()], PORTS))
        table = PolicyTable(api, known, pods)
        table.obeys(known)
        yield table


def _labels(namespace: str) -> dict[str, str]:
    return {"ns": namespace, "kubernetes.io/metadata.name": namespace}


def _pod(name: str, address: str) -> oracle.Pod:
    pod = new_pod(name[0], name[1], address)
    return replace(pod, labels={"pod": pod.name, "house": pod.namespace}, ports=NAMED)


def _added(bed: Bed, api: ApiServer, host: Host, pod: oracle.Pod) -> Pod:
    sandbox = new_sandbox(
        pod.name,
        Namespace(fresh_name(f"{pod.namespace}{pod.name}")),
        kube_namespace=pod.namespace,
    )
    api.put("namespaces", "", pod.namespace, metadata={"labels": _labels(pod.namespace)})
    ports = [
        {"name": name, "protocol": protocol, "containerPort": port}
        for name, (protocol, port) in pod.ports.items()
    ]
    api.put(
        "pods",
        pod.namespace,
        pod.name,
        metadata={"uid": sandbox.uid, "labels": dict(pod.labels)},
        spec={"nodeName": host.label, "containers": [{"ports": ports}]},
    )
    asked: dict[str, Any] = {"ips": [pod.address, pod.address6]}
    return bed.runtime.add(host, bed.conf(host) | {"runtimeConfig": asked}, sandbox)


def test_the_spread_is_wide_enough() -> None:
    assert len(list(_spread())) + len(ADMIN) + len(SEEDS) >= 60


@pytest.mark.parametrize("name", list(_spread()))
def test_network_policies(table: PolicyTable, name: str) -> None:
    table.has(replace(table.known, policies=CASES[name]))


@pytest.mark.parametrize("name", ADMIN)
def test_administrators_policies(table: PolicyTable, name: str) -> None:
    step = STEPS[name]
    table.has(
        replace(
            table.known,
            policies=[*step.policies],
            admin=[*step.admin],
            baseline=[*step.baseline],
            tiered=[*step.tiered],
        )
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_random_policies(table: PolicyTable, seed: int) -> None:
    table.has(random_cluster(seed))
