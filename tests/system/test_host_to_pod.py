"""A host and its own pods, in all four pipelines: reached at their own addresses, past policies."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from netplugin.kernel.routes.route_table import TABLE
from netplugin.world.bridges import port_names
from tests.bed.cluster import Bed
from tests.bed.hosts import UPLINK, Host
from tests.bed.netns import Namespace
from tests.bed.pods import CniFailed, Pod, Runtime
from tests.bed.waiting import eventually
from tests.system.echoes import answering, asks, dials, echoing, reaches
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, addresses, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

PORTMAP = Path("/usr/lib/cni/portmap")
PATIENCE = 10.0
SILENCE = 1.0
"""Seconds without an answer after which a connection counts as denied."""
HOST6, OUTSIDE6 = "fd77::1", "fd77::fe"
MARK = "contiv-ports"
DENIED = {
    str(number): ["--action=deny", f"--protocol={protocol}", "--priority=1"]
    for number, protocol in enumerate(("tcp", "udp", "icmp"), 1)
}
PORTS = {"vxlan": port_names.HOST_PORT, "vlan": port_names.VLAN_HOST_PORT}
in_both_networks = pytest.mark.parametrize("network", list(NETWORKS))


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster in a forwarding mode, whose groups deny everything in and out."""
    flags = {"netplugin": ["--audit-interval", "2"]}
    with planes(next(bed_dirs), request.param, hosts=1, flags=flags, cards=[UPLINK]) as bed:
        (host,) = bed.hosts
        strict = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=1"]
        strict.append("net.ipv6.conf.all.forwarding=1")
        host.namespace.run(["sysctl", "-q", "-w", *strict])
        host.namespace.run(["ip", "address", "add", f"{HOST6}/64", "dev", "br-phy", "nodad"])
        bed.physical.route({61: ["10.61.0.1/24", "fd00:61::1/64"]})
        for network in NETWORKS:
            add_rules(bed, f"guard-{network}", DENIED)
            for number, words in DENIED.items():
                policy, name = f"guard-{network}", f"out{number}"
                bed.netctl("policy", "rule-add", "-d", "out", *words, policy, name)
        yield bed


@pytest.fixture
def host(bed: Bed) -> Host:
    (host,) = bed.hosts
    return host


@contextmanager
def walled(bed: Bed, network: str, name: str = "walled", *, group: str = "web-") -> Iterator[Pod]:
    """Run a pod that may neither send nor receive anything; without a group it may.

    The host has its own ways to it: at first that to the network's pods on other hosts may be the
    only one, and a connection that begins by that one does not survive the change.
    """
    (host,) = bed.hosts
    pod = bed.add_pod(host, name, network=network, group=f"{group}{network}" if group else "")
    try:
        for address, source in zip(addresses(pod), (host.address, HOST6), strict=True):
            own = partial(sends_from, host.namespace, address, source)
            eventually(own, f"the host's own way to {address}")
        yield pod
    finally:
        bed.delete_pod(pod)


def routes(host: Host, port: str, family: str = "-4") -> list[str]:
    words = ["ip", "-json", family, "route", "show", "table", str(TABLE), "dev", port]
    shown = host.namespace.run(words, check=False).stdout  # a table without routes is none
    found = (str(one["dst"]) for one in json.loads(shown or "[]"))
    return sorted(one for one in found if "/" not in one)


def sends_from(namespace: Namespace, address: str, source: str) -> bool:
    """Return whether a host sends to an address from one of its own; not so without any way."""
    shown = namespace.run(["ip", "route", "get", address], check=False).stdout
    return f" src {source} " in shown


