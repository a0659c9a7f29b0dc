"""`netctl trace --live` on two hosts: a packet is sent; the first hop that drops it is named."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import NETWORKS, add_rules, applied, planes

pytestmark = [
    pytest.mark.system,
    pytest.mark.usefixtures("pods"),
]

NO_AUDITS: Mapping[str, Sequence[str]] = {"netplugin": ["--audit-interval", "300"]}
"""The agents repair their switches by no audit, while a test breaks one."""
DENIED = ["--action=deny", "-l", "tcp", "-P", "80"]
Live = dict[str, Any]


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run two hosts whose networks are routed, with a rule against tcp/80 that groups share."""
    with planes(next(bed_dirs), "routing", flags=NO_AUDITS) as bed:
        for network in NETWORKS:
            words = ["-p", f"guard-{network}", network, f"shop-{network}"]
            bed.netctl("group", "create", *words)
            add_rules(bed, f"guard-{network}", {"1": DENIED})
        yield bed


@pytest.fixture(scope="module")
def pods(bed: Bed) -> dict[str, tuple[Pod, Pod]]:
    """Have a pod without a group on the first host, and one in the group on the second."""
    one, two = bed.hosts
    found = {
        network: (
            bed.add_pod(one, f"a-{network}", network=network),
            bed.add_pod(two, f"b-{network}", network=network, group=f"shop-{network}"),
        )
        for network in NETWORKS
    }
    applied(bed)
    for sender, receiver in found.values():
        eventually(partial(sender.ping, receiver.address), "they reach each other")
    return found


def sent(bed: Bed, network: str, *words: str) -> Live:
    """Return what became of a packet from the first pod of a network to the second."""
    names = f"a-{network}", f"b-{network}"
    told = bed.netctl("trace", "--live", "--json", *names, *words, check=False)
    found: Live = json.loads(told)["live"]
    return found


