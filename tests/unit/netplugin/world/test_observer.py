"""Every change of the World notifies its observer, by whichever method it is made.

The table below names each mutating method of the classes that mark changes; a new public method
must be added to it or to the queries.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import getmembers, isfunction
from ipaddress import IPv4Address, IPv4Network
from typing import Final

import pytest

from core.ids import NetworkName, TenantName
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.networks import NetworkChange, Networks
from netplugin.world.bridges.spared import Spared
from netplugin.world.builder import WorldBuilder
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow, EndpointTable
from netplugin.world.cluster_endpoints.endpoints import Endpoints
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.peers import Peers
from netplugin.world.services.bridge_services import Services
from ofnet.world import (
    AccessPort,
    Bridge,
    HostPort,
    LocalEndpoint,
    ManagementPort,
    NamePort,
    Router,
    Service,
    Uplink,
    Vtep,
)
from state.records import EndpointRecord, ServiceRecord
from state.underlay import AddressKind, UnderlayAddress
from tests.unit.netplugin.records import NET, PEER, endpoint, group, host, key, network
from tests.unit.netplugin.worlds import altered, built, drain, port

MAC: Final = "52:54:00:00:00:01"
IP: Final = IPv4Address("192.0.2.2")
PREFIX: Final = IPv4Network("172.19.0.0/16")
LOCAL: Final = endpoint(1, group="web", group_id=7)
REMOTE: Final = endpoint(2, host=PEER)
LABELLED: Final = replace(endpoint(3, host=PEER), labels={"app": "web"}, container_id="c")
SERVED: Final = ServiceRecord(
    tenant=TenantName("default"),
    name="web",
    network=NetworkName("n1"),
    ports=("80:8080:TCP",),
    selectors={"app": "web"},
    ip_address="10.1.9.1",
)
KUBE: Final = KubeService(
    namespace="shop",
    name="web",
    addresses=(IP,),
    ports=(
        KubePort(protocol="TCP", port=80, targets=frozenset({KubeTarget(address=IP, port=8080)})),
    ),
)
ON_SWITCH: Final = Service(key="s", vrf=1, address=IP, ports=())
POD: Final = LocalEndpoint(key=key("c1"), network=NET, ofport=5, mac=MAC, ip=IP, group_id=7)
HOST_PORT: Final = HostPort(ofport=1, mac=MAC, subnet=PREFIX)
NAME_PORT: Final = NamePort(ofport=9, mac=MAC)
ROUTER: Final = Router(ofport=9, mac=MAC, ip=IP, peer=IP)
VTEP: Final = Vtep(host=PEER, ip=IP, ofport=7)
ACCESS: Final = AccessPort(ofport=8, mac=MAC, ip=IP)
POD_IP: Final = IPv4Address(LOCAL.ip_address)
SPARED: Final = Spared({POD_IP: UnderlayAddress(POD_IP, AddressKind.CONTROL, "master")})
DOTTED: Final = network("n1", "a.b", tag=2)
REACHABLE: Final = replace(host(), uplink_macs=(MAC,))


@dataclass(frozen=True, slots=True)
class Change:
    """A call that changes the World, in a World that `known` has been put into."""

    change: Callable[[WorldBuilder], object]
    known: Callable[[WorldBuilder], object] = lambda _: None


def local(world: WorldBuilder) -> None:
    world.endpoints.put_port(LOCAL.key, port(LOCAL))


def local_of_group(world: WorldBuilder) -> None:
    local(world)
    world.put(group(dscp=3))


def remote_without_network(world: WorldBuilder) -> None:
    world.put(REMOTE)
    world.endpoint_records.feed()
    world.networks.feed()
    world.networks.remove(NET)


def tenant_without_vrf(world: WorldBuilder) -> None:
    """Use up all VRF ids, one of them by a tenant that has no network any more."""
    for number in range(254):
        world.put(network("n", f"t{number}"))


def not_followed(world: WorldBuilder) -> None:
    """Put an endpoint of which no node is told."""
    world.endpoint_records.feed()
    world.put(REMOTE)


def row(record: EndpointRecord) -> EndpointRow:
    return EndpointRow(record, TenantName("default"))


def dotted(world: WorldBuilder) -> None:
    """Put a service and a provider, whose network's id does not tell that they have one tenant."""
    world.put(replace(SERVED, tenant=DOTTED.tenant))
    world.put(replace(LABELLED, network=DOTTED.id))


def dotted_served(world: WorldBuilder) -> None:
    world.put(DOTTED)
    dotted(world)


def served(world: WorldBuilder) -> None:
    world.put(SERVED)
    world.put(LABELLED)


