"""The addresses and next hops of this machine, read as the kernel shows them."""

from pathlib import Path

import pytest

from core.errors import HostError
from daemons import machine_addresses


def nothing(_: str) -> bool:
    return False


def test_tables_of_the_kernel_are_read(tmp_path: Path) -> None:
    routes = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\n"
        "eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
        "contivh0\t0000140A\tFDFF13AC\t0003\t0\t0\t0\t0000FFFF\n"
    )
    six = f"{0:032x} 00 {0:032x} 00 {0xFD << 120 | 1:032x} 00000400 1 0 00000003 eth0\n"
    held = f"{0xFD << 120 | 2:032x} 02 40 00 80 eth0\n{0xFE80 << 112 | 5:032x} 02 40 20 80 eth0\n"
    for name, text in (("route", routes), ("ipv6_route", six), ("if_inet6", held)):
        (tmp_path / name).write_text(text)
    found = machine_addresses.read(lambda link: link.startswith("contiv"), tmp_path)
    assert found.next_hops == ("192.168.2.1", "fd00::1")
    assert "fd00::2" in found.addresses
    assert not any(one.startswith(("fe80", "127.")) for one in found.addresses)


def test_without_ipv6_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "route").symlink_to(machine_addresses.TABLES / "route")
    assert not any(":" in one for one in machine_addresses.read(nothing, tmp_path).addresses)


def test_a_table_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "if_inet6").write_text("no address here at all, it seems, of any\n")
    with pytest.raises(HostError, match="cannot read the addresses of this machine"):
        machine_addresses.read(nothing, tmp_path)
