"""The flows of services; what they do to packets is tested on a real switch."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import pytest

from core.ids import NetworkId
from ofnet import digests
from ofnet.changes import Changes, ObjectKind
from ofnet.desired import Desired
from ofnet.flows import AnyFlow, Flow, FlowKey
from ofnet.openflow.actions import PORT_CONTROLLER, Conntrack, Output, SelectGroup
from ofnet.pipelines.features.service_nat import HASHES, weights_of
from ofnet.tables import Mode, TableId, fragment_zone_of, hairpin_zone_of, zone_of
from ofnet.translations import Translated, answered, begun
from ofnet.world import Bridge, FwdMode, Network, Provider, Service, ServicePort
from tests.unit.ofnet.pipelines.scene import ANN, BOB, EVE, FAR, v6, world
from tests.unit.ofnet.serving import VIP, VIP6, flows_of_services, having, lines, service
from tests.unit.ofnet.walk import flows_of
from tests.unit.ofnet.worlds import ip_of

ZONE = 49153
VRF = "metadata=0x100000000/0xff00000000"
ALL = (TableId.SRV_PROXY_DNAT, TableId.SERVICES, TableId.SRV_PROXY_SNAT)


def owned(flows: list[Flow], kind: ObjectKind = ObjectKind.SERVICE) -> list[Flow]:
    return [one for one in flows if one.owner is kind]


def test_a_service_in_whole_lines() -> None:
    flows = owned(flows_of_services(service(ip_of(BOB))))
    group = next(one.instructions.group for one in flows if one.instructions.group is not None)
    assert (
        "\n".join(lines(flows, *ALL))
        == f"""\
