"""A client's first packet, and what becomes of clients when Worlds change."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from ofnet.channel.flow_stats import ReportedClient
from ofnet.channel.wire import PacketIn
from ofnet.openflow.actions import PORT_IN_PORT, Output, Resubmit, SetField
from ofnet.openflow.fields import SOURCE_GROUP, VRF
from ofnet.services.clients import MAX_CONNECTIONS
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, ServicePort
from tests.unit.ofnet import frames
from tests.unit.ofnet.pipelines.scene import ANN, BOB, EVE, FAR, OTHER, world
from tests.unit.ofnet.serving import HTTP, VIP, Site, having, of_two_tenants, service, talk
from tests.unit.ofnet.worlds import NET, network, without_local

MARKS = VRF.put(1) | SOURCE_GROUP.put(ANN.group_id)
OTHER_VIP = IPv4Address("10.254.0.11")


def site(*providers: IPv4Address, fwd_mode: FwdMode = FwdMode.ROUTING) -> Site:
    return Site(Bridge.VXLAN, having(world(fwd_mode), service(*providers)))


def test_the_first_packet_goes_on_translated() -> None:
    here = site(BOB.ip)
    response = here.asks(ANN)
    assert response.counter == "SvcPktRcvd"
    assert response.altered
    assert response.send is not None
    assert response.send.in_port == ANN.ofport
    assert response.send.data == frames.segment(ANN, str(VIP), 80)
    assert response.send.actions == (
        SetField("eth_dst", BOB.mac),
        SetField("tcp_dst", 8080),
        SetField("ipv4_dst", BOB.ip),
        Resubmit(TableId.DST_GRP, MARKS),
    )


def test_a_tag_that_the_bridge_needs_stays() -> None:
    here = site(BOB.ip, fwd_mode=FwdMode.BRIDGE)
    response = here.asks(ANN, vlan=1)
    assert response.send is not None
    assert response.send.data == frames.segment(ANN, str(VIP), 80, vlan=1)
    itself = site(ANN.ip, fwd_mode=FwdMode.BRIDGE).asks(ANN, vlan=1)
    assert itself.send is not None
    assert itself.send.data == frames.segment(ANN, str(VIP), 80)


def test_a_client_that_is_its_own_provider_gets_its_packet_back() -> None:
    response = site(ANN.ip).asks(ANN)
    assert response.send is not None
    assert response.send.actions[-1] == Output(PORT_IN_PORT)


def test_clients_are_spread_and_stay() -> None:
    here = site(BOB.ip, FAR.ip)
    for pod in (ANN, EVE, BOB):
        here.asks(pod)
    first = [here.provider(pod) for pod in (ANN, EVE, BOB)]
    assert first == [BOB.ip, FAR.ip, BOB.ip]
    again = here.asks(ANN)
    assert not again.altered
    assert again.send is not None
    here.becomes(having(here.world, service(BOB.ip, FAR.ip, ANN.ip)))
    assert [here.provider(pod) for pod in (ANN, EVE, BOB)] == first


def test_a_provider_that_goes_takes_its_own_clients_along() -> None:
    here = site(BOB.ip, FAR.ip)
    here.asks(ANN)
    here.asks(EVE)
    altered = here.becomes(having(here.world, service(FAR.ip)))
    assert altered == {f"web:default 1 {ANN.ip}"}
    assert here.provider(ANN) is None
    assert here.provider(EVE) == FAR.ip
    assert not any(str(BOB.ip) in line for line in here.lines(3, 6))
    here.asks(ANN)
    assert here.provider(ANN) == FAR.ip


def test_a_client_that_goes_leaves_room() -> None:
    here = site(BOB.ip, FAR.ip)
    here.asks(ANN)
    here.asks(EVE)
    here.becomes(without_local(here.world, ANN.key))
    assert here.served(ANN) is None
    assert not any(f"nw_src={ANN.ip}" in line for line in here.lines(3))
    assert not any(f"nw_dst={ANN.ip}" in line for line in here.lines(6))
    here.asks(BOB)
    assert here.provider(BOB) == BOB.ip, "the provider that is free again"


def test_a_deleted_service_leaves_nothing() -> None:
    here = site(BOB.ip)
    here.asks(ANN)
    here.becomes(having(here.world))
    assert here.lines(3, 6) == set()
    assert here.proxy.served == {}
    assert here.asks(ANN).counter == "SvcPktUnknownService"


def test_another_port_leaves_clients_where_they_are() -> None:
    here = site(BOB.ip, FAR.ip)
    here.asks(ANN)
    other = ServicePort(6, 80, 7777)
    here.becomes(having(here.world, service(BOB.ip, FAR.ip, ports=(other,))))
    assert here.provider(ANN) == BOB.ip
    [(_, packet)] = here.send(talk(ANN, VIP, 80))
    assert packet["tcp_dst"] == 7777
    assert not any("8080" in line for line in here.lines(3, 6))


def test_another_address_makes_clients_new() -> None:
    here = site(BOB.ip)
    here.asks(ANN)
    here.becomes(having(here.world, service(BOB.ip, address=OTHER_VIP)))
    assert here.served(ANN) is None
    assert not any(str(VIP) in line for line in here.lines(3, 6))


def test_a_provider_with_another_mac_is_sent_to_there() -> None:
    here = site(BOB.ip)
    here.asks(ANN)
    moved = replace(BOB, mac="02:02:00:00:00:99")
    here.becomes(replace(here.world, local={**here.world.local, BOB.key: moved}))
    assert any("02:02:00:00:00:99->eth_dst" in line for line in here.lines(3))
    assert not any(BOB.mac in line for line in here.lines(3))


def test_a_bridged_client_gets_a_provider_of_its_own_network() -> None:
    here = site(EVE.ip, FAR.ip, fwd_mode=FwdMode.BRIDGE)
    here.asks(ANN)
    here.asks(BOB)
    assert {here.provider(ANN), here.provider(BOB)} == {FAR.ip}
    routed = site(EVE.ip, FAR.ip)
    routed.asks(ANN)
    routed.asks(BOB)
    assert {routed.provider(ANN), routed.provider(BOB)} == {EVE.ip, FAR.ip}


def test_tenants_with_the_same_addresses_do_not_meet() -> None:
    before, theirs = of_two_tenants()
    services = (service(BOB.ip), service(theirs.ip, key="web:blue", vrf=2))
    here = Site(Bridge.VXLAN, having(before, *services))
    here.asks(ANN)
    here.asks(theirs)
    assert here.provider(ANN) == BOB.ip
    assert here.provider(theirs, "web:blue") == theirs.ip
    assert len({served.vrf for served in here.proxy.served.values()}) == 2
    [(port, _)] = here.send(talk(ANN, VIP, 80))
    assert port == BOB.ofport
    [(port, _)] = here.send(talk(theirs, VIP, 80))
    assert port == PORT_IN_PORT
    marks = {f"metadata={VRF.put(vrf)}" for vrf in (1, 2)}
    assert all(any(mark in line for mark in marks) for line in here.lines(3, 6))


def test_a_tenants_own_service_is_before_one_of_all() -> None:
    everybodys = service(FAR.ip, key="api:all", vrf=0, ports=(HTTP, ServicePort(6, 443, 6443)))
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), everybodys, service(BOB.ip)))
    here.asks(ANN)
    assert here.provider(ANN) == BOB.ip
    here.asks(ANN, port=ServicePort(6, 443, 6443))
    assert here.provider(ANN, "api:all") == FAR.ip


def test_two_services_of_one_provider_keep_their_names() -> None:
    both = (service(BOB.ip), service(BOB.ip, key="www:default", address=OTHER_VIP))
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), *both))
    here.asks(ANN, VIP, source_port=40000)
    here.asks(ANN, OTHER_VIP, source_port=40001)
    here.asks(ANN, OTHER_VIP, source_port=40002)
    for name, source_port in ((VIP, 40000), (OTHER_VIP, 40001), (OTHER_VIP, 40002)):
        [(_, asked)] = here.send(talk(ANN, name, 80, source_port=source_port))
        assert (asked["ipv4_dst"], asked["tcp_dst"]) == (BOB.ip, 8080)
        [(_, answer)] = here.send(talk(BOB, ANN.ip, source_port, source_port=8080))
        assert (answer["ipv4_src"], answer["tcp_src"]) == (name, 80)


def test_two_ports_of_one_service_keep_theirs() -> None:
    other = ServicePort(6, 8080, 8080)
    one = service(BOB.ip, ports=(HTTP, other))
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), one))
    here.asks(ANN, port=HTTP, source_port=40000)
    here.asks(ANN, port=other, source_port=40001)
    for port, source_port in ((80, 40000), (8080, 40001)):
        [(_, answer)] = here.send(talk(BOB, ANN.ip, source_port, source_port=8080))
        assert (answer["ipv4_src"], answer["tcp_src"]) == (VIP, port)


ITSELF = ServicePort(6, 8080, 8080)
"""A provider's own port."""


