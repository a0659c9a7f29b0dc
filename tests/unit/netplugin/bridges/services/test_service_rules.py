"""The rules of services: each port spread over its targets, and what has none refused."""

import re
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

import pytest

from netplugin.bridges.services.service_rules import (
    MARK,
    NODE_PORTS,
    REFUSED,
    SERVICES,
    SOURCES,
    Address,
    Here,
    ServiceRules,
    rules,
)
from netplugin.world.bridges.management_ends import ManagementEnds
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.management import management_ports
from ofnet.world import tunnel_source6

HOST = IPv4Address("192.168.77.1")
OURS, THEIRS = IPv4Address("10.1.0.1"), IPv4Address("10.1.0.2")
SIX = IPv6Address("fd00::1")
HERE = Here(
    address=HOST,
    own=frozenset({HOST}),
    targets=frozenset({HOST, OURS, SIX}),
    private=IPv4Network("172.19.0.0/16"),
)
CLUSTER, EXTERNAL = IPv4Address("10.96.0.1"), IPv4Address("203.0.113.9")
BALANCED = IPv4Address("203.0.113.10")


def service(*targets: Address, **more: object) -> KubeService:
    port = KubePort(
        name="http",
        protocol="TCP",
        port=80,
        node_port=30080,
        targets=frozenset(KubeTarget(address=one, port=8080) for one in targets),
    )
    made = KubeService(namespace="shop", name="web", addresses=(CLUSTER,), ports=(port,))
    return replace(made, **more)  # type: ignore[arg-type]


def ways(made: ServiceRules, chain: str, match: str) -> Iterator[list[str]]:
    """Yield the rules met from a chain on, one list for each way to its end."""
    for line in made.nat[chain]:
        if match and match not in line:
            continue
        target = line.rpartition("-j ")[2].split()[0]
        if target in made.nat:
            yield from ([line, *rest] for rest in ways(made, target, ""))
        else:
            yield [line]


def targets(made: ServiceRules, chain: str, match: str) -> set[str]:
    ends = (way[-1] for way in ways(made, chain, match))
    return {line.partition("--to-destination ")[2] for line in ends if "DNAT" in line}


def test_names_of_chains_have_all_the_room_there_is() -> None:
    """Of 64 bits somebody could find a service that has the name of a chain of another's."""
    made = rules([service(OURS, THEIRS)], 4, HERE)
    names = {name for name in made.nat if re.match(r"CONTIV-[A-Z]-", name)}
    assert len(names) >= 4
    assert all(re.fullmatch(r"CONTIV-[A-Z]-[A-Z2-7]{19}", name) for name in names)


def test_a_cluster_address_leads_to_every_target() -> None:
    made = rules([service(OURS, THEIRS)], 4, HERE)
    assert targets(made, SERVICES, "-d 10.96.0.1/32 -p tcp -m tcp --dport 80") == {
        "10.1.0.1:8080",
        "10.1.0.2:8080",
    }
    marks = [way for way in ways(made, SERVICES, str(CLUSTER)) if "MARK" in way[-1]]
    assert all("-s 10.1.0." in way[-1] for way in marks), "only what is its own target"


@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_target_gets_as_many_connections(count: int) -> None:
    many = [IPv4Address("10.1.0.0") + number for number in range(1, count + 1)]
    made = rules([service(*many)], 4, HERE)
    (entrance,) = (line.split()[-1] for line in made.nat[SERVICES] if str(CLUSTER) in line)
    left, shares = 1.0, []
    for line in made.nat[entrance]:
        found = re.search(r"--probability ([\d.]+)", line)
        chance = float(found[1]) if found else 1.0
        shares.append(left * chance)
        left -= left * chance
    assert shares == pytest.approx([1 / count] * count)


def test_hints_choose_where_hosts_and_the_outside_come() -> None:
    made = service(OURS, THEIRS)
    (port,) = made.ports
    near = frozenset(one for one in port.targets if one.address == OURS)
    found = rules([replace(made, ports=(replace(port, hinted=near),))], 4, HERE)
    assert targets(found, SERVICES, str(CLUSTER)) == {"10.1.0.1:8080"}
    assert targets(found, NODE_PORTS, "30080") == {"10.1.0.1:8080"}


def test_a_node_port_leads_everywhere_under_the_hosts_address() -> None:
    made = rules([service(OURS, THEIRS)], 4, HERE)
    assert made.nat[SERVICES][-1] == f"-m addrtype --dst-type LOCAL -j {NODE_PORTS}"
    assert targets(made, NODE_PORTS, "--dport 30080") == {"10.1.0.1:8080", "10.1.0.2:8080"}
    assert [f"-j MARK --set-xmark {MARK}"] in [way[1:] for way in ways(made, NODE_PORTS, "30080")]
    assert made.nat[SOURCES][-1] == f"-m mark --mark {MARK} -j MASQUERADE"


