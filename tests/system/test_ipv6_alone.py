"""Networks with IPv6 alone: names, services, the way out, pods that start without netmaster.

That pods reach each other and policies hold is shown by `test_modes`, services of Kubernetes by
`test_service_table`, its policies by `test_network_policies`: each runs with such networks too.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials, private_address6, reaches
from tests.system.planes import FWD_MODES, NETWORKS, addresses, planes
from tests.system.questions import OUTSIDE, hears, serving
from tests.system.services import lead_to_both_hosts

pytestmark = [
    pytest.mark.system,
    pytest.mark.ovs,
    pytest.mark.usefixtures("no_pods_left"),
]

HOST6, OUTSIDE6 = "fd77::1", "fd77::fe"
OWN6 = "fd00:96::2"
FLAGS = {"netplugin": ["--audit-interval", "2", "--dns-address", OWN6]}
"""Have the agents look at their rules often, and be the pods' name server."""

everywhere = pytest.mark.parametrize("network", list(NETWORKS))


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param, family="v6", flags=FLAGS) as bed:
        yield bed


@everywhere
def test_pods_ask_for_names(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    group = f"web-{network}"
    asker = bed.add_pod(here, "asker", network=network)
    near = bed.add_pod(here, "near", network=network, group=group)
    far = bed.add_pod(there, "far", network=network, group=group)
    with serving(bed.add_pod(there, "server", network=network)) as server:
        hears(asker, server, "far", {far.address}, "AAAA")
        hears(asker, server, group, {near.address, far.address}, "AAAA")
        hears(asker, server, "far", set())
        hears(far, server, "asker", {asker.address}, "AAAA")
        hears(asker, server, "contiv.example", {OUTSIDE})
        hears(asker, server, "far", {far.address}, "AAAA", tcp=True)
        hears(far, server, "asker", {asker.address}, "AAAA", tcp=True)
        hears(asker, server, "contiv.example", {OUTSIDE}, tcp=True)


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_the_agent_is_the_name_server_at_an_address_of_ipv6(bed: Bed, tcp: bool) -> None:
    here, there = bed.hosts
    asker = bed.add_pod(here, "asker", network="vxlan")
    far = bed.add_pod(there, "far", network="vxlan")
    hears(asker, OWN6, "far", {far.address}, "AAAA", tcp=tcp)
    hears(far, OWN6, "asker", {asker.address}, "AAAA", tcp=tcp)


@everywhere
def test_a_service_has_an_address_of_ipv6(bed: Bed, network: str) -> None:
    lead_to_both_hosts(bed, network)


@pytest.mark.parametrize("bed", ["routing"], indirect=True)
def test_pods_leave_by_their_host(bed: Bed) -> None:
    """Under its address, and it reaches them at their own."""
    host = bed.hosts[0]
    host.namespace.run(["sysctl", "-q", "-w", "net.ipv6.conf.all.forwarding=1"])
    ends = ((host.namespace, "br-phy", HOST6), (bed.fabric.namespace, "sw", OUTSIDE6))
    for namespace, link, address in ends:
        namespace.run(["ip", "address", "add", f"{address}/64", "dev", link, "nodad"])
    pod = bed.add_pod(host, "p", network="vxlan")
    eventually(partial(reaches, pod.namespace, OUTSIDE6), "the outside is reached")
    with answering(bed.fabric.namespace, OUTSIDE6, 82) as callers:
        assert dials(pod.namespace, OUTSIDE6, 82)
    assert callers == [HOST6]
    with answering(host.namespace, HOST6, 81) as callers:
        assert dials(pod.namespace, HOST6, 81)
    assert callers == [private_address6(pod)]
    eventually(partial(reaches, host.namespace, pod.address), "the host reaches the pod")


@pytest.mark.parametrize("bed", ["routing"], indirect=True)
def test_a_network_says_which_family_comes_first(bed: Bed) -> None:
    dual = ["-s", "10.64.0.0/24", "-g", "10.64.0.1", "-s6", "fd00:64::/64", "-g6", "fd00:64::1"]
    bed.netctl("net", "create", *dual, "--first-family=ipv6", "six-first")
    here, there = bed.hosts
    pod = bed.add_pod(here, "p", network="six-first")
    other = bed.add_pod(there, "q", network="six-first")
    assert [":" in address for address in addresses(pod)] == [True, False]
    for address in addresses(other):
        eventually(partial(pod.ping, address), f"{address} is reached")
    conf = pod.conf | {"prevResult": pod.result}
    checked = bed.runtime.call("CHECK", pod.host, conf, pod.sandbox, netns=str(pod.namespace.path))
    assert checked.returncode == 0, checked.stdout


@everywhere
def test_a_result_has_ipv6_alone(bed: Bed, network: str) -> None:
    pod = bed.add_pod(bed.hosts[0], "p", network=network)
    gateway = NETWORKS[network][3]
    assert [one["gateway"] for one in pod.result["ips"]] == [gateway]
    assert pod.result["routes"] == [{"dst": "::/0", "gw": gateway}]
    assert addresses(pod) == (pod.address,)
    assert pod.mac.startswith("02:06:")
    four = pod.namespace.run(["ip", "-4", "-o", "address", "show", "dev", "eth0"]).stdout
    assert four == ""