@in_both_networks
def test_a_host_reaches_its_pods_past_policies(bed: Bed, host: Host, network: str) -> None:
    with walled(bed, network) as pod:
        four, six = addresses(pod)
        ways = {four: host.address, six: HOST6}
        for address in ways:
            ping = partial(reaches, host.namespace, address)
            eventually(ping, f"the host reaches {address}")
        with answering(pod.namespace, four, 80) as callers:
            assert dials(host.namespace, four, 80)
        assert callers == [host.address]
        for address, source in ways.items():
            with echoing(pod.namespace, address, 81) as callers:
                assert asks(host.namespace, address, 81)
                assert asks(host.namespace, address, 81, size=4000), "fragments"
            assert set(callers) == {source}
        assert not dials(host.namespace, four, 82, SILENCE), "refused, and the host hears of it"


@in_both_networks
def test_a_pod_opens_no_connection_by_that_way(bed: Bed, host: Host, network: str) -> None:
    with walled(bed, network) as pod:
        four, _ = addresses(pod)
        eventually(lambda: reaches(host.namespace, four), "the way is open")
        with answering(host.namespace, host.address, 83), answering(pod.namespace, four, 84):
            assert dials(host.namespace, four, 84), "connections of the host are known"
            assert not dials(pod.namespace, host.address, 83, SILENCE)
            assert not reaches(pod.namespace, host.address)
        with echoing(host.namespace, host.address, 85):
            assert not asks(pod.namespace, host.address, 85, patience=SILENCE)


@in_both_networks
def test_routes_come_and_go_with_pods(bed: Bed, host: Host, network: str) -> None:
    port = PORTS[network]
    eventually(lambda: routes(host, port) == [], "none at first")
    with walled(bed, network) as pod:
        four, six = addresses(pod)
        eventually(lambda: routes(host, port) == [four], "one route")
        eventually(lambda: routes(host, port, "-6") == [six], "one route of IPv6")
        flush = ["ip", "route", "flush", "table", str(TABLE), "dev", port]
        for words in (flush, ["ovs-vsctl", "del-port", port]):
            host.namespace.run(words, env=host.ovs.environment)
            eventually(lambda: reaches(host.namespace, four), " ".join(words))
    eventually(lambda: routes(host, port) == routes(host, port, "-6") == [], "none is left")


@in_both_networks
def test_an_agent_that_is_away_cuts_nothing_off(bed: Bed, host: Host, network: str) -> None:
    (agent,) = bed.agents
    with walled(bed, network) as pod:
        four, _ = addresses(pod)
        eventually(lambda: reaches(host.namespace, four), "the way is open")
        agent.kill()
        host.namespace.run(["ip", "neighbour", "flush", "all"])
        still = partial(reaches, host.namespace, four)
        eventually(still, "the way is open without the agent")
        agent.start()
        eventually(still, "the way is open with it")


@contextmanager
def mapped(pod: Pod, host_port: int, port: int) -> Iterator[None]:
    """Have the plugin `portmap`, in a chain, lead a port of the host to the pod's."""
    mappings = [
        {"hostPort": host_port, "containerPort": port, "protocol": protocol}
        for protocol in ("tcp", "udp")
    ]
    conf = {
        "cniVersion": "1.0.0",
        "name": "contiv-net",
        "type": "portmap",
        "snat": True,
        "capabilities": {"portMappings": True},
        "runtimeConfig": {"portMappings": mappings},
        "prevResult": pod.result,
    }
    runtime = Runtime(PORTMAP)
    netns = str(pod.namespace.path)
    for verb in ("ADD", "DEL"):
        done = runtime.call(verb, pod.host, conf, pod.sandbox, netns=netns)
        assert done.returncode == 0, done.stdout
        if verb == "ADD":
            try:
                yield
            except BaseException:
                runtime.call("DEL", pod.host, conf, pod.sandbox, netns=netns)
                raise


