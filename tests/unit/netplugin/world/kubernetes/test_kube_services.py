"""Services of Kubernetes, from what its API server says of them."""

from typing import Any

import pytest

from core.errors import Invalid
from netplugin.world.kubernetes.kube_objects import key_of
from netplugin.world.kubernetes.kube_services import (
    ENDPOINTS,
    SERVICES,
    SLICES,
    KubePort,
    KubeService,
    KubeServices,
    KubeTarget,
)
from tests.bed.kubernetes import endpoints, service
from tests.unit.netplugin.world.kube_services import (
    HTTP,
    KEY,
    SERVED,
    SERVING,
    WEB,
    addresses,
    at,
    ip,
    piece,
    said,
    targets,
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
    ("spec", "addresses", "headless"),
    [
        ({"clusterIP": "None", "clusterIPs": ["None"]}, [], True),
        ({"clusterIP": "None"}, [], True),
        ({"clusterIP": ""}, [], False),
        ({"clusterIP": None, "clusterIPs": None, "ports": None}, [], False),
        ({"type": "ExternalName", "externalName": "contiv.example"}, [], False),
        ({"clusterIP": "10.96.0.9"}, ["10.96.0.9"], False),
        (
            {"clusterIP": "fd00::9", "clusterIPs": ["fd00::9", "10.96.0.9"]},
            ["fd00::9", "10.96.0.9"],
            False,
        ),
    ],
)
def test_addresses(spec: dict[str, Any], addresses: list[str], headless: bool) -> None:
    found = read({"spec": spec})
    assert [str(one) for one in found.addresses] == addresses
    assert found.headless == headless


def read(body: dict[str, Any]) -> KubeService:
    """Return the service of one object, without endpoints."""
    book = KubeServices()
    book.put(SERVICES, said(body))
    return book.services[KEY]


def test_a_service_says_from_where_and_how_it_is_reached() -> None:
    found = read(
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.96.0.9",
                "externalIPs": ["192.0.2.7"],
                "externalTrafficPolicy": "Local",
                "internalTrafficPolicy": "Local",
                "healthCheckNodePort": 30123,
                "publishNotReadyAddresses": True,
            },
            "status": {
                "loadBalancer": {
                    "ingress": [
                        {"ip": "198.51.100.1"},
                        {"ip": "198.51.100.2", "ipMode": "Proxy"},
                        {"ip": "198.51.100.3", "ipMode": "VIP"},
                        {"hostname": "balancer.example"},
                        {"ip": "", "hostname": "balancer.example"},
                    ]
                }
            },
        }
    )
    assert found == KubeService(
        namespace="shop",
        name="web",
        addresses=(ip("10.96.0.9"),),
        external_ips=(ip("192.0.2.7"),),
        load_balancer_ips=(ip("198.51.100.1"), ip("198.51.100.3")),
        external_local=True,
        internal_local=True,
        health_check_node_port=30123,
        publish_not_ready=True,
    )


def test_only_a_service_of_its_type_has_an_external_name() -> None:
    spec = {"externalName": "contiv.example"}
    assert read({"spec": {**spec, "type": "ExternalName"}}).external_name == "contiv.example"
    assert read({"spec": {**spec, "type": "ClusterIP"}}).external_name == ""


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 0),
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "None", "sessionAffinityConfig": {"clientIP": {}}}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": None}, 10800),
        (
            {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            },
            60,
        ),
    ],
)
def test_session_affinity(spec: dict[str, Any], seconds: int) -> None:
    assert read({"spec": spec}).affinity_seconds == seconds


def test_a_target_says_where_it_runs() -> None:
    pod = {"kind": "Pod", "namespace": "shop", "name": "web-1"}
    node = {"kind": "Node", "name": "n1"}
    addresses = [
        {"ip": "10.1.0.1", "nodeName": "n1", "targetRef": pod},
        {"ip": "10.1.0.2", "targetRef": node},
    ]
    book = KubeServices()
    book.put(SERVICES, said(service("10.96.0.10", {"port": 80})))
    book.put(ENDPOINTS, said({"subsets": [{"addresses": addresses, "ports": [{"port": 8080}]}]}))
    (port,) = book.services[KEY].ports
    assert port.targets == {
        KubeTarget(address=ip("10.1.0.1"), port=8080, node="n1", pod="shop/web-1"),
        KubeTarget(address=ip("10.1.0.2"), port=8080),
    }


def test_a_port_is_served_by_targets_of_its_protocol() -> None:
    both = ({"name": "dns", "port": 53, "protocol": one} for one in ("TCP", "UDP"))
    book = KubeServices()
    book.put(SERVICES, said(service("10.96.0.10", *both)))
    served = [{"name": "dns", "port": 5353, "protocol": "UDP"}]
    book.put(ENDPOINTS, said(endpoints((["10.1.0.1"], served))))
    tcp, udp = book.services[KEY].ports
    assert (tcp.targets, udp.targets) == (frozenset(), targets(("10.1.0.1", 5353)))


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


