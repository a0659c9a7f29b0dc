"""Host ports that a configuration asks for, and which of them stand in each other's way."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from netplugin.cni.config_names import declared
from netplugin.cni.errors import INVALID_CONFIG, BadCall
from netplugin.cni.port_mappings import PortMapping, asked_mappings, mapping_of


def mapping(
    host_port: int = 8080, container_port: int = 80, protocol: str = "tcp", host_ip: str = ""
) -> PortMapping:
    return PortMapping(
        protocol=protocol, host_port=host_port, container_port=container_port, host_ip=host_ip
    )


def asked(*mappings: Any) -> dict[str, Any]:
    return {"runtimeConfig": {"portMappings": list(mappings)}}


@pytest.mark.parametrize(
    "config",
    [{}, {"runtimeConfig": None}, {"runtimeConfig": {}}, asked()],
)
def test_no_host_ports(config: dict[str, Any]) -> None:
    assert asked_mappings(declared(config)) == ()


def test_what_runtimes_write() -> None:
    config = asked(
        {"hostPort": 8080, "containerPort": 80, "protocol": "TCP", "hostIP": ""},
        {"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "192.0.2.1"},
        {"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "2001:DB8::1"},
        {"hostPort": 8080, "containerPort": 80},
        {"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""},
    )
    assert asked_mappings(declared(config)) == (
        mapping(),
        mapping(53, 5353, "udp", "192.0.2.1"),
        mapping(53, 5353, "udp", "2001:db8::1"),
    )


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"runtimeConfig": {"portMappings": {}}}, "not a list of objects"),
        (asked(80), "not a list of objects"),
        (asked({"hostPort": 0, "containerPort": 80}), "hostPort 0"),
        (asked({"hostPort": 80}), "containerPort None"),
        (asked({"hostPort": True, "containerPort": 80}), "hostPort True"),
        (asked({"hostPort": 80, "containerPort": 65536}), "containerPort 65536"),
        (asked({"hostPort": 80, "containerPort": 80, "protocol": "icmp"}), "'icmp'"),
        (asked({"hostPort": 80, "containerPort": 80, "hostIP": "eth0"}), "'eth0'"),
        (asked({"hostPort": 80, "containerPort": 80, "hostIP": 3}), "not an address"),
        (
            asked(
                {"hostPort": 80, "containerPort": 80},
                {"hostPort": 80, "containerPort": 81, "hostIP": "::1"},
            ),
            "once",
        ),
    ],
)
def test_what_is_refused(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadCall, match=reason) as caught:
        asked_mappings(declared(config))
    assert caught.value.code == INVALID_CONFIG
    assert "runtimeConfig.portMappings" in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        (mapping(), mapping(container_port=81), True),
        (mapping(), mapping(8081), False),
        (mapping(), mapping(protocol="udp"), False),
        (mapping(), mapping(host_ip="192.0.2.1"), True),
        (mapping(host_ip="192.0.2.1"), mapping(host_ip="192.0.2.1"), True),
        (mapping(host_ip="192.0.2.1"), mapping(host_ip="192.0.2.2"), False),
        (mapping(host_ip="0.0.0.0"), mapping(host_ip="192.0.2.2"), True),
        (mapping(host_ip="0.0.0.0"), mapping(host_ip="2001:db8::1"), False),
        (mapping(host_ip="::"), mapping(host_ip="2001:db8::1"), True),
        (mapping(host_ip="::"), mapping(host_ip="0.0.0.0"), False),
    ],
)
def test_ports_in_each_others_way(one: PortMapping, other: PortMapping, collide: bool) -> None:
    assert one.collides(other) is collide
    assert other.collides(one) is collide


def test_a_mapping_is_read_as_it_was_written() -> None:
    written = mapping(host_ip="192.0.2.1")
    assert mapping_of(json.loads(json.dumps(asdict(written)))) == written


@pytest.mark.parametrize(
    "value",
    [
        3,
        {},
        {**asdict(mapping()), "colour": "red"},
        {**asdict(mapping()), "protocol": "icmp"},
        {**asdict(mapping()), "host_port": "80"},
        {**asdict(mapping()), "host_ip": "eth0"},
    ],
)
def test_anything_else_is_no_mapping(value: object) -> None:
    with pytest.raises(ValueError, match="not a port mapping"):
        mapping_of(value)
