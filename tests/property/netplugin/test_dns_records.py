"""Whatever the history, names are those of what is there, and no name is taken that is another's.

A machine tells a book of names random endpoints and services, there, changed and gone. At each step
every name must lead where a search of all that is there leads. Whatever objects there are, a name
server says of a domain what the outside says, and of the cluster's zone what Kubernetes says.
"""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import product

import dns.message
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.ids import POD_NAMESPACE, TenantName
from netplugin.dns.nameserver import NameServer
from netplugin.dns.rate_limit import RateLimit
from netplugin.world.dns.dns_records import Address, Asker
from netplugin.world.kubernetes.kube_services import KubeService
from ofnet.packets.dns_answers import NameVerdict, Question
from state.records import EndpointRecord, ServiceRecord
from tests.unit.netplugin.records import NET, endpoint, key, nid_of
from tests.unit.netplugin.world.dns_records import service
from tests.unit.netplugin.worlds import name_book

TENANTS = ("red", "blue")
NETWORKS = ("n1", "n2")
NAMESPACES = ("", "shop", "blog")
NAMES = ("web", "Web", "db", "")
FAMILIES: tuple[type[Address], ...] = (IPv4Address, IPv6Address)

endpoints = st.builds(
    lambda container, number, place, group, name, families, namespace: replace(
        endpoint(number, nid=nid_of(*place), group=group, v6=families[1]),
        key=key(container),
        common_name=name,
        ip_address=f"10.1.0.{number}" if families[0] else "",
        labels={POD_NAMESPACE: namespace} if namespace else None,
    ),
    st.sampled_from(["c1", "c2", "c3"]),
    st.integers(1, 5),
    st.tuples(st.sampled_from(NETWORKS), st.sampled_from(TENANTS)),
    st.sampled_from(NAMES),
    st.sampled_from([*NAMES, "/db"]),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from(NAMESPACES),
)
services = st.builds(
    lambda name, tenant, ip: service(name, TenantName(tenant), ip),
    st.sampled_from(["web", "Web"]),
    st.sampled_from(TENANTS),
    st.sampled_from(["10.1.9.1", "10.1.9.2", ""]),
)


def addresses_of(record: EndpointRecord | ServiceRecord, family: type[Address]) -> set[str]:
    six = record.ipv6_address if isinstance(record, EndpointRecord) else ""
    return {record.ip_address if family is IPv4Address else six} - {""}


class Names(RuleBasedStateMachine):
    """Feeds a book, and keeps what it was fed."""

    def __init__(self) -> None:
        super().__init__()
        self.book = name_book()
        self.endpoints: dict[str, EndpointRecord] = {}
        self.services: dict[str, ServiceRecord] = {}

    @rule(record=endpoints)
    def put_endpoint(self, record: EndpointRecord) -> None:
        self.book.endpoints.put(record)
        self.endpoints[record.key] = record

    @rule(record=endpoints)
    def remove_endpoint(self, record: EndpointRecord) -> None:
        self.book.endpoints.remove(record.key)
        self.endpoints.pop(record.key, None)

    @rule(record=services)
    def put_service(self, record: ServiceRecord) -> None:
        self.book.put_service(record)
        self.services[record.key] = record

    @rule(record=services)
    def remove_service(self, record: ServiceRecord) -> None:
        self.book.remove_service(record.key)
        self.services.pop(record.key, None)

    @invariant()
    def every_name_leads_where_it_must(self) -> None:
        for tenant, network, namespace in product(TENANTS, NETWORKS, NAMESPACES):
            asker = Asker(TenantName(tenant), nid_of(network, tenant), namespace)
            for name, family in product(("web", "DB"), FAMILIES):
                found = self.book.lookup(asker, name, family)
                held = None if found is None else set(found)
                assert held == self.searched(asker, name.lower(), family)

    def searched(self, asker: Asker, name: str, family: type[Address]) -> set[str] | None:
        tenant = asker.tenant
        here = [one for one in self.endpoints.values() if one.network.endswith(f".{tenant}")]
        named = [
            one
            for one in here
            if one.common_name.lstrip("/").lower() == name
            and (one.labels or {}).get(POD_NAMESPACE, "") == asker.namespace
        ]
        kinds: list[list[EndpointRecord | ServiceRecord]] = [
            [s for s in self.services.values() if (s.tenant, s.name.lower()) == (tenant, name)],
            [one for one in here if one.group_key.split(":")[0].lower() == name],
            [one for one in named if one.network == asker.network],
            [*named],
        ]
        if not any(kinds):
            return None
        return set().union(*(addresses_of(one, family) for one in next(filter(None, kinds))))

    @invariant()
    def all_is_shown(self) -> None:
        shown = self.book.report()
        del shown["k8sDefaultTenant"]
        there = {one.network.rpartition(".")[2] for one in self.endpoints.values()}
        assert shown.keys() == there | {one.tenant for one in self.services.values()}
        lines = [line for kinds in shown.values() for line in kinds["endpoints"].values()]
        assert sum(map(len, lines)) == len(self.endpoints)