# -- EndpointSlices --------------------------------------------------------------------------------

POD = {"kind": "Pod", "namespace": "shop", "name": "web-1"}


def of_slices(*pieces: dict[str, Any], service_port: str = "http") -> KubePort:
    """Return the one port of a service that has these slices."""
    book = KubeServices()
    book.put(SERVICES, said(service("10.96.0.10", {"name": service_port, "port": 80})))
    for one in pieces:
        book.put(SLICES, one)
    (port,) = book.services[KEY].ports
    return port


def test_slices_of_a_service_add_up_with_a_target_port_each() -> None:
    port = of_slices(
        piece("web-a", at("10.1.0.1")),
        piece("web-b", at("10.1.0.2"), ports=[{**HTTP, "port": 8081}]),
        piece("web-6", at("fd00::1"), family="IPv6"),
        piece("db-a", at("10.1.0.9"), of="db"),
        piece("web-f", at("web.example"), family="FQDN"),
    )
    assert addresses(port.targets) == {"10.1.0.1:8080", "10.1.0.2:8081", "fd00::1:8080"}


@pytest.mark.parametrize(
    ("conditions", "ready", "draining"),
    [
        ({}, True, False),
        ({"ready": None}, True, False),
        ({"ready": True}, True, False),
        ({"ready": True, "serving": True, "terminating": False}, True, False),
        ({"ready": False}, False, False),
        ({"ready": False, "serving": True}, False, False),
        ({"ready": False, "serving": False, "terminating": True}, False, False),
        ({"ready": False, "serving": None, "terminating": True}, False, False),
        ({"ready": False, "serving": True, "terminating": True}, False, True),
        ({"ready": True, "serving": True, "terminating": True}, True, False),
    ],
)
def test_readiness(conditions: dict[str, bool | None], ready: bool, draining: bool) -> None:
    # The last: a server counts terminating pods as ready where a service publishes all addresses.
    other = at("10.1.0.9")
    port = of_slices(piece("web-a", at("10.1.0.1", **conditions), other))
    assert ("10.1.0.1:8080" in addresses(port.targets)) == ready
    assert ("10.1.0.1:8080" in addresses(port.draining)) == draining


def test_without_a_ready_target_the_draining_ones_serve() -> None:
    last = at("10.1.0.1", ready=False, serving=True, terminating=True)
    port = of_slices(piece("web-a", last, at("10.1.0.2", ready=False)))
    assert addresses(port.targets) == addresses(port.draining) == {"10.1.0.1:8080"}


def test_an_address_in_two_slices_counts_once_and_ready_wins() -> None:
    draining = at("10.1.0.1", ready=False, serving=True, terminating=True)
    named = {**at("10.1.0.1"), "nodeName": "n1", "targetRef": POD, "hostname": "web-1"}
    pieces = [piece("web-a", at("10.1.0.1")), piece("web-b", named), piece("web-c", draining)]
    target = KubeTarget(
        address=ip("10.1.0.1"), port=8080, node="n1", pod="shop/web-1", hostname="web-1"
    )
    for order in (pieces, pieces[::-1]):
        port = of_slices(*order)
        assert port.targets == {target}
        assert port.draining == frozenset()


def test_an_older_server_names_the_node_in_the_topology() -> None:
    old = {**at("10.1.0.1"), "topology": {"kubernetes.io/hostname": "n2"}}
    (target,) = of_slices(piece("web-a", old)).targets
    assert target.node == "n2"


def test_of_the_addresses_of_one_endpoint_the_first_counts() -> None:
    both = {"addresses": ["10.1.0.1", "10.1.0.2"], "conditions": {}}
    assert addresses(of_slices(piece("web-a", both, {"addresses": []})).targets) == {
        "10.1.0.1:8080"
    }


@pytest.mark.parametrize(
    "ports", [[], [{"name": "http", "port": None}], [{"name": "x", "port": 1}]]
)
def test_a_slice_without_the_port_serves_it_not(ports: list[dict[str, Any]]) -> None:
    assert of_slices(piece("web-a", at("10.1.0.1"), ports=ports)).targets == frozenset()


def test_a_port_without_a_name_is_found() -> None:
    unnamed = [{"name": "", "port": 8080}]
    port = of_slices(piece("web-a", at("10.1.0.1"), ports=unnamed), service_port="")
    assert addresses(port.targets) == {"10.1.0.1:8080"}


