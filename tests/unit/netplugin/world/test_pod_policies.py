"""Policies of Kubernetes follow the records of endpoints and the VRFs of their tenants."""

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from core.errors import Invalid
from core.ids import POD_NAME, POD_NAMESPACE, NetworkId, TenantName
from netplugin.world.builder import WorldBuilder
from netplugin.world.kubernetes.kube_pods import PORT
from netplugin.world.kubernetes.policy_objects import ADMIN_POLICIES, NETWORK_POLICIES
from ofnet.changes import ObjectKind
from ofnet.world import Bridge, FwdMode, PolicyStage, PolicySubject
from state.records import Encap, EndpointRecord
from tests.unit.netplugin.records import HOST, PEER, endpoint, network
from tests.unit.netplugin.worlds import port

BLUE = TenantName("blue")


def pod(number: int, name: str, *, namespace: str = "shop", **more: Any) -> EndpointRecord:
    labels = {POD_NAMESPACE: namespace, POD_NAME: name, "app": name}
    return replace(endpoint(number), labels=labels, **more)


def policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "tested"}, "spec": spec}


DENY = policy(podSelector={})
FROM_WEB = policy(
    podSelector={"matchLabels": {"app": "db"}},
    ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}],
)


@pytest.fixture
def world() -> WorldBuilder:
    made = WorldBuilder(HOST, FwdMode.ROUTING)
    made.put(network())
    return made


def subjects(world: WorldBuilder) -> set[PolicySubject]:
    taken, _ = world.take(Bridge.VXLAN)
    return set(taken.policy_subjects.values())


def ends(world: WorldBuilder) -> set[object]:
    """Return the sources and destinations of the entries."""
    taken, _ = world.take(Bridge.VXLAN)
    matches = [one.match for one in taken.policy_entries.values()]
    both = [(match.source, match.destination) for match in matches]
    return {end for pair in both for end in pair if end is not None}


def test_a_pod_of_this_host_is_judged(world: WorldBuilder) -> None:
    world.put(pod(1, "db"))
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    assert subjects(world) == {PolicySubject(1, IPv4Address("10.1.0.1"))}
    world.pod_policies.remove(NETWORK_POLICIES, "shop/tested")
    assert subjects(world) == set()


def test_a_pod_of_another_host_is_a_peer_only(world: WorldBuilder) -> None:
    world.pod_policies.put(NETWORK_POLICIES, FROM_WEB)
    world.put(pod(1, "db"))
    world.put(pod(2, "web", homing_host=PEER))
    assert subjects(world) == {PolicySubject(1, IPv4Address("10.1.0.1"))}
    assert IPv4Address("10.1.0.2") in ends(world)
    world.remove(pod(2, "web", homing_host=PEER))
    assert IPv4Address("10.1.0.2") not in ends(world)


def test_a_pod_is_judged_once_its_port_is_there(world: WorldBuilder) -> None:
    # its first packet may come before the watch has its record
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    record = pod(1, "db")
    world.put_port(record.key, port(record))
    assert subjects(world) == {PolicySubject(1, IPv4Address("10.1.0.1"))}
    world.remove_port(record.key)
    assert subjects(world) == set()


def test_what_a_port_says_of_its_pod_holds_until_the_stores_next_record(
    world: WorldBuilder,
) -> None:
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    stale, granted = pod(1, "db"), pod(1, "db", ip_address="10.1.0.9")
    world.put(stale)
    world.put_port(granted.key, port(granted))
    assert subjects(world) == {PolicySubject(1, IPv4Address("10.1.0.9"))}
    world.put(stale)
    assert subjects(world) == {PolicySubject(1, IPv4Address("10.1.0.1"))}
    world.put_port(granted.key, port(granted))
    world.remove_port(granted.key)
    assert subjects(world) == {PolicySubject(1, IPv4Address("10.1.0.1"))}, "the store has it"


def test_a_port_that_comes_before_its_tenant_is_known_has_its_vrf_in_the_end(
    world: WorldBuilder,
) -> None:
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    record = pod(1, "db", network=NetworkId("n1.a.b"))
    world.put_port(record.key, port(record))
    assert subjects(world) == set()
    world.put(network("n1", TenantName("a.b"), tag=2))
    assert subjects(world) == {PolicySubject(2, IPv4Address("10.1.0.1"))}