table=12, priority=100,ct_state=+new-inv+trk,ct_nw_proto=6,ct_tp_dst=80,tcp,{VRF},nw_dst={VIP} \
actions=group:{group.id}
table=3, priority=100,icmp,{VRF},nw_dst={VIP} actions=ct(table=12,zone={ZONE},nat)
table=3, priority=100,tcp,{VRF},nw_dst={VIP},tp_dst=80 actions=ct(table=12,zone={ZONE},nat)
table=3, priority=9,tcp,{VRF},nw_dst={VIP} \
actions=move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[],move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],\
set_field:00:00:11:11:11:11->eth_src,ct(table=15,zone={ZONE},nat)
table=3, priority=98,tcp,{VRF},nw_dst={BOB.ip},tp_dst=8080 \
actions=ct(commit,table=4,zone={ZONE},nat(src))
table=6, priority=100,tcp,{VRF},nw_src={BOB.ip},tp_src=8080 actions=ct(table=7,zone={ZONE},nat)"""
    )
    assert list(map(str, group.buckets)) == [
        f"bucket=weight:1,actions=ct(commit,table=12,zone={ZONE},nat(dst={BOB.ip}:8080))"
    ]


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("mode", FwdMode)
def test_no_translation_changes_nothing_where_that_ends_the_switch(
    mode: FwdMode, bridge: Bridge
) -> None:
    services = [
        service(ip_of(BOB), ip_of(FAR)),
        service(ip_of(BOB), ip_of(FAR), key="dns:default", address=VIP6, protocol=17, affinity=9),
        # external addresses may be those of the providers themselves
        service(ip_of(BOB), ip_of(FAR), key="own:default", address=ip_of(BOB), port=8080),
        service(ip_of(BOB), key="udp:default", address=ip_of(BOB), protocol=17, port=8080),
    ]
    made = having(world(mode, vxlan=bridge is Bridge.VXLAN), *services)
    flows = flows_of(replace(made, unchanged_nat=False), bridge)
    translations = [
        (dict(flow.match.fields), one.nat)
        for flow in flows
        for one in committed(flow)
        if one.nat is not None
    ]
    assert any(nat.end == "dst" for _, nat in translations)
    for match, nat in translations:
        assert nat.address is not None, "the same source"
        to = match.get("ipv4_dst", match.get("ipv6_dst"))
        same = (to, match.get("ct_tp_dst", nat.port)) == (nat.address, nat.port)
        assert nat.end == "src" or not same
        assert not any(one.end == "src" and one.address == BOB.ip for _, one in translations)


def committed(flow: Flow) -> list[Conntrack]:
    """Return the ways by which a flow enters connections, those of its group too."""
    instructions = flow.instructions
    buckets = instructions.group.buckets if instructions.group is not None else ()
    actions = [*instructions.actions, *(one for bucket in buckets for one in bucket.actions)]
    return [one for one in actions if isinstance(one, Conntrack) and one.commit]


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("mode", FwdMode)
def test_errors_commit_on_the_kernels_datapath_alone(mode: FwdMode, bridge: Bridge) -> None:
    """It leaves what is related to a connection as it is, unless it is told to commit."""
    services = [service(ip_of(BOB)), service(ip_of(BOB), key="six:default", address=VIP6)]
    made = having(world(mode, vxlan=bridge is Bridge.VXLAN), *services)
    found = {
        (fields["ip_proto"], fields.get("icmp_type", fields.get("icmpv6_type")))
        for flow in flows_of(replace(made, nd_extension=False), bridge)
        if flow.table == TableId.SRV_PROXY_DNAT and committed(flow)
        for fields in [dict(flow.match.fields)]
        if fields["ip_proto"] in {1, 58}
    }
    assert found == {(1, 3), (1, 11), (1, 12), (58, 1), (58, 2), (58, 3), (58, 4)}
    for flow in flows_of(made, bridge):
        assert not committed(flow) or dict(flow.match.fields).get("ip_proto") not in {1, 58}


def test_a_datagram_is_dealt_out_by_its_ports() -> None:
    flows = owned(flows_of_services(service(ip_of(BOB), ip_of(FAR), protocol=17, port=53)))
    found = lines(flows, TableId.SERVICES)
    assert found[0].endswith(
        "actions=multipath(symmetric_l3l4+udp,0,modulo_n,2,0,NXM_NX_REG0[]),goto_table:14"
    )
    assert not any(one.instructions.group for one in flows)
    chosen = [one for one in flows if one.table == TableId.CHOICE and "ct_tp_dst" in str(one)]
    assert [dict(one.match.fields)["reg0"] for one in chosen] == [0, 1]


def test_ports_have_providers_of_their_own() -> None:
    ports = (
        ServicePort(6, 80, frozenset({Provider(ip_of(BOB), 8080, 1)})),
        ServicePort(
            6, 81, frozenset({Provider(ip_of(FAR), 9090, 1), Provider(ip_of(BOB), 9091, 1)})
        ),
    )
    flows = flows_of_services(replace(service(), ports=ports))
    assert set(begun(flows)) == {
        Translated(ZONE, 6, ip_of(BOB), 8080, VIP, 80),
        Translated(ZONE, 6, ip_of(FAR), 9090, VIP, 81),
        Translated(ZONE, 6, ip_of(BOB), 9091, VIP, 81),
    }


def refused(flows: list[Flow]) -> list[Flow]:
    controller = Output(PORT_CONTROLLER)
    return [
        one
        for one in flows
        if one.table == TableId.SRV_PROXY_DNAT and controller in one.instructions.actions
    ]


def test_a_port_without_providers_is_refused() -> None:
    (found,) = refused(flows_of_services(service()))
    assert dict(found.match.fields)["tcp_dst"] == 80


def test_a_client_gets_no_other_tenants_pod() -> None:
    """Both tenants have a pod of this address; the service is everybody's."""
    red, blue = network_pair()
    here = world(FwdMode.ROUTING)
    here = replace(here, networks={**here.networks, red.id: red, blue.id: blue})
    shared = replace(
        service(vrf=0), ports=(ServicePort(6, 80, frozenset({Provider(ip_of(BOB), 8080, 2)})),)
    )
    desired = Desired(Bridge.VXLAN)
    desired.update(having(here, shared), Changes(everything=True))
    flows = list(desired.flows.values())
    assert set(begun(flows)) == {Translated(zone_of(Mode.VROUTER, 2), 6, ip_of(BOB), 8080, VIP, 80)}
    zones = {dict(one.match.fields)["metadata"].value >> 32 for one in refused(flows)}
    assert zones == {1, 3}, "to the others nobody serves it"


