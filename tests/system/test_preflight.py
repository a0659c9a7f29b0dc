"""`netplugin preflight` on a host that lacks nothing, and with one thing amiss at a time."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from netplugin.bridges.megaflow_purge import is_affected
from tests.bed.cluster import Bed
from tests.bed.ovs import DATAPATH
from tests.system.preflight import CLOSED, preflight
from tests.unit.deploy.platforms import rules

pytestmark = [pytest.mark.system, pytest.mark.ovs]

of_the_userspace_datapath = pytest.mark.skipif(
    DATAPATH != "netdev", reason="the kernel's own tunnels leave by any link"
)


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path], store_kind: str) -> Iterator[Bed]:
    """Run the whole system on two hosts; on the first the agent has ended."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, hosts=2, store=store_kind).start()
    for host in bed.hosts:
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    bed.agents[0].kill()
    try:
        yield bed
    finally:
        bed.stop()


def test_a_host_that_lacks_nothing(bed: Bed) -> None:
    status, lines = preflight(bed)
    assert status == 0, lines
    release = lines.pop("release")
    assert {line.split()[0] for line in lines.values()} == {"ok"}
    affected = DATAPATH == "netdev" and is_affected(release)
    assert release.split()[0] == ("NOTE" if affected else "ok")
    assert "pods' MTU 1450" in lines["links"]
    if DATAPATH == "netdev":
        assert lines["datapath"].endswith("tunnels leave by bridge br-phy")
        assert f"only bridge br-phy answers ARP for {bed.hosts[0].address}" in lines["neighbours"]
    else:
        assert lines["datapath"].endswith("the kernel's")
    assert lines["private network"].endswith("172.19.0.0/16 is free")
    assert "1 other hosts, pods' packets of 1450 bytes" in lines["paths"]


def test_an_agent_that_runs_is_not_in_its_own_way(bed: Bed) -> None:
    status, lines = preflight(bed, number=1)
    assert status == 0, lines
    assert "an agent runs already" in lines["ports"]


def test_a_socket_of_the_service_manager_is_no_agent(bed: Bed) -> None:
    host = bed.hosts[0]
    path = host.dir / "held.sock"
    with host.namespace.call(lambda: socket.socket(socket.AF_UNIX)) as manager:
        manager.bind(str(path))
        manager.listen()
        manager.settimeout(0)
        status, lines = preflight(bed, "--cni-socket", str(path))
        with pytest.raises(BlockingIOError):
            manager.accept()  # a connection would have started an agent
    assert status == 0, lines
    assert lines["ports"].endswith(f"the service manager listens at {path}")


