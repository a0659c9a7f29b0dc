"""What tests of kube services share."""

from ipaddress import IPv4Address, ip_address
from typing import Any

from netplugin.world.kubernetes.kube_services import (
    KubePort,
    KubeService,
    KubeTarget,
)
from tests.bed.kubernetes import endpoints, service

KEY = "shop/web"


def said(body: dict[str, Any], name: str = "web", namespace: str = "shop") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, **body}


def ip(text: str) -> IPv4Address:
    return IPv4Address(text)


def targets(*served: tuple[str, int]) -> frozenset[KubeTarget]:
    return frozenset(KubeTarget(address=ip_address(one), port=port) for one, port in served)


WEB = said(
    service(
        "10.96.0.10",
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http", "nodePort": 30080},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    )
)


SERVING = said(
    endpoints(
        (
            ["10.1.0.1", "2001:db8::1"],
            [
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "dns", "port": 5353, "protocol": "UDP"},
                {"name": "metrics", "port": 9090, "protocol": "TCP"},
            ],
        ),
        (["10.1.0.2"], [{"name": "http", "port": 8081, "protocol": "TCP"}]),
    )
)


SERVED = KubeService(
    namespace="shop",
    name="web",
    addresses=(ip("10.96.0.10"),),
    ports=(
        KubePort(
            name="http",
            protocol="TCP",
            port=80,
            node_port=30080,
            targets=targets(("10.1.0.1", 8080), ("2001:db8::1", 8080), ("10.1.0.2", 8081)),
        ),
        KubePort(
            name="dns",
            protocol="UDP",
            port=53,
            targets=targets(("10.1.0.1", 5353), ("2001:db8::1", 5353)),
        ),
    ),
)


HTTP = {"name": "http", "port": 8080, "protocol": "TCP"}


def piece(
    name: str,
    *served: dict[str, Any],
    ports: list[dict[str, Any]] | None = None,
    family: str = "IPv4",
    of: str = "web",
) -> dict[str, Any]:
    """Return a slice of a service."""
    meta = {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": of}}
    return {
        "metadata": meta,
        "addressType": family,
        "endpoints": list(served),
        "ports": [HTTP] if ports is None else ports,
    }


def at(address: str, **conditions: bool | None) -> dict[str, Any]:
    return {"addresses": [address], "conditions": conditions}


def addresses(found: frozenset[KubeTarget]) -> set[str]:
    return {f"{one.address}:{one.port}" for one in found}
