"""The cluster of the truth tables: three namespaces of three pods, each serving six ports.

Pods have addresses of both families.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import permutations, product
from typing import Any

from netplugin.world.kubernetes.cluster_policies import CLUSTER_POLICIES
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
    PROTOCOLS,
)
from netplugin.world.kubernetes.rules import PodAddress, PolicyNode, PolicyPod
from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster, Pod, allowed
from tests.unit.netplugin.world.kubernetes.switch import Switch

NAMES = "xyz"
PODS = "abc"
PORTS = (80, 81)
SERVED = {
    f"serve-{port}-{protocol.lower()}": (protocol, port) for port in PORTS for protocol in PROTOCOLS
}
OUTSIDE = "203.0.113.9"
OUTSIDE6 = "2001:db8::9"
SOME = ("xa", "xb", "ya", "yb", "zc")
"""Pods between which packets of IPv6 are tried; between all of them those of IPv4."""

VRF = 1


def cluster() -> KubeCluster:
    """Return the cluster without policies."""
    pods = {
        (namespace, name): new_pod(namespace, name, f"10.1.{number}.{index + 2}")
        for number, namespace in enumerate(NAMES)
        for index, name in enumerate(PODS)
    }
    return KubeCluster(
        {name: {"ns": name, "kubernetes.io/metadata.name": name} for name in NAMES}, pods
    )


def new_pod(namespace: str, name: str, address: str) -> Pod:
    """Return a pod with an IPv4 address, and the IPv6 address that goes with it."""
    return Pod(namespace, name, address, {"pod": name}, SERVED, in_ipv6(address))


def in_ipv6(text: str) -> str:
    """Return the IPv6 address or network that stands for one of IPv4: it ends in the same bits."""
    address, _, length = text.partition("/")
    mapped = str(IPv6Address("fd00:1::") + int(IPv4Address(address)))
    return f"{mapped}/{96 + int(length)}" if length else mapped


def policy(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a NetworkPolicy."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def policy_pod(pod: Pod, *, local: bool = True) -> PolicyPod:
    """Return a pod as policies see it."""
    return PolicyPod(
        namespace=pod.namespace,
        name=pod.name,
        labels=pod.labels,
        addresses=tuple(PodAddress(VRF, ip_address(at)) for at in (pod.address, pod.address6)),
        local=local,
        ports={
            name: (PROTOCOLS[protocol], number) for name, (protocol, number) in pod.ports.items()
        },
    )


def policies_of(known: KubeCluster) -> KubePolicies:
    """Return the policies of a cluster all of whose pods are on this host."""
    made = KubePolicies()
    for name, labels in known.namespaces.items():
        made.put_namespace(name, labels)
    for name, (labels, address) in known.nodes.items():
        made.put_node(name, PolicyNode(labels=labels, addresses=(ip_address(address),)))
    for pod in known.pods.values():
        made.put_pod(policy_pod(pod))
    for resource, objects in (
        (NETWORK_POLICIES, known.policies),
        (ADMIN_POLICIES, known.admin),
        (BASELINE_POLICIES, known.baseline),
        (CLUSTER_POLICIES, known.tiered),
    ):
        for one in objects:
            made.put(resource, one)
    return made


def packets(known: KubeCluster) -> Iterator[tuple[str, str, str, int]]:
    """Yield every connection between pods, to the outside and from it, at every port."""
    addresses = [pod.address for pod in known.pods.values()]
    ends = [*addresses, *(at for _, at in known.nodes.values()), OUTSIDE]
    for source, target in product(ends, ends):
        if source != target:
            for protocol, port in product(PROTOCOLS, (*PORTS, 60)):
                yield source, target, protocol, port
    some = [
        pod.address6 for (namespace, name), pod in known.pods.items() if namespace + name in SOME
    ]
    for source, target in permutations([*some, OUTSIDE6], 2):
        for protocol, port in (("TCP", 80), ("TCP", 81), ("UDP", 80)):
            yield source, target, protocol, port


def disagreements(known: KubeCluster, made: KubePolicies) -> list[tuple[str, str, str, int]]:
    """Return the connections that the entries and the oracle judge differently."""
    switch = Switch(made.entries.values(), VRF)
    return [one for one in packets(known) if switch.allows(*one) != allowed(known, *one)]