def test_a_client_may_talk_to_its_provider_itself() -> None:
    here = site(BOB.ip)
    here.asks(ANN, source_port=40000)
    response = here.asks(ANN, BOB.ip, ITSELF, source_port=41000)
    assert (response.counter, response.altered) == ("SvcPktDirect", True)
    assert response.send is not None
    assert response.send.actions == (Resubmit(TableId.DST_GRP, MARKS),)
    for source_port, name, port in ((40000, VIP, 80), (41000, BOB.ip, 8080)):
        [(_, asked)] = here.send(talk(ANN, name, port, source_port=source_port))
        assert (asked["ipv4_dst"], asked["tcp_dst"]) == (BOB.ip, 8080)
        [(_, answer)] = here.send(talk(BOB, ANN.ip, source_port, source_port=8080))
        assert (answer["ipv4_src"], answer["tcp_src"]) == (name, port)
    [(_, asked)] = here.send(talk(ANN, BOB.ip, 22))
    assert asked["ipv4_dst"] == BOB.ip, "other ports are not intercepted"


def test_a_reset_is_about_an_answer_that_came_untranslated() -> None:
    here = site(BOB.ip)
    here.asks(ANN)
    frame = frames.segment(ANN, str(BOB.ip), 8080, flags=0x04)
    packet = PacketIn(TableId.SRV_PROXY_DNAT, ANN.ofport, None, frame)
    response = here.proxy.packet_in(packet, here.world, here.directory)
    assert (response.counter, response.send) == ("SvcPktReset", None)
    served = here.served(ANN)
    assert served is not None
    assert served.direct == ()


