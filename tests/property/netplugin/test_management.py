"""No rule translates to the management or takes its ends, whatever services and ports ask for."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from core.ids import EndpointKey
from netplugin.bridges.services.service_rules import Here, ServiceRules, rules
from netplugin.cni.port_mappings import PROTOCOLS, PortMapping
from netplugin.pods.host_port_mappings import mapping_rules
from netplugin.pods.host_port_mappings.mapping_rules import MappedPod
from netplugin.world.bridges.management_ends import ManagementEnds
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.management import management_ports

HOST, MASTER, MASTER6 = "192.168.77.1", "192.168.77.254", "fd00:77::254"
KNOWN = ManagementEnds(
    frozenset(ip_network(one) for one in (HOST, MASTER, MASTER6, "127.0.0.0/8")),
    management_ports((9999, 9090, 2379)),
)
CLOSED = ManagementEnds(KNOWN.addresses, management_ports((9999, 2379)))
"""The site opened 9090 to pods."""

addresses = st.sampled_from(
    [ip_address(one) for one in (HOST, MASTER, MASTER6, "127.0.0.5", "10.1.0.1", "fd00::1")]
)
numbers = st.sampled_from([80, 2379, 9090, 9999, 30080])
targets = st.frozensets(st.builds(KubeTarget, address=addresses, port=numbers), max_size=4)
ports = st.builds(
    KubePort,
    name=st.sampled_from(["a", "b"]),
    protocol=st.sampled_from(["TCP", "UDP", "SCTP", "tcp"]),
    port=numbers,
    node_port=st.one_of(st.just(0), numbers),
    targets=targets,
    draining=targets,
)
services = st.builds(
    KubeService,
    namespace=st.just("shop"),
    name=st.sampled_from(["web", "api"]),
    addresses=st.lists(addresses, max_size=2).map(tuple),
    external_ips=st.lists(addresses, max_size=2).map(tuple),
    load_balancer_ips=st.lists(addresses, max_size=2).map(tuple),
    external_local=st.booleans(),
    internal_local=st.booleans(),
    affinity_seconds=st.sampled_from([0, 60]),
    ports=st.lists(ports, max_size=3).map(tuple),
)
HERE = Here(
    address=IPv4Address(HOST),
    targets=frozenset(ip_address(one) for one in (HOST, "10.1.0.1", "fd00::1")),
    private=IPv4Network("172.19.0.0/16"),
    known=KNOWN,
    closed=CLOSED,
)
mappings = st.lists(
    st.builds(
        PortMapping, protocol=st.sampled_from(PROTOCOLS), host_port=numbers, container_port=numbers
    ),
    max_size=3,
)

_TO = re.compile(r"-p (\w+) .*--to-destination (\S+)")
_FOR = re.compile(r"(?:-d (\S+)/\d+ )?-p (\w+) -m \w+ --dport (\d+)")


def ends_in(lines: list[str]) -> set[tuple[str, str, int]]:
    found = (_TO.search(line) for line in lines if "--to-destination" in line)
    return {
        (one[1], end.strip("[]"), int(port))
        for one in found
        if one is not None
        for end, _, port in [one[2].rpartition(":")]
    }


def all_lines(made: ServiceRules) -> list[str]:
    return [line for table in (made.nat, made.filter) for chain in table.values() for line in chain]


@given(st.lists(services, max_size=3), st.sampled_from([4, 6]))
def test_services_neither_lead_to_the_management_nor_take_it(
    asked: list[KubeService], version: int
) -> None:
    made = rules(asked, version, HERE)
    lines = all_lines(made)
    for protocol, address, port in ends_in(lines):
        assert not CLOSED.cover(ip_address(address), protocol, port)
    for line in lines:
        if (taken := _FOR.match(line.removeprefix("-m addrtype --dst-type LOCAL "))) is not None:
            address, protocol, number = taken[1] or HOST, taken[2], int(taken[3])
            assert not KNOWN.cover(ip_address(address), protocol, number), line
    wrong = any(
        CLOSED.cover(target.address, port.protocol, target.port)
        for service in asked
        for port in service.ports
        for target in port.targets
        if target.address.version == version
    )
    assert made.refused or not wrong, "what is refused is named"


@given(mappings, st.sampled_from(["10.1.0.1", MASTER, MASTER6]))
def test_host_ports_neither_lead_to_the_management_nor_take_it(
    asked: list[PortMapping], address: str
) -> None:
    held: tuple[IPv4Address | IPv6Address, ...] = (ip_address(address),)
    left = tuple(one for one in asked if not mapping_rules.refused(one, held, KNOWN, CLOSED))
    pod = MappedPod(key=EndpointKey("k"), addresses=held, mappings=left)
    for line in mapping_rules.translations(held[0].version, pod).values():
        for protocol, end, port in ends_in([line]):
            assert not CLOSED.cover(ip_address(end), protocol, port)
        taken = _FOR.match(line)
        assert taken is not None
        assert not KNOWN.has_port(taken[2], int(taken[3]))
