"""Services of Kubernetes, with the tenants of their providers."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

import pytest

from core.ids import EndpointKey, HostLabel, NetworkId, TenantName
from netplugin.world.cluster_endpoints.endpoint_table import EndpointTable
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.services.kube_providers import KubeProviders
from ofnet.world import Provider, Service
from state.records import EndpointRecord
from tests.unit.netplugin.records import endpoint

HERE, THERE = HostLabel("here"), HostLabel("there")
POD = IPv4Address("10.1.0.1")
VRFS = {TenantName("red"): 1, TenantName("blue"): 2}
NETWORKS = {NetworkId("n.red"), NetworkId("n.blue")}


def pod(tenant: str, name: str, host: HostLabel = HERE, address: str = str(POD)) -> EndpointRecord:
    return replace(
        endpoint(),
        key=EndpointKey(f"n.{tenant}-{name}-{host}"),
        network=NetworkId(f"n.{tenant}"),
        common_name=name,
        homing_host=host,
        ip_address=address,
    )


def target(name: str = "web-1", *, node: str = "here", address: str = str(POD)) -> KubeTarget:
    found = IPv6Address(address) if ":" in address else IPv4Address(address)
    return KubeTarget(address=found, port=8080, node=node, pod=f"shop/{name}" if name else "")


def service(*targets: KubeTarget, local: bool = False) -> KubeService:
    return KubeService(
        namespace="shop",
        name="web",
        addresses=(IPv4Address("10.96.0.10"),),
        internal_local=local,
        ports=(KubePort(protocol="TCP", port=80, targets=frozenset(targets)),),
    )


def on_bridge(one: KubeService, *pods: EndpointRecord) -> dict[str, Service]:
    table = EndpointTable(HERE)
    known = KubeProviders(HERE, table)
    known.put_service(one)
    for each in pods:
        table.put(each)
    return known.on_bridge(one.key, VRFS, NETWORKS)


def providers(one: KubeService, *pods: EndpointRecord) -> set[Provider]:
    (port,) = on_bridge(one, *pods)["shop/web"].ports
    return set(port.providers)


def test_a_pod_is_its_own_tenants_alone() -> None:
    both = (pod("red", "web-1"), pod("blue", "other"))
    assert providers(service(target()), *both) == {Provider(POD, 8080, 1)}
    assert providers(service(target("other")), *both) == {Provider(POD, 8080, 2)}


def test_of_two_pods_of_one_name_and_address_the_node_tells() -> None:
    both = (pod("red", "web-1", THERE), pod("blue", "web-1"))
    assert providers(service(target(node="there")), *both) == {Provider(POD, 8080, 1)}
    assert providers(service(target(node="elsewhere")), *both) == set(), "never by address alone"


def test_a_pod_that_is_not_known_yet_is_nobody_elses() -> None:
    assert providers(service(target()), pod("blue", "other")) == set()


def test_an_address_without_a_pod_serves_everybody() -> None:
    outside = target("", address="192.0.2.1")
    assert providers(service(outside)) == {Provider(IPv4Address("192.0.2.1"), 8080)}


def test_an_address_given_by_hand_is_the_pods_that_has_it() -> None:
    assert providers(service(target("")), pod("red", "web-1")) == {Provider(POD, 8080, 1)}
    both = (pod("red", "web-1"), pod("blue", "web-1"))
    assert providers(service(target("", node="")), *both) == set()


def test_pods_of_the_other_bridge_are_left_out() -> None:
    elsewhere = replace(pod("red", "web-1"), network=NetworkId("vlan.red"))
    assert providers(service(target()), elsewhere) == set()


def test_ports_have_providers_of_their_own() -> None:
    one = service(target())
    second = KubePort(protocol="UDP", port=53, targets=frozenset({target(address="192.0.2.1")}))
    ignored = KubePort(protocol="SCTP", port=99, targets=frozenset({target()}))
    found = on_bridge(replace(one, ports=(*one.ports, second, ignored)), pod("red", "web-1"))
    assert {
        (port.protocol, port.port): {str(each.address) for each in port.providers}
        for port in found["shop/web"].ports
    } == {(6, 80): {str(POD)}, (17, 53): {"192.0.2.1"}}


@pytest.mark.parametrize("pods", [(), (pod("red", "web-1"),)])
def test_a_local_policy_leaves_the_targets_of_this_node(pods: tuple[EndpointRecord, ...]) -> None:
    far = target("", node="there", address="192.0.2.1")
    found = providers(service(target(), far, local=True), *pods)
    assert {one.address for one in found} == {POD}


def test_a_local_policy_prefers_ready_targets_and_falls_back_to_draining_ones() -> None:
    far, draining = target("", node="there", address="192.0.2.1"), target("", address="192.0.2.2")
    one = service(far, local=True)
    one = replace(one, ports=(replace(one.ports[0], draining=frozenset({draining})),))
    assert {each.address for each in providers(one)} == {draining.address}


def test_draining_targets_keep_what_they_have() -> None:
    ready, leaving = target(), target("web-2", address="10.1.0.2")
    one = service(ready)
    one = replace(one, ports=(replace(one.ports[0], draining=frozenset({leaving})),))
    pods = pod("red", "web-1"), pod("red", "web-2", address="10.1.0.2")
    (port,) = on_bridge(one, *pods)["shop/web"].ports
    assert port.draining == {Provider(leaving.address, 8080, 1)}
    assert port.providers == {Provider(POD, 8080, 1)}
    # where no other is there they are providers, as with kube-proxy
    one = replace(one, ports=(replace(one.ports[0], targets=frozenset({leaving})),))
    (port,) = on_bridge(one, *pods)["shop/web"].ports
    assert port.providers == {Provider(leaving.address, 8080, 1)}
    assert not port.draining


def test_hints_choose_the_providers_and_leave_the_others_what_they_have() -> None:
    near, far = target(), target("web-2", address="10.1.0.2")
    pods = (pod("red", "web-1"), pod("red", "web-2", THERE, "10.1.0.2"))
    (port,) = on_bridge(hinted(service(near, far), near), *pods)["shop/web"].ports
    assert port.providers == {Provider(POD, 8080, 1)}
    assert port.draining == {Provider(IPv4Address("10.1.0.2"), 8080, 1)}


def test_hints_take_no_tenant_its_only_providers() -> None:
    near, far, host = target(), target("web-2", address="10.1.0.2"), target("", address="192.0.2.1")
    pods = (pod("red", "web-1"), pod("blue", "web-2", THERE, "10.1.0.2"))
    red, blue = Provider(POD, 8080, 1), Provider(IPv4Address("10.1.0.2"), 8080, 2)
    every = service(near, far, host)
    assert providers(hinted(every, near), *pods) == {red, blue}
    everybodys = Provider(IPv4Address("192.0.2.1"), 8080)
    assert providers(hinted(every, near, host), *pods) == {red, everybodys}
    gone = target("web-9", address="10.1.0.9")
    assert providers(hinted(every, gone), *pods, pod("red", "x", HERE, "10.1.0.9")) == {
        red,
        blue,
        everybodys,
    }


def test_hints_do_not_hold_where_a_policy_does() -> None:
    near, far = target(node="there"), target("web-2", address="10.1.0.2")
    pods = (pod("red", "web-1", THERE), pod("red", "web-2", HERE, "10.1.0.2"))
    found = providers(hinted(service(near, far, local=True), near), *pods)
    assert found == {Provider(IPv4Address("10.1.0.2"), 8080, 1)}


def hinted(one: KubeService, *targets: KubeTarget) -> KubeService:
    (port,) = one.ports
    return replace(one, ports=(replace(port, hinted=frozenset(targets)),))


def test_each_address_is_a_service_with_the_targets_of_its_family() -> None:
    one = replace(
        service(target(), target("", address="2001:db8::1")),
        addresses=(IPv4Address("10.96.0.10"), IPv6Address("2001:db8::a")),
        external_ips=(IPv4Address("203.0.113.9"),),
        affinity_seconds=10,
    )
    found = on_bridge(one, pod("red", "web-1"))
    assert set(found) == {"shop/web", "shop/web@2001:db8::a", "shop/web@203.0.113.9"}
    assert all(each.affinity == 10 and each.vrf == 0 for each in found.values())
    assert {
        name: {str(each.address) for each in one.ports[0].providers} for name, one in found.items()
    } == {
        "shop/web": {str(POD)},
        "shop/web@2001:db8::a": {"2001:db8::1"},
        "shop/web@203.0.113.9": {str(POD)},
    }


def test_a_headless_service_is_on_no_bridge() -> None:
    assert on_bridge(replace(service(target()), addresses=())) == {}


def test_what_goes_is_forgotten() -> None:
    altered = list[set[str]]()
    table = EndpointTable(HERE)
    known = KubeProviders(HERE, table)
    table.feed(lambda old, new: altered.append(known.update_endpoint(old, new)))
    one, here = service(target()), pod("red", "web-1")
    known.put_service(one)
    table.put(here)
    table.put(replace(here, ip_address="10.1.0.9"))
    table.remove(here.key)
    assert altered == [{"shop/web"}, {"shop/web"}, set()], "at last it had another address"
    known.remove_service("shop/web")
    table.put(here)
    assert altered[-1] == set()
    assert known.on_bridge("shop/web", VRFS, NETWORKS) == {}


def test_ranges_of_clients_count_at_the_balancers_address_alone() -> None:
    balanced, block = IPv4Address("203.0.113.10"), IPv4Network("198.51.100.0/24")
    web = replace(service(target()), load_balancer_ips=(balanced,), source_ranges=(block,))
    found = {one.address: one.clients for one in on_bridge(web, pod("red", "web-1")).values()}
    assert found == {IPv4Address("10.96.0.10"): (), balanced: (block,)}


def test_what_another_proxy_serves_is_on_no_bridge() -> None:
    assert on_bridge(replace(service(target()), left_alone=True), pod("red", "web-1")) == {}


VICTIM = IPv4Address("10.1.0.9")
LATER = IPv6Address("fd10::9")


def reaching_for(*targets: KubeTarget) -> KubeService:
    """Return a service that names others' addresses as its external ones."""
    return replace(service(*targets), external_ips=(VICTIM,), load_balancer_ips=(VICTIM, LATER))


