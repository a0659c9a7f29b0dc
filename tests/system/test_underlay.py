"""No network takes what hosts need for themselves, whatever the store says.

The records are put into the store past the masters, as an older master may have left them there.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import pytest

from core import keys
from core.ids import NetworkName, TenantName
from netplugin.kernel.routes.route_table import ROUTE_PROTOCOL, TABLE
from objdb.api import Change, Delete, Put
from objdb.connect import connect, parse_store_url
from state import codec
from state.records import Encap, EndpointRecord, NetworkRecord, NetworkType
from tests.bed.cluster import NO_AUDITS, Bed
from tests.bed.hosts import FABRIC_ADDRESS, Host
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually
from tests.system.echoes import reaches, unbroken
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.ovs]

SERVER = "203.0.113.53"
"""Of the outside, by which the hosts have their default route as well."""


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run two hosts whose default route leads to a router with the address of a server."""
    bed = Bed(next(bed_dirs)).start()
    try:
        bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
        router = bed.fabric.namespace
        router.run(["ip", "address", "add", f"{SERVER}/32", "dev", "sw"])
        for host in bed.hosts:
            run = host.namespace.run
            run(["ip", "route", "add", f"{SERVER}/32", "dev", "br-phy"])
            run(["ip", "route", "add", "default", "via", SERVER])
            run(["ip", "route", "add", "198.51.100.0/24", "via", FABRIC_ADDRESS])
        yield bed
    finally:
        bed.stop()


def a_network(name: str, subnet: str, *, infra: bool = False) -> NetworkRecord:
    block = ip_network(subnet)
    return NetworkRecord(
        tenant=TenantName("default"),
        name=NetworkName(name),
        type=NetworkType.INFRA if infra else NetworkType.DATA,
        encap=Encap.VXLAN,
        pkt_tag=900 + len(name),
        ext_pkt_tag=10_900 + len(name),
        subnet=str(block[0]),
        subnet_len=block.prefixlen,
        gateway="",
        first=str(block[0]),
        last=str(block[-1]),
        ipv6_subnet="",
        ipv6_subnet_len=0,
        ipv6_gateway="",
        network_tag="",
    )


def commit(bed: Bed, *writes: Put | Delete) -> None:
    """Write into the store as no master would."""

    async def write() -> None:
        backend = connect(parse_store_url(f"etcd://{FABRIC_ADDRESS}:2379"))
        try:
            await backend.commit([Change((), tuple(writes))])
        finally:
            await backend.close()

    bed.fabric.namespace.call(lambda: asyncio.run(write()))


def put(bed: Bed, *networks: NetworkRecord) -> None:
    commit(bed, *(Put(keys.network(one.id), codec.encode(one)) for one in networks))


def remove(bed: Bed, *networks: NetworkRecord) -> None:
    commit(bed, *(Delete(keys.network(one.id)) for one in networks))


def errors(bed: Bed, host: Host) -> list[str]:
    found: list[str] = ask(bed, "GET", f"/hosts/{host.label}").json()["errors"]
    return found


def way(host: Host, address: str) -> str:
    (found,) = json.loads(host.namespace.run(["ip", "-json", "route", "get", address]).stdout)
    return str(found["dev"])


TAKING = (
    a_network("around", "192.168.77.128/25"),
    a_network("near", "192.168.77.252/30"),
    a_network("same", "192.168.77.0/24"),
    a_network("only", "192.168.77.254/32"),
    a_network("hop", "203.0.113.0/24"),
    a_network("beyond", "198.51.100.0/25"),
)


def needed(bed: Bed) -> dict[str, tuple[Namespace, str]]:
    """Return what each host needs: store and master, its next hop, the other host."""
    first, second = bed.hosts
    ways = {}
    for host, other in ((first, second), (second, first)):
        for name, address in (("store", FABRIC_ADDRESS), ("hop", SERVER), ("peer", other.address)):
            ways[f"{host.label}-{name}"] = host.namespace, address
    return ways


