"""What rules of others drop of what the host forwards is a fault of the host, with its remedy."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network

from core import keys
from netplugin.bridges.host import forward_check
from netplugin.kernel.firewall.foreign_rules import Refusal
from state.records import GlobalRecord
from tests.unit.netplugin.agent import Outside, running
from tests.unit.netplugin.records import network

PRIVATE = IPv4Network("172.19.0.0/16")
REFUSAL = Refusal(
    "table mangle of iptables",
    "-A FORWARD -s 10.1.0.0/16 -j DROP",
    ("what pods send to the outside",),
    "iptables -t mangle -D FORWARD -s 10.1.0.0/16 -j DROP",
)


async def test_what_others_drop_is_a_fault_that_goes_with_the_rule(outside: Outside) -> None:
    outside.timing = replace(outside.timing, firewall_spacing=0.01)
    outside.other_firewalls = [REFUSAL]
    async with running(outside) as agent:
        check = agent.host_services.forward_check
        await check.converge()
        assert outside.ways_asked == [], "nothing is forwarded without a private network"
        agent.learn(
            keys.GLOBAL_CONFIG,
            GlobalRecord(infra_type="", fwd_mode="routing", arp_mode="", pvt_subnet=str(PRIVATE)),
        )
        agent.learn(keys.network(network().id), network())
        await check.converge()
        (fault,) = agent.progress.faults("firewall")
        assert fault == (
            "table mangle of iptables drops what this host forwards for its pods "
            "(-A FORWARD -s 10.1.0.0/16 -j DROP): "
            "iptables -t mangle -D FORWARD -s 10.1.0.0/16 -j DROP"
        )
        assert {way.pods for way in outside.ways_asked} == {(PRIVATE, IPv4Network("10.1.0.0/16"))}
        outside.other_firewalls = []
        await check.converge()
        assert agent.progress.faults("firewall") == []


def test_each_way_is_asked_about_by_each_link_of_the_host() -> None:
    six = IPv6Network("fd00::/64")
    found = [*forward_check.ways((PRIVATE, six), (4, 6), lambda version: (f"up{version}",))]
    assert {(way.version, way.pods) for way in found} == {(4, (PRIVATE,)), (6, (six,))}
    assert {way.into for way in found if way.from_pods} == {("contivh0",), ("contivv0",)}
    assert {way.out for way in found if way.from_pods} == {("up4",), ("up6",)}
    assert {way.out for way in found if not way.from_pods} == {("contivh0",), ("contivv0",)}
    assert all(way.pods is None for way in forward_check.ways((), (4,), lambda _: ()))
