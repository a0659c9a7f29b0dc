"""Which services lead to which pods."""

from dataclasses import replace

from netplugin.world.kubernetes.kube_services import KubePort, KubeService
from netplugin.world.kubernetes.rules import PolicyPod
from netplugin.world.services_of_pods import NAME_ALONE, services_of_pods
from tests.unit.netplugin.world.services_of_pods import WEB, pod, target


def ways(service: KubeService, *pods: PolicyPod) -> list[tuple[tuple[str, ...], list[str]]]:
    found = services_of_pods([service], pods)
    return [(one.ports, [pod.name for pod in one.pods]) for one in found]


def test_pods_are_told_with_the_ports_that_lead_to_them() -> None:
    assert ways(WEB, pod(1), pod(2), pod(3)) == [
        (("TCP 80 to 8080 (node port 30080)", "UDP 53"), ["web-1"]),
        (("UDP 53",), ["web-2"]),
    ]
    (one, _) = services_of_pods([WEB], [pod(1), pod(2)])
    assert (one.service, one.addresses) == ("shop/web", ("10.96.0.1", "192.0.2.7"))


def test_a_service_that_leads_to_others_is_left_out() -> None:
    assert ways(WEB, pod(3)) == []
    # another pod with the same address, of another tenant
    assert ways(WEB, replace(pod(1), namespace="blue")) == []


def test_a_backend_without_a_name_is_whoever_has_its_address() -> None:
    port = KubePort(protocol="TCP", port=80, targets=frozenset({target(1, 80, named=False)}))
    assert ways(replace(WEB, ports=(port,)), pod(1)) == [(("TCP 80",), ["web-1"])]


def test_a_headless_service_leads_by_its_name() -> None:
    members = frozenset({target(1, 0)})
    headless = replace(WEB, addresses=(), ports=(), members=members, headless=True)
    assert ways(headless, pod(1)) == [((NAME_ALONE,), ["web-1"])]
