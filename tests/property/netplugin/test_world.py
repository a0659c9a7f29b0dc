"""Whatever the history, the World and the flows are those of its outcome.

A machine tells a builder random facts, in any order, as the store and the host may; now and then
the changes are taken over as `ofnet.agent` does. What comes out must equal what a new builder makes
of the final facts alone.
"""

from dataclasses import replace
from ipaddress import IPv4Address

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.ids import (
    EndpointKey,
    GroupKey,
    HostLabel,
    NetworkId,
    NetworkName,
    ServiceKey,
    TenantName,
    split_network_id,
)
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.world import Bridge, FwdMode, Vtep
from state.records import (
    Encap,
    EndpointRecord,
    GlobalRecord,
    GroupRecord,
    NetworkRecord,
    ServiceRecord,
)
from tests.unit.netplugin.records import HOST, PEER, endpoint, group, network

FAR = HostLabel("h3")
NETWORKS = [("n1", "red"), ("n2", "red"), ("n1", "blue"), ("n1", "green")]
NETWORKS += [("n1", "a.red"), ("n1.a", "red")]  # of one id

networks = st.builds(
    lambda name, tag, encap: network(*name, tag=tag, encap=encap),
    st.sampled_from(NETWORKS),
    st.integers(1, 2),
    st.sampled_from(Encap),
)
names = st.sampled_from([NetworkId(f"{name}.{tenant}") for name, tenant in NETWORKS])
endpoints = st.builds(
    lambda number, nid, host, grouped, moved, labels: replace(
        endpoint(number, host=host, group="web" if grouped else "", group_id=7 * grouped),
        network=nid,
        group_key=GroupKey(f"web:{nid.rpartition('.')[2]}") if grouped else "",
        ip_address=f"10.1.{moved}.{number}",
        labels=labels,
        container_id="c" if labels else "",
    ),
    st.integers(1, 3),
    names,
    st.sampled_from([HOST, PEER, FAR]),
    st.booleans(),
    st.integers(0, 1),
    st.sampled_from([None, {"app": "web"}, {"app": "web", "x": "y"}, {"app": "other"}]),
)
services = st.builds(
    lambda tenant, port, last: ServiceRecord(
        tenant=TenantName(tenant),
        name="web",
        network=NetworkName("n1"),
        ports=(port,),
        selectors={"app": "web"},
        ip_address=f"10.1.9.{last}",
    ),
    st.sampled_from(["red", "blue", "a.red"]),
    st.sampled_from(["80:8080:TCP", "53:5353:udp"]),
    st.integers(1, 2),
)
groups = st.builds(
    lambda tenant, dscp: group(tenant=tenant, dscp=dscp),
    st.sampled_from(["red", "blue"]),
    st.integers(0, 2),
)
ofports = st.integers(1, 4)


