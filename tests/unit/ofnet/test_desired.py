"""Desired flows: object by object equals from scratch, and deltas are complete."""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId
from ofnet.changes import EVERYTHING, KINDS, Changes, ObjectKind
from ofnet.desired import Desired
from ofnet.flows import Flow, FlowKey
from ofnet.pipelines.features import flow_records
from ofnet.translations import answered, begun
from ofnet.world import (
    Bridge,
    FwdMode,
    LocalEndpoint,
    NamePort,
    PolicyClass,
    RemoteEndpoint,
    Router,
    Rule,
    ServicePort,
    Uplink,
    World,
)
from tests.unit.ofnet.full_worlds import SERVICE, worlds
from tests.unit.ofnet.worlds import (
    HOST_PORT,
    address,
    local,
    network,
    remote,
    vtep,
    with_local,
    without_local,
    world,
)

NETS = [NetworkId("net.default"), NetworkId("other.default"), NetworkId("net.blue")]
HOSTS = [HostLabel("h1"), HostLabel("h2")]
PODS = [1, 2, 3]
PREFIXES = [*map(IPv4Network, ("0.0.0.0/0", "60.1.1.0/24", "60.1.1.1", "50.1.1.2"))]
NEXT_HOPS = ["52:54:00:00:00:0c", "52:54:00:00:00:0d"]

Step = Callable[[World], tuple[World, Changes]]


def from_scratch(bridge: Bridge, of: World) -> dict[FlowKey, Flow]:
    desired = Desired(bridge)
    desired.update(of, EVERYTHING)
    return dict(desired.flows)


def put(kind: ObjectKind, key: Any, value: Any) -> Step:
    """Return the step that sets or, with None, removes one object of a World's mapping."""

    def step(before: World) -> tuple[World, Changes]:
        field = KINDS[kind].field or ""
        items = {k: v for k, v in getattr(before, field).items() if k != key}
        if value is not None:
            items[key] = value
        altered: dict[str, Any] = {field: items}
        return replace(before, **altered), Changes.of(kind, {str(key)})

    return step


def some_network(name: NetworkId, vrf: int, number: int) -> Step:
    return put(ObjectKind.NETWORK, name, network(name, vrf=vrf, number=number))


def some_local(key: int, net: NetworkId, address: int, port: int, group: int) -> Step:
    endpoint = replace(
        local(address, ofport=port), key=EndpointKey(f"pod{key}"), network=net, group_id=group
    )
    return put(ObjectKind.LOCAL, endpoint.key, endpoint)


def some_remote(key: int, net: NetworkId, address: int, host: HostLabel) -> Step:
    endpoint = replace(
        remote(address, host=host, v6=True), key=EndpointKey(f"pod{key}"), network=net
    )
    return put(ObjectKind.REMOTE, endpoint.key, endpoint)


def some_rule(name: str, group: int, allow: bool) -> Step:
    rule = Rule(id=name, priority=10, allow=allow, dst_group=group)
    return put(ObjectKind.RULE, name, rule)


def some_shared(name: str, allow: bool) -> Step:
    rule = Rule(id=name, priority=10, allow=allow, dst_class=1)
    return put(ObjectKind.RULE, name, rule)


def some_class(group: int, number: int | None) -> Step:
    member = PolicyClass(group, number) if number is not None else None
    return put(ObjectKind.POLICY_CLASS, GroupKey(f"g{group}:t1"), member)


def host_port(present: bool) -> Step:
    return lambda before: (
        replace(before, host_port=HOST_PORT if present else None),
        Changes.of(ObjectKind.HOST_PORT),
    )


def name_port(present: bool) -> Step:
    port = NamePort(ofport=32574, mac="06:02:00:00:00:35")
    return lambda before: (
        replace(before, name_port=port if present else None),
        Changes.of(ObjectKind.NAME_PORT),
    )


def uplinks(count: int) -> Step:
    links = tuple(Uplink(ofport=90 + index, mac="52:54:00:00:00:0a") for index in range(count))
    return lambda before: (replace(before, uplinks=links), Changes.of(ObjectKind.UPLINKS))


def mode(fwd_mode: FwdMode) -> Step:
    return lambda before: (replace(before, fwd_mode=fwd_mode), EVERYTHING)


def router(number: int | None) -> Step:
    mac = "52:54:00:00:00:0c" if number == 2 else None
    own, peer = IPv4Address("50.1.1.1"), IPv4Address("50.1.1.2")
    made = Router(ofport=80 + (number or 0), mac="06:02:32:01:01:01", ip=own, peer=peer)
    known = replace(made, peer_mac=mac) if number is not None else None
    return lambda before: (replace(before, router=known), Changes.of(ObjectKind.ROUTER))


