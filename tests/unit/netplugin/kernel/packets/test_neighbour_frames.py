"""ARP frames by a link of the host; real ones are in `tests/system/test_lanes.py`."""

from ipaddress import IPv4Address
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.kernel.packets import neighbour_frames
from ofnet.openflow import packets

OWN, OTHER = IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")
MAC = "02:00:00:00:00:01"


def test_a_request_is_read_as_one() -> None:
    read = packets.parse_arp(
        neighbour_frames.request(bytes.fromhex(MAC.replace(":", "")), OWN, OTHER)
    )
    assert read is not None
    assert (read.operation, read.sender_mac, read.sender_ip) == (1, MAC, OWN)
    assert read.target_ip == OTHER


def test_what_the_kernel_has_resolved_is_read(tmp_path: Path) -> None:
    table = tmp_path / "arp"
    table.write_text(
        "IP address       HW type     Flags       HW address            Mask     Device\n"
        f"192.0.2.1        0x1         0x2         {MAC}     *        br-phy\n"
        f"192.0.2.1        0x1         0x6         {MAC}     *        eth1\n"
        "192.0.2.2        0x1         0x0         00:00:00:00:00:00     *        br-phy\n"
    )
    assert neighbour_frames.resolved(4, table) == {(OWN, "br-phy"): MAC, (OWN, "eth1"): MAC}
    with pytest.raises(HostError, match="cannot read"):
        neighbour_frames.resolved(4, tmp_path / "none")


def test_a_links_mac_is_read() -> None:
    assert neighbour_frames.mac_of("lo") == "00:00:00:00:00:00"
    with pytest.raises(HostError, match="cannot read the MAC of none0: No such device"):
        neighbour_frames.mac_of("none0")


def test_a_link_that_is_not_there_is_named() -> None:
    with pytest.raises(HostError, match="cannot ask for neighbours by none0"):
        neighbour_frames.ask("none0", OWN, OTHER)
    with pytest.raises(HostError, match="cannot ask for neighbours by none0"):
        neighbour_frames.announce("none0", OWN)
