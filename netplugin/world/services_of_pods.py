"""Which services of Kubernetes lead to which pods, and by which ports. Pure.

In come the services as the switches have them (`netplugin.world.services.bridge_services`) and the
pods of this host; `netplugin.diagnostics.kubernetes_rules` reports what comes out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from netplugin.world.kubernetes.kube_services import KubeService, KubeTarget
from netplugin.world.kubernetes.rules import PolicyPod

NAME_ALONE: Final = "by name alone"
"""The way to the pods of a headless service: its name has their addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOfPods:
    """A service, the addresses it has, and the pods to which the same of its ports lead."""

    service: str
    addresses: tuple[str, ...]
    ports: tuple[str, ...]
    """`TCP 80 to 8080`, with `(node port 30080)` where it has one."""
    pods: tuple[PolicyPod, ...]


def services_of_pods(
    services: Iterable[KubeService], pods: Iterable[PolicyPod]
) -> Iterator[ServiceOfPods]:
    """Yield the services that lead to some of these pods: one item for all that it leads to alike.

    A backend is the pod that Kubernetes names; one without a name is whoever has its address.
    """
    by_key = {pod.key: pod for pod in pods}
    by_address = {str(one.address): pod.key for pod in by_key.values() for one in pod.addresses}

    def held(target: KubeTarget) -> str:
        return target.pod or by_address.get(str(target.address), "")

    for service in sorted(services, key=lambda one: one.key):
        ways: dict[str, dict[str, None]] = {}
        for port in service.ports:
            node = f" (node port {port.node_port})" if port.node_port else ""
            for target in port.targets:
                to = "" if target.port == port.port else f" to {target.port}"
                way = f"{port.protocol} {port.port}{to}{node}"
                ways.setdefault(held(target), {})[way] = None
        for member in service.members:
            ways.setdefault(held(member), {}).setdefault(NAME_ALONE)
        alike: dict[tuple[str, ...], list[PolicyPod]] = {}
        for key in sorted(ways.keys() & by_key.keys()):
            alike.setdefault(tuple(ways[key]), []).append(by_key[key])
        outside = (*service.external_ips, *service.load_balancer_ips)
        addresses = tuple(dict.fromkeys(map(str, (*service.addresses, *outside))))
        for ports, found in alike.items():
            yield ServiceOfPods(
                service=service.key, addresses=addresses, ports=ports, pods=tuple(found)
            )