def test_hosts_keep_what_they_need_whatever_networks_there_are(bed: Bed, tmp_path: Path) -> None:
    one, two = (bed.add_pod(host, f"on-{host.label}") for host in bed.hosts)
    eventually(partial(one.ping, two.address), "pods reach each other")
    ways = {**needed(bed), "pods": (one.namespace, two.address)}
    for ns, address in ways.values():
        eventually(partial(reaches, ns, address), f"{address} answers")
    with unbroken(tmp_path, **ways):
        put(bed, *TAKING)
        for host in bed.hosts:
            for name in ("around", "near", "same", "only", "hop"):
                told = partial(_named, bed, host, f"of network {name}.default holds")
                eventually(told, f"{host.label} names {name}")
            elsewhere = partial(_named, bed, host, "leads 198.51.100.0/25 to br-phy, not to pods")
            eventually(elsewhere, f"{host.label} names what it routes itself")
            assert way(host, "198.51.100.7") == "br-phy"
            assert way(host, "203.0.113.7") == "br-phy", "not routed at all"
        for agent in bed.agents:
            agent.kill()
        remove(bed, *TAKING)
        for agent in bed.agents:
            agent.start()
        for host in bed.hosts:
            eventually(lambda: errors(bed, host) == [], "all is well")  # noqa: B023
    for pod in (one, two):
        bed.delete_pod(pod)


def _named(bed: Bed, host: Host, text: str) -> bool:
    return any(text in error for error in errors(bed, host))


def test_no_interface_of_a_host_takes_the_masters_address(bed: Bed, tmp_path: Path) -> None:
    network = a_network("infra2", "192.168.77.252/30", infra=True)
    with unbroken(tmp_path, **needed(bed)):
        put(bed, network)
        for host in bed.hosts:
            told = partial(_named, bed, host, "of network infra2.default holds 192.168.77.254")
            eventually(told, f"{host.label} names it")
            links = host.namespace.run(["ip", "-o", "address"]).stdout
            assert "infra2" not in links
        remove(bed, network)


@pytest.mark.parametrize("left", ["route", "address"])
def test_a_host_that_an_earlier_release_cut_off_comes_back_by_a_start(bed: Bed, left: str) -> None:
    host, agent = bed.hosts[0], bed.agents[0]
    pod = bed.add_pod(host, "probed")
    agent.kill()
    run = host.namespace.run
    if left == "route":
        by = ["via", "172.19.255.253", "dev", "contivh0", "onlink", "proto", str(ROUTE_PROTOCOL)]
        run(["ip", "route", "add", "192.168.77.252/30", *by, "metric", "512"])
        run(["ip", "route", "add", f"{pod.address}/32", *by])
        run(["ip", "rule", "flush", "protocol", str(ROUTE_PROTOCOL)])
        run(["ip", "route", "flush", "table", str(TABLE)])
    else:
        run(["ip", "link", "add", "infra2", "type", "veth", "peer", "infra2-end"])
        run(["ip", "link", "set", "infra2", "address", "02:02:c0:a8:4d:fe", "up"])
        address = ["192.168.77.254/30", "dev", "infra2", "noprefixroute"]
        run(["ip", "address", "add", *address])
    assert not reaches(host.namespace, FABRIC_ADDRESS) or left == "address"
    agent.start()
    eventually(partial(reaches, host.namespace, FABRIC_ADDRESS), "the master is reached")
    assert way(host, FABRIC_ADDRESS) == "br-phy"
    eventually(partial(reaches, host.namespace, pod.address), "and its pods are reached")
    assert "192.168.77.254" not in run(["ip", "-o", "address"]).stdout
    run(["ip", "link", "delete", "infra2"], check=False)
    bed.delete_pod(pod)