@pytest.mark.skipif(not PORTMAP.exists(), reason="needs the package containernetworking-plugins")
@in_both_networks
def test_ports_of_the_host_that_another_plugin_maps(bed: Bed, host: Host, network: str) -> None:
    outside = bed.fabric
    for group, known in (("web-", [host.address]), ("", [outside.address, host.address])):
        with walled(bed, network, group=group) as pod, mapped(pod, 8088, 80):
            four, _ = addresses(pod)
            eventually(partial(reaches, host.namespace, four), "the way is open")
            with answering(pod.namespace, four, 80) as callers, echoing(pod.namespace, four, 80):
                for source, address in (
                    (outside.namespace, outside.address),
                    (host.namespace, host.address),
                ):
                    passes, patience = address in known, PATIENCE if address in known else SILENCE
                    assert dials(source, host.address, 8088, patience) is passes
                    assert asks(source, host.address, 8088, patience=patience) is passes
            assert callers == known, "policies hold for the outside"


@pytest.mark.skipif(not PORTMAP.exists(), reason="needs the package containernetworking-plugins")
def test_pods_reach_mapped_ports_of_their_own_host(bed: Bed, host: Host) -> None:
    if bed.fwd_mode != "routing":
        pytest.skip("a bridged pod reaches its host by the physical network")
    asker = bed.add_pod(host, "asker", network="vxlan")
    for network, group in product(NETWORKS, ("", "web-")):
        with walled(bed, network, group=group) as pod, mapped(pod, 8088, 80):
            four, _ = addresses(pod)
            eventually(partial(reaches, host.namespace, four), "the way is open")
            passes, patience = not group, SILENCE if group else PATIENCE
            with answering(pod.namespace, four, 80), echoing(pod.namespace, four, 80):
                assert dials(asker.namespace, host.address, 8088, patience) is passes
                assert asks(asker.namespace, host.address, 8088, patience=patience) is passes
    bed.delete_pod(asker)


def port_mappings(host_port: int, port: int, **more: str) -> list[dict[str, object]]:
    """Return what a runtime passes for a port of both protocols."""
    return [
        {"hostPort": host_port, "containerPort": port, "protocol": protocol, **more}
        for protocol in ("tcp", "udp")
    ]


def port_rules(host: Host) -> list[str]:
    """Return the rules of host ports, with those that lead to them and guard them."""
    shown = [
        host.namespace.run([program, "-w", "-t", table, "-S"]).stdout
        for program in ("iptables", "ip6tables")
        for table in ("nat", "raw")
    ]
    return [line for line in "".join(shown).splitlines() if "CONTIVPORT" in line or MARK in line]


@in_both_networks
def test_host_ports_lead_to_a_pod(bed: Bed, host: Host, network: str) -> None:
    """From outside and the host, its loopback too, in both families."""
    (agent,) = bed.agents
    outside = bed.fabric
    (pod, other) = (
        bed.add_pod(host, f"mapped{n}", network=network, host_ports=ports)
        for n, ports in enumerate((port_mappings(8089, 80), port_mappings(8090, 80)))
    )
    try:
        four, six = addresses(pod)
        eventually(lambda: reaches(host.namespace, four), "the way is open")
        ways = [
            (outside.namespace, host.address, four),
            (host.namespace, host.address, four),
            (host.namespace, "127.0.0.1", four),
        ]
        outside6 = ["ip", "address", "replace", f"{OUTSIDE6}/64", "dev", "sw", "nodad"]
        outside.namespace.run(outside6)
        eventually(lambda: reaches(host.namespace, six), "the way of IPv6 is open")
        ways += [(outside.namespace, HOST6, six), (host.namespace, HOST6, six)]
        with (
            answering(pod.namespace, four, 80) as callers,
            echoing(pod.namespace, four, 80),
            echoing(pod.namespace, six, 80) as callers6,
        ):
            for source, address, target in ways:
                assert asks(source, address, 8089), address
                # IPv6 senders learn the MTU of the way by what is lost first
                fragmented = partial(asks, source, address, 8089, 4000, 2.0)
                eventually(fragmented, f"{address}, in fragments")
                assert target == six or dials(source, address, 8089), address
            came = [outside.address, host.address, host.address]
            eventually(lambda: callers == came, "by whom the pod was asked")
            assert set(callers6) == {OUTSIDE6, HOST6}
            agent.kill()
            assert dials(outside.namespace, host.address, 8089), "without an agent"
            host.namespace.run(["iptables", "-w", "-t", "nat", "-F"])
            agent.start()
            again = partial(dials, outside.namespace, host.address, 8089, SILENCE)
            eventually(again, "the next agent makes the rules again")
        with pytest.raises(CniFailed) as failed:
            bed.add_pod(host, "late", network=network, host_ports=port_mappings(8090, 81))
        assert failed.value.answer["code"] == 101
        assert "host port tcp 8090 is taken by endpoint" in failed.value.answer["details"]
        checked = {**pod.conf, "prevResult": pod.result}
        call = partial(bed.runtime.call, "CHECK", host, checked, pod.sandbox)
        done = call(netns=str(pod.namespace.path))
        assert done.returncode == 0, done.stdout
    finally:
        bed.delete_pod(pod)
        bed.delete_pod(other)
    assert port_rules(host) == [], "a DEL is answered when they are gone"
    assert not dials(outside.namespace, host.address, 8089, SILENCE)


