"""The guard in the host's kernel: which rules there are, when, and for what."""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Network, ip_network
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from netplugin.bridges.guards import host_guard
from netplugin.bridges.guards.host_guard import HostGuard
from netplugin.world.bridges.management_ends import ManagementEnds
from netplugin.world.builder import WorldBuilder
from netplugin.world.management import management_ports
from ofnet.world import HOSTS_OWN6, PRIVATE6, FwdMode, HostPort, ManagementPort
from tests.unit.netplugin.fakes import FakeChains, FakeFirewall, Faults
from tests.unit.netplugin.records import HOST, host, network
from tests.unit.netplugin.worlds import settings

PRIVATE = IPv4Network("172.19.0.0/16")
CLOSED = ManagementEnds(
    frozenset(map(ip_network, ("192.0.2.10", "2001:db8::1"))), management_ports([9999])
)


def rules_of(version: int, closed: ManagementEnds = CLOSED) -> dict[str, list[str]]:
    made = host_guard.chains(version, closed, PRIVATE)["mangle"]
    return {name: list(rules) for name, rules in made.items()}


def test_management_ports_are_closed_to_both_families_at_their_own_addresses() -> None:
    four, six = rules_of(4), rules_of(6)
    assert four[host_guard.MANAGEMENT] == ["-d 192.0.2.10/32 -j DROP"]
    assert six[host_guard.MANAGEMENT] == ["-d 2001:db8::1/128 -j DROP"]
    for made in (four, six):
        for protocol in ("tcp", "udp"):
            port = f"-p {protocol} -m {protocol} --dport 9999"
            assert f"{port} -j DROP" in made[host_guard.TO_HOST], "at whatever address"
            assert f"{port} -j {host_guard.MANAGEMENT}" in made[host_guard.FROM_PODS]


def test_answers_are_not_judged_by_ports() -> None:
    for name in (host_guard.TO_HOST, host_guard.FROM_PODS):
        lines = rules_of(4)[name]
        answers = next(at for at, line in enumerate(lines) if "--ctdir REPLY -j RETURN" in line)
        assert all("--dport" not in line for line in lines[:answers])


def test_what_is_unknown_to_connection_tracking_is_forwarded_nowhere() -> None:
    nothing = rules_of(4, ManagementEnds())
    for name in (host_guard.FROM_PODS, host_guard.TO_PODS):
        assert nothing[name][0] == "-m conntrack --ctstate INVALID,UNTRACKED -j DROP"


def test_private_addresses_come_in_by_the_ports_of_pods_alone() -> None:
    arrived = list(host_guard.chains(4, CLOSED, PRIVATE)["raw"][host_guard.ARRIVED])
    let_in = [f"-i {link} -j RETURN" for link in ("lo", "contivh0", "contivv0")]
    assert arrived == [*let_in, f"-s {PRIVATE} -j DROP", f"-d {PRIVATE} -j DROP"]


class GuardedHost:
    """A guard on a host of a cluster with a private network."""

    def __init__(self) -> None:
        self.world = WorldBuilder(HOST, FwdMode.ROUTING)
        self.firewall, self.chains = FakeFirewall(Faults()), FakeChains(Faults())
        context: Any = SimpleNamespace(
            world=self.world, records=None, interval=60.0, show=None, watches=Mock()
        )
        self.guard = HostGuard(context, self.firewall, self.chains)

    def lines(self, version: int, name: str) -> Sequence[str]:
        return self.chains.there.get((version, "mangle"), {}).get(name, ())


async def test_the_rules_follow_the_management_and_the_private_network() -> None:
    guarded = GuardedHost()
    await guarded.guard.converge()
    assert (guarded.firewall.rules, guarded.chains.there) == ([], {}), (
        "hosts have no ports for pods"
    )
    guarded.world.put(settings(pvt_subnet="172.19.0.0/16"))
    guarded.world.put(replace(host(), control_ip="192.0.2.20"))
    await guarded.guard.converge()
    assert "-d 192.0.2.20/32 -j DROP" not in guarded.lines(4, host_guard.MANAGEMENT), (
        "not closed yet"
    )
    guarded.world.management.set_ports("settings", management_ports([9999, 9090]))
    guarded.world.management.close(frozenset({ManagementPort(6, 9090)}))
    await guarded.guard.converge()
    assert "-d 192.0.2.20/32 -j DROP" in guarded.lines(4, host_guard.MANAGEMENT)
    ports = "\n".join(guarded.lines(4, host_guard.TO_HOST))
    assert "-p tcp -m tcp --dport 9999" in ports
    assert "-p tcp -m tcp --dport 9090" not in ports, "the site opened it"
    assert {rule.chain.version for rule in guarded.firewall.rules} == {4}
    assert not guarded.lines(6, host_guard.TO_HOST)


async def test_networks_of_ipv6_bring_its_rules_and_take_them_along() -> None:
    guarded = GuardedHost()
    guarded.world.put(settings(pvt_subnet="172.19.0.0/16"))
    six = replace(network(), ipv6_subnet="fd00::", ipv6_subnet_len=64)
    guarded.world.put(six)
    await guarded.guard.converge()
    assert {rule.chain.version for rule in guarded.firewall.rules} == {4, 6}
    assert guarded.lines(6, host_guard.TO_HOST)
    leaving = [" ".join(rule.match) for rule in guarded.firewall.rules if "-s" in rule.match]
    assert f"-s {HOSTS_OWN6} ! -o contivh0" in leaving
    assert PRIVATE6.subnet_of(HOSTS_OWN6)
    guarded.world.remove(six)
    await guarded.guard.converge()
    assert {rule.chain.version for rule in guarded.firewall.rules} == {4}
    assert not guarded.lines(6, host_guard.TO_HOST)


async def test_a_private_network_that_is_another_programs_here_is_left_to_it() -> None:
    guarded = GuardedHost()
    guarded.world.put(settings(pvt_subnet="172.19.0.0/16"))
    await guarded.guard.converge()
    assert guarded.lines(4, host_guard.TO_PODS), "what concerns the agent's own ports is there"
    assert not guarded.lines(4, host_guard.LEAVING)
    assert not guarded.chains.there[4, "raw"][host_guard.ARRIVED]
    guarded.world.endpoints.set_host_port(
        HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=PRIVATE)
    )
    await guarded.guard.converge()
    assert guarded.lines(4, host_guard.LEAVING)[-1] == "-j DROP"
    assert f"-s {PRIVATE} -j DROP" in guarded.chains.there[4, "raw"][host_guard.ARRIVED]