def test_a_slice_comes_moves_and_goes() -> None:
    book = KubeServices()
    for name in ("web", "db"):
        book.put(SERVICES, said(service("10.96.0.10", {"name": "http", "port": 80}), name))
    assert book.put(SLICES, piece("s", at("10.1.0.1"))) == {KEY}
    assert book.put(SLICES, piece("s", at("10.1.0.1"))) == set()
    assert book.put(SLICES, piece("s", at("10.1.0.1"), of="db")) == {KEY, "shop/db"}
    assert book.put(SLICES, piece("t", at("10.1.0.2"), of="db")) == {"shop/db"}
    assert book.retain(SLICES, {"shop/s"}) == {"shop/db"}
    assert book.remove(SLICES, "shop/s") == {"shop/db"}
    assert book.remove(SLICES, "shop/s") == set()


def test_a_slice_of_no_service_serves_nobody() -> None:
    stray = {**piece("s", at("10.1.0.1")), "metadata": {"name": "s", "namespace": "shop"}}
    assert of_slices(stray).targets == frozenset()


def test_a_headless_service_has_members_also_without_ports() -> None:
    book = KubeServices()
    book.put(SERVICES, said({"spec": {"clusterIP": "None"}}))
    book.put(SLICES, piece("s", {**at("10.1.0.1"), "hostname": "a"}, at("10.1.0.2"), ports=[]))
    assert book.services[KEY].members == {
        KubeTarget(address=ip("10.1.0.1"), port=0, hostname="a"),
        KubeTarget(address=ip("10.1.0.2"), port=0),
    }


@pytest.mark.parametrize(
    "bad",
    [
        piece("s", at("10.1")),
        piece("s", at("fd00::1")),
        piece("s", at("10.1.0.1"), ports=[{"port": 0}]),
        piece("s", {"addresses": "10.1.0.1"}),
    ],
)
def test_a_slice_that_cannot_be_read_changes_nothing(bad: dict[str, Any]) -> None:
    book = KubeServices()
    book.put(SERVICES, WEB)
    book.put(SLICES, piece("s", at("10.1.0.1")))
    before = book.services[KEY]
    with pytest.raises(Invalid, match="shop/s"):
        book.put(SLICES, bad)
    assert book.services[KEY] == before


def test_leading_zeros_are_read_as_kubernetes_does() -> None:
    services = KubeServices()
    old = said(service("010.096.000.010", {"name": "http", "port": 80}))
    old["spec"]["externalIPs"] = ["192.000.002.001"]
    old["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.09"}]}}
    services.put(SERVICES, old)
    services.put(ENDPOINTS, said(endpoints((["010.001.0.1"], [{"name": "http", "port": 80}]))))
    found = services.services[KEY]
    assert found.addresses == (ip("10.96.0.10"),)
    assert found.external_ips == (ip("192.0.2.1"),)
    assert found.load_balancer_ips == (ip("192.0.2.9"),)
    assert found.ports[0].targets == targets(("10.1.0.1", 80))


@pytest.mark.parametrize("wrong", [5, True, [], ["10.96.0.1"], {}, "fe80::1%eth0", "1.2.3.4.5"])
def test_what_is_no_address_is_refused(wrong: object) -> None:
    bad = said(service("10.96.0.10"))
    for place in ("clusterIP", "externalIPs", "status"):
        one = {"metadata": bad["metadata"], "spec": dict(bad["spec"])}
        if place == "clusterIP":
            one["spec"]["clusterIP"] = wrong
        elif place == "externalIPs":
            one["spec"]["externalIPs"] = [wrong]
        else:
            one["status"] = {"loadBalancer": {"ingress": [{"ip": wrong}]}}
        with pytest.raises(Invalid, match="services shop/web"):
            KubeServices().put(SERVICES, one)


def test_ranges_of_clients_are_read_as_kube_proxy_does() -> None:
    services = KubeServices()
    given = [" 198.51.100.7/24 ", "2001:db8::/32"]
    spec = {**WEB["spec"], "loadBalancerSourceRanges": given, "externalIPs": ["203.0.113.9"]}
    balanced = [{"ip": "203.0.113.9"}, {"ip": "203.0.113.10"}]
    body = {**WEB, "spec": spec, "status": {"loadBalancer": {"ingress": balanced}}}
    services.put(SERVICES, body)
    read = services.services[KEY]
    assert list(map(str, read.source_ranges)) == ["198.51.100.0/24", "2001:db8::/32"]
    assert list(map(str, read.clients_of(ip("203.0.113.10")))) == ["198.51.100.0/24"]
    for free in ("203.0.113.9", "10.96.0.10"):
        assert read.clients_of(ip(free)) == (), "no address of the balancer alone"
    with pytest.raises(Invalid):
        services.put(
            SERVICES, {**WEB, "spec": {**spec, "loadBalancerSourceRanges": ["10.0.0.0/33"]}}
        )
    assert services.services[KEY] == read


