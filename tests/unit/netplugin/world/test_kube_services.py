"""Services of Kubernetes, from what its API server says of them."""

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from core.errors import Invalid
from netplugin.world.kube_services import (
    ENDPOINTS,
    SERVICES,
    KubePort,
    KubeService,
    KubeServices,
    key_of,
)
from tests.bed.kubernetes import endpoints, service

KEY = "shop/web"


def said(body: dict[str, Any], name: str = "web", namespace: str = "shop") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, **body}


def ip(text: str) -> IPv4Address:
    return IPv4Address(text)


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
    address=ip("10.96.0.10"),
    ports=(
        KubePort(
            protocol="TCP",
            port=80,
            node_port=30080,
            targets=frozenset({(ip("10.1.0.1"), 8080), (ip("10.1.0.2"), 8081)}),
        ),
        KubePort(protocol="UDP", port=53, targets=frozenset({(ip("10.1.0.1"), 5353)})),
    ),
)


def test_a_named_port_is_served_where_the_endpoints_say() -> None:
    for order in ((SERVICES, ENDPOINTS), (ENDPOINTS, SERVICES)):
        book = KubeServices()
        for resource in order:
            book.put(resource, WEB if resource == SERVICES else SERVING)
        assert book.services == {KEY: SERVED}


def test_a_change_says_which_service_it_alters() -> None:
    book = KubeServices()
    assert book.put(ENDPOINTS, SERVING) == set(), "nobody's yet"
    assert book.put(SERVICES, WEB) == {KEY}
    assert book.put(SERVICES, WEB) == set()
    assert book.put(ENDPOINTS, SERVING) == set()
    assert book.put(ENDPOINTS, said(endpoints())) == {KEY}
    assert book.remove(SERVICES, KEY) == {KEY}
    assert book.remove(SERVICES, KEY) == set()
    assert book.services == {}


@pytest.mark.parametrize(
    "nobody",
    [
        {},
        {"subsets": None},
        {"subsets": []},
        {"subsets": [{"notReadyAddresses": [{"ip": "10.1.0.1"}], "ports": [{"port": 8080}]}]},
    ],
)
def test_a_service_that_nobody_serves_any_more_has_no_targets(nobody: dict[str, Any]) -> None:
    book = KubeServices()
    book.put(SERVICES, WEB)
    book.put(ENDPOINTS, SERVING)
    book.put(ENDPOINTS, said(nobody))
    assert not any(port.targets for port in book.services[KEY].ports)


def test_endpoints_that_are_gone_serve_nobody() -> None:
    book = KubeServices()
    book.put(SERVICES, WEB)
    book.put(ENDPOINTS, SERVING)
    assert book.remove(ENDPOINTS, KEY) == {KEY}
    assert not any(port.targets for port in book.services[KEY].ports)


def test_services_of_one_name_are_told_apart_by_namespace() -> None:
    book = KubeServices()
    other = said(service("10.96.0.11", {"port": 80}), namespace="blog")
    book.put(SERVICES, WEB)
    book.put(SERVICES, other)
    book.put(ENDPOINTS, SERVING)
    assert book.services[KEY] == SERVED
    (port,) = book.services["blog/web"].ports
    assert (port.protocol, port.port, port.node_port, port.targets) == ("TCP", 80, 0, frozenset())


@pytest.mark.parametrize(
    ("spec", "four", "six"),
    [
        ({"clusterIP": "None", "clusterIPs": ["None"]}, None, None),
        ({"clusterIP": ""}, None, None),
        ({"clusterIP": None, "clusterIPs": None, "ports": None}, None, None),
        ({"type": "ExternalName", "externalName": "contiv.example"}, None, None),
        ({"clusterIP": "10.96.0.9"}, "10.96.0.9", None),
        ({"clusterIP": "fd00::9", "clusterIPs": ["fd00::9", "10.96.0.9"]}, "10.96.0.9", "fd00::9"),
    ],
)
def test_addresses(spec: dict[str, Any], four: str | None, six: str | None) -> None:
    book = KubeServices()
    book.put(SERVICES, said({"spec": spec}))
    found = book.services[KEY]
    assert found.address == (four and ip(four))
    assert found.address6 == (six and IPv6Address(six))


def test_what_is_not_listed_is_forgotten() -> None:
    book = KubeServices()
    book.put(SERVICES, WEB)
    book.put(SERVICES, said(service("10.96.0.12"), "db"))
    book.put(ENDPOINTS, SERVING)
    assert book.retain(SERVICES, {KEY}) == {"shop/db"}
    assert book.retain(ENDPOINTS, set()) == {KEY}
    assert book.services.keys() == {KEY}


@pytest.mark.parametrize(
    ("resource", "bad"),
    [
        (SERVICES, {}),
        (SERVICES, {"metadata": "x"}),
        (SERVICES, said(service("10.96"))),
        (SERVICES, said(service("10.96.0.1", {"port": 0}))),
        (SERVICES, said(service("10.96.0.1", {"port": 80, "nodePort": 65536}))),
        (ENDPOINTS, said(endpoints((["10.1"], [{"port": 1}])))),
    ],
)
def test_what_cannot_be_read_changes_nothing(resource: str, bad: dict[str, Any]) -> None:
    book = KubeServices()
    book.put(SERVICES, WEB)
    book.put(ENDPOINTS, SERVING)
    with pytest.raises(Invalid, match=key_of(bad)):
        book.put(resource, bad)
    assert book.services == {KEY: SERVED}
