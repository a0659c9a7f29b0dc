"""Who has which name, whatever comes and goes."""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from core.ids import POD_NAMESPACE, NetworkId, TenantName
from netplugin.world.dns.dns_records import Address, Asker, DnsRecords
from netplugin.world.kubernetes.kube_services import KubeService
from state.records import EndpointRecord
from tests.unit.netplugin.records import NET, PEER, endpoint, key, nid_of
from tests.unit.netplugin.world.dns_records import DEFAULT, service
from tests.unit.netplugin.worlds import name_book

Shown = dict[str, dict[str, dict[str, list[str]]]]
NOTHING: Shown = {"k8sDefaultTenant": {"k8sServices": {}}}
BLUE = TenantName("blue")


def found(
    book: DnsRecords,
    name: str,
    *,
    tenant: TenantName = DEFAULT,
    family: type[Address] = IPv4Address,
    network: NetworkId = NET,
    namespace: str = "",
) -> Sequence[str] | None:
    return book.lookup(Asker(tenant, network, namespace), name, family)


def test_an_endpoint_has_its_common_name_and_its_groups() -> None:
    book = name_book()
    book.endpoints.put(endpoint(1, group="web", v6=True))
    book.endpoints.put(endpoint(2, host=PEER, group="web"))
    assert found(book, "c1") == ["10.1.0.1"]
    assert found(book, "c1", family=IPv6Address) == ["2001:db8::1"]
    assert found(book, "web") == ["10.1.0.1", "10.1.0.2"]
    assert found(book, "web", family=IPv6Address) == ["2001:db8::1"]
    assert found(book, "c2", family=IPv6Address) == [], "known, by its other address"
    assert found(book, "c3") is None
    assert found(book, "n1.default-c1") is None
    assert found(book, "") is None


def test_a_name_is_searched_for_once_until_it_changes() -> None:
    book = name_book()
    for number in (1, 2):
        book.endpoints.put(endpoint(number, group="web"))
    before = found(book, "web")
    book.endpoints.put(endpoint(3, group="db"))
    assert found(book, "web") is before
    book.endpoints.put(endpoint(3, group="web"))
    assert found(book, "web") == ["10.1.0.1", "10.1.0.2", "10.1.0.3"]
    assert found(book, "db") is None


def test_an_endpoints_id_is_no_name() -> None:
    book = name_book()
    book.endpoints.put(replace(endpoint(1), common_name=""))
    assert found(book, "c1") is None
    shown = {kind: names for kind, names in book.report()["default"].items() if names}
    assert shown == {"endpoints": {"c1": ["ipv4:10.1.0.1 ipv6:<nil>"]}}


def test_a_name_is_its_tenants() -> None:
    book = name_book()
    book.endpoints.put(endpoint(1, nid=nid_of("n.1", "blue"), group="web"))
    book.put_service(service(tenant=BLUE))
    for name in ("c1", "web", "shop"):
        assert found(book, name) is None
        assert found(book, name, tenant=BLUE) is not None


def test_case_does_not_matter() -> None:
    book = name_book()
    book.endpoints.put(replace(endpoint(1, group="Web"), common_name="/Pod-A"))
    book.put_service(service("Shop"))
    for name in ("web", "WEB", "pod-a", "Pod-A", "SHOP"):
        assert found(book, name), name
    assert found(book, "/pod-a") is None
    assert book.report()["default"]["commonNames"].keys() == {"Pod-A"}


def test_services_come_before_groups_and_groups_before_containers() -> None:
    book = name_book()
    records = [endpoint(n, group="web" if n > 1 else "", v6=n == 1) for n in (1, 2)]
    for record in records:
        book.endpoints.put(replace(record, common_name="web"))
    assert found(book, "web") == ["10.1.0.2"]
    assert found(book, "web", family=IPv6Address) == [], "the name is the group's"
    shop = service("web")
    book.put_service(shop)
    assert found(book, "web") == ["10.1.9.1"]
    assert found(book, "web", family=IPv6Address) == [], "the name is the service's"
    book.remove_service(shop.key)
    book.endpoints.remove(records[1].key)
    assert found(book, "web") == ["10.1.0.1"]
    assert found(book, "web", family=IPv6Address) == ["2001:db8::1"]


