"""The rules of host ports: what they match, where they lead, and whose source they replace."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest

from core.ids import EndpointKey
from netplugin.cni.port_mappings import PortMapping
from netplugin.pods.mapping_rules import PORTS, SOURCES, MappedPod, chains, hooks, missing

HOST = IPv4Address("192.0.2.1")
BLOCKS = (IPv4Network("172.19.0.0/16"), IPv4Network("10.1.0.0/16"), IPv6Network("fd00::/64"))


def pod(*mappings: PortMapping, six: bool = True) -> MappedPod:
    addresses = (IPv4Address("10.1.0.2"), *((IPv6Address("fd00::2"),) if six else ()))
    return MappedPod(key=EndpointKey("n1.default-c1"), addresses=addresses, mappings=mappings)


def mapping(host_ip: str = "", protocol: str = "tcp") -> PortMapping:
    return PortMapping(protocol=protocol, host_port=8080, container_port=80, host_ip=host_ip)


@pytest.mark.parametrize(
    ("host_ip", "four", "six"),
    [
        ("", "-p tcp", "-p tcp"),
        ("0.0.0.0", "-p tcp", None),
        ("::", None, "-p tcp"),
        ("192.0.2.1", "-d 192.0.2.1/32 -p tcp", None),
        ("2001:db8::1", None, "-d 2001:db8::1/128 -p tcp"),
    ],
)
def test_a_host_port_leads_to_the_pod(host_ip: str, four: str | None, six: str | None) -> None:
    for version, match, end in ((4, four, "10.1.0.2:80"), (6, six, "[fd00::2]:80")):
        made = chains(version, [pod(mapping(host_ip))], HOST, BLOCKS)
        rule = f"{match} -m tcp --dport 8080 -j DNAT --to-destination {end}"
        assert made.get(PORTS) == ([rule] if match else None)


@pytest.mark.parametrize("protocol", ["udp", "sctp"])
def test_each_protocol_has_its_match(protocol: str) -> None:
    (rule,) = chains(4, [pod(mapping(protocol=protocol))], HOST, BLOCKS)[PORTS]
    assert rule.startswith(f"-p {protocol} -m {protocol} --dport 8080 ")


def test_a_pod_without_an_address_of_the_family_has_no_rule() -> None:
    assert chains(6, [pod(mapping(), six=False)], HOST, BLOCKS) == {}


def test_the_host_and_pods_come_by_an_address_of_the_host() -> None:
    made = chains(4, [pod(mapping())], HOST, BLOCKS)[SOURCES]
    assert all(rule.endswith(f"--ctstate DNAT {end}") for rule in made for end in [ending(rule)])
    assert {rule.partition(" -m conntrack")[0] for rule in made} == {
        f"{block}-o {link}"
        for link in ("contivh0", "contivv0")
        for block in ("", "-s 172.19.0.0/16 ", "-s 10.1.0.0/16 ")
    }
    six = chains(6, [pod(mapping())], HOST, BLOCKS)[SOURCES]
    assert {rule.rpartition("-j ")[2] for rule in six} == {"MASQUERADE"}
    assert any(rule.startswith("-s fd00::/64 ") for rule in six)


def ending(rule: str) -> str:
    """Return the end that a rule must have: only the rule without a block is about the host."""
    local = "" if rule.startswith("-s") else "-m addrtype --src-type LOCAL "
    return f"{local}-j SNAT --to-source {HOST}"


def test_what_is_missing_is_named() -> None:
    mapped = pod(mapping())
    found = {version: chains(version, [mapped], HOST, BLOCKS)[PORTS] for version in (4, 6)}
    assert list(missing(mapped, found)) == []
    assert list(missing(mapped, {**found, 6: []})) == [
        "host port tcp 8080 does not lead to the pod by IPv6"
    ]


def test_loopback_addresses_are_guarded_where_they_are_routed() -> None:
    assert sum("127.0.0.0/8" in str(rule) for rule in hooks(4)) == 2
    assert not any("127.0.0.0/8" in str(rule) for rule in hooks(6))
