"""The names of Kubernetes' DNS specification 1.1.0, record by record."""

from dataclasses import replace
from ipaddress import ip_address

import pytest

from netplugin.world.dns.kube_names import EXISTS, Address, KubeNames, NameRecords, Server
from netplugin.world.kubernetes.kube_services import KubeService
from tests.unit.netplugin.world.kube_names import DB, ONE, OUTSIDE, SIX, TWO, WEB, member

SILENT = KubeService(namespace="shop", name="none", headless=True)


@pytest.fixture
def names() -> KubeNames:
    made = KubeNames("Cluster.Local.")
    for service in (WEB, OUTSIDE, DB, SILENT):
        made.put(service)
    return made


def addresses(*texts: str) -> tuple[Address, ...]:
    return tuple(map(ip_address, texts))


ADDRESSES = NameRecords(addresses=addresses("10.96.0.10", "fd00::10"))
RECORDS = {
    # 2.3: services with a cluster IP
    "web.shop.svc.cluster.local": ADDRESSES,
    "_http._tcp.web.shop.svc.cluster.local": NameRecords(
        servers=(Server("web.shop.svc.cluster.local", 80),)
    ),
    "10.0.96.10.in-addr.arpa": NameRecords(pointers=(("web.shop.svc.cluster.local", None),)),
    # 2.4: headless services
    "db.shop.svc.cluster.local": NameRecords(members=(ONE, TWO, SIX)),
    "db-0.db.shop.svc.cluster.local": NameRecords(members=(ONE, SIX)),
    "10-1-0-2.db.shop.svc.cluster.local": NameRecords(members=(TWO,)),
    "_sql._tcp.db.shop.svc.cluster.local": NameRecords(
        servers=(
            Server("db-0.db.shop.svc.cluster.local", 15432, member("10.1.0.1", "Db-0", 15432)),
            Server("10-1-0-2.db.shop.svc.cluster.local", 15432, member("10.1.0.2", "", 15432)),
        )
    ),
    "1.0.1.10.in-addr.arpa": NameRecords(pointers=(("db-0.db.shop.svc.cluster.local", ONE),)),
    "2.0.1.10.in-addr.arpa": NameRecords(pointers=(("10-1-0-2.db.shop.svc.cluster.local", TWO),)),
    "none.shop.svc.cluster.local": EXISTS,
    # 2.5: external names
    "pay.shop.svc.cluster.local": NameRecords(alias="pay.example.com"),
    # 2.2: the version
    "dns-version.cluster.local": NameRecords(text="1.1.0"),
    # pods, by their addresses
    "10-1-0-1.shop.pod.cluster.local": NameRecords(addresses=addresses("10.1.0.1")),
    "2001-db8--1.shop.pod.cluster.local": NameRecords(addresses=addresses("2001:db8::1")),
    # names that have names below them
    "cluster.local": EXISTS,
    "svc.cluster.local": EXISTS,
    "pod.cluster.local": EXISTS,
    "shop.pod.cluster.local": EXISTS,
    "shop.svc.cluster.local": EXISTS,
    "_tcp.web.shop.svc.cluster.local": EXISTS,
    # the original's
    "web": ADDRESSES,
    "web.shop": ADDRESSES,
    "web.shop.svc": ADDRESSES,
}


@pytest.mark.parametrize(("name", "records"), RECORDS.items())
def test_names(names: KubeNames, name: str, records: NameRecords) -> None:
    assert names.lookup(name) == records


@pytest.mark.parametrize(
    "name",
    [
        "web.blog.svc.cluster.local",
        "blog.svc.cluster.local",
        "_dns._udp.web.shop.svc.cluster.local",
        "_udp.web.shop.svc.cluster.local",
        "db-1.db.shop.svc.cluster.local",
        "www.example.com.shop.svc.cluster.local",
        "web.shop.pod.cluster.local",
        "10-1-0-1.a.b.pod.cluster.local",
        "10.96.0.11.in-addr.arpa",
        "db.shop.svc",
        "db",
        "pay",
        "local",
        "web.shop.svc.cluster.example",
    ],
)
def test_names_that_are_not(names: KubeNames, name: str) -> None:
    assert names.lookup(name) is None


def test_an_address_of_ipv6_has_a_name(names: KubeNames) -> None:
    found = names.lookup(ip_address("fd00::10").reverse_pointer)
    assert found == NameRecords(pointers=(("web.shop.svc.cluster.local", None),))


def test_what_belongs_to_the_zone(names: KubeNames) -> None:
    assert names.covers("cluster.local")
    assert names.covers("whatever.cluster.local")
    assert not names.covers("notcluster.local")
    assert not names.covers("web")


def test_a_service_that_changes_or_goes_leaves_nothing(names: KubeNames) -> None:
    names.put(KubeService(namespace="shop", name="web", addresses=addresses("10.96.0.11")))
    assert names.lookup("10.0.96.10.in-addr.arpa") is None
    assert names.lookup("_tcp.web.shop.svc.cluster.local") is None
    for service in (WEB, OUTSIDE, DB, SILENT, SILENT):
        names.remove(service.key)
    assert [name for name in RECORDS if names.lookup(name) is not None] == []


def test_without_kubernetes_there_is_no_zone() -> None:
    assert KubeNames().lookup("cluster.local") is None
    assert KubeNames().lookup("10-1-0-1.shop.pod.cluster.local") is None


def test_an_address_of_a_service_is_not_named_by_who_lists_it_as_an_endpoint(
    names: KubeNames,
) -> None:
    names.put(replace(DB, namespace="default", members=frozenset({member("10.96.0.10", "db")})))
    found = names.lookup("10.0.96.10.in-addr.arpa")
    assert found is not None
    assert found.pointers == (("web.shop.svc.cluster.local", None),)