def test_a_pods_address_is_no_services() -> None:
    table = EndpointTable(HERE)
    known = KubeProviders(HERE, table)
    altered: list[set[str]] = []
    table.feed(lambda old, new: altered.append(known.update_endpoint(old, new)))
    known.put_service(reaching_for(target()))
    assert known.services["shop/web"] == reaching_for(target()), "nobody has them"
    assert known.faults() == []
    victim = pod("blue", "victim", address=str(VICTIM))
    table.put(victim)
    assert altered == [{"shop/web"}]
    assert {str(one.address) for one in known.on_bridge("shop/web", VRFS, NETWORKS).values()} == {
        *("10.96.0.10", str(LATER))
    }
    served = replace(reaching_for(target()), external_ips=(), load_balancer_ips=(LATER,))
    assert known.services["shop/web"] == served
    assert known.faults() == [f"service shop/web not served at {VICTIM}, which is pod victim's"]
    table.put(replace(victim, ipv6_address=str(LATER)))
    assert not any(one == LATER for one in known.services["shop/web"].load_balancer_ips)
    # the service that comes after the pod, too
    known.put_service(reaching_for(target()))
    assert len(known.faults()) == 2
    table.remove(victim.key)
    assert altered[-1] == {"shop/web"}
    assert known.services["shop/web"] == reaching_for(target())
    assert known.faults() == []
    known.remove_service("shop/web")
    table.put(victim)
    assert altered[-1] == set()