def test_a_change_leaves_nothing_of_what_was() -> None:
    book = name_book()
    book.endpoints.put(endpoint(1, group="web", v6=True))
    changed = replace(endpoint(7, group="db"), key=key("c1"), common_name="other")
    book.endpoints.put(changed)
    assert (found(book, "c1"), found(book, "web")) == (None, None)
    assert (found(book, "other"), found(book, "db")) == (["10.1.0.7"], ["10.1.0.7"])
    book.put_service(service())
    book.put_service(service(ip="10.1.9.2"))
    assert found(book, "shop") == ["10.1.9.2"]


def test_what_is_gone_has_no_name() -> None:
    book = name_book()
    book.endpoints.put(endpoint(1, group="web"))
    book.endpoints.put(endpoint(2, group="web"))
    book.put_service(service())
    book.endpoints.remove(key("c1"))
    assert (found(book, "c1"), found(book, "web")) == (None, ["10.1.0.2"])
    for _ in range(2):
        book.endpoints.remove(key("c2"))
        book.remove_service(service().key)
    assert (found(book, "web"), found(book, "shop")) == (None, None)
    assert book.report() == NOTHING


def test_a_service_and_an_endpoint_of_one_key_are_two() -> None:
    book = name_book()
    one = replace(endpoint(1), key=key("c:x", NetworkId("n.t")), network=NetworkId("n.t"))
    other = service("n.t-c", TenantName("x"))
    assert str(one.key) == str(other.key)
    book.endpoints.put(one)
    book.put_service(other)
    book.endpoints.remove(one.key)
    assert book.report()["x"]["services"] == {"n.t-c": ["ipv4:10.1.9.1 ipv6:<nil>"]}


def test_a_service_without_an_address_is_known_by_name() -> None:
    book = name_book()
    book.put_service(service(ip=""))
    assert found(book, "shop") == []
    assert book.report()["default"]["services"] == {"shop": ["ipv4:<nil> ipv6:<nil>"]}


def kube(
    name: str = "web", namespace: str = "shop", four: str = "10.96.0.1", six: str = ""
) -> KubeService:
    return KubeService(
        namespace=namespace,
        name=name,
        addresses=tuple(ip_address(one) for one in (four, six) if one),
    )


def test_a_service_of_kubernetes_is_everybodys_and_comes_first() -> None:
    book = name_book()
    book.put_service(service("web"))
    book.endpoints.put(endpoint(1, group="web", v6=True))
    book.kube.put(kube(six="fd00::1"))
    for tenant in (DEFAULT, BLUE):
        for name in ("web", "WEB.shop", "web.shop.svc", "web.shop.svc.cluster.local"):
            assert found(book, name, tenant=tenant) == ["10.96.0.1"]
            assert found(book, name, tenant=tenant, family=IPv6Address) == ["fd00::1"]
    assert found(book, "web.blog") is None
    book.kube.put(kube())
    assert found(book, "web", family=IPv6Address) == []
    assert book.report()["k8sDefaultTenant"] == {"k8sServices": {"web": ["ipv4:10.96.0.1"]}}
    for _ in range(2):
        book.kube.remove("shop/web")
    assert found(book, "web") == ["10.1.9.1"]
    assert book.report()["k8sDefaultTenant"] == {"k8sServices": {}}


def test_of_services_of_one_name_that_of_the_namespace_default_comes_first() -> None:
    book = name_book()
    for namespace, last in (("shop", 1), ("blog", 2), ("default", 3)):
        book.kube.put(kube(namespace=namespace, four=f"10.96.0.{last}"))
        assert found(book, f"web.{namespace}") == [f"10.96.0.{last}"]
    assert found(book, "web") == ["10.96.0.3"]
    book.kube.remove("default/web")
    assert found(book, "web") == ["10.96.0.2"]


def test_a_headless_service_is_left_to_others() -> None:
    book = name_book()
    book.kube.put(kube())
    book.kube.put(kube(four=""))
    assert found(book, "web") is None
    book.kube.remove("shop/web")
    assert book.report() == NOTHING


