"""Whatever the history, names are those of what is there.

A machine tells a book of names random endpoints and services, there, changed and gone. At each step
every name must lead where a search of all that is there leads.
"""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.ids import TenantName
from netplugin.world.dns_records import Address, DnsRecords
from state.records import EndpointRecord, ServiceRecord
from tests.unit.netplugin.records import endpoint, key, nid_of
from tests.unit.netplugin.world.test_dns_records import service

TENANTS = ("red", "blue")
NAMES = ("web", "Web", "db", "")
FAMILIES: tuple[type[Address], ...] = (IPv4Address, IPv6Address)

endpoints = st.builds(
    lambda container, number, tenant, group, name, four, six: replace(
        endpoint(number, nid=nid_of("n1", tenant), group=group, v6=six),
        key=key(container),
        common_name=name,
        ip_address=f"10.1.0.{number}" if four else "",
    ),
    st.sampled_from(["c1", "c2", "c3"]),
    st.integers(1, 5),
    st.sampled_from(TENANTS),
    st.sampled_from(NAMES),
    st.sampled_from([*NAMES, "/db"]),
    st.booleans(),
    st.booleans(),
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
        self.book = DnsRecords()
        self.endpoints: dict[str, EndpointRecord] = {}
        self.services: dict[str, ServiceRecord] = {}

    @rule(record=endpoints)
    def put_endpoint(self, record: EndpointRecord) -> None:
        self.book.put_endpoint(record)
        self.endpoints[record.key] = record

    @rule(record=endpoints)
    def remove_endpoint(self, record: EndpointRecord) -> None:
        self.book.remove_endpoint(record.key)
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
        for tenant in TENANTS:
            for name in ("web", "DB"):
                for family in FAMILIES:
                    found = self.book.lookup(TenantName(tenant), name, family)
                    held = None if found is None else set(found)
                    assert held == self.searched(tenant, name.lower(), family)

    def searched(self, tenant: str, name: str, family: type[Address]) -> set[str] | None:
        here = [one for one in self.endpoints.values() if one.network.endswith(f".{tenant}")]
        kinds: list[list[EndpointRecord | ServiceRecord]] = [
            [s for s in self.services.values() if (s.tenant, s.name.lower()) == (tenant, name)],
            [one for one in here if one.group_key.split(":")[0].lower() == name],
            [one for one in here if one.common_name.lstrip("/").lower() == name],
        ]
        found = [set().union(*(addresses_of(one, family) for one in kind)) for kind in kinds]
        return next(filter(None, found), set()) if any(kinds) else None

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