CHANGES: Final[dict[Callable[..., object], Change]] = {
    WorldBuilder.put: Change(lambda w: w.put(REMOTE)),
    WorldBuilder.remove: Change(lambda w: w.remove(REMOTE), lambda w: w.put(REMOTE)),
    WorldBuilder.put_kube_service: Change(lambda w: w.put_kube_service(KUBE)),
    WorldBuilder.remove_kube_service: Change(
        lambda w: w.remove_kube_service(KUBE.key), lambda w: w.put_kube_service(KUBE)
    ),
    WorldBuilder.put_port: Change(lambda w: w.put_port(LOCAL.key, port(LOCAL))),
    WorldBuilder.remove_port: Change(lambda w: w.remove_port(LOCAL.key), local),
    WorldBuilder.set_kubernetes_partial: Change(lambda w: w.set_kubernetes_partial(partial=True)),
    WorldBuilder.set_complete: Change(lambda w: w.set_complete()),
    WorldBuilder.set_revision: Change(lambda w: w.set_revision("/networks/", 5)),
    WorldBuilder.forget_revision: Change(lambda w: w.forget_revision("/networks/")),
    EndpointTable.put: Change(lambda w: w.endpoint_records.put(REMOTE)),
    EndpointTable.remove: Change(
        lambda w: w.endpoint_records.remove(REMOTE.key), lambda w: w.put(REMOTE)
    ),
    EndpointTable.put_network: Change(lambda w: w.endpoint_records.put_network(DOTTED), dotted),
    EndpointTable.remove_network: Change(
        lambda w: w.endpoint_records.remove_network(DOTTED.id), dotted_served
    ),
    Endpoints.update: Change(lambda w: w.endpoints.update(None, row(REMOTE)), not_followed),
    Endpoints.put_group: Change(lambda w: w.endpoints.put_group(group(dscp=3)), local),
    Endpoints.remove_group: Change(lambda w: w.endpoints.remove_group(group().key), local_of_group),
    Endpoints.networks_changed: Change(
        lambda w: w.endpoints.networks_changed(NetworkChange([NET])), remote_without_network
    ),
    Endpoints.put_port: Change(local),
    Endpoints.remove_port: Change(lambda w: w.endpoints.remove_port(LOCAL.key), local),
    Endpoints.put_access: Change(lambda w: w.endpoints.put_access(LOCAL.key, ACCESS)),
    Endpoints.set_host_port: Change(lambda w: w.endpoints.set_host_port(HOST_PORT)),
    Networks.put: Change(lambda w: w.networks.put(network("n2"))),
    Networks.remove: Change(lambda w: w.networks.remove(NET)),
    Networks.hold: Change(lambda w: w.networks.hold(frozenset())),
    Networks.set_complete: Change(lambda w: w.networks.set_complete(), tenant_without_vrf),
    Services.put: Change(lambda w: w.services.put(SERVED)),
    Services.remove: Change(lambda w: w.services.remove(SERVED.key), served),
    Services.update_endpoint: Change(
        lambda w: w.services.update_endpoint(row(LABELLED), None), served
    ),
    Services.networks_changed: Change(
        lambda w: w.services.networks_changed(NetworkChange([], {TenantName("default")})), served
    ),
    Services.put_kube: Change(lambda w: w.services.put_kube(KUBE)),
    Services.set_private: Change(
        lambda w: w.services.set_private(PREFIX),
        lambda w: w.services.put_kube(replace(KUBE, external_ips=(PREFIX[9],))),
    ),
    Services.remove_kube: Change(
        lambda w: w.services.remove_kube(KUBE.key), lambda w: w.put_kube_service(KUBE)
    ),
    Peers.put: Change(lambda w: w.peers.put(REACHABLE)),
    Peers.remove: Change(lambda w: w.peers.remove(PEER), lambda w: w.put(REACHABLE)),
    BridgeState.set_network: Change(lambda w: w.vxlan.set_network(NET, None)),
    BridgeState.set_endpoint: Change(lambda w: w.vxlan.set_endpoint(POD.key, POD, None)),
    BridgeState.set_service: Change(lambda w: w.vxlan.set_service("s", ON_SWITCH)),
    BridgeState.set_peer_mac: Change(lambda w: w.vlan.set_peer_mac(PEER, MAC)),
    BridgeState.set_management: Change(lambda w: w.vlan.set_management("172.19.0.0/16", PREFIX)),
    BridgeState.set_management_ports: Change(
        lambda w: w.vlan.set_management_ports({"6/80": ManagementPort(6, 80)})
    ),
    BridgeState.announce: Change(lambda w: w.vxlan.announce(7), local),
    BridgeState.alter_rules: Change(lambda w: w.vxlan.alter_rules(["r"], [])),
    BridgeState.alter_kube_policies: Change(lambda w: w.vxlan.alter_kube_policies(["e"], ["s"])),
    BridgeState.alter_everything: Change(lambda w: w.vxlan.alter_everything()),
    BridgeState.set_access: Change(lambda w: w.vxlan.set_access(POD.key, ACCESS)),
    BridgeState.set_vteps: Change(lambda w: w.vxlan.set_vteps({PEER: VTEP})),
    BridgeState.set_host_port: Change(lambda w: w.vxlan.set_host_port(HOST_PORT)),
    BridgeState.set_uplinks: Change(lambda w: w.vlan.set_uplinks([Uplink(ofport=9, mac=MAC)])),
    BridgeState.set_name_port: Change(lambda w: w.vlan.set_name_port(NAME_PORT)),
    BridgeState.set_router: Change(lambda w: w.vlan.set_router(ROUTER)),
    BridgeState.set_routes: Change(lambda w: w.vlan.set_routes({PREFIX: MAC})),
    BridgeState.set_learning: Change(lambda w: w.vlan.set_learning(learning=True)),
    BridgeState.spare: Change(lambda w: w.vxlan.spare(SPARED), local),
}