def test_nobody_else_takes_the_hosts_way(bed: Bed, host: Host) -> None:
    """Neither what is beside the host, nor a pod of another tenant that the host forwards for."""
    (host,) = bed.hosts
    outside = bed.fabric.namespace
    bed.netctl("tenant", "create", "blue")
    for network, encap in (("bluex", "vxlan"), ("bluev", "vlan")):
        more = ["--pkt-tag=71"] if encap == "vlan" else []
        subnet = ["--subnet=10.7.0.0/24", "--gateway=10.7.0.1"]
        if encap == "vlan":
            subnet = ["--subnet=10.8.0.0/24", "--gateway=10.8.0.1"]
        words = [*subnet, f"--encap={encap}", *more]
        bed.netctl("net", "create", "-t", "blue", *words, network)
    stranger = bed.add_pod(host, "stranger", tenant="blue", network="bluex")
    for network in NETWORKS:
        with walled(bed, network) as pod:
            four, _ = addresses(pod)
            eventually(partial(reaches, host.namespace, four), "the way is open")
            with answering(pod.namespace, four, 86) as callers:
                assert not dials(stranger.namespace, four, 86, SILENCE)
                outside.run(["ip", "route", "add", f"{four}/32", "via", host.address])
                try:
                    assert not dials(outside, four, 86, SILENCE)
                finally:
                    outside.run(["ip", "route", "del", f"{four}/32"])
            assert callers == []
    bed.delete_pod(stranger)


def test_pods_of_one_address_are_named(bed: Bed, host: Host) -> None:
    bed.netctl("tenant", "create", "red")
    words = ["--subnet=10.60.0.0/24", "--gateway=10.60.0.1", "--encap=vxlan"]
    bed.netctl("net", "create", "-t", "red", *words, "same")
    with walled(bed, "vxlan") as first:
        twin = bed.add_pod(host, "twin", tenant="red", network="same")
        if twin.address != first.address:
            pytest.fail(f"the networks give {first.address} and {twin.address}")
        named = eventually(lambda: _errors(bed), "the host names the address of two pods")
        assert [first.address in line and "the host reaches" in line for line in named] == [True]
        with answering(first.namespace, first.address, 80) as callers:
            assert dials(host.namespace, first.address, 80)
        assert callers == [host.address]
    with answering(twin.namespace, twin.address, 80):
        eventually(lambda: dials(host.namespace, twin.address, 80), "the route is the other's now")
    eventually(lambda: not _errors(bed), "nothing is wrong any more")
    bed.delete_pod(twin)


def _errors(bed: Bed) -> Sequence[str]:
    shown = bed.netctl("host", "inspect", bed.hosts[0].label)
    return [line for line in shown.splitlines() if "several pods" in line]
