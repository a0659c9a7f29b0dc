"""The life of a session, and how long the routes of a peer are valid."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv6Address, IPv6Interface
from typing import Any

import pytest
from os_ken.lib.packet import bgp

from core.tasks import background
from ofnet.bgp.connection import Streams
from ofnet.bgp.peering import Peering
from ofnet.bgp.speaker import NO_ANSWER, Speaker
from ofnet.bgp.timing import SessionTiming
from tests.unit.bgp_router import ROUTER, ROUTER_AS, FakeRouter
from tests.unit.ofnet.bgp.speaker import (
    NET,
    OTHER,
    OWN_AS,
    PEERING,
    POD,
    QUICK,
    SECOND,
    established,
    eventually,
    speaking,
)

NET6, HOP6, OWN6 = "2001:db8:1::/48", "fe80::2", IPv6Address("fe80::1")
PEERING6 = replace(PEERING, link_local=OWN6)
POD6 = IPv6Address("2001:db8::11")


def prefixes(host: Speaker) -> set[str]:
    return {str(prefix) for prefix in host.routes}


async def test_both_sides_exchange_opens_and_routes() -> None:
    router = FakeRouter()
    async with speaking(router) as host:
        said = await router.greet(hold_time=30)
        assert (said.my_as, said.bgp_identifier, said.hold_time) == (OWN_AS, "50.1.1.1", 90)
        update = await router.hear(bgp.BGPUpdate)
        assert [(route.addr, route.length) for route in update.nlri] == [(str(POD), 32)]
        assert update.pathattr_map[3].value == "50.1.1.1"
        assert (await router.hear(bgp.BGPUpdate)).nlri == []
        router.announce(NET, SECOND)
        router.end_of_rib()
        await eventually(lambda: host.routes_complete)
        assert prefixes(host) == {NET, SECOND}
        assert (host.state, host.hold_time, host.fault) == ("established", 30, None)


async def test_pods_come_and_go() -> None:
    router = FakeRouter()
    async with established(router) as host:
        await router.hear(bgp.BGPUpdate)
        await router.hear(bgp.BGPUpdate)
        host.announce(frozenset({OTHER}))
        gone = await router.hear(bgp.BGPUpdate)
        assert [route.addr for route in gone.withdrawn_routes] == [str(POD)]
        come = await router.hear(bgp.BGPUpdate)
        assert [route.addr for route in come.nlri] == [str(OTHER)]


async def test_a_route_refresh_is_answered_with_all_routes() -> None:
    router = FakeRouter()
    async with established(router):
        await router.hear(bgp.BGPUpdate)
        await router.hear(bgp.BGPUpdate)
        router.say(bgp.BGPRouteRefresh(afi=1, safi=1))
        again = await router.hear(bgp.BGPUpdate)
        assert [route.addr for route in again.nlri] == [str(POD)]


async def test_routes_go_with_the_session_and_come_with_the_next() -> None:
    router = FakeRouter()
    async with established(router) as host:
        router.hang_up()
        await eventually(lambda: not host.routes)
        await router.greet()
        router.announce(SECOND)
        await eventually(lambda: prefixes(host) == {SECOND})
        assert (host.counts["Established"], host.counts["Flops"]) == (2, 1)


async def test_routes_survive_a_restart_of_the_peer() -> None:
    router = FakeRouter()
    async with established(router, restart=60) as host:
        router.announce(SECOND)
        await eventually(lambda: len(host.routes) == 2)
        router.hang_up()
        await eventually(lambda: not host.established)
        assert prefixes(host) == {NET, SECOND}
        await router.greet(restart=60)
        router.announce(NET)
        router.end_of_rib()
        await eventually(lambda: prefixes(host) == {NET})


async def test_routes_of_a_peer_that_did_not_forward_are_removed() -> None:
    router = FakeRouter()
    async with established(router, restart=60) as host:
        router.hang_up()
        await eventually(lambda: not host.established)
        assert prefixes(host) == {NET}
        await router.greet(restart=60, forwarding=False)
        await eventually(lambda: not host.routes)


async def test_routes_of_a_peer_that_does_not_return_are_removed() -> None:
    router = FakeRouter()
    async with established(router, restart=1) as host:
        router.down = True
        router.hang_up()
        await eventually(lambda: not host.established)
        assert prefixes(host) == {NET}
        await eventually(lambda: not host.routes)


async def speaking6(router: FakeRouter, host: Speaker, **options: Any) -> None:
    """Have a session about both families, with a route of each."""
    await router.greet(ipv6=True, **options)
    router.announce(NET)
    router.announce6(NET6, hop=HOP6)
    await eventually(lambda: prefixes(host) == {NET, NET6})


async def test_pods_of_both_families_come_and_go() -> None:
    router = FakeRouter()
    async with speaking(router, peering=PEERING6) as host:
        host.announce(frozenset({POD, POD6}))
        said = await router.greet(ipv6=True)
        assert [option.afi for option in said.opt_param if option.cap_code == 1] == [1, 2]
        assert said.opt_param_cap_map[64].tuples == [(1, 1, 0x80), (2, 1, 0x80)]
        reach = (await router.hear_attribute(14)).pathattr_map[14]
        assert ([one.addr for one in reach.nlri], reach.next_hop) == ([str(POD6)], str(OWN6))
        await router.hear(bgp.BGPUpdate)
        end6 = (await router.hear(bgp.BGPUpdate)).pathattr_map
        assert (end6.keys(), end6[15].withdrawn_routes) == ({15}, [])
        assert host.announced == {POD, POD6}
        host.announce(frozenset({POD}))
        gone = (await router.hear_attribute(15)).pathattr_map[15]
        assert [one.addr for one in gone.withdrawn_routes] == [str(POD6)]


async def test_a_peer_without_ipv6_is_told_of_ipv4_alone() -> None:
    router = FakeRouter()
    async with speaking(router, peering=PEERING6) as host:
        host.announce(frozenset({POD, POD6}))
        await router.greet()
        update = await router.hear(bgp.BGPUpdate)
        assert [one.addr for one in update.nlri] == [str(POD)]
        await eventually(lambda: host.announced == {POD})
        router.announce6(NET6, hop=HOP6)
        router.announce(NET)
        await eventually(lambda: prefixes(host) == {NET})
        router.end_of_rib()
        await eventually(lambda: host.routes_complete)


async def test_routes_are_complete_when_those_of_both_families_are() -> None:
    router = FakeRouter()
    async with speaking(router, peering=PEERING6) as host:
        await speaking6(router, host, restart=60)
        router.end_of_rib()
        router.announce6("2001:db8:2::/48", hop=HOP6)
        await eventually(lambda: len(host.routes) == 3)
        assert not host.routes_complete
        router.withdraw6()
        await eventually(lambda: host.routes_complete)


async def test_each_family_survives_a_restart_of_the_peer_for_itself() -> None:
    router = FakeRouter()
    async with speaking(router, peering=PEERING6) as host:
        await speaking6(router, host, restart=60)
        router.hang_up()
        await eventually(lambda: not host.established)
        assert prefixes(host) == {NET, NET6}
        await router.greet(restart=60)
        await eventually(lambda: prefixes(host) == {NET})


async def test_a_peer_of_another_family_is_refused() -> None:
    router = FakeRouter()
    async with speaking(router) as host:
        ipv6 = [bgp.BGPOptParamCapabilityMultiprotocol(afi=2, safi=1)]
        said = bgp.BGPOpen(my_as=ROUTER_AS, hold_time=90, bgp_identifier="50.1.1.2", opt_param=ipv6)
        await router.accept()
        router.say(said)
        end = await router.hear(bgp.BGPNotification)
        assert (end.error_code, end.error_subcode) == (2, 7)
        fault = "the peer has no address family in common with this host"
        await eventually(lambda: host.fault == fault)


BY_IPV6 = Peering(
    router6=IPv6Interface("2001:db8:50::1/64"),
    link_local=OWN6,
    asn=OWN_AS,
    peer=IPv6Address("2001:db8:50::2"),
    peer_asn=ROUTER_AS,
)
BOTH_FAMILIES = replace(BY_IPV6, router=PEERING.router)


async def test_ipv4_has_ipv6_next_hops_where_both_ends_agree() -> None:
    router = FakeRouter()
    async with speaking(router, peering=BOTH_FAMILIES) as host:
        host.announce(frozenset({POD, POD6}))
        said = await router.greet(ipv6=True, extended=True)
        assert said.opt_param_cap_map.keys() == {1, 2, 5, 64, 65}
        first = (await router.hear(bgp.BGPUpdate)).pathattr_map
        assert first.keys() == {1, 2, 14}
        packed = bytes.fromhex("0001 01 20") + b"".join(one.packed for one in BY_IPV6.hops6)
        assert first[14].serialize()[4:] == packed + b"\0" + bytes((32,)) + POD.packed
        router.announce_by6(NET, hop=HOP6)
        router.announce(SECOND)
        await eventually(lambda: len(host.routes) == 2)
        hops = {str(prefix): str(hop) for prefix, hop in host.routes.items()}
        assert hops == {NET: HOP6, SECOND: ROUTER}


async def test_ipv4_has_ipv4_next_hops_where_the_peer_has_no_others() -> None:
    router = FakeRouter()
    async with speaking(router, peering=BOTH_FAMILIES) as host:
        host.announce(frozenset({POD, POD6}))
        await router.greet(ipv6=True)
        update = await router.hear(bgp.BGPUpdate)
        assert [one.addr for one in update.nlri] == [str(POD)]
        assert update.pathattr_map[3].value == "50.1.1.1"
        reach = (await router.hear_attribute(14)).pathattr_map[14]
        assert reach.next_hop_list == ["2001:db8:50::1", str(OWN6)]
        await eventually(lambda: host.announced == {POD, POD6})


async def test_a_host_without_an_ipv4_next_hop_speaks_of_ipv6_alone() -> None:
    router = FakeRouter()
    async with speaking(router, peering=BY_IPV6) as host:
        host.announce(frozenset({POD, POD6}))
        said = await router.greet(ipv6=True)
        assert said.bgp_identifier == str(BY_IPV6.router_id)
        update = await router.hear(bgp.BGPUpdate)
        assert update.pathattr_map.keys() == {1, 2, 14}
        await eventually(lambda: host.announced == {POD6})
        router.announce(NET)
        router.announce6(NET6, hop=HOP6)
        await eventually(lambda: prefixes(host) == {NET6})


async def test_a_host_without_any_next_hop_refuses_the_session() -> None:
    router = FakeRouter()
    async with speaking(router, peering=BY_IPV6) as host:
        await router.accept()
        ipv4 = [bgp.BGPOptParamCapabilityMultiprotocol(afi=1, safi=1)]
        router.say(
            bgp.BGPOpen(my_as=ROUTER_AS, hold_time=90, bgp_identifier="50.1.1.2", opt_param=ipv4)
        )
        end = await router.hear(bgp.BGPNotification)
        assert (end.error_code, end.error_subcode) == (2, 7)
        fault = "the peer has no address family in common with this host"
        await eventually(lambda: host.fault == fault)


async def test_a_notification_ends_the_routes() -> None:
    router = FakeRouter()
    async with established(router, restart=60) as host:
        router.say(bgp.BGPNotification(6, 2))
        await eventually(lambda: not host.routes)
        await eventually(lambda: host.fault == "the peer ended the session: notification 6/2")


async def test_silence_ends_a_session() -> None:
    router = FakeRouter()
    async with established(router) as host:
        assert host._session is not None
        host._session.hold_time = 0.01  # type: ignore[assignment]
        router.announce(NET)
        end = await router.hear(bgp.BGPNotification)
        assert end.error_code == 4
        await eventually(lambda: host.fault == "the peer was silent for 0.01 s")
        assert not host.routes


async def test_keepalives_are_sent() -> None:
    router = FakeRouter()
    timing = SessionTiming(first_pause=0.001, keepalives=100_000)
    async with established(router, timing=timing):
        for _ in range(2):
            await router.hear(bgp.BGPKeepAlive)


async def test_a_malformed_message_ends_a_session_with_its_reason() -> None:
    router = FakeRouter()
    async with established(router) as host:
        router.host_reads.feed_data(b"\0" * 19)
        end = await router.hear(bgp.BGPNotification)
        assert (end.error_code, end.error_subcode) == (1, 1)
        await eventually(lambda: host.fault == "message header without its marker")
        assert not host.routes


async def test_too_many_routes_end_a_session() -> None:
    router = FakeRouter()
    async with established(router, max_routes=2) as host:
        router.announce("1.0.0.0/8", "2.0.0.0/8", "3.0.0.0/8")
        end = await router.hear(bgp.BGPNotification)
        assert (end.error_code, end.error_subcode) == (6, 1)
        await eventually(lambda: not host.routes)


async def test_a_peer_that_violates_the_protocol_repeatedly_waits_longer() -> None:
    taken: list[list[float]] = []

    def pauses(_first: float, longest: float) -> Iterator[float]:
        mine = [longest]
        taken.append(mine)
        while True:
            mine.append(0.001)
            yield 0.001

    router = FakeRouter()
    async with speaking(router, pauses=pauses):
        for _ in range(3):
            await router.greet()
            router.host_reads.feed_data(b"\0" * 19)
        await router.greet()
        longest = [QUICK.longest_pause, QUICK.longest_penalty]
        assert taken == [longest[1:] + [0.001] * 3]  # a generator begins with its first pause
        router.hang_up()
        await router.greet()
        router.host_reads.feed_data(b"\0" * 19)
        await router.greet()
        fresh = [[longest[0], 0.001], [longest[1], 0.001]]
        assert taken[1:] == fresh, "a session that ended for another reason resets both"


async def test_the_peer_must_be_of_its_as() -> None:
    router = FakeRouter(asn=600)
    async with speaking(router) as host:
        said = bgp.BGPOpen(my_as=600, hold_time=90, bgp_identifier="50.1.1.2")
        await router.accept()
        router.say(said)
        end = await router.hear(bgp.BGPNotification)
        assert (end.error_code, end.error_subcode) == (2, 2)
        await eventually(lambda: host.fault == f"the peer is of AS 600, not {ROUTER_AS}")


async def test_the_peer_must_have_another_router_id() -> None:
    router = FakeRouter()
    async with speaking(router):
        await router.accept()
        router.say(bgp.BGPOpen(my_as=ROUTER_AS, hold_time=90, bgp_identifier="50.1.1.1"))
        end = await router.hear(bgp.BGPNotification)
        assert (end.error_code, end.error_subcode) == (2, 3)


async def test_a_refused_connection_is_tried_again() -> None:
    router = FakeRouter()
    router.down = True
    async with speaking(router) as host:
        await eventually(lambda: router.dialled > 2)
        assert host.fault == "cannot connect: Connection refused"
        router.down = False
        await router.greet()
        await eventually(lambda: host.established)
        assert host.fault is None


async def test_a_peer_that_takes_no_connection_may_ask_for_a_password() -> None:
    async def silent(_peering: Peering) -> Streams:
        return await asyncio.Future[Streams]()

    host = Speaker(PEERING, lambda: None, connect=silent, timing=SessionTiming(dial=0.01))
    async with background("speaker", host.run()):
        await eventually(lambda: host.fault == NO_ANSWER)


async def test_a_silent_peer_is_given_up() -> None:
    router = FakeRouter()
    timing = SessionTiming(first_pause=0.001, handshake=0.01)
    async with speaking(router, timing=timing) as host:
        await eventually(lambda: host.fault == "the peer does not answer")
        await eventually(lambda: router.dialled > 1)


async def test_without_an_end_of_rib_marker_a_time_out_takes_its_place() -> None:
    router = FakeRouter()
    timing = SessionTiming(first_pause=0.001, end_of_rib=0.01)
    async with established(router, timing=timing) as host:
        await eventually(lambda: host.routes_complete)
        assert prefixes(host) == {NET}


async def test_an_agents_end_is_no_goodbye_but_that_of_a_peering_is() -> None:
    router = FakeRouter()
    async with established(router) as host:
        await host.deconfigure()
        end = await router.hear(bgp.BGPNotification)
        assert (end.error_code, end.error_subcode) == (6, 3)
    async with established(router):
        pass
    with pytest.raises(asyncio.IncompleteReadError):
        await router.hear(bgp.BGPNotification)


async def test_the_first_open_announces_a_restart_with_forwarding() -> None:
    router = FakeRouter()
    async with speaking(router):
        said = await router.greet()
        found = said.opt_param_cap_map[64]
        assert (found.flags, found.time, found.tuples) == (8, 120, [(1, 1, 0x80)])
        router.end_of_rib()
        router.hang_up()
        again = await router.greet()
        assert again.opt_param_cap_map[64].flags == 0
