"""The question of a trace is read whole, or refused."""

from ipaddress import IPv4Address
from typing import Any

import pytest

from core.errors import Invalid
from netplugin.trace.request import read
from ofnet.trace.packets import Talk
from ofnet.world import Bridge

FRAME: dict[str, Any] = {"eth_src": "02:02:0a:01:00:01", "eth_dst": "02:02:0a:01:00:02"}
FRAME |= {"eth_type": 0x800, "ipv4_src": "10.1.0.1", "ipv4_dst": "10.1.0.2", "ip_proto": 1}


def test_a_packet_of_its_own() -> None:
    towards = {"endpoint": "n.t-b", "host": "h2"}
    asked = read(
        {
            "enter": {"endpoint": "n.t-a"},
            "to": "10.1.1.2",
            "protocol": 6,
            "port": 80,
            "towards": towards,
        }
    )
    assert (asked.kind, asked.name, asked.packet) == ("endpoint", "n.t-a", None)
    assert asked.talk == Talk(to=IPv4Address("10.1.1.2"), protocol=6, port=80)
    assert (asked.endpoint, asked.host) == ("n.t-b", "h2")


def test_a_packet_that_is_given() -> None:
    enter = {"port": "7", "bridge": "contivVlanBridge"}
    asked = read({"enter": enter, "packet": FRAME, "before": [FRAME]})
    assert (asked.kind, asked.name, asked.bridge) == ("port", "7", Bridge.VLAN)
    assert asked.packet is not None
    assert asked.packet.get("ipv4_dst") == IPv4Address("10.1.0.2")
    assert asked.before == (asked.packet,)


OWN = {"enter": {"endpoint": "a"}, "to": "10.1.1.2"}


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {},
        {"enter": {}},
        {"enter": {"endpoint": "a", "host": ""}, "to": "10.1.1.2"},
        {"enter": {"endpoint": "a"}},
        {**OWN, "to": "web"},
        {**OWN, "port": 65536},
        {**OWN, "port": True},
        {**OWN, "protocol": -1},
        {**OWN, "before": {}},
        {**OWN, "before": [FRAME] * 5},
        {**OWN, "towards": "b"},
        {"enter": {"tunnel": "h1"}},
        {"enter": {"port": "7"}, "packet": FRAME},
        {"enter": {"port": "7", "bridge": "br0"}, "packet": FRAME},
    ],
)
def test_anything_else_is_refused(asked: object) -> None:
    with pytest.raises(Invalid):
        read(asked)