@pytest.mark.parametrize("label", ["service-proxy-name", "headless"])
def test_a_label_leaves_a_service_to_others(label: str) -> None:
    """Also when it is set later, and whatever its value is."""
    services = KubeServices()
    services.put(SERVICES, WEB)
    assert not services.services[KEY].left_alone
    labels = {f"service.kubernetes.io/{label}": ""}
    meta = {**WEB["metadata"], "labels": labels}
    assert services.put(SERVICES, {**WEB, "metadata": meta}) == {KEY}
    assert services.services[KEY].left_alone
    assert services.put(SERVICES, WEB) == {KEY}
    assert not services.services[KEY].left_alone


@pytest.mark.parametrize("label", ["service-proxy-name", "headless"])
def test_a_label_leaves_the_endpoints_of_a_slice_to_others(label: str) -> None:
    """Beside others of the service; those of headless services have names, and the label always."""
    book = KubeServices()
    book.put(SERVICES, WEB)
    book.put(SERVICES, said({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}, "db"))
    book.put(SLICES, piece("a", at("10.1.0.1")))
    both = book.services[KEY]
    book.put(SLICES, piece("b", at("10.1.0.2")))
    other = labelled(piece("b", at("10.1.0.2")), label)
    assert book.put(SLICES, other) == {KEY}
    assert book.services[KEY] == both
    assert book.put(SLICES, piece("b", at("10.1.0.2"))) == {KEY}
    assert book.services[KEY] != both
    book.put(SLICES, labelled(piece("c", at("10.1.0.3"), of="db"), label))
    assert {str(one.address) for one in book.services["shop/db"].members} == {"10.1.0.3"}


def labelled(one: dict[str, Any], label: str) -> dict[str, Any]:
    """Return an object with a label of Kubernetes' services."""
    labels = {**one["metadata"]["labels"], f"service.kubernetes.io/{label}": ""}
    return {**one, "metadata": {**one["metadata"], "labels": labels}}


def hinting(address: str, nodes: str = "", zones: str = "", **conditions: bool) -> dict[str, Any]:
    """Return an endpoint with hints for nodes and zones, by names of one letter."""
    hints = {
        key: [{"name": name} for name in names]
        for key, names in (("forNodes", nodes), ("forZones", zones))
        if names
    }
    return {**at(address, **conditions), **({"hints": hints} if hints else {})}


@pytest.mark.parametrize(
    ("endpoints", "near"),
    [
        ([hinting("10.1.0.1", "n"), hinting("10.1.0.2", "m")], {"10.1.0.1"}),
        ([hinting("10.1.0.1", "nm"), hinting("10.1.0.2", "mn")], {"10.1.0.1", "10.1.0.2"}),
        # no target for this node, or one without a hint: zones, and then all
        ([hinting("10.1.0.1", "m", "z"), hinting("10.1.0.2", "o", "y")], {"10.1.0.1"}),
        ([hinting("10.1.0.1", "n", "z"), hinting("10.1.0.2", "", "y")], {"10.1.0.1"}),
        ([hinting("10.1.0.1", "n"), hinting("10.1.0.2")], {"10.1.0.1", "10.1.0.2"}),
        ([hinting("10.1.0.1", "", "y"), hinting("10.1.0.2", "", "x")], {"10.1.0.1", "10.1.0.2"}),
        ([hinting("10.1.0.1", "", "z"), hinting("10.1.0.2")], {"10.1.0.1", "10.1.0.2"}),
        # hints of what is not ready do not count
        ([hinting("10.1.0.1", "n"), hinting("10.1.0.2", "m", ready=False)], {"10.1.0.1"}),
        (
            [hinting("10.1.0.1", "n", ready=False), hinting("10.1.0.2", "m"), hinting("10.1.0.3")],
            {"10.1.0.2", "10.1.0.3"},
        ),
    ],
)
def test_hints_are_followed_as_kube_proxy_follows_them(
    endpoints: list[dict[str, Any]], near: set[str]
) -> None:
    book = KubeServices("n")
    book.put(SERVICES, WEB)
    book.put(SLICES, piece("web-1", *endpoints))
    assert book.set_zone("z") <= {KEY}
    port = book.services[KEY].ports[0]
    assert {str(one.address) for one in port.near} == near
    assert book.set_zone("z") == set()
    assert port.near <= port.targets


def test_the_zone_of_the_node_may_change() -> None:
    book = KubeServices("n")
    book.put(SERVICES, WEB)
    book.put(SLICES, piece("web-1", hinting("10.1.0.1", "", "z"), hinting("10.1.0.2", "", "y")))
    for zone, near in (("", "12"), ("z", "1"), ("y", "2"), ("x", "12"), ("", "12")):
        book.set_zone(zone)
        found = {str(one.address) for one in book.services[KEY].ports[0].near}
        assert found == {f"10.1.0.{number}" for number in near}
