"""The host's own port: made once, kept, and following the settings."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, ip_address
from pathlib import Path

import pytest

from core import keys
from core.errors import Conflict, HostError
from core.tasks import background
from netplugin.bridges.host.host_access import (
    FORWARD,
    accepted,
    forwards,
    masquerade,
    unheard_advertisements,
)
from netplugin.bridges.host.host_routes import NEXT_HOP6
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.ovsdb import PortSpec
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.world import FORWARDED_SOURCE6, PRIVATE6, Bridge, HostPort, World, tunnel_source6
from state.records import Encap, GlobalRecord
from state.underlay import AddressKind, UnderlayAddress
from tests.unit.netplugin.agent import Agent, Outside, eventually, request, running
from tests.unit.netplugin.fakes import Inside
from tests.unit.netplugin.records import endpoint, key, network


def settings(subnet: str = "172.19.0.0/16") -> GlobalRecord:
    return GlobalRecord(infra_type="", fwd_mode="routing", arp_mode="", pvt_subnet=subnet)


def world_of(agent: Agent) -> World:
    return agent.world.take(Bridge.VXLAN)[0]


async def test_the_port_is_made_with_address_and_rule(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        row = outside.ovsdb.ports(Bridge.VXLAN)[port_names.HOST_PORT]
        assert (row.type, row.tag, row.ofport) == ("internal", 2, port_names.HOST_OFPORT)
        assert row.external_ids == {"endpoint-id": "hostcontivh0"}
        address = IPv4Interface("172.19.255.254/16")
        assert outside.links.own[port_names.HOST_PORT] == Inside("02:02:ac:13:ff:fe", [address], [])
        source = IPv4Address("192.168.2.10")
        assert outside.links.routes[port_names.HOST_PORT] == [
            HostRoute(subnet=IPv4Network("172.19.0.0/16"), source=source),
            HostRoute(
                subnet=IPv4Network("10.1.0.0/16"),
                source=source,
                via=IPv4Address("172.19.255.253"),
                metric=512,
            ),
        ]
        acceptance = [*map(str, accepted(FORWARD))]
        rule, *others = [one for one in map(str, outside.firewall.rules) if one not in acceptance]
        assert len(outside.firewall.rules) == 1 + len(others) + len(acceptance)
        assert rule.startswith("nat POSTROUTING -s 172.19.0.0/16 '!' -o contiv+ -m comment")
        assert rule.endswith("-j MASQUERADE")
        back, loopback, guards, kept = others[:2], others[2:4], others[4:-2], others[-2:]
        for one in loopback:
            assert one.startswith("nat POSTROUTING -s 127.0.0.0/8 -o contiv")
            assert one.endswith("-j SNAT --to-source 192.168.2.10")
        for one, port in zip(kept, ("contivh0", "contivv0"), strict=True):
            assert one.startswith(f"mangle POSTROUTING -o {port} -m comment")
            assert one.endswith("-j MARK --set-xmark 0x0/0xffffffff"), "whoever's"
        for one, port in zip(back, ("contivh0", "contivv0"), strict=True):
            assert one.startswith(f"nat POSTROUTING -s 172.19.0.0/16 -o {port} -m conntrack")
            assert one.endswith("-j SNAT --to-source 172.19.255.254"), "none of the host's"
        assert all(guard.endswith("-j DROP") for guard in guards)
        assert [guard.partition(" -m comment")[0] for guard in guards] == [
            "mangle FORWARD -o contivh0 -m conntrack --ctstate NEW -m conntrack '!' --ctstate DNAT",
            "mangle FORWARD -o contivh0 -m addrtype --src-type LOCAL",
            "mangle FORWARD -o contivv0 -m conntrack --ctstate NEW -m conntrack '!' --ctstate DNAT",
            "mangle FORWARD -o contivv0 -m addrtype --src-type LOCAL",
            (
                "mangle FORWARD -d 172.19.0.0/16 -o contivh0 -m conntrack --ctstate DNAT "
                "--ctdir ORIGINAL"
            ),
        ]
        assert world_of(agent).host_port == HostPort(
            ofport=port_names.HOST_OFPORT,
            mac="02:02:ac:13:ff:fe",
            subnet=IPv4Network("172.19.0.0/16"),
            sources=frozenset({IPv4Address("192.168.2.10")}),
            others=frozenset({IPv4Address("192.0.2.1")}),
        )
        vlan_port = agent.world.take(Bridge.VLAN)[0].host_port
        assert vlan_port is not None
        row = outside.ovsdb.ports(Bridge.VLAN)[port_names.VLAN_HOST_PORT]
        assert (row.tag, row.ofport) == (4093, vlan_port.ofport)


async def test_a_pod_has_a_route_as_long_as_it_runs(outside: Outside) -> None:
    def routed() -> list[str]:
        found = outside.links.routes.get(port_names.HOST_PORT, [])
        return [str(route.subnet) for route in found if route.subnet.prefixlen == 32]

    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.sup.supervise("host access", agent.host_access.run())
        await agent.pods.add(request())
        address = world_of(agent).local[key("c1")].ip
        await eventually(lambda: routed() == [f"{address}/32"])
        assert set(outside.links.neighbours[port_names.HOST_PORT].values()) == {ROUTER_MAC}
        await agent.pods.delete(request())
        await eventually(lambda: routed() == [])


async def test_what_comes_while_an_interface_is_corrected_keeps_its_route(outside: Outside) -> None:
    """Two loops set routes; what one had read before the other's must not undo the other's."""

    def routed() -> set[str]:
        return {str(route.subnet) for route in outside.links.routes[port_names.HOST_PORT]}

    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        going_on = outside.faults.stop("own link")
        outside.faults.reached.clear()
        async with background("correction", agent.host_access.converge()) as correction:
            await outside.faults.until("own link")
            await agent.pods.add(request())
            other = replace(network("other"), subnet="10.3.0.0")
            agent.learn(keys.network(other.id), other)
            await agent.host_access.converge_routes()
            wanted = {f"{world_of(agent).local[key('c1')].ip}/32", "10.3.0.0/16"}
            assert routed() >= wanted
            going_on.set()
            await correction
            assert routed() >= wanted


async def test_routes_of_ipv6_have_a_guard_of_their_own(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.learn(keys.network(network().id), network())
        record = endpoint(v6=True)
        port = LocalPort(record=record, ofport=1, number=1)
        agent.world.endpoints.put_port(record.key, port)
        await agent.host_access.converge()
        six = [str(one) for one in outside.firewall.rules if "ip6tables" in str(one)]
        for chain, count in (("FORWARD", 4), ("POSTROUTING", 2)):
            begin = f"ip6tables mangle {chain} -o contiv"
            assert sum(one.startswith(begin) for one in six) == count


async def test_pods_of_vlans_come_back_under_an_address_for_pods(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        vlan = replace(network("vlan"), encap=Encap.VLAN, subnet="10.9.0.0")
        vlan = replace(vlan, ipv6_subnet="fd09::", ipv6_subnet_len=64)
        agent.learn(keys.network(vlan.id), vlan)
        await agent.host_access.converge()
        shown = [str(one) for one in outside.firewall.rules if " POSTROUTING -s " in str(one)]
        for port in ("contivh0", "contivv0"):
            for block, source in (
                ("10.9.0.0/16", "172.19.255.254"),
                ("fd09::/64", str(FORWARDED_SOURCE6)),
            ):
                (rule,) = [one for one in shown if f"-s {block} -o {port} " in one]
                assert rule.endswith(f"-j SNAT --to-source {source}")


async def test_networks_of_ipv6_have_a_source_that_other_hosts_know(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        six = replace(network(), ipv6_subnet="fd00::", ipv6_subnet_len=64)
        agent.learn(keys.network(six.id), six)
        await agent.host_access.converge()
        source = tunnel_source6(IPv4Address("192.168.2.10"))
        assert source == IPv6Address("fd63:6f6e:7469:7600::c0a8:20a")
        assert outside.links.sources == {port_names.HOST_PORT: source}
        route, privates = [
            one for one in outside.links.routes[port_names.HOST_PORT] if one.via == NEXT_HOP6
        ]
        assert route.source == source
        assert (privates.subnet, privates.source) == (PRIVATE6, None)
        port = world_of(agent).host_port
        assert port is not None
        assert source in port.tunnel_sources
        assert any("ip6tables mangle FORWARD" in str(one) for one in outside.firewall.rules)


async def test_pods_leave_by_ipv6_where_networks_are_routed(outside: Outside) -> None:
    leaving = f"nat POSTROUTING -s {PRIVATE6} '!' -o contiv+ -m comment"
    back = f"nat POSTROUTING -s {PRIVATE6} -o contivh0 -m conntrack"
    guarded = f"mangle FORWARD -d {PRIVATE6} -o contivh0 -m conntrack"

    def shown() -> list[str]:
        return [str(one) for one in outside.firewall.rules if str(PRIVATE6) in str(one)]

    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        assert shown() == [], "there is none of it without networks"
        six = replace(network(), ipv6_subnet="fd00::", ipv6_subnet_len=64)
        agent.learn(keys.network(six.id), six)
        await agent.host_access.converge()
        for begin, end in (
            (leaving, "-j MASQUERADE"),
            (back, f"-j SNAT --to-source {FORWARDED_SOURCE6}"),
            (guarded, "-j DROP"),
        ):
            (rule,) = [one for one in shown() if one.startswith(f"ip6tables {begin}")]
            assert rule.endswith(end)
        agent.learn(keys.GLOBAL_CONFIG, replace(settings(), fwd_mode="bridge"))
        await agent.host_access.converge()
        assert shown() == [], "bridged pods have no private address"


async def test_flows_name_the_addresses_of_now(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.sup.supervise("address watch", agent.clients.watches.addresses.run())
        agent.sup.supervise("host access", agent.host_access.run())

        def others() -> set[str]:
            port = world_of(agent).host_port
            return set() if port is None else set(map(str, port.others))

        await eventually(lambda: others() == {"192.0.2.1"})
        for held in ({"192.0.2.1", "192.0.2.7"}, {"192.0.2.7"}):
            outside.links.held = held
            outside.links.held_changed.notify()
            await eventually(lambda: others() == held)  # noqa: B023 - now


async def test_a_host_without_ipv6_has_ipv4_and_says_so(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        six = replace(network(), ipv6_subnet="fd00::", ipv6_subnet_len=64)
        agent.learn(keys.network(six.id), six)
        outside.links.without_ipv6.add(port_names.HOST_PORT)
        outside.faults.failing["rules of IPv6"] = HostError("ip6tables: no such table")
        agent.sup.supervise("host access", agent.host_access.run())
        said = partial(agent.progress.faults, "host access not in sync")
        await eventually(lambda: "ip6tables: no such table" in str(said()))
        assert masquerade(IPv4Network("172.19.0.0/16")) in outside.firewall.rules
        outside.faults.failing.clear()
        await eventually(lambda: "net.ipv6.conf.contivh0.disable_ipv6=0" in str(said()))
        outside.links.without_ipv6.clear()
        await eventually(lambda: said() == [])


async def test_pods_of_one_address_are_a_fault_of_the_host(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.learn(keys.network(network().id), network())
        for number, record in enumerate((endpoint(), replace(endpoint(), key=key("c2"))), 1):
            port = LocalPort(record=record, ofport=number, number=number)
            agent.world.endpoints.put_port(record.key, port)
        await agent.host_access.converge_routes()
        (fault,) = agent.progress.standing.errors
        assert "reaches n1.default-c1, not n1.default-c2" in fault
        agent.world.endpoints.remove_port(key("c1"))
        await agent.host_access.converge_routes()
        assert agent.progress.standing.errors == ()


async def test_a_second_look_changes_nothing(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        for _ in range(2):
            await agent.host_access.converge()
        assert outside.faults.reached["row"] == 2, "one on each bridge"


async def test_without_settings_there_is_no_port(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.host_access.converge()
        assert not outside.ovsdb.ports()


async def test_the_switchs_own_number_is_taken(outside: Outside) -> None:
    outside.ovsdb.given[port_names.HOST_PORT] = 77
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        port = world_of(agent).host_port
        assert port is not None
        assert port.ofport == 77


@pytest.mark.parametrize("bridge", list(Bridge))
async def test_a_port_that_is_wrong_is_replaced(outside: Outside, bridge: Bridge) -> None:
    ids = {"endpoint-id": "hostcontivh0"}
    wrong = PortSpec(name=port_names.HOST_PORT, type="internal", tag=9, external_ids=ids)
    async with running(outside) as agent:
        await outside.ovsdb.add_port(bridge, wrong)
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        assert outside.ovsdb.ports(Bridge.VXLAN)[port_names.HOST_PORT].tag == 2


async def test_what_is_somebody_elses_is_not_taken(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        foreign = PortSpec(name=port_names.HOST_PORT, type="internal")
        await outside.ovsdb.add_port(Bridge.VLAN, foreign)
        with pytest.raises(Conflict, match="name is in use"):
            await agent.host_access.converge()
        outside.ovsdb.lose(port_names.HOST_PORT)
        outside.links.there[port_names.HOST_PORT] = None
        with pytest.raises(Conflict, match="name is in use"):
            await agent.host_access.converge()
        assert port_names.HOST_PORT not in outside.ovsdb.ports()


async def test_what_is_taken_away_comes_back(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.sup.supervise("host access", agent.host_access.run())
        await eventually(lambda: bool(outside.firewall.rules))
        outside.ovsdb.lose(port_names.HOST_PORT)
        await eventually(lambda: port_names.HOST_PORT in outside.ovsdb.ports())


async def test_a_link_that_is_gone_has_the_port_made_anew(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        del outside.links.there[port_names.HOST_PORT]
        with pytest.raises(HostError, match="will be recreated"):
            await agent.host_access.converge()
        assert port_names.HOST_PORT not in outside.ovsdb.ports()
        await agent.host_access.converge()
        assert port_names.HOST_PORT in outside.links.there


async def test_what_fails_is_tried_again(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    outside.faults.failing["rules"] = HostError("iptables: locked")
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.sup.supervise("host access", agent.host_access.run())
        await eventually(lambda: "host access not in sync, retrying" in caplog.text)
        assert world_of(agent).host_port is not None, "pods reach their host without the rule"
        del outside.faults.failing["rules"]
        await eventually(lambda: bool(outside.firewall.rules))


async def test_the_log_tells_rules_that_somebody_deleted(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    deleted = "somebody deleted host access rules, added again"
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        await agent.host_access.converge()
        agent.learn(keys.GLOBAL_CONFIG, settings("172.22.0.0/16"))
        await agent.host_access.converge()
        assert deleted not in caplog.messages
        outside.firewall.rules.clear()
        await agent.host_access.converge()
        assert deleted in caplog.messages


async def test_another_private_subnet_replays_everything(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.sup.supervise("host access", agent.host_access.run())
        await eventually(lambda: bool(outside.firewall.rules))
        await agent.pods.add(request())
        assert world_of(agent).local[key("c1")].nat_ip == IPv4Address("172.19.0.1")
        agent.learn(keys.GLOBAL_CONFIG, settings("172.22.0.0/16"))
        other = masquerade(IPv4Network("172.22.0.0/16"))
        await eventually(lambda: other in outside.firewall.rules)
        own = outside.links.own[port_names.HOST_PORT]
        assert (own.mac, own.addresses) == (
            "02:02:ac:16:ff:fe",
            [IPv4Interface("172.22.255.254/16")],
        )
        assert world_of(agent).local[key("c1")].nat_ip == IPv4Address("172.22.0.1")
        await agent.pods.delete(request())


def test_links_that_live_by_router_advertisements_are_named_with_the_remedy() -> None:
    assert unheard_advertisements([]) == ""
    said = unheard_advertisements(["eth0", "eth1"])
    assert "eth0, eth1" in said
    assert "sysctl net.ipv6.conf.eth0.accept_ra=2 net.ipv6.conf.eth1.accept_ra=2" in said


def test_the_kernel_says_whether_this_host_forwards(tmp_path: Path) -> None:
    switch = tmp_path / "ip_forward"
    with pytest.raises(HostError, match="ip_forward cannot be read"):
        forwards(switch)
    for value, expected in (("1\n", True), ("0\n", False)):
        switch.write_text(value)
        assert forwards(switch) is expected


async def test_a_pod_more_changes_its_own_route_alone(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        read: list[str] = []
        monkeypatch.setattr(outside.links, "ensure_routes", _recorded(outside, read))
        await agent.pods.add(request())
        await agent.host_access.converge_routes()
        await agent.pods.add(request("c2"))
        before = outside.links.routes[port_names.HOST_PORT]
        await agent.host_access.converge_routes()
        (more,) = set(outside.links.routes[port_names.HOST_PORT]) - set(before)
        assert more.subnet.network_address == world_of(agent).local[key("c2")].ip
        assert not read
        outside.faults.failing["routes"] = HostError("no")
        await agent.pods.delete(request("c2"))
        with pytest.raises(HostError):
            await agent.host_access.converge_routes()
        outside.faults.failing.clear()
        await agent.host_access.converge_routes()
        assert read == [port_names.HOST_PORT], "after a failure all routes are set"
        assert set(outside.links.routes[port_names.HOST_PORT]) == set(before)


def _recorded(outside: Outside, read: list[str]) -> Callable[..., Awaitable[None]]:
    ensure = outside.links.ensure_routes

    async def recorded(name: str, routes: Collection[HostRoute]) -> None:
        read.append(name)
        await ensure(name, routes)

    return recorded


STORE = UnderlayAddress(ip_address("10.1.0.0") + 7, AddressKind.STORE, "this host")


async def test_a_network_that_takes_what_the_host_needs_has_no_route(outside: Outside) -> None:
    def ways() -> set[str]:
        return {str(one.subnet) for one in outside.links.routes[port_names.HOST_PORT]}

    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        agent.sup.supervise("host access", agent.host_access.run())
        await eventually(lambda: port_names.HOST_PORT in outside.links.routes)
        await eventually(lambda: "10.1.0.0/16" in ways())
        for number in (6, 7):
            port = LocalPort(record=endpoint(number), ofport=number, number=number)
            agent.world.endpoints.put_port(port.record.key, port)
        agent.world.underlay.set_needed("store", [STORE])
        await eventually(lambda: ways() == {"172.19.0.0/16", "10.1.0.6/32"})
        assert STORE.address in outside.links.spared
        await eventually(lambda: len(agent.progress.standing.errors) == 2)
        told = "\n".join(agent.progress.standing.errors)
        assert "subnet 10.1.0.0/16 of network n1.default holds 10.1.0.7, the store's" in told
        assert "endpoint n1.default-c7 has 10.1.0.7, the store's" in told
        agent.world.underlay.set_needed("store", [])
        await eventually(lambda: {"10.1.0.0/16", "10.1.0.7/32"} <= ways())
        await eventually(lambda: agent.progress.standing.errors == ())


async def test_no_interface_of_the_host_takes_what_the_underlay_needs(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings("10.1.0.0/16"))
        await agent.host_access.converge()
        last = UnderlayAddress(ip_address("10.1.255.254"), AddressKind.TUNNEL, "host h2")
        agent.world.underlay.set_others("host h2", [last])
        with pytest.raises(Conflict, match=r"contivh0 would take 10\.1\.255\.254, which"):
            await agent.host_access.converge()
        assert port_names.HOST_PORT not in outside.ovsdb.ports()
        assert port_names.HOST_PORT not in outside.links.there
