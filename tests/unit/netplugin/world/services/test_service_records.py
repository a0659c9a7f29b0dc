"""Services and providers as the records have them, whatever comes first."""

from collections.abc import Container
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from itertools import permutations

import pytest
from dns.message import make_query

from core.errors import Invalid
from core.ids import NetworkId, ServiceKey, TenantName, endpoint_key
from netplugin.dns.nameserver import NameServer
from netplugin.dns.rate_limit import RateLimit
from netplugin.world.builder import WorldBuilder
from netplugin.world.dns.dns_records import Asker
from netplugin.world.services.service_records import ServiceRecords
from ofnet.changes import Changes, ObjectKind
from ofnet.packets.dns_answers import Question
from ofnet.world import Bridge, FwdMode, Provider, Service, ServicePort
from state.intents import Fact
from state.records import Encap
from tests.unit.netplugin.records import HOST, PEER, endpoint, network, nid_of
from tests.unit.netplugin.world.service_records import provider, record
from tests.unit.netplugin.worlds import altered

KEY = "web:default"


def builder(*facts: Fact) -> WorldBuilder:
    made = WorldBuilder(HOST, FwdMode.ROUTING)
    for fact in facts:
        made.put(fact)
    return made


def services(world: WorldBuilder, bridge: Bridge = Bridge.VXLAN) -> dict[str, Service]:
    return dict(world.take(bridge)[0].services)


def test_a_service_says_what_its_record_says() -> None:
    found = services(builder(network(), record(), provider(1), provider(2)))[KEY]
    assert found == Service(
        key=KEY,
        vrf=1,
        address=IPv4Address("10.1.0.200"),
        ports=(ServicePort(6, 80, at(8080)), ServicePort(17, 53, at(5353))),
    )


def at(port: int) -> frozenset[Provider]:
    found = (IPv4Address("10.1.0.1"), IPv4Address("10.1.0.2"))
    return frozenset(Provider(one, port, 1) for one in found)


def provided(service: Service) -> frozenset[IPv4Address | IPv6Address]:
    """Return the addresses of a service's providers."""
    return frozenset(one.address for port in service.ports for one in port.providers)


def test_the_order_does_not_matter() -> None:
    facts: tuple[Fact, ...] = (network(), record(), provider(1))
    worlds = [services(builder(*order)) for order in permutations(facts)]
    assert all(world == worlds[0] for world in worlds)
    assert provided(worlds[0][KEY])


def test_providers_come_and_go() -> None:
    world = builder(network(), record(), provider(1), provider(2))
    world.take(Bridge.VXLAN)
    world.put(provider(1, container_id=""))
    found, changes = world.take(Bridge.VXLAN)
    assert provided(found.services[KEY]) == {IPv4Address("10.1.0.2")}
    assert changes.names(ObjectKind.SERVICE) == {KEY}
    world.remove(provider(2))
    assert provided(services(world)[KEY]) == frozenset()
    world.put(provider(3, labels={"app": "other"}))
    assert provided(services(world)[KEY]) == frozenset()
    world.put(provider(3))
    assert provided(services(world)[KEY]) == {IPv4Address("10.1.0.3")}
    world.put(provider(3, labels=None))
    assert provided(services(world)[KEY]) == frozenset()


def test_however_many_come_at_once_a_service_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ServiceKey] = []
    on_bridge = ServiceRecords.on_bridge

    def counted(
        book: ServiceRecords, key: ServiceKey, vrf: int, networks: Container[NetworkId]
    ) -> Service | None:
        made.append(key)
        return on_bridge(book, key, vrf, networks)

    monkeypatch.setattr(ServiceRecords, "on_bridge", counted)
    world = builder(network(), record(), *map(provider, range(1, 100)))
    assert Bridge.VXLAN in altered(world)
    assert len(provided(services(world)[KEY])) == 99
    assert made == [KEY] * len(Bridge)


def test_an_endpoint_that_serves_nothing_changes_no_service() -> None:
    world = builder(network(), record(), provider(1))
    world.take(Bridge.VXLAN)
    world.put(endpoint(9, host=PEER))
    world.put(provider(1, mac_address="02:02:0a:01:00:99"))
    _, changes = world.take(Bridge.VXLAN)
    assert changes.names(ObjectKind.LOCAL) == frozenset()
    assert changes.names(ObjectKind.SERVICE) == frozenset()