class History(RuleBasedStateMachine):
    """One agent's life, and what it should have come to."""

    @initialize(mode=st.sampled_from([FwdMode.ROUTING, FwdMode.BRIDGE]))
    def begin(self, mode: FwdMode) -> None:
        self.mode = mode
        self.builder = WorldBuilder(HOST, mode)
        self.networks: dict[NetworkId, NetworkRecord] = {}
        self.endpoints: dict[EndpointKey, EndpointRecord] = {}
        self.groups: dict[GroupKey, GroupRecord] = {}
        self.ports: dict[EndpointKey, LocalPort] = {}
        self.vteps: dict[HostLabel, Vtep] = {}
        self.services: dict[ServiceKey, ServiceRecord] = {}
        self.settings: GlobalRecord | None = None
        self.complete = False
        self.given: dict[TenantName, int] = {}
        self.desired = {bridge: Desired(bridge) for bridge in Bridge}
        # a start from which most changes matter
        for name in NETWORKS[:3]:
            self.put_network(network(*name))
        self.set_vteps({PEER: 50, FAR: 51})
        for bridge in Bridge:
            self.take_over(bridge)

    @rule(record=networks)
    def put_network(self, record: NetworkRecord) -> None:
        self.networks[record.id] = record
        self.builder.put(record)

    @rule(nid=names)
    def remove_network(self, nid: NetworkId) -> None:
        self.networks.pop(nid, None)
        self.builder.remove(network(*split_network_id(nid)))

    @rule(record=endpoints)
    def put_endpoint(self, record: EndpointRecord) -> None:
        self.endpoints[record.key] = record
        port = self.ports.get(record.key)
        if port is not None and record.homing_host == HOST:
            self.ports[record.key] = replace(port, record=record)
        self.builder.put(record)

    @rule(record=endpoints)
    def remove_endpoint(self, record: EndpointRecord) -> None:
        self.endpoints.pop(record.key, None)
        self.builder.remove(record)

    @rule(record=endpoints, ofport=ofports)
    def put_port(self, record: EndpointRecord, ofport: int) -> None:
        port = LocalPort(record=replace(record, homing_host=HOST), ofport=ofport, number=ofport)
        self.ports[record.key] = port
        self.builder.endpoints.put_port(record.key, port)

    @rule(record=endpoints)
    def remove_port(self, record: EndpointRecord) -> None:
        self.ports.pop(record.key, None)
        self.builder.endpoints.remove_port(record.key)

    @rule(record=groups)
    def put_group(self, record: GroupRecord) -> None:
        self.groups[record.key] = record
        self.builder.put(record)

    @rule(record=groups)
    def remove_group(self, record: GroupRecord) -> None:
        self.groups.pop(record.key, None)
        self.builder.remove(record)

    @rule(record=services)
    def put_service(self, record: ServiceRecord) -> None:
        self.services[record.key] = record
        self.builder.put(record)

    @rule(record=services)
    def remove_service(self, record: ServiceRecord) -> None:
        self.services.pop(record.key, None)
        self.builder.remove(record)

    @rule(arp_mode=st.sampled_from(["flood", "proxy"]))
    def put_global(self, arp_mode: str) -> None:
        self.settings = GlobalRecord(
            infra_type="", fwd_mode=self.mode, arp_mode=arp_mode, pvt_subnet=""
        )
        self.builder.put(self.settings)

    @rule(there=st.dictionaries(st.sampled_from([PEER, FAR]), st.integers(50, 52)))
    def set_vteps(self, there: dict[HostLabel, int]) -> None:
        self.vteps = {
            label: Vtep(host=label, ip=IPv4Address("192.0.2.9"), ofport=ofport)
            for label, ofport in there.items()
        }
        self.builder.vxlan.set_vteps(self.vteps)

    @rule()
    def set_complete(self) -> None:
        self.complete = True
        self.builder.set_complete()

    @rule(bridge=st.sampled_from(Bridge))
    def take_over(self, bridge: Bridge) -> None:
        world, changes = self.builder.take(bridge)
        assert not self.builder.take(bridge)[1]
        self.desired[bridge].update(world, changes)
        anew = Desired(bridge)
        anew.update(world, EVERYTHING)
        assert self.desired[bridge].flows == anew.flows

    @invariant()
    def vrf_ids_are_stable_unique_and_freed(self) -> None:
        vrfs = dict(self.builder.vrfs)
        assert len(set(vrfs.values())) == len(vrfs)
        used = {record.tenant for record in self.networks.values()}
        assert vrfs.keys() >= used
        if self.complete:
            assert vrfs.keys() == used
        kept = self.given.keys() & vrfs.keys() & used
        assert {t: vrfs[t] for t in kept} == {t: self.given[t] for t in kept}
        self.given = vrfs

    @invariant()
    def nobody_is_local_and_remote(self) -> None:
        for side in (self.builder.vxlan, self.builder.vlan):
            assert not side.local.keys() & side.remote.keys()
            assert {e.network for e in side.local.values()} <= side.networks.keys()
            assert {e.network for e in side.remote.values()} <= side.networks.keys()

    @invariant()
    def the_host_has_routes_to_what_its_pods_are_reached_by(self) -> None:
        endpoints = self.builder.endpoints
        for bridge, side in ((Bridge.VXLAN, self.builder.vxlan), (Bridge.VLAN, self.builder.vlan)):
            reached = [address for one in side.local.values() for address in one.routed]
            assert endpoints.routed(bridge) == set(reached)
            assert len(reached) == len(set(reached)), "one pod has the route"
        claimed: dict[IPv4Address, set[EndpointKey]] = {}
        for key, port in self.ports.items():
            if any(port.record.network in side.networks for side in self.sides):
                claimed.setdefault(IPv4Address(port.record.ip_address), set()).add(key)
        contested = {one.address: {one.reached, *one.others} for one in endpoints.contested()}
        assert contested == {address: held for address, held in claimed.items() if len(held) > 1}

    @property
    def sides(self) -> tuple[BridgeState, BridgeState]:
        return self.builder.vxlan, self.builder.vlan

    def teardown(self) -> None:
        if not hasattr(self, "builder"):
            return
        fresh = self.from_scratch()
        for bridge in Bridge:
            self.take_over(bridge)
            assert self.builder.take(bridge)[0] == fresh.take(bridge)[0]
        assert self.builder.names.report() == fresh.names.report()

    def from_scratch(self) -> WorldBuilder:
        fresh = WorldBuilder(HOST, self.mode, self.builder.vrfs)
        if self.settings is not None:
            fresh.put(self.settings)
        for key, port in self.ports.items():
            fresh.endpoints.put_port(key, port)
        for service_record in self.services.values():
            fresh.put(service_record)
        for endpoint_record in self.endpoints.values():
            fresh.put(endpoint_record)
        for group_record in self.groups.values():
            fresh.put(group_record)
        for network_record in self.networks.values():
            fresh.put(network_record)
        for key, port in self.ports.items():  # the record the port was given last
            fresh.endpoints.put_port(key, port)
        fresh.vxlan.set_vteps(self.vteps)
        if self.complete:
            fresh.set_complete()
        return fresh


History.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestHistory = History.TestCase