def test_the_host_alone_comes_to_pods_under_its_address() -> None:
    """What it forwards keeps its source there: policies judge by it."""
    for version, ports in ((4, ("contivh0", "contivv0")), (6, ("contivh0",))):
        source = HOST if version == 4 else tunnel_source6(HOST)
        assert rules([service(OURS)], version, HERE).nat[SOURCES] == [
            *(
                f"-o {port} -m conntrack --ctstate DNAT -m addrtype --src-type LOCAL "
                f"-j SNAT --to-source {source}"
                for port in ports
            ),
            "-o contivh0 -j RETURN",
            "-o contivv0 -j RETURN",
            f"-m mark --mark {MARK} -j MASQUERADE",
        ]


def test_external_addresses_are_served_as_node_ports_are() -> None:
    made = rules([service(THEIRS, external_ips=(EXTERNAL,), load_balancer_ips=(HOST,))], 4, HERE)
    for address in (EXTERNAL, HOST):
        assert targets(made, SERVICES, f"-d {address}/32") == {"10.1.0.2:8080"}


def test_what_is_to_stay_local_does_so_for_the_outside_alone() -> None:
    made = rules([service(OURS, THEIRS, external_local=True)], 4, HERE)
    found = [way for way in ways(made, NODE_PORTS, "30080") if "DNAT" in way[-1]]
    of_inside = [way for way in found if "--src-type LOCAL" in way[1] or "172.19" in way[1]]
    of_outside = [way for way in found if way not in of_inside]
    assert {way[-1].split()[-1] for way in of_outside} == {"10.1.0.1:8080"}
    assert {way[-1].split()[-1] for way in of_inside} == {"10.1.0.1:8080", "10.1.0.2:8080"}
    assert not any(line == f"-j MARK --set-xmark {MARK}" for way in of_outside for line in way)


def test_without_a_target_here_the_outside_gets_no_answer() -> None:
    made = rules([service(THEIRS, external_local=True)], 4, HERE)
    (silent,) = made.filter[REFUSED]
    assert silent.startswith("-m addrtype --dst-type LOCAL -p tcp")
    assert silent.endswith("-m addrtype ! --src-type LOCAL -j DROP")


def test_internal_traffic_may_be_held_to_this_host() -> None:
    made = rules([service(OURS, THEIRS, internal_local=True)], 4, HERE)
    assert targets(made, SERVICES, str(CLUSTER)) == {"10.1.0.1:8080"}


def test_a_port_without_targets_refuses() -> None:
    made = rules([service(external_ips=(EXTERNAL,))], 4, HERE)
    assert sorted(line.split("--dport")[0] for line in made.filter[REFUSED]) == [
        "-d 10.96.0.1/32 -p tcp -m tcp ",
        "-d 203.0.113.9/32 -p tcp -m tcp ",
        "-m addrtype --dst-type LOCAL -p tcp -m tcp ",
    ]
    assert all(line.endswith("--reject-with tcp-reset") for line in made.filter[REFUSED])


def test_a_client_stays_with_its_target_where_asked() -> None:
    made = rules([service(OURS, THEIRS, affinity_seconds=60)], 4, HERE)
    lines = [line for way in ways(made, SERVICES, str(CLUSTER)) for line in way]
    assert any("--rcheck --seconds 60 --reap" in line for line in lines)
    assert sum("-m recent" in line and "--set" in line for line in set(lines)) == 2


def test_each_family_has_its_own_addresses_and_targets() -> None:
    cluster6 = IPv6Address("fd96::1")
    both = service(OURS, SIX, addresses=(CLUSTER, cluster6))
    four, six = (rules([both], version, HERE) for version in (4, 6))
    assert targets(four, SERVICES, "-d ") == {"10.1.0.1:8080"}
    assert targets(six, SERVICES, "-d fd96::1/128") == {"[fd00::1]:8080"}
    assert "172.19" not in str(six)
    named = [line for line in six.nat[SOURCES] if "SNAT --to-source" in line]
    assert named, "other hosts take no other source from a tunnel"
    assert all(line.startswith("-o contivh0") for line in named)
    assert all(line.endswith(f" {tunnel_source6(HOST)}") for line in named)


def test_chains_keep_their_names_while_others_come_and_go() -> None:
    other = replace(service(THEIRS), name="a", addresses=(IPv4Address("10.96.0.2"),))
    alone, together = rules([service(OURS)], 4, HERE), rules([other, service(OURS)], 4, HERE)
    assert alone.nat.keys() < together.nat.keys()
    assert all(len(name) <= 28 for name in together.nat)


def test_headless_services_have_no_rules() -> None:
    plain = replace(service(OURS).ports[0], node_port=0)
    made = rules([service(OURS, addresses=(), ports=(plain,))], 4, HERE)
    assert made.filter[REFUSED] == made.nat[NODE_PORTS] == []
    assert len(made.nat[SERVICES]) == 1