def test_direct_connections_have_a_limit_and_go_with_the_client() -> None:
    here = site(BOB.ip)
    here.asks(ANN)
    for source_port in range(1000, 1000 + MAX_CONNECTIONS + 1):
        frame = frames.segment(ANN, str(BOB.ip), 8080, source_port=source_port)
        packet = PacketIn(TableId.SRV_PROXY_DNAT, ANN.ofport, None, frame)
        here.proxy.packet_in(packet, here.world, here.directory)
    served = here.served(ANN)
    assert served is not None
    assert [source for _, source in served.direct][:1] == [1001]
    here.becomes(having(here.world, service(BOB.ip, ports=(ServicePort(6, 80, 7777),))))
    served = here.served(ANN)
    assert served is not None
    assert served.direct == ()
    here.becomes(having(here.world))
    assert here.lines(3, 6) == set()


def test_connections_with_flows_of_their_own_have_a_limit() -> None:
    other = ServicePort(6, 8080, 8080)
    one = service(BOB.ip, ports=(HTTP, other))
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), one))
    for source_port in range(1000, 1000 + MAX_CONNECTIONS + 5):
        here.proxy.packet_in(
            PacketIn(
                TableId.SRV_PROXY_DNAT,
                ANN.ofport,
                None,
                frames.segment(ANN, str(VIP), 8080, source_port=source_port),
            ),
            here.world,
            here.directory,
        )
    served = here.served(ANN)
    assert served is not None
    assert [source for _, source in served.connections][:1] == [1005]
    assert len(served.connections) == MAX_CONNECTIONS


def test_two_services_with_one_address_share_its_ports() -> None:
    """The original knows the first one alone."""
    more = service(FAR.ip, key="more:default", ports=(HTTP, ServicePort(6, 443, 8443)))
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), service(BOB.ip, key="a"), more))
    here.asks(ANN)
    here.asks(ANN, port=ServicePort(6, 443, 8443))
    assert here.provider(ANN, "a") == BOB.ip
    assert here.provider(ANN, "more:default") == FAR.ip
    here.becomes(having(here.world, more))
    here.asks(EVE)
    assert here.provider(EVE, "more:default") == FAR.ip


def test_a_port_that_another_service_takes_over_is_asked_for_anew() -> None:
    """Else it would depend on what was first, and a restart would change it."""
    mine = service(BOB.ip, key="z")
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), mine))
    here.asks(ANN)
    here.becomes(having(here.world, mine, service(FAR.ip, key="a", ports=(HTTP,))))
    served = here.served(ANN, "z")
    assert served is not None
    assert [port.protocol for port in served.ports] == [17]
    here.asks(ANN)
    assert here.provider(ANN, "a") == FAR.ip
    here.becomes(having(here.world, mine))
    served = here.served(ANN, "z")
    assert served is not None
    assert HTTP in served.ports


def test_replies_that_one_service_gives_up_go_to_the_other() -> None:
    both = (service(BOB.ip), service(BOB.ip, key="www:default", address=OTHER_VIP))
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), *both))
    here.asks(ANN, VIP)
    here.asks(ANN, OTHER_VIP)
    served = here.served(ANN, "www:default")
    assert served is not None
    assert (served.ports, served.connections) == ((), ((HTTP, 40000),))
    altered = here.becomes(having(here.world, both[1]))
    assert len(altered) == 2
    served = here.served(ANN, "www:default")
    assert served is not None
    assert (served.ports, served.connections) == (both[1].ports, ())