@pytest.mark.parametrize("family", [(), ("-6",)], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_packet_that_is_allowed_arrives(bed: Bed, network: str, family: tuple[str, ...]) -> None:
    for words in (family, (*family, "-l", "tcp", "-P", "8080")):
        found = sent(bed, network, *words)
        assert found["outcome"] == "delivered", found
        # nobody listens there
        end = "refused the connection (RST)" if words[-1:] == ("8080",) else "came back"
        assert end in found["verdict"], found
        assert found["seen"].keys() == {"h1", "h2"}
        assert found["unreachable"] == {}


@pytest.mark.parametrize(
    ("program", "address"), [("iptables", ()), ("ip6tables", ("-6",))], ids=["IPv4", "IPv6"]
)
def test_what_the_pods_own_firewall_does_is_told(
    bed: Bed, pods: dict[str, tuple[Pod, Pod]], program: str, address: tuple[str, ...]
) -> None:
    inside = pods["vxlan"][1].namespace
    rule = ["INPUT", "-p", "tcp", "--dport", "8080", "-j"]
    prohibited = "icmp-admin-prohibited" if program == "iptables" else "icmp6-adm-prohibited"
    for does, told in (
        (["DROP"], "no answer came: look at the firewall"),
        (["REJECT", "--reject-with", prohibited], "communication administratively prohibited"),
    ):
        inside.run([program, "-w", "-I", *rule, *does])
        try:
            found = sent(bed, "vxlan", "-l", "tcp", "-P", "8080", *address)
        finally:
            inside.run([program, "-w", "-D", *rule, *does])
        assert found["outcome"] == "delivered"
        assert told in found["verdict"], found


def test_a_pod_that_speaks_with_anothers_address_is_named(
    bed: Bed, pods: dict[str, tuple[Pod, Pod]]
) -> None:
    sender, receiver = pods["vxlan"]
    flood = ["ping", "-q", "-c", "100", "-i", "0.01", "-I", "10.60.0.77", receiver.address]
    sender.namespace.run(["ip", "address", "add", "10.60.0.77/24", "dev", "eth0"])

    def named() -> bool:
        sender.namespace.run(flood, check=False)
        told = json.loads(bed.netctl("trace", "--json", sender.name, receiver.name, check=False))
        return any("not its own" in note for hop in told["hops"] for note in hop["notes"])

    try:
        eventually(named, "the trace says what the source guard drops")
    finally:
        sender.namespace.run(["ip", "address", "del", "10.60.0.77/24", "dev", "eth0"])


def test_a_name_server_that_does_not_answer_is_named(
    bed: Bed, pods: dict[str, tuple[Pod, Pod]]
) -> None:
    sender, _ = pods["vxlan"]
    server = "192.168.77.253"
    ask = f"exec 3<>/dev/udp/{server}/53; head -c 40 /dev/zero >&3"

    def named() -> bool:
        # each from a port of its own
        sender.namespace.run(["bash", "-c", ask])
        words = ["-l", "udp", "-P", "53", sender.name, server]
        told = json.loads(bed.netctl("trace", "--json", *words, check=False))
        notes = [note for hop in told["hops"] for note in hop["notes"]]
        return any(f"name server {server} does not answer" in note for note in notes)

    eventually(named, "the trace says that the name server does not answer")


def test_an_address_that_no_endpoint_has_is_named(bed: Bed) -> None:
    asked = ["trace", "--live", "--json", "a-vxlan", "10.60.0.99"]
    live = json.loads(bed.netctl(*asked, check=False))["live"]
    assert live["verdict"].startswith("no endpoint has the address 10.60.0.99 "), live


@pytest.mark.parametrize("family", [(), ("-6",)], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_host_that_drops_it_first_is_named(
    bed: Bed, network: str, family: tuple[str, ...]
) -> None:
    words = ("-l", "tcp", "-P", "80", *family)
    found = sent(bed, network, *words)
    assert found["verdict"] == "dropped by the switches of host h1", found
    bridge = Bridge.VXLAN if network == "vxlan" else Bridge.VLAN
    with passing(bed, bridge):
        found = sent(bed, network, *words)
    assert found["outcome"] == "lost"
    assert found["verdict"].startswith("dropped by the switches of host h2, which it came to by")


@contextmanager
def passing(bed: Bed, bridge: Bridge) -> Iterator[None]:
    """Have the first host's switch pass what its rules deny: the second one judges alone."""
    ovs = bed.hosts[0].ovs
    ovs.ofctl("add-flow", bridge, "table=5,priority=65000,actions=goto_table:6")
    try:
        yield
    finally:
        ovs.ofctl("--strict", "del-flows", bridge, "table=5,priority=65000")


def test_a_tunnel_port_that_is_gone_is_found(bed: Bed) -> None:
    ovs, agent = bed.hosts[0].ovs, bed.agents[0]
    (tunnel,) = [x for x in ovs.vsctl("list-ports", Bridge.VXLAN).split() if x.startswith("vxif")]
    options = ["type=vxlan", f"options:remote_ip={bed.hosts[1].address}", "options:key=flow"]
    options += ["options:tos=inherit", "options:dst_port=4789"]
    # Another port with the same other end stands in its place, so that it cannot return.
    agent.pause()
    ovs.vsctl("del-port", tunnel)
    ovs.vsctl("add-port", Bridge.VLAN, "rival", "--", "set", "interface", "rival", *options)
    agent.resume()
    try:
        # Without the tunnel there is no flow for the other pod: its packets go to the host, as all
        # for the outside, whose rules drop what is for a pod.
        def dropped() -> bool:
            found = sent(bed, "vxlan")
            told = str(found["verdict"]).startswith("dropped by the kernel of host h1")
            return found["outcome"] == "lost" and told

        eventually(dropped, "the host drops it")
    finally:
        ovs.vsctl("del-port", "rival")
        ovs.vsctl("--if-exists", "del-port", tunnel)
    arrives(bed)


def arrives(bed: Bed) -> None:
    eventually(lambda: sent(bed, "vxlan")["outcome"] == "delivered", "it arrives again")


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (0, "not sent: host h1: "),
        (1, "it left host h1, and nobody looked further; host h2: no answer in time"),
    ],
)
def test_an_agent_that_is_down_is_named(bed: Bed, lost: int, told: str) -> None:
    bed.agents[lost].pause()
    try:
        found = sent(bed, "vxlan")
        assert found["verdict"].startswith(told), found
        assert bed.hosts[lost].label in found["unreachable"]
    finally:
        bed.agents[lost].resume()
    arrives(bed)