def test_no_pod_answers_for_the_masters_address(bed: Bed, tmp_path: Path) -> None:
    words = ["--subnet=10.30.0.0/16", "--gateway=10.30.0.1", "--encap=vlan", "--pkt-tag=30"]
    bed.netctl("net", "create", *words, "wire")
    host, _ = bed.hosts
    pod, far = (bed.add_pod(one, f"wired-{one.label}", network="wire") for one in bed.hosts)
    eventually(partial(far.ping, pod.address), "pods reach each other")
    key, record = endpoint_at(bed, pod.address)
    taking = replace(record, ip_address=FABRIC_ADDRESS)
    with unbroken(tmp_path, **needed(bed)):
        commit(bed, Put(key, codec.encode(taking)))
        for one in bed.hosts:
            told = partial(_named, bed, one, f"endpoint {record.key} has {FABRIC_ADDRESS}, ")
            eventually(told, f"{one.label} names it")
            assert f"arp_tpa={FABRIC_ADDRESS}" not in wire_flows(one), "answered, or sought"
            assert ("priority=310" in wire_flows(one)) is (one is host)
        assert not far.ping(pod.address)
        commit(bed, Put(key, codec.encode(record)))
        eventually(partial(far.ping, pod.address), "it is a pod again")
    for one in bed.hosts:
        eventually(lambda: errors(bed, one) == [], "all is well")  # noqa: B023
    for each in (pod, far):
        bed.delete_pod(each)
    bed.netctl("net", "rm", "wire")


def endpoint_at(bed: Bed, address: str) -> tuple[str, EndpointRecord]:
    """Return an endpoint as the store has it, with its key."""

    async def read() -> list[tuple[str, EndpointRecord]]:
        backend = connect(parse_store_url(f"etcd://{FABRIC_ADDRESS}:2379"))
        try:
            found = await backend.snapshot(keys.ENDPOINTS)
        finally:
            await backend.close()
        records = ((key, codec.decode(key, one.value)) for key, one in found.entries.items())
        return [(key, one) for key, one in records if isinstance(one, EndpointRecord)]

    known = bed.fabric.namespace.call(lambda: asyncio.run(read()))
    ((key, record),) = [(key, one) for key, one in known if one.ip_address == address]
    return key, record


def wire_flows(host: Host) -> str:
    return host.ovs.ofctl("--no-stats", "dump-flows", "contivVlanBridge")


def test_the_userspace_switch_sends_tunnels_where_the_host_does(bed: Bed) -> None:
    """It looks routes up itself, those of all tables together, and knows no exceptions."""
    host, other = bed.hosts
    taking = a_network("peer", f"{other.address}/32")
    assert "dev br-phy" in host.ovs.appctl("ovs/route/lookup", other.address)
    put(bed, taking)
    told = partial(_named, bed, host, f"of network peer.default holds {other.address}")
    eventually(told, "the network is named")
    assert "dev br-phy" in host.ovs.appctl("ovs/route/lookup", other.address)
    remove(bed, taking)


@pytest.fixture(scope="module")
def unaudited(bed: Bed) -> Host:
    """Return a host whose agent makes no audit from now on: the last tests of this module."""
    agent = bed.agents[0]
    agent.command += NO_AUDITS
    agent.restart()
    return bed.hosts[0]


@pytest.mark.parametrize(
    "words",
    [
        ["route", "flush", "table", "all", "proto", str(ROUTE_PROTOCOL)],
        ["route", "flush", "table", str(TABLE), "dev", "contivh0"],
        ["rule", "flush", "protocol", str(ROUTE_PROTOCOL)],
        ["address", "flush", "dev", "contivh0"],
        ["neighbour", "flush", "dev", "contivh0", "nud", "permanent"],
        ["link", "set", "contivh0", "down"],
    ],
    ids=" ".join,
)
def test_what_others_take_away_is_back_at_once(
    bed: Bed, unaudited: Host, words: Sequence[str]
) -> None:
    """As systemd-networkd does at a restart."""
    pod = bed.add_pod(unaudited, "flushed")
    probe = partial(reaches, unaudited.namespace, pod.address)
    eventually(probe, "the pod is reached")
    unaudited.namespace.run(["ip", *words])
    eventually(probe, "the pod is reached again")
    bed.delete_pod(pod)