FOREIGN = [
    "github.com",
    "localhost",
    "printer.localhost",
    "WPAD",
    "isatap",
    "local",
    "cluster.local",
    "pay.shop.svc.cluster.local",
    "10-1-0-1.shop.pod.cluster.local",
    "1.0.1.10.in-addr.arpa",
    "arpa",
    "o\\.ne",
    "",
]
"""Names of others than the objects of a cluster."""


@pytest.mark.parametrize("name", FOREIGN)
def test_no_object_has_a_name_that_means_something_to_others(name: str) -> None:
    book = name_book()
    book.endpoints.put(replace(endpoint(1, group=name), common_name=name))
    book.endpoints.put(replace(endpoint(2), common_name=f"/{name}"))
    book.put_service(service(name))
    assert found(book, name) is None


@pytest.mark.parametrize(
    "taken", ["github.com", "localhost", "a.localhost", "wpad", "in-addr.arpa", "cluster.local"]
)
def test_no_service_of_kubernetes_has_such_a_name_for_short(taken: str) -> None:
    book = name_book()
    name, _, namespace = taken.partition(".")
    book.kube.put(kube(name, namespace or "shop"))
    # the search list of any resolver in Kubernetes makes the same of a domain's name
    wanted = ["10.96.0.1"] if taken == "github.com" else []
    assert (found(book, taken) or []) == wanted
    assert found(book, f"{name}.{namespace or 'shop'}.svc.cluster.local") == ["10.96.0.1"]


def in_namespace(record: EndpointRecord, namespace: str, name: str) -> EndpointRecord:
    return replace(record, common_name=name, labels={POD_NAMESPACE: namespace})


def test_the_name_of_a_pod_of_kubernetes_is_its_namespaces() -> None:
    book = name_book()
    book.endpoints.put(in_namespace(endpoint(1), "shop", "db"))
    book.endpoints.put(in_namespace(endpoint(2), "evil", "db"))
    book.endpoints.put(replace(endpoint(3), common_name="mail"))
    assert found(book, "db", namespace="shop") == ["10.1.0.1"]
    assert found(book, "db", namespace="evil") == ["10.1.0.2"]
    assert (found(book, "db", namespace="blog"), found(book, "db")) == (None, None)
    assert (found(book, "mail", namespace="shop"), found(book, "mail")) == (None, ["10.1.0.3"])
    assert book.asker(key("c1"), NET) == Asker(DEFAULT, NET, "shop")
    assert book.asker(key("c9"), NET) == Asker(DEFAULT, NET, "")
    book.kube.put(kube("db", "shop"))
    assert found(book, "db", namespace="shop") == ["10.96.0.1"], "the service wins"
    assert found(book, "db", namespace="evil") == ["10.1.0.2"]
    book.endpoints.put(in_namespace(endpoint(1), "evil", "web"))
    assert found(book, "web", namespace="evil") == ["10.1.0.1"]
    book.endpoints.remove(key("c1"))
    book.endpoints.remove(key("c2"))
    assert (found(book, "web", namespace="evil"), found(book, "db", namespace="evil")) == (
        None,
    ) * 2


def test_a_bare_name_of_a_service_is_its_namespaces_for_pods_of_kubernetes() -> None:
    book = name_book()
    book.kube.put(kube("web", "shop"))
    book.kube.put(kube("web", "default", "10.96.0.2"))
    assert found(book, "web", namespace="shop") == ["10.96.0.1"]
    assert found(book, "web", namespace="blog") is None
    assert found(book, "web") == ["10.96.0.2"]
    assert found(book, "web.shop", namespace="blog") == ["10.96.0.1"]


def test_of_containers_of_one_name_those_on_the_askers_network_count() -> None:
    book = name_book()
    other = nid_of("n2")
    for number, nid in ((1, NET), (2, other), (3, other)):
        book.endpoints.put(replace(endpoint(number, nid=nid), common_name="db"))
    assert found(book, "db") == ["10.1.0.1"]
    assert found(book, "db", network=other) == ["10.1.0.2", "10.1.0.3"]
    assert found(book, "db", network=nid_of("n3")) == ["10.1.0.1", "10.1.0.2", "10.1.0.3"]
