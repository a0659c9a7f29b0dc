"""The choice of the host's default address."""

import pytest

from daemons.host_address import choose

INTERFACES = {
    "lo": "127.0.0.1",
    "docker0": "172.17.0.1",
    "eth0": "10.0.0.5",
    "eth1": "10.0.1.5",
}


@pytest.mark.parametrize(
    ("resolved", "address"),
    [
        (["10.0.1.5"], "10.0.1.5"),
        (["127.0.1.1", "10.0.1.5"], "10.0.1.5"),
        (["172.17.0.1"], "10.0.0.5"),
        (["192.0.2.1"], "10.0.0.5"),
        ([], "10.0.0.5"),
    ],
)
def test_the_host_names_address_wins_if_a_usable_interface_has_it(
    resolved: list[str], address: str
) -> None:
    assert choose(resolved, INTERFACES) == address


def test_a_host_without_usable_interfaces_has_none() -> None:
    assert choose(["127.0.0.1"], {"lo": "127.0.0.1", "vethx": "10.1.1.1"}) is None