def test_a_service_may_have_the_address_of_its_own_pod() -> None:
    own = target("victim", address=str(VICTIM))
    table = EndpointTable(HERE)
    known = KubeProviders(HERE, table)
    table.put(pod("blue", "victim", address=str(VICTIM)))
    known.put_service(reaching_for(own))
    assert known.services["shop/web"].external_ips == (VICTIM,)
    assert known.faults() == []


@pytest.mark.parametrize(
    "address",
    [
        "172.19.255.254",
        "172.19.0.5",
        "fd63:6f6e:7469:7600::ac13:1",
        "fd63:6f6e:7469:7601::1",
        "fd63:6f6e:7469:7602::ac13:5",
    ],
)
def test_no_service_has_what_hosts_and_pods_are_to_each_other(address: str) -> None:
    """Answers of pods to what their host forwards to them go to such an address."""
    own = ip_address(address)
    known = KubeProviders(HERE, EndpointTable(HERE))
    greedy = replace(service(target()), external_ips=(own,), load_balancer_ips=(own, LATER))
    known.put_service(greedy)
    known.set_private(IPv4Network("172.19.0.0/16"))
    assert known.services["shop/web"].external_ips == ()
    assert known.services["shop/web"].load_balancer_ips == (LATER,)
    (fault,) = known.faults()
    assert fault.endswith(
        f"not served at {own}, which is reserved for traffic between hosts and their pods"
    )
    assert own not in {one.address for one in known.on_bridge(greedy.key, VRFS, NETWORKS).values()}


def test_a_service_is_served_at_what_was_the_private_network() -> None:
    known = KubeProviders(HERE, EndpointTable(HERE))
    known.set_private(IPv4Network("172.19.0.0/16"))
    asked = replace(service(target()), external_ips=(IPv4Address("172.19.0.5"),))
    known.put_service(asked)
    assert known.services["shop/web"].external_ips == ()
    assert known.set_private(IPv4Network("172.20.0.0/16")) == {"shop/web"}
    assert known.services["shop/web"] == asked
    assert known.set_private(IPv4Network("172.20.0.0/16")) == set()