def test_labels_that_change_are_followed(world: WorldBuilder) -> None:
    world.pod_policies.put(NETWORK_POLICIES, FROM_WEB)
    world.put(pod(1, "db"))
    world.put(pod(2, "other"))
    assert IPv4Address("10.1.0.2") not in ends(world)
    record = pod(2, "other")
    world.put(replace(record, labels={**(record.labels or {}), "app": "web"}))
    assert IPv4Address("10.1.0.2") in ends(world)


def test_an_endpoint_that_is_no_pods_is_no_peer(world: WorldBuilder) -> None:
    anyone = policy(podSelector={}, ingress=[{"from": [{"namespaceSelector": {}}]}])
    world.pod_policies.put_namespace("shop", {})
    world.pod_policies.put(NETWORK_POLICIES, anyone)
    world.put(pod(1, "db"))
    world.put(replace(endpoint(3), labels={"app": "web"}))
    assert IPv4Address("10.1.0.3") not in ends(world)


def test_addresses_are_those_of_the_tenants_vrf(world: WorldBuilder) -> None:
    world.put(network("n1", BLUE, tag=2))
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    blue = replace(endpoint(1, nid=NetworkId("n1.blue")), labels=pod(1, "db").labels)
    world.put(blue)
    assert subjects(world) == {PolicySubject(2, IPv4Address("10.1.0.1"))}


def test_a_pod_waits_for_the_vrf_of_its_tenant() -> None:
    world = WorldBuilder(HOST, FwdMode.ROUTING)
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    world.put(pod(1, "db"))
    assert subjects(world) == set()
    world.put(network())
    assert subjects(world) == {PolicySubject(1, IPv4Address("10.1.0.1"))}


def test_all_interfaces_of_a_pod_are_judged(world: WorldBuilder) -> None:
    world.put(network("n2", tag=2))
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    world.put(pod(1, "db"))
    world.put(replace(endpoint(9, nid=NetworkId("n2.default")), labels=pod(1, "db").labels))
    assert {str(one.address) for one in subjects(world)} == {"10.1.0.1", "10.1.0.9"}


def test_named_ports_come_from_labels(world: WorldBuilder) -> None:
    named = policy(podSelector={}, ingress=[{"ports": [{"port": "http"}]}])
    world.pod_policies.put(NETWORK_POLICIES, named)
    record = pod(1, "db")
    world.put(replace(record, labels={**(record.labels or {}), f"{PORT}http": "TCP/8080"}))
    taken, _ = world.take(Bridge.VXLAN)
    ports = {one.match.port for one in taken.policy_entries.values()}
    assert 8080 in ports


def test_only_what_changed_is_marked(world: WorldBuilder) -> None:
    world.put(pod(1, "db"))
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    world.take(Bridge.VXLAN)
    world.put(pod(2, "web", namespace="elsewhere"))
    _, changes = world.take(Bridge.VXLAN)
    assert not changes.names(ObjectKind.POLICY_ENTRY)
    assert not changes.names(ObjectKind.POLICY_SUBJECT)


def test_a_policy_that_cannot_be_read_changes_nothing(world: WorldBuilder) -> None:
    world.put(pod(1, "db"))
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    before = world.take(Bridge.VXLAN)[0].policy_entries
    wrong = policy(podSelector={}, ingress=[{"ports": [{"port": 90, "endPort": 80}]}])
    with pytest.raises(Invalid, match=r"(?s)networkpolicies shop/tested .*endPort"):
        world.pod_policies.put(NETWORK_POLICIES, wrong)
    with pytest.raises(Invalid, match=r"adminnetworkpolicies strict "):
        world.pod_policies.put(
            ADMIN_POLICIES, {"metadata": {"name": "strict"}, "spec": {"subject": {}}}
        )
    assert world.take(Bridge.VXLAN)[0].policy_entries == before


def test_a_list_removes_what_it_does_not_have(world: WorldBuilder) -> None:
    world.put(pod(1, "db"))
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    world.pod_policies.retain(NETWORK_POLICIES, ())
    assert subjects(world) == set()


def test_both_bridges_have_all_entries(world: WorldBuilder) -> None:
    world.put(network("n2", encap=Encap.VLAN, tag=2))
    world.put(pod(1, "db"))
    world.pod_policies.put(NETWORK_POLICIES, DENY)
    stages = [
        {one.match.stage for one in world.take(bridge)[0].policy_entries.values()}
        for bridge in Bridge
    ]
    assert stages == [{PolicyStage.INGRESS}] * 2