@pytest.mark.parametrize(
    ("flags", "subject", "said"),
    [
        (["--ovsdb", "unix:/none"], "Open vSwitch", "apt install openvswitch-switch"),
        (["--vtep-ip", "192.0.2.99"], "links", "no link of this host has the address 192.0.2.99"),
        (["--vlan-uplinks", "eth9"], "uplinks", "uplink eth9: No such device"),
        (["--vlan-uplinks", "br-phy"], "uplinks", "uplink br-phy has the address"),
        (["--mtu", "1500"], "links", "pods would have 1450: 50 are the tunnel's"),
        pytest.param(
            *(["--vtep-ip", "127.0.0.1"], "datapath", "127.0.0.1 is on lo, which is no bridge"),
            marks=of_the_userspace_datapath,
        ),
        pytest.param(
            *(["--vtep-ip", "127.0.0.1"], "datapath", "put the address of --vtep-ip on a bridge"),
            marks=of_the_userspace_datapath,
        ),
        (["--host", "h2"], "store", "a host h2 with tunnels from"),
        (["--data-dir", "/dev/null/x"], "directories", "/dev/null cannot be written"),
        (["--k8s-config", "/dev/null"], "Kubernetes", "Kubernetes configuration /dev/null: "),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_is_lacking_is_named_with_a_remedy(
    bed: Bed, flags: list[str], subject: str, said: str
) -> None:
    """The finding of docs/notes/trust.md §18."""
    status, lines = preflight(bed, *flags)
    assert status == 1
    assert lines[subject].startswith(f"LACKS  {subject}: ")
    assert said in lines[subject]
    assert "       -> " in lines[subject]


def test_a_host_that_forwards_nothing_lacks_something(bed: Bed) -> None:
    host = bed.hosts[0]
    host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=0"])
    try:
        status, lines = preflight(bed)
    finally:
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    assert status == 1
    assert lines["forwarding"].startswith("LACKS")
    assert "pods cannot reach addresses outside the cluster" in lines["forwarding"]
    assert "-> sysctl net.ipv4.ip_forward=1" in lines["forwarding"]


def test_a_firewall_that_drops_is_a_note(bed: Bed) -> None:
    host = bed.hosts[0]
    host.namespace.run(["iptables", "-w", "-P", "INPUT", "DROP"])
    host.namespace.run(["iptables", "-w", "-A", "INPUT", "-p", "tcp", "-j", "ACCEPT"])
    try:
        status, lines = preflight(bed)
    finally:
        host.namespace.run(["iptables", "-w", "-P", "INPUT", "ACCEPT"])
        host.namespace.run(["iptables", "-w", "-F", "INPUT"])
    assert (status, lines["firewall"].split()[0]) == (0, "NOTE")
    assert "UDP 4789" in lines["firewall"]


@pytest.mark.parametrize("firewall", CLOSED)
def test_the_rules_of_the_document_open_what_is_closed(bed: Bed, firewall: str) -> None:
    host = bed.hosts[0].namespace
    host.run(["sh", "-euc", CLOSED[firewall]])
    try:
        _, shut = preflight(bed)
        host.run(["sh", "-euc", rules(firewall)])
        status, opened = preflight(bed)
    finally:
        host.run(["nft", "delete", "table", "inet", "filter"], check=False)
        host.run(["iptables", "-w", "-P", "INPUT", "ACCEPT"])
        host.run(["iptables", "-w", "-F", "INPUT"])
    assert shut["firewall"].split()[0] == "NOTE"
    if firewall == "iptables":
        assert "none accepts UDP 4789, TCP 9090, TCP 9002, TCP 9003" in shut["firewall"]
    assert (status, opened["firewall"].split()[0]) == (0, "ok"), opened["firewall"]


def test_a_firewall_in_a_table_of_its_own_is_a_note(bed: Bed) -> None:
    host = bed.hosts[0].namespace
    host.run(["nft", "add", "table", "inet", "firewalld"])
    hooked = "{ type filter hook forward priority 10 ; policy drop ; }"
    host.run(["nft", f"add chain inet firewalld filter_FORWARD {hooked}"])
    try:
        status, lines = preflight(bed)
    finally:
        host.run(["nft", "delete", "table", "inet", "firewalld"])
    assert (status, lines["firewall"].split()[0]) == (0, "NOTE")
    assert "--zone=trusted --add-interface=contivh0" in lines["firewall"]


def test_a_private_network_that_leads_elsewhere_is_named(bed: Bed) -> None:
    host = bed.hosts[0]
    host.namespace.run(["ip", "link", "add", "docker1", "type", "veth", "peer", "name", "d1"])
    host.namespace.run(["ip", "link", "set", "docker1", "up"])
    host.namespace.run(["ip", "address", "add", "172.19.0.1/16", "dev", "docker1"])
    try:
        status, lines = preflight(bed)
    finally:
        host.namespace.run(["ip", "link", "delete", "docker1"])
    assert status == 1
    assert "leads elsewhere: 172.19.0.0/16 by docker1" in lines["private network"]


def test_a_path_that_carries_less_is_named(bed: Bed) -> None:
    link = bed.hosts[1].link
    bed.fabric.namespace.run(["ip", "link", "set", link, "mtu", "1400"])
    try:
        status, lines = preflight(bed)
    finally:
        bed.fabric.namespace.run(["ip", "link", "set", link, "mtu", "1500"])
    assert status == 1
    assert "path to h2: packets of 1500 bytes do not pass" in lines["paths"]


@of_the_userspace_datapath
def test_a_card_that_answers_for_its_bridge_is_named(bed: Bed) -> None:
    # A bridge of its own: on the bed's, the fault itself would cut the host off from the store.
    """The finding of docs/notes/trust.md §5."""
    host = bed.hosts[0]
    card = ["ip", "link", "add", "card2", "type", "veth", "peer", "name", "card2p"]
    netdev = ["--", "set", "bridge", "br-two", "datapath_type=netdev"]
    host.namespace.run(card)
    host.ovs.vsctl("add-br", "br-two", *netdev, "--", "add-port", "br-two", "card2")
    try:
        host.namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "br-two"])
        status, lines = preflight(bed, "--vtep-ip", "192.0.2.1")
        assert status == 1
        assert "card card2 of bridge br-two answers ARP for the bridge" in lines["neighbours"]
        assert "-> sysctl net.ipv4.conf.CARD.arp_ignore=1" in lines["neighbours"]
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.conf.card2.arp_ignore=1"])
        _, lines = preflight(bed, "--vtep-ip", "192.0.2.1")
        assert lines["neighbours"].startswith("ok")
    finally:
        host.ovs.vsctl("--if-exists", "del-br", "br-two")
        host.namespace.run(["ip", "link", "delete", "card2"])


def test_a_port_in_use_is_named_with_its_flag(bed: Bed) -> None:
    with bed.hosts[0].namespace.call(lambda: socket.create_server(("0.0.0.0", 9003))):
        status, lines = preflight(bed)
    assert status == 1
    assert "TCP ports in use: 9003 (--vlan-rpc-port)" in lines["ports"]


def test_a_store_that_is_away_is_named(bed: Bed) -> None:
    bed.store.kill()
    try:
        status, lines = preflight(bed)
    finally:
        bed.store.start()
    assert status == 1
    assert "no answer in " in lines["store"]
    for subject in ("private network", "paths"):
        assert lines[subject].startswith(f"NOTE   {subject}: not looked at: ")
