"""Entries of datagrams in the kernel's connection tracking: found, judged and deleted."""

import socket
from ipaddress import ip_address

import pytest

from netplugin.bridges.services.stale_datagrams import Ways, sweep
from netplugin.kernel import conntrack
from tests.bed.netns import Namespace
from tests.bed.waiting import WITHIN

pytestmark = pytest.mark.ovs

VIP = {4: "10.96.0.1", 6: "fd96::1"}
END = {4: "127.0.0.1", 6: "::1"}
PROGRAM = {4: "iptables", 6: "ip6tables"}


@pytest.fixture(params=[4, 6])
def version(request: pytest.FixtureRequest, host: Namespace) -> int:
    """Have the host lead datagrams to an address elsewhere."""
    version: int = request.param
    host.run(["ip", "link", "set", "lo", "up"])
    host.run(["ip", "route", "add", "local", VIP[version], "dev", "lo"])
    lead(host, version, "-A", 7001)
    return version


def lead(host: Namespace, version: int, verb: str, port: int) -> None:
    end = f"[{END[version]}]:{port}" if version == 6 else f"{END[version]}:{port}"
    words = ["-d", VIP[version], "-p", "udp", "-j", "DNAT", "--to-destination", end]
    host.run([PROGRAM[version], "-w", "-t", "nat", verb, "OUTPUT", *words])


def ways(version: int, port: int) -> Ways:
    made = Ways()
    made.lead(ip_address(VIP[version]), 53, [(ip_address(END[version]), port)])
    return made


def test_a_client_that_never_pauses_is_led_anew(host: Namespace, version: int) -> None:
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    ears = {}
    for port in (7001, 7002):
        ears[port] = socket.socket(family, socket.SOCK_DGRAM)
        ears[port].bind((END[version], port))
        ears[port].settimeout(5)
    with socket.socket(family, socket.SOCK_DGRAM) as client, ears[7001], ears[7002]:
        client.connect((VIP[version], 53))
        client.send(b"first")
        assert ears[7001].recv(9) == b"first"
        (entry,) = conntrack.entries(version)
        assert entry.sent_to == (ip_address(VIP[version]).packed, 53)
        assert entry.answered_by == (ip_address(END[version]).packed, 7001)
        assert not entry.answered

        lead(host, version, "-D", 7001)
        lead(host, version, "-A", 7002)
        assert sweep(ways(version, 7001).ends, ()) == 0
        client.send(b"by the entry")
        assert ears[7001].recv(20) == b"by the entry", "the fault to mend"
        assert sweep(ways(version, 7002).ends, ()) == 1
        client.send(b"anew")
        assert ears[7002].recv(9) == b"anew"
    conntrack.delete([entry, entry])  # maybe gone


def test_more_entries_than_a_message_holds(version: int) -> None:
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        for port in range(1000, 2000):
            client.sendto(b"x", (VIP[version], port))
    assert len(conntrack.entries(version)) == 1000
    former = {(ip_address(VIP[version]).packed, port) for port in range(1000, 2000)}
    assert sweep({}, former) == 1000
    assert conntrack.entries(version) == []


@pytest.mark.usefixtures("host")
def test_an_entry_tells_whether_it_was_answered(version: int) -> None:
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    with (
        socket.socket(family, socket.SOCK_DGRAM) as ear,
        socket.socket(family, socket.SOCK_DGRAM) as client,
    ):
        ear.bind((END[version], 7001))
        ear.settimeout(WITHIN)
        client.connect((VIP[version], 53))
        client.send(b"asked")
        _, asker = ear.recvfrom(9)
        assert [one.answered for one in conntrack.entries(version)] == [False]
        ear.sendto(b"answered", asker)
        client.settimeout(WITHIN)
        assert client.recv(9) == b"answered"
        assert [one.answered for one in conntrack.entries(version)] == [True]
