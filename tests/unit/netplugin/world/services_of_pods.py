"""A service of Kubernetes and pods that it may lead to."""

from ipaddress import ip_address

from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.kubernetes.rules import PodAddress, PolicyPod


def pod(number: int) -> PolicyPod:
    address = PodAddress(1, ip_address(f"10.1.1.{number}"))
    return PolicyPod(namespace="shop", name=f"web-{number}", labels={}, addresses=(address,))


def target(number: int, port: int = 8080, *, named: bool = True) -> KubeTarget:
    pod_name = f"shop/web-{number}" if named else ""
    return KubeTarget(address=ip_address(f"10.1.1.{number}"), port=port, pod=pod_name)


WEB = KubeService(
    namespace="shop",
    name="web",
    addresses=(ip_address("10.96.0.1"),),
    external_ips=(ip_address("192.0.2.7"),),
    ports=(
        KubePort(protocol="TCP", port=80, node_port=30080, targets=frozenset({target(1)})),
        KubePort(protocol="UDP", port=53, targets=frozenset({target(1, 53), target(2, 53)})),
    ),
)