@pytest.mark.parametrize(
    ("frame", "counter"),
    [
        (frames.arp(1, VIP.packed), "SvcPktInvalid-ERROR"),
        (frames.segment(ANN, str(VIP), 80)[:36], "SvcPktInvalid-ERROR"),
        (frames.segment(BOB, str(VIP), 80), "SvcPktSpoofed-ERROR"),
        (frames.segment(ANN, "10.254.0.99", 80), "SvcPktUnknownService"),
        (frames.segment(ANN, str(VIP), 81), "SvcPktUnknownService"),
        (frames.segment(ANN, str(VIP), 80, protocol=17), "SvcPktUnknownService"),
    ],
)
def test_what_is_no_clients_leads_to_nothing(frame: bytes, counter: str) -> None:
    here = site(BOB.ip)
    packet = PacketIn(TableId.SRV_PROXY_DNAT, ANN.ofport, None, frame)
    response = here.proxy.packet_in(packet, here.world, here.directory)
    assert (response.counter, response.send) == (counter, None)
    assert here.proxy.served == {}


def test_a_packet_from_a_port_without_a_pod_is_invalid() -> None:
    here = site(BOB.ip)
    packet = PacketIn(TableId.SRV_PROXY_DNAT, 999, None, frames.segment(ANN, str(VIP), 80))
    response = here.proxy.packet_in(packet, here.world, here.directory)
    assert response.counter == "SvcPktInvalid-ERROR"


def found(
    provider: IPv4Address, *, source: int = 0, client: IPv4Address = ANN.ip
) -> ReportedClient:
    return ReportedClient(1, client, VIP, 6, 80, source, provider)


def test_what_the_switch_has_is_gone_on_with() -> None:
    here = site(BOB.ip, FAR.ip)
    here.adopts(found(FAR.ip))
    assert here.provider(ANN) == FAR.ip
    assert any(f"nw_src={FAR.ip}" in line for line in here.lines(6))
    here.asks(EVE)
    assert here.provider(EVE) == BOB.ip, "the other one has a client"


def test_clients_that_the_world_does_not_allow_are_not_restored() -> None:
    here = site(BOB.ip)
    stale = [
        found(FAR.ip),
        found(BOB.ip, client=IPv4Address("10.1.0.77")),
        found(BOB.ip)._replace(vrf=2),
        found(BOB.ip)._replace(port=81),
        found(BOB.ip)._replace(address=OTHER_VIP),
    ]
    assert here.adopts(*stale) == frozenset()
    assert here.proxy.served == {}


def test_connections_with_flows_of_their_own_are_restored() -> None:
    """Whichever of both services was the first, it stays so."""
    first, second = service(BOB.ip, key="z"), service(BOB.ip, key="a", address=OTHER_VIP)
    before = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), first, second))
    before.asks(ANN, OTHER_VIP, source_port=40000)
    before.asks(ANN, VIP, source_port=40001)
    after = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), first, second))
    after.adopts(
        ReportedClient(1, ANN.ip, VIP, 6, 80, 40001, BOB.ip),
        ReportedClient(1, ANN.ip, OTHER_VIP, 6, 80, 0, BOB.ip),
        ReportedClient(1, ANN.ip, OTHER_VIP, 17, 5601, 0, BOB.ip),
    )
    assert before.lines(3, 6) <= after.lines(3, 6)


def test_services_merged_during_a_restart_leave_a_client_one_provider() -> None:
    other = ServicePort(6, 81, 8081)
    merged = service(BOB.ip, FAR.ip, ports=(HTTP, other))
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), merged))
    here.adopts(
        found(BOB.ip),
        found(FAR.ip)._replace(port=81),
        ReportedClient(1, ANN.ip, FAR.ip, 6, 8081, 40001, FAR.ip),
    )
    (served,) = here.proxy.served.values()
    assert (served.provider, served.ports, served.direct) == (BOB.ip, (HTTP, other), ())
    assert not any(f"nw_src={FAR.ip}" in line for line in here.lines(6))
    here.becomes(having(here.world, service(FAR.ip, ports=(HTTP, other))))
    here.asks(ANN, port=other)
    served = next(iter(here.proxy.served.values()))
    assert (served.provider, served.ports) == (FAR.ip, (HTTP, other)), "nothing of it is reserved"


def test_routed_vlan_networks_are_one_space() -> None:
    before = world(FwdMode.ROUTING, vxlan=False)
    before = replace(before, networks={OTHER: before.networks[OTHER]})
    before = replace(before, networks={**before.networks, NET: network(vrf=5)})
    here = Site(Bridge.VLAN, having(before, service(FAR.ip, vrf=5)))
    here.asks(ANN)
    assert here.provider(ANN) == FAR.ip
    assert all("metadata=0x100000000/0xff00000000" in line for line in here.lines(3, 6))
    again = Site(Bridge.VLAN, having(before, service(FAR.ip, vrf=5)))
    again.adopts(found(FAR.ip))
    assert again.lines(3, 6) == here.lines(3, 6)
