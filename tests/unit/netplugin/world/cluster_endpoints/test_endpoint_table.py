"""Endpoints are found by what they have now, and nodes are told what they had."""

from collections.abc import Callable, Set
from dataclasses import replace

import pytest

from core.ids import POD_NAME, POD_NAMESPACE, EndpointKey, TenantName
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow, EndpointTable
from state.records import EndpointRecord
from tests.unit.netplugin.records import HOST, NET, PEER, endpoint, network, nid_of

DEFAULT = TenantName("default")
DOTTED = nid_of("n1", "a.b")
LABELS = {POD_NAMESPACE: "shop", POD_NAME: "web"}
POD = replace(endpoint(1, v6=True), labels=LABELS)
Told = list[tuple[EndpointRow | None, EndpointRow | None]]


@pytest.fixture
def table() -> EndpointTable:
    return EndpointTable(HOST)


LOOKUPS: list[tuple[Callable[[EndpointTable], list[EndpointRecord]], EndpointRecord]] = [
    (lambda it: known(it, it.keys_on(NET)), replace(POD, network=nid_of("n2"))),
    (lambda it: it.here(), replace(POD, homing_host=PEER)),
    (lambda it: it.of_id("c1"), replace(POD, endpoint_id="c2")),
    (lambda it: records(it.at("10.1.0.1")), replace(POD, ip_address="10.1.0.9")),
    (lambda it: records(it.at("2001:db8::1")), replace(POD, ipv6_address="")),
    (lambda it: records(it.of_pod(("shop", "web"))), replace(POD, labels={**LABELS, POD_NAME: ""})),
    (lambda it: records(it.labelled(DEFAULT)), replace(POD, labels=None)),
]


def known(table: EndpointTable, keys: Set[EndpointKey]) -> list[EndpointRecord]:
    return [record for key in keys if (record := table.get(key)) is not None]


def records(rows: list[EndpointRow]) -> list[EndpointRecord]:
    return [row.record for row in rows]


@pytest.mark.parametrize(("lookup", "other"), LOOKUPS)
def test_an_endpoint_is_found_by_what_it_has_now(
    table: EndpointTable,
    lookup: Callable[[EndpointTable], list[EndpointRecord]],
    other: EndpointRecord,
) -> None:
    assert lookup(table) == []
    table.put(POD)
    assert lookup(table) == [POD]
    table.put(other)
    assert lookup(table) == []
    table.put(POD)
    table.remove(POD.key)
    assert lookup(table) == []


def test_an_address_is_found_however_its_record_spells_it(table: EndpointTable) -> None:
    table.put(replace(POD, ipv6_address="2001:DB8:0::1"))
    assert len(table.at("2001:db8::1")) == 1


def test_nodes_are_told_in_their_order_what_was_and_is(table: EndpointTable) -> None:
    told, order = Told(), list[str]()
    table.feed(
        lambda old, new: told.append((old, new)),
        lambda _old, _new: order.append("first"),
        lambda _old, _new: order.append("second"),
    )
    table.put(POD)
    changed = replace(POD, ip_address="10.1.0.9")
    table.put(changed)
    table.remove(POD.key)
    table.remove(POD.key)
    before, after = EndpointRow(POD, DEFAULT), EndpointRow(changed, DEFAULT)
    assert told == [(None, before), (before, after), (after, None)]
    assert order == ["first", "second"] * 3


def test_a_node_finds_what_it_is_told(table: EndpointTable) -> None:
    found = list[EndpointRecord | None]()
    table.feed(lambda _old, _new: found.append(table.get(POD.key)))
    table.put(POD)
    table.remove(POD.key)
    assert found == [POD, None]


def test_another_tenant_of_a_network_is_a_change_of_its_endpoints(table: EndpointTable) -> None:
    pod = replace(POD, network=DOTTED)
    table.put(pod)
    table.put(endpoint(2))
    told = Told()
    table.feed(lambda old, new: told.append((old, new)))
    for _ in range(2):
        table.put_network(network("n1", "a.b"))
        assert records(table.labelled(TenantName("a.b"))) == [pod]
    table.remove_network(DOTTED)
    assert records(table.labelled(TenantName("b"))) == [pod]
    first, other = EndpointRow(pod, TenantName("b")), EndpointRow(pod, TenantName("a.b"))
    assert told == [(first, other), (other, first)]


def test_what_follows_the_last_dot_is_the_tenant_until_a_record_says_otherwise(
    table: EndpointTable,
) -> None:
    assert table.tenant_of(DOTTED) == "b"
    table.put_network(network("n1", "a.b"))
    assert table.tenant_of(DOTTED) == "a.b"
    table.put_network(network("n1.a", "b"))
    table.put_network(network("n1", "blue"))
    assert table.tenant_of(DOTTED) == "b"
    assert table._tenants == {}