def network_pair() -> tuple[Network, Network]:
    one = next(iter(world(FwdMode.ROUTING).networks.values()))
    red, blue = (replace(one, id=NetworkId(f"a.{name}")) for name in ("red", "blue"))
    return replace(red, vrf=2), replace(blue, vrf=3)


def test_who_is_no_pod_serves_every_tenant() -> None:
    outside = IPv4Address("192.0.2.1")
    ports = (ServicePort(6, 80, frozenset({Provider(outside, 443)})),)
    flows = flows_of_services(replace(service(vrf=0), ports=ports))
    assert set(begun(flows)) == {Translated(ZONE, 6, outside, 443, VIP, 80)}


@pytest.mark.parametrize("bridge", Bridge)
def test_a_bridged_client_gets_a_provider_beside_it_if_there_is_one(bridge: Bridge) -> None:
    away = IPv4Address("10.2.0.3")
    flows = flows_of_services(service(ip_of(BOB), away), mode=FwdMode.BRIDGE, bridge=bridge)
    choices = [one for one in flows if one.table == TableId.SERVICES and one.instructions.group]
    found = {
        str(dict(one.match.fields).get("ipv4_src")): {to.provider for to in begun([one])}
        for one in choices
    }
    assert found["None"] == {BOB.ip, away}
    assert found["10.2.0.0/16"] == {away}
    assert found["10.1.0.0/16"] == {BOB.ip}


def test_ipv6_in_the_same_way() -> None:
    flows = owned(flows_of_services(service(v6(2), address=VIP6)))
    assert set(begun(flows)) == {Translated(ZONE, 6, v6(2), 8080, VIP6, 80)}
    asked = [str(one) for one in flows if one.table == TableId.NEIGHBOURS]
    assert len(asked) == 1
    assert f"nd_target={VIP6}" in asked[0]


def test_affinity_remembers_the_provider_of_each_client() -> None:
    flows = owned(flows_of_services(service(ip_of(BOB), ip_of(FAR), affinity=10800)))
    (new,) = lines([one for one in flows if "ct_tp_dst" in str(one)], TableId.SERVICES)
    dealt = "multipath(symmetric_l3l4+udp,0,modulo_n,2,0,NXM_NX_REG0[])"
    assert new.endswith(f"actions={dealt},resubmit(,13),goto_table:14")
    chosen = [dict(one.match.fields) for one in flows if one.table == TableId.CHOICE]
    assert {one["reg0"] for one in chosen if "reg0" in one} == {0, 1}
    assert len({one["reg1"] for one in chosen if "reg1" in one}) == 2
    learning = lines(flows, TableId.CHOICE)
    assert all("learn(table=13,idle_timeout=10800" in one for one in learning)


def test_the_flows_of_a_client_do_not_depend_on_how_many_clients_there_are() -> None:
    """Nothing is there for a client but what its port needs in case it serves itself."""
    flows = owned(flows_of_services(service(ip_of(BOB))), ObjectKind.LOCAL)
    own = [one for one in flows if one.table in {TableId.SRV_PROXY_DNAT, TableId.SERVICES}]
    assert len(own) == (3 + 4) * len((ANN, BOB, EVE)), "of IPv4, of IPv6"


