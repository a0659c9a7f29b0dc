"""Whether a program has a port: by listening, not by connections that ended."""

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest

from netplugin.kernel.port_probe import in_use

HERE, OTHER = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")


@pytest.mark.parametrize("bound", ["127.0.0.1", ""])
def test_a_port_that_is_listened_at(bound: str) -> None:
    with socket.create_server((bound, 0)) as server:
        port = server.getsockname()[1]
        assert in_use("tcp", HERE, port)
        assert in_use("tcp", OTHER, port) is (bound == "")
        assert not in_use("udp", HERE, port)
    assert not in_use("tcp", HERE, port)


def test_a_port_of_datagrams() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        port = ear.getsockname()[1]
        assert in_use("udp", HERE, port)
        assert not in_use("udp", OTHER, port)


def test_a_connection_that_ended_has_no_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        connection, _ = server.accept()
    connection.close()  # first: the end of this side waits for its time
    client.close()
    assert not in_use("tcp", HERE, port)


def test_an_address_that_is_not_the_hosts_says_nothing() -> None:
    assert not in_use("tcp", IPv4Address("192.0.2.1"), 22)
    assert not in_use("tcp", IPv6Address("2001:db8::1"), 22)
