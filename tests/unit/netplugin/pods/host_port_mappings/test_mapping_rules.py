"""The rules of host ports: what they match, where they lead, and whose source they replace."""

from ipaddress import IPv4Address, IPv6Address

import pytest

from core.ids import EndpointKey
from netplugin.cni.port_mappings import PortMapping
from netplugin.pods.host_port_mappings.mapping_rules import (
    PORTS,
    SOURCES,
    MappedPod,
    chains,
    hooks,
    missing,
)

HOST = IPv4Address("192.0.2.1")


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
        made = chains(version, [pod(mapping(host_ip))], HOST)
        rule = f"{match} -m tcp --dport 8080 -j DNAT --to-destination {end}"
        assert made.get(PORTS) == ([rule] if match else None)


@pytest.mark.parametrize("protocol", ["udp", "sctp"])
def test_each_protocol_has_its_match(protocol: str) -> None:
    (rule,) = chains(4, [pod(mapping(protocol=protocol))], HOST)[PORTS]
    assert rule.startswith(f"-p {protocol} -m {protocol} --dport 8080 ")


def test_a_pod_without_an_address_of_the_family_has_no_rule() -> None:
    assert chains(6, [pod(mapping(), six=False)], HOST) == {}


def test_the_host_alone_comes_by_another_address() -> None:
    """Policies judge clients outside by their own, and pods by the one that stands for them."""
    for version, source in ((4, f"SNAT --to-source {HOST}"), (6, "MASQUERADE")):
        assert chains(version, [pod(mapping())], HOST)[SOURCES] == [
            f"-o {link} -m conntrack --ctstate DNAT -m addrtype --src-type LOCAL -j {source}"
            for link in ("contivh0", "contivv0")
        ]


def test_what_is_missing_is_named() -> None:
    mapped = pod(mapping())
    found = {version: chains(version, [mapped], HOST)[PORTS] for version in (4, 6)}
    assert list(missing(mapped, found)) == []
    assert list(missing(mapped, {**found, 6: []})) == [
        "host port tcp 8080 does not lead to the pod by IPv6"
    ]


def test_loopback_addresses_are_guarded_where_they_are_routed() -> None:
    assert sum("127.0.0.0/8" in str(rule) for rule in hooks(4)) == 2
    assert not any("127.0.0.0/8" in str(rule) for rule in hooks(6))