@pytest.mark.parametrize("mode", FwdMode)
def test_a_provider_that_goes_ends_its_connections(mode: FwdMode) -> None:
    here = world(mode)
    desired = Desired(Bridge.VXLAN)
    desired.update(having(here, service(ip_of(BOB), ip_of(FAR))), Changes(everything=True))
    changed = Changes.of(ObjectKind.SERVICE, ["web:default"])
    grown = desired.update(having(here, service(ip_of(BOB), ip_of(FAR), ip_of(ANN))), changed)
    assert not grown.ended, "a provider that comes moves nobody"
    shrunk = desired.update(having(here, service(ip_of(BOB), ip_of(ANN))), changed)
    assert shrunk.ended == {Translated(ZONE, 6, ip_of(FAR), 8080, VIP, 80)}


def test_a_draining_provider_keeps_its_connections_and_gets_no_new_ones() -> None:
    here = world(FwdMode.ROUTING)
    desired = Desired(Bridge.VXLAN)
    changed = Changes.of(ObjectKind.SERVICE, ["web:default"])
    far = Translated(ZONE, 6, ip_of(FAR), 8080, VIP, 80)

    def with_services(*services: Service) -> frozenset[Translated]:
        return desired.update(having(here, *services), changed).ended

    desired.update(having(here, service(ip_of(BOB), ip_of(FAR))), Changes(everything=True))
    assert not with_services(service(ip_of(BOB), draining=[ip_of(FAR)]))
    assert far not in set(begun(desired.flows.values()))
    assert far[:4] in {one[:4] for one in answered(desired.flows.values())}
    assert not with_services(service(ip_of(BOB), ip_of(FAR))), "it is ready again"
    assert not with_services(service(ip_of(BOB), draining=[ip_of(FAR)]))
    assert with_services(service(ip_of(BOB))) == {far}
    assert not with_services(service(ip_of(BOB), draining=[ip_of(FAR)]))
    assert with_services() == {far, Translated(ZONE, 6, ip_of(BOB), 8080, VIP, 80)}


def test_groups_follow_their_flows() -> None:
    here = world(FwdMode.ROUTING)
    desired = Desired(Bridge.VXLAN)
    desired.update(having(here, service(ip_of(BOB))), Changes(everything=True))
    (before,) = desired.groups()
    changed = Changes.of(ObjectKind.SERVICE, ["web:default"])
    delta = desired.update(having(here, service(ip_of(BOB), ip_of(FAR))), changed)
    used = {one.instructions.group.id for one in delta.add if one.instructions.group}
    assert used == desired.groups()
    assert before not in used