nets, hosts, pods = st.sampled_from(NETS), st.sampled_from(HOSTS), st.sampled_from(PODS)
steps = st.one_of(
    st.builds(some_network, nets, st.integers(1, 2), st.integers(1, 3)),
    st.builds(put, st.just(ObjectKind.NETWORK), nets, st.none()),
    st.builds(some_local, pods, nets, pods, st.integers(10, 12), st.integers(0, 2)),
    st.builds(
        put, st.just(ObjectKind.LOCAL), pods.map(lambda n: EndpointKey(f"pod{n}")), st.none()
    ),
    st.builds(some_remote, pods, nets, pods, hosts),
    st.builds(
        put, st.just(ObjectKind.REMOTE), pods.map(lambda n: EndpointKey(f"pod{n}")), st.none()
    ),
    hosts.flatmap(
        lambda host: st.integers(2, 3).map(
            lambda port: put(ObjectKind.VTEP, host, vtep(host, ofport=port))
        )
    ),
    st.builds(put, st.just(ObjectKind.VTEP), hosts, st.none()),
    st.builds(host_port, st.booleans()),
    st.builds(name_port, st.booleans()),
    st.builds(uplinks, st.integers(0, 2)),
    st.builds(mode, st.sampled_from(FwdMode)),
    st.builds(some_rule, st.sampled_from("rs"), st.integers(1, 3), st.booleans()),
    st.builds(some_shared, st.sampled_from("rs"), st.booleans()),
    st.builds(some_class, st.integers(1, 3), st.sampled_from([None, 1, 2])),
    st.builds(put, st.just(ObjectKind.RULE), st.sampled_from("rs"), st.none()),
    st.builds(put, st.just(ObjectKind.PEER), hosts, st.sampled_from([None, "52:54:00:00:00:0b"])),
    st.builds(router, st.sampled_from([None, 1, 2])),
    st.builds(
        put,
        st.just(ObjectKind.ROUTE),
        st.sampled_from(PREFIXES),
        st.sampled_from([None, *NEXT_HOPS]),
    ),
)


@pytest.mark.parametrize("bridge", list(Bridge))
@given(history=st.lists(st.lists(steps, min_size=1, max_size=3), max_size=12))
@settings(max_examples=150)
def test_object_by_object_equals_from_scratch(bridge: Bridge, history: list[list[Step]]) -> None:
    now = World(fwd_mode=FwdMode.ROUTING)
    desired, at_large = Desired(bridge), Desired(bridge, large=0)
    for one in (desired, at_large):
        one.update(now, EVERYTHING)
    for together in history:
        before, changes = dict(desired.flows), Changes()
        for step in together:
            now, more = step(now)
            changes |= more
        delta = desired.update(now, changes)
        assert desired.flows == from_scratch(bridge, now)
        # the delta, applied as a switch does it, leads to the new state
        table = before
        table |= {flow.key: flow for flow in delta.add}
        for gone in delta.delete:
            assert table.pop(gone.key).cookie == gone.cookie
        assert table == desired.flows
        assert {flow.key for flow in (*delta.add, *delta.delete)} <= delta.touched
        # a large change is found by comparison, and nothing else differs
        large = at_large.update(now, changes)
        assert large.large
        assert not large.add
        assert {one.key: one.cookie for one in large.delete} == {
            one.key: one.cookie for one in delta.delete
        }
        assert at_large.flows == desired.flows
        assert (large.ended, large.faults) == (delta.ended, delta.faults)
        assert large.lasting == delta.lasting
        assert large.touched == delta.touched


@pytest.mark.parametrize("large", [0, 1000])
def test_connections_to_a_provider_that_goes_are_ended(large: int) -> None:
    full = replace(world(here=(local(1),), there=(remote(2),)), services={SERVICE.key: SERVICE})
    desired = Desired(Bridge.VXLAN, large=large)
    desired.update(full, EVERYTHING)
    without = replace(SERVICE, ports=(ServicePort(6, 80, frozenset()),))
    delta = desired.update(
        replace(full, services={SERVICE.key: without}),
        Changes.of(ObjectKind.SERVICE, {SERVICE.key}),
    )
    assert {(one.provider, one.port, one.address) for one in delta.ended} == {
        (address(2), 8080, SERVICE.address)
    }


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize(("bridge", "of"), list(worlds()))
def test_what_is_asked_of_all_flows_is_in_those_kept_whole(
    bridge: Bridge, of: World, records: bool
) -> None:
    desired = Desired(bridge)
    limited = {key: replace(pod, rate=1_000, burst=100) for key, pod in of.local.items()}
    desired.update(replace(of, local=limited, flow_records=records), EVERYTHING)
    flows, whole = list(desired.flows.values()), list(desired.whole())
    assert len(whole) < len(flows)
    for asked in (begun, answered):
        assert set(asked(flows)) == set(asked(whole)) != set()
    for holds in (flow_records.reports_drops, lambda flow: flow.group or flow.meters):
        assert set(filter(holds, flows)) == set(filter(holds, whole)) != set()