def test_under_a_local_policy_what_terminates_here_serves_where_nothing_is_ready() -> None:
    local = service(THEIRS, external_local=True, internal_local=True)
    (port,) = local.ports
    ending = KubeTarget(address=OURS, port=8080)
    draining = replace(local, ports=(replace(port, draining=frozenset({ending})),))
    for chain, match in ((SERVICES, f"-d {CLUSTER}/32"), (NODE_PORTS, "--dport 30080")):
        from_outside = [
            way[-1]
            for way in ways(rules([draining], 4, HERE), chain, match)
            if not any("--src-type LOCAL" in line or "-s 172.19." in line for line in way)
        ]
        assert {one.partition("--to-destination ")[2] for one in from_outside if "DNAT" in one} == {
            "10.1.0.1:8080"
        }
    ready = replace(port, targets=frozenset({*port.targets, KubeTarget(address=HOST, port=80)}))
    both = replace(draining, ports=(replace(ready, draining=frozenset({ending})),))
    assert targets(rules([both], 4, HERE), SERVICES, f"-d {CLUSTER}/32") == {f"{HOST}:80"}


MASTER = IPv4Address("192.168.77.254")
MANAGEMENT = ManagementEnds(frozenset({ip_network(MASTER)}), management_ports([8080, 80]))


def test_a_target_of_the_management_is_left_out_and_named() -> None:
    made = rules([service(OURS, MASTER)], 4, replace(HERE, closed=MANAGEMENT))
    for chain, match in ((SERVICES, str(CLUSTER)), (NODE_PORTS, "30080")):
        assert targets(made, chain, match) == {"10.1.0.1:8080"}
    (fault,) = made.refused
    assert "service shop/web not served in full: its target 192.168.77.254 port 8080" in fault
    opened = rules([service(OURS, MASTER)], 4, replace(HERE, known=MANAGEMENT))
    assert "192.168.77.254:8080" in targets(opened, SERVICES, str(CLUSTER)), "pods may reach it"


def test_a_service_takes_no_address_of_the_management() -> None:
    taking = service(OURS, external_ips=(MASTER, EXTERNAL), load_balancer_ips=(MASTER,))
    here = replace(HERE, known=MANAGEMENT)
    made = rules([taking], 4, here)
    assert not [line for line in made.nat[SERVICES] if str(MASTER) in line]
    assert targets(made, SERVICES, str(EXTERNAL)) == {"10.1.0.1:8080"}
    assert len(made.refused) == 1
    beside = replace(taking, ports=(replace(taking.ports[0], port=443),))
    assert targets(rules([beside], 4, here), SERVICES, str(MASTER)), "another port of it"


def test_a_node_port_of_the_management_is_refused_and_named() -> None:
    (port,) = service(OURS).ports
    made = rules(
        [service(OURS, ports=(replace(port, node_port=80),))], 4, replace(HERE, known=MANAGEMENT)
    )
    assert made.nat[NODE_PORTS] == []
    assert targets(made, SERVICES, str(CLUSTER)) == {"10.1.0.1:8080"}
    assert "node port 80" in made.refused[0]


def test_clients_of_a_balancer_are_held_to_its_ranges() -> None:
    """At its addresses alone; the host is held to them as well, as with kube-proxy."""
    inside = (IPv4Network("198.51.100.0/24"), IPv6Network("2001:db8::/32"))
    both = service(THEIRS, external_ips=(EXTERNAL,), load_balancer_ips=(BALANCED, EXTERNAL))
    made = rules([replace(both, source_ranges=inside)], 4, HERE)
    to = f"-d {BALANCED}/32 -p tcp -m tcp --dport 80"
    led = [line for line in made.nat[SERVICES] if str(BALANCED) in line]
    assert [line.rpartition(" -j ")[0] for line in led] == [f"-s 198.51.100.0/24 {to}"]
    assert made.filter[REFUSED] == [f"{to} -j DROP"]
    assert targets(made, SERVICES, f"-d {BALANCED}/32") == {"10.1.0.2:8080"}
    assert targets(made, SERVICES, f"-d {EXTERNAL}/32") == {"10.1.0.2:8080"}
    assert targets(made, NODE_PORTS, "--dport 30080") == {"10.1.0.2:8080"}


def test_a_range_with_the_host_lets_in_the_balancers_own_address() -> None:
    """The host may have it as its own, and then sends from it."""
    ranges = (IPv4Network("192.168.77.0/24"),)
    made = rules([service(OURS, load_balancer_ips=(BALANCED,), source_ranges=ranges)], 4, HERE)
    sources = {line.split()[1] for line in made.nat[SERVICES] if str(BALANCED) in line}
    assert sources == {"192.168.77.0/24", f"{BALANCED}/32"}


def test_ranges_of_the_other_family_hold_nobody() -> None:
    ranges = (IPv6Network("2001:db8::/32"),)
    made = rules([service(OURS, load_balancer_ips=(BALANCED,), source_ranges=ranges)], 4, HERE)
    assert made.filter[REFUSED] == []
    assert targets(made, SERVICES, f"-d {BALANCED}/32") == {"10.1.0.1:8080"}


def test_what_another_proxy_serves_has_no_rules() -> None:
    made = rules([service(OURS, external_ips=(EXTERNAL,), left_alone=True)], 4, HERE)
    assert made == rules([], 4, HERE)