Names.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestNames = Names.TestCase


LABELS = ("com", "github", "local", "cluster", "svc", "shop", "arpa", "localhost", "wpad", "isatap")
foreign = st.lists(st.sampled_from(LABELS), min_size=1, max_size=5).map(".".join)
cases = st.tuples(foreign, st.booleans()).map(lambda one: one[0].upper() if one[1] else one[0])


def is_anothers(name: str) -> bool:
    """Return whether a name is a domain, a reserved name, or of the cluster's zone."""
    labels = name.lower().split(".")
    return len(labels) > 1 or labels[0] in {"local", "arpa", "localhost", "wpad", "isatap"}


@given(
    taken=st.lists(st.tuples(cases, st.sampled_from(["group", "container", "service", "pod"]))),
    kube=st.lists(st.sampled_from([("web", "shop"), ("svc", "shop"), ("github", "shop")])),
    names=st.lists(cases, min_size=1, max_size=5),
    rdtype=st.sampled_from(["A", "AAAA", "ANY", "TXT", "HTTPS"]),
)
def test_no_object_answers_for_a_name_that_is_anothers(
    taken: list[tuple[str, str]], kube: list[tuple[str, str]], names: list[str], rdtype: str
) -> None:
    with_objects, without = name_book(), name_book()
    for name, namespace in kube:
        service_of = KubeService(
            namespace=namespace, name=name, addresses=(ip_address("10.96.0.1"),)
        )
        with_objects.kube.put(service_of)
        without.kube.put(service_of)
    for book in (with_objects, without):  # the askers: a container, and a pod
        book.endpoints.put(replace(endpoint(100), common_name=""))
        book.endpoints.put(replace(endpoint(101), common_name="", labels={POD_NAMESPACE: "shop"}))
    for number, (name, kind) in enumerate(taken, 1):
        one = endpoint(number, group=name if kind == "group" else "", v6=True)
        labels = {POD_NAMESPACE: "shop"} if kind == "pod" else None
        common = name if kind in {"container", "pod"} else ""
        with_objects.endpoints.put(replace(one, common_name=common, labels=labels))
        if kind == "service":
            with_objects.put_service(service(name))
    servers = [NameServer(book, RateLimit(0, lambda: 0.0)) for book in (with_objects, without)]
    for name, asker in product([*names, *(name for name, _ in taken)], ("c100", "c101")):
        query = dns.message.make_query(name, rdtype, id=1).to_wire()
        asked = Question(
            pod=key(asker), network=NET, server=IPv4Address("10.96.0.10"), message=query
        )
        said, usual = (server.resolve(asked) for server in servers)
        if is_anothers(name):
            assert said == usual
        elif usual is not NameVerdict.FORWARD:
            assert said != NameVerdict.FORWARD