def test_a_pod_that_moved_here_beats_its_stale_record() -> None:
    there = remote(1)
    moved = replace(local(1), key=EndpointKey("net.default-new"))
    both = with_local(world(there=(there,)), moved)
    orders: list[list[LocalEndpoint | RemoteEndpoint]] = [[there, moved], [moved, there]]
    for order in orders:
        desired = Desired(Bridge.VXLAN)
        now = world()
        desired.update(now, EVERYTHING)
        for endpoint in order:
            now, changes = add(now, endpoint)
            desired.update(now, changes)
        assert desired.flows == from_scratch(Bridge.VXLAN, both)
        outputs = [str(flow) for flow in desired.flows.values() if "nw_dst=10.1.0.1" in str(flow)]
        assert [text for text in outputs if "output:101" in text]
        assert not [text for text in outputs if "output:2" in text]
        desired.update(without_local(now, moved.key), Changes.of(ObjectKind.LOCAL, {moved.key}))
        assert desired.flows == from_scratch(Bridge.VXLAN, world(there=(there,)))


def add(before: World, endpoint: LocalEndpoint | RemoteEndpoint) -> tuple[World, Changes]:
    if isinstance(endpoint, LocalEndpoint):
        return with_local(before, endpoint), Changes.of(ObjectKind.LOCAL, {endpoint.key})
    remotes = {**before.remote, endpoint.key: endpoint}
    return replace(before, remote=remotes), Changes.of(ObjectKind.REMOTE, {endpoint.key})


def test_an_endpoint_without_its_network_or_tunnel_has_no_flows() -> None:
    base = len(from_scratch(Bridge.VXLAN, world()))
    full = world(here=(local(1),), there=(remote(2),))
    without_network = replace(full, networks={})
    assert len(from_scratch(Bridge.VXLAN, without_network)) == base - 12
    without_tunnel = from_scratch(Bridge.VXLAN, replace(full, vteps={}))
    assert not [flow for flow in without_tunnel.values() if "10.1.0.2" in str(flow)]


def test_unchanged_objects_yield_nothing() -> None:
    desired = Desired(Bridge.VXLAN)
    full = world(here=(local(1),), there=(remote(2),))
    assert desired.update(full, EVERYTHING).add
    delta = desired.update(full, EVERYTHING)
    assert not delta.add
    assert not delta.delete
    assert delta.touched == desired.flows.keys()


def test_a_change_of_group_replaces_flows_without_deleting() -> None:
    desired = Desired(Bridge.VXLAN)
    desired.update(world(here=(local(1),)), EVERYTHING)
    grouped = replace(local(1), group_id=5)
    delta = desired.update(
        with_local(world(), grouped), Changes.of(ObjectKind.LOCAL, {grouped.key})
    )
    assert sorted(flow.table for flow in delta.add) == [1, 4]
    assert not delta.delete


@pytest.mark.parametrize(
    "bad",
    [
        replace(local(9), mac=""),
        replace(local(9), mac="not a mac"),
        replace(local(9), group_id=32768),
        replace(local(9), ofport=-1),
        replace(local(9), ofport=2**32),
        replace(local(9), dscp=300),
    ],
)
def test_an_object_with_impossible_values_harms_no_other(bad: LocalEndpoint) -> None:
    desired = Desired(Bridge.VXLAN)
    good = world(here=(local(1),))
    delta = desired.update(with_local(good, bad), EVERYTHING)
    assert [oid.name for oid in delta.faults] == [bad.key]
    assert desired.flows == from_scratch(Bridge.VXLAN, good)
    healed = with_local(good, local(9))
    assert not desired.update(healed, Changes.of(ObjectKind.LOCAL, {bad.key})).faults
    assert desired.flows == from_scratch(Bridge.VXLAN, healed)
    desired.update(with_local(good, bad), Changes.of(ObjectKind.LOCAL, {bad.key}))
    assert not desired.update(good, EVERYTHING).faults
    assert not desired.faults


def test_flows_of_a_moment_are_made_after_it() -> None:
    desired = Desired(Bridge.VXLAN)
    before = world(here=(local(1),))
    desired.update(before, EVERYTHING)
    reader = desired.reader()
    desired.update(with_local(before, local(2)), Changes.of(ObjectKind.LOCAL, {local(2).key}))
    assert reader() == from_scratch(Bridge.VXLAN, before) != desired.flows
