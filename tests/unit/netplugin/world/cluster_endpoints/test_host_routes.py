"""Which pods the host has routes to: one for each address, the older one's."""

from ipaddress import IPv4Address, IPv6Address

from core.ids import EndpointKey
from netplugin.world.cluster_endpoints.host_routes import Contested, HostRoutes, Pod

FOUR, SIX = IPv4Address("10.1.0.1"), IPv6Address("fd00::1")
OLD, NEW, THIRD = (Pod(number, EndpointKey(f"n.t-{number}")) for number in (1, 2, 3))


def test_a_pod_has_routes_to_its_addresses_until_it_goes() -> None:
    routes = HostRoutes()
    assert routes.claim(OLD, {FOUR, SIX}) == frozenset()
    assert routes.of(OLD) == {FOUR, SIX}
    assert list(routes.contested()) == []
    assert routes.claim(OLD, {SIX}) == frozenset()
    assert routes.of(OLD) == {SIX}
    assert routes.claim(OLD, frozenset()) == frozenset()
    assert routes.of(OLD) == frozenset()
    assert routes.claim(OLD, frozenset()) == frozenset()


def test_the_lower_number_has_the_route_in_whichever_order_they_come() -> None:
    for first, second in ((OLD, NEW), (NEW, OLD)):
        routes = HostRoutes()
        routes.claim(first, {FOUR})
        assert first.key in routes.claim(second, {FOUR})
        assert routes.of(OLD) == {FOUR}
        assert routes.of(NEW) == frozenset()
        assert list(routes.contested()) == [Contested(FOUR, OLD.key, (NEW.key,))]


def test_the_next_one_inherits_the_route() -> None:
    routes = HostRoutes()
    for pod in (THIRD, NEW, OLD):
        routes.claim(pod, {FOUR})
    assert routes.claim(OLD, frozenset()) == {NEW.key}
    assert routes.of(NEW) == {FOUR}
    assert list(routes.contested()) == [Contested(FOUR, NEW.key, (THIRD.key,))]


def test_one_family_may_be_anothers() -> None:
    routes = HostRoutes()
    routes.claim(OLD, {FOUR})
    routes.claim(NEW, {FOUR, SIX})
    assert routes.of(NEW) == {SIX}