def test_a_group_whose_number_is_taken_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 000 groups two have one digest once in 20 times: both services must work."""
    # what tells a second turn makes the content half a word longer
    monkeypatch.setattr("ofnet.digests.number", lambda content: 1 + len(content) // 4 % 2)
    desired = Desired(Bridge.VXLAN)
    both = [service(one, key=f"{name}:default", port=port) for one, name, port in TWO]
    desired.update(having(world(FwdMode.ROUTING), *both), Changes(everything=True))
    assert not desired.faults
    groups = {one.key: groups_of(desired, one.key) for one in both}
    assert sorted(map(len, groups.values())) == [1, 1]
    assert {group.id for found in groups.values() for group in found} == desired.groups() == {1, 2}
    assert len({group.buckets for found in groups.values() for group in found}) == 2
    assert cookies(desired.flows) == cookies(desired.held), "as made anew, so kept"

    # Who has the first number goes. The other keeps its second one: nothing is written anew.
    (gone,) = (one for one in both if {group.turn for group in groups[one.key]} == {0})
    (left,) = (one for one in both if one is not gone)
    there = having(world(FwdMode.ROUTING), left)
    delta = desired.update(there, Changes.of(ObjectKind.SERVICE, [gone.key]))
    assert delta.add == ()
    assert groups_of(desired, left.key) == groups[left.key]
    assert desired.groups() == {group.id for group in groups[left.key]}
    assert cookies(desired.flows) == cookies(desired.held)


def test_a_service_that_waits_for_anothers_address_keeps_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, first = digests.number, list[int]()

    def number(content: bytes) -> int:
        """Give all groups one number at their first turn, and their own at others."""
        first.append(len(content) // 4 % 2)
        return 1 if first[-1] == first[0] else real(content)

    monkeypatch.setattr("ofnet.digests.number", number)
    desired = Desired(Bridge.VXLAN)
    one, two = (service(to, key=f"{name}:default") for to, name, _ in TWO)
    there = world(FwdMode.ROUTING)
    desired.update(having(there, one), Changes(everything=True))
    desired.update(having(there, one, two), Changes.of(ObjectKind.SERVICE, [two.key]))
    assert desired.groups() > {1}, "the second waits, and has a number"
    delta = desired.update(having(there, two), Changes.of(ObjectKind.SERVICE, [one.key]))
    (group,) = {flow.group for flow in delta.add if flow.group is not None}
    assert group.turn == 1
    assert desired.groups() == {group.id}
    assert cookies(desired.flows) == cookies(desired.held)


def groups_of(desired: Desired, name: str) -> set[SelectGroup]:
    return {flow.group for flow in desired.named(name) if flow.group is not None}


def cookies(flows: Mapping[FlowKey, AnyFlow]) -> dict[FlowKey, int]:
    return {key: flow.cookie for key, flow in flows.items()}


TWO = ((ip_of(BOB), "one", 80), (ip_of(FAR), "two", 81))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10, 16, 40, 100, 128])
def test_providers_get_even_shares(count: int) -> None:
    """As Open vSwitch deals out: a power of two of values, not less than the sum of weights."""
    shares = weights_of(count)
    assert len(shares) == count
    assert len({sum(one) for one in shares}) <= 2
    values = 16
    while values < sum(map(sum, shares)) / min(min(shares)):
        values *= 2
    assert values <= HASHES
    assert count == 1 or values >= min(8 * count, HASHES / 2)


def test_bridges_have_zones_of_their_own() -> None:
    modes = (Mode.VROUTER, Mode.VLROUTER)
    zones = {
        of(mode, vrf) for of in (zone_of, hairpin_zone_of) for mode in modes for vrf in range(256)
    }
    assert len(zones) == 1024
    assert zones.isdisjoint(map(fragment_zone_of, range(256)))
    assert max(zones) < 0xFFF0
    assert all(
        action.zone in zones
        for flow in flows_of_services(service(ip_of(BOB)), bridge=Bridge.VLAN)
        for action in flow.instructions.actions
        if isinstance(action, Conntrack) and action.nat is not None
    )


def test_two_services_of_one_address() -> None:
    """A port belongs to the first of them that has it."""
    one = service(ip_of(BOB), key="a:default")
    two: Service = service(ip_of(FAR), key="b:default")
    assert {to.provider for to in begun(flows_of_services(one, two))} == {BOB.ip}
    nobody = service(key="a:default")
    assert {to.provider for to in begun(flows_of_services(nobody, two))} == {FAR.ip}


def test_clients_may_be_held_to_some_addresses() -> None:
    """Requests and fragments of others meet the flow for ports that the service has not."""
    block = IPv4Network("10.1.0.0/16")
    for protocol, sent in ((6, ["tp_dst=80"]), (17, ["tp_dst=80"]), (17, ["nw_frag=yes", "+trk"])):
        of_all = service(ip_of(BOB), protocol=protocol)
        for web, held in ((of_all, ""), (replace(of_all, clients=(block,)), f"nw_src={block}")):
            flows = lines(owned(flows_of_services(web)), TableId.SRV_PROXY_DNAT)
            to = [one for one in flows if f"nw_dst={VIP}" in one]
            found = [one for one in to if all(part in one for part in sent)]
            assert found
            assert all(("nw_src=" in one) is bool(held) and held in one for one in found)
            assert any("actions=move" in one for one in to), "which drops what others send"
