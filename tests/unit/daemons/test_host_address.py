"""The choice of the host's default address."""

from ipaddress import IPv6Address
from pathlib import Path

import pytest

from daemons.host_address import choose, interfaces6

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


def test_an_address_of_ipv6_is_a_lasting_global_one(tmp_path: Path) -> None:
    table = tmp_path / "if_inet6"
    rows = [
        ("::1", "10", "80", "lo"),
        ("fe80::1", "20", "80", "eth0"),
        ("2001:db8::5", "00", "01", "eth0"),  # temporary
        ("2001:db8::1", "00", "80", "eth0"),
        ("2001:db8::2", "00", "80", "eth0"),
        ("2001:db8::3", "00", "40", "eth1"),  # tentative
    ]
    table.write_text(
        "".join(
            f"{int(IPv6Address(one)):032x} 02 40 {scope} {flags:>2} {name:>8}\n"
            for one, scope, flags, name in rows
        )
    )
    assert interfaces6(table) == {"eth0": "2001:db8::1"}
    assert interfaces6(tmp_path / "none") == {}


def test_a_host_without_usable_interfaces_has_none() -> None:
    assert choose(["127.0.0.1"], {"lo": "127.0.0.1", "vethx": "10.1.1.1"}) is None