QUERIES: Final[set[Callable[..., object]]] = {
    WorldBuilder.faults,
    WorldBuilder.observe,
    WorldBuilder.private_addresses,
    WorldBuilder.take,
    WorldBuilder.take_changed,
    WorldBuilder.twin,
    BridgeState.adopt,  # fills a twin, which nobody observes
    Endpoints.contested,
    EndpointTable.all,
    EndpointTable.at,
    EndpointTable.feed,  # wires an empty table
    EndpointTable.get,
    EndpointTable.here,
    EndpointTable.keys_on,
    EndpointTable.labelled,
    EndpointTable.of_id,
    EndpointTable.of_pod,
    EndpointTable.row_of,
    EndpointTable.tenant_of,
    Endpoints.group,
    Endpoints.groups,
    Endpoints.port,
    Endpoints.private_addresses,
    Endpoints.record,
    Endpoints.row,
    Endpoints.tenant_of,
    Endpoints.revoked,
    Endpoints.routed,
    Endpoints.routed_of,
    Networks.all,
    Networks.feed,
    Networks.get,
    Networks.named,
    Networks.held_tenants,
    Networks.on_bridge,
    Peers.record,
    Peers.put_bgp,  # concern the BGP session, no flow
    Peers.remove_bgp,
    Peers.apart,
    Peers.count,
    Peers.tunnel_ends,
    Services.update_bridges,  # realises changes that were notified when they came
    BridgeState.faults,
    Services.faults,
    BridgeState.take,
}


def test_each_public_method_is_a_change_or_a_query() -> None:
    kinds = (WorldBuilder, EndpointTable, Endpoints, Networks, Services, Peers, BridgeState)
    public = {
        method
        for kind in kinds
        for name, method in getmembers(kind, isfunction)
        if not name.startswith("_")
    }
    assert public == CHANGES.keys() | QUERIES
    assert not CHANGES.keys() & QUERIES


@pytest.mark.parametrize("method", CHANGES, ids=lambda method: method.__qualname__)
def test_a_change_notifies_once_until_the_state_is_taken(method: Callable[..., object]) -> None:
    step = CHANGES[method]
    world = built(idle=255)
    world.put(network())
    step.known(world)
    drain(world)
    calls: list[None] = []
    world.observe(lambda: calls.append(None))
    assert not calls
    step.change(world)
    assert len(calls) == 1
    world.vxlan.alter_everything()
    assert len(calls) == 1
    taken = world.take_changed()
    assert taken.keys() <= set(Bridge)
    assert not altered(world)
    world.vxlan.alter_everything()
    assert len(calls) == 2


def test_an_observer_that_comes_late_is_notified_of_what_was_before() -> None:
    world, calls = built(), list[None]()
    world.observe(lambda: calls.append(None))
    assert len(calls) == 1


def test_revisions_are_those_that_were_set() -> None:
    world = built()
    world.set_revision("/networks/", 4)
    world.set_revision("/networks/", 5)
    assert world.revisions == {"/networks/": 5}
    world.forget_revision("/networks/")
    assert world.revisions == {}


def test_the_same_facts_again_notify_nobody() -> None:
    world = built()
    world.put(network())
    world.put(REACHABLE)
    served(world)
    local(world)
    drain(world)
    calls: list[None] = []
    world.observe(lambda: calls.append(None))
    for record in (REACHABLE, LABELLED):
        world.put(record)
    local(world)
    assert not calls