def test_a_bridge_has_the_providers_on_its_own_networks() -> None:
    vlan = network("n2", encap=Encap.VLAN, tag=2)
    theirs = replace(provider(2), network=nid_of("n2"), key=provider(7).key)
    world = builder(network(), vlan, record(), provider(1), theirs)
    assert provided(services(world)[KEY]) == {IPv4Address("10.1.0.1")}
    assert provided(services(world, Bridge.VLAN)[KEY]) == {IPv4Address("10.1.0.2")}


def test_tenants_have_their_own() -> None:
    blue = network("n1", "blue", tag=2)
    theirs = replace(provider(2), network=blue.id, key=provider(8).key)
    world = builder(network(), blue, record(), record(tenant="blue"), provider(1), theirs)
    found = services(world)
    assert {key: (one.vrf, len(provided(one))) for key, one in found.items()} == {
        KEY: (1, 1),
        "web:blue": (2, 1),
    }
    assert provided(found["web:blue"]) == {IPv4Address("10.1.0.2")}


def test_a_service_goes_with_its_record_and_with_its_tenants_networks() -> None:
    world = builder(network(), record(), provider(1))
    world.set_complete()
    world.remove(record())
    assert services(world) == {}
    world.put(record())
    assert provided(services(world)[KEY])
    world.remove(network())
    assert services(world) == {}
    world.put(network())
    assert provided(services(world)[KEY])


@pytest.mark.parametrize("port", ["80:8080", "80:8080:icmp", "0:1:tcp", "1:70000:tcp", "a:b:tcp"])
def test_what_cannot_be_read_is_refused_and_the_last_good_one_stays(port: str) -> None:
    world = builder(network(), record(), provider(1))
    with pytest.raises(Invalid, match=r"service web:default"):
        world.put(record(port))
    assert len(services(world)[KEY].ports) == 2
    with pytest.raises(Invalid):
        world.put(replace(record(), ip_address="nonsense"))


def test_an_endpoint_that_moves_to_another_tenant_serves_there() -> None:
    blue = network("n1", "blue", tag=2)
    world = builder(network(), blue, record(), record(tenant="blue"), provider(1))
    world.put(replace(provider(1), network=blue.id))
    for _ in range(2):
        found = services(world)
        assert provided(found[KEY]) == frozenset()
        assert provided(found["web:blue"]) == {IPv4Address("10.1.0.1")}
        world.put(record())  # whose providers are looked for anew


def test_nothing_else_changes_with_a_service() -> None:
    world = builder(network(), provider(1))
    world.take(Bridge.VXLAN)
    world.put(record())
    assert world.take(Bridge.VXLAN)[1] == Changes.of(ObjectKind.SERVICE, {KEY})


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_tenant_may_have_dots(order: tuple[int, ...]) -> None:
    nid = nid_of("n1", "a.b")
    pod = replace(provider(1, network=nid), key=endpoint_key(nid, "c1"), group_key="g1:a.b")
    facts: list[Fact] = [network(tenant="a.b"), record(tenant="a.b"), pod]
    world = builder(*(facts[place] for place in order), record(tenant="b"), network("n2", "b"))
    found = services(world)
    assert provided(found["web:a.b"]) == {IPv4Address("10.1.0.1")}
    assert provided(found["web:b"]) == set()
    for name in ("g1", "c1"):
        assert world.names.lookup(Asker(TenantName("a.b")), name, IPv4Address) == ["10.1.0.1"]
        assert world.names.lookup(Asker(TenantName("b")), name, IPv4Address) is None
    server = IPv4Address("10.1.0.53")
    message = make_query("c1", "A").to_wire()
    question = Question(pod=pod.key, network=nid, server=server, message=message)
    names = NameServer(world.names, RateLimit(0, lambda: 0.0))
    assert isinstance(names.resolve(question), bytes)


def test_a_network_of_that_id_may_be_another_tenants() -> None:
    nid = nid_of("n1", "a.b")
    pod = replace(provider(1, network=nid), key=endpoint_key(nid, "c1"))
    world = builder(network(tenant="a.b"), record(tenant="a.b"), record(tenant="b"), pod)
    world.remove(network(tenant="a.b"))
    world.put(network("n1.a", "b"))
    served = {key: provided(one) for key, one in services(world).items() if provided(one)}
    assert served == {"web:b": {IPv4Address("10.1.0.1")}}
    assert world.names.lookup(Asker(TenantName("b")), "c1", IPv4Address) == ["10.1.0.1"]
    assert world.names.lookup(Asker(TenantName("a.b")), "c1", IPv4Address) is None
