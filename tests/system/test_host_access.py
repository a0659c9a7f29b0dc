"""Between a pod and its host, and beyond: `contivh0`, translated both ways (vxlan, routing)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from netplugin.kernel.routes.route_table import ROUTE_PROTOCOL, TABLE
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.ovs import without_link
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import (
    answering,
    dials,
    private_address,
    reaches,
    refused,
    unbroken,
)
from tests.system.planes import add_rules

pytestmark = [pytest.mark.system, pytest.mark.ovs]

PORT = "contivh0"
OTHER_SUBNET = "172.22.0.0/16"
SILENCE = 1.0
"""Seconds without an answer after which a connection counts as denied."""


@pytest.fixture(scope="module")
def hosts() -> int:
    """One host is enough: nothing here crosses the tunnel."""
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Have the agent look at its rules often."""
    return {"netplugin": ["--audit-interval", "2"]}


@pytest.fixture(scope="module")
def host(bed: Bed) -> Host:
    """Give the host, which forwards packets and doubts their senders as any node of Kubernetes."""
    (host,) = bed.hosts
    strict = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=1"]
    host.namespace.run(["sysctl", "-q", "-w", *strict])
    return host


@pytest.fixture
def pod(bed: Bed, host: Host) -> Iterator[Pod]:
    """Run a pod."""
    pod = bed.add_pod(host, "p")
    yield pod
    bed.delete_pod(pod)


def held_by(host: Host) -> list[str]:
    shown = host.namespace.run(["ip", "-json", "-4", "addr", "show", PORT], check=False).stdout
    held = [one for link in json.loads(shown or "[]") for one in link.get("addr_info", ())]
    return [f"{one['local']}/{one['prefixlen']}" for one in held]


def rules(host: Host) -> list[str]:
    listed = host.namespace.run(["iptables", "-w", "-t", "nat", "-S", "POSTROUTING"]).stdout
    # without the rule for what comes back to pods: `tests/system/test_host_to_pod.py` has that
    return [line for line in listed.splitlines() if line.startswith("-A") and "SNAT" not in line]


def ours(subnet: str = "172.19.0.0/16") -> str:
    comment = "-m comment --comment contiv"
    return f"-A POSTROUTING -s {subnet} ! -o contiv+ {comment} -j MASQUERADE"


def test_a_pod_hears_what_becomes_of_what_it_sends_outside(bed: Bed, host: Host, pod: Pod) -> None:
    """Errors of ICMP quote the pod's packet under the address that it had on its way."""
    outside = bed.fabric
    eventually(partial(reaches, pod.namespace, outside.address), "the outside is reached")
    assert pod.namespace.call(partial(refused, outside.address, 9, 5))
    assert host.namespace.call(partial(refused, outside.address, 9, 5)), "as the host does"


def test_a_pod_and_its_host_reach_each_other(host: Host, pod: Pod) -> None:
    for source, target in (
        (pod.namespace, host.address),
        (host.namespace, private_address(pod)),
    ):
        eventually(partial(reaches, source, target), f"{target} is reached")
    with answering(host.namespace, host.address, 81) as callers:
        assert dials(pod.namespace, host.address, 81)
    assert callers == [private_address(pod)], "the host sees a pod by its private address"
    with answering(pod.namespace, pod.address, 80) as callers:
        assert dials(host.namespace, private_address(pod), 80)
    assert callers == [host.address]


def test_a_pod_reaches_the_outside_under_its_hosts_address(bed: Bed, host: Host, pod: Pod) -> None:
    outside = bed.fabric
    eventually(lambda: reaches(pod.namespace, outside.address), "the outside is reached")
    with answering(outside.namespace, outside.address, 82) as callers:
        assert dials(pod.namespace, outside.address, 82)
    assert callers == [host.address]


def test_the_private_network_itself_is_nobodys_to_reach(bed: Bed, host: Host, pod: Pod) -> None:
    """As in the original: else a pod would reach others past the walls between tenants."""
    other = bed.add_pod(host, "q")
    eventually(lambda: reaches(pod.namespace, host.address), "the way to the host is open")
    for target in ("172.19.255.254", private_address(other)):
        assert not reaches(pod.namespace, target)
    bed.delete_pod(other)


def test_pods_of_tenants_with_the_same_address_are_told_apart(bed: Bed, host: Host) -> None:
    pods = []
    for tenant in ("red", "blue"):
        bed.netctl("tenant", "create", tenant)
        words = ["--subnet=10.99.0.0/24", "--gateway=10.99.0.1", "same"]
        bed.netctl("net", "create", "-t", tenant, *words)
        pods.append(bed.add_pod(host, tenant, tenant=tenant, network="same"))
    red, blue = pods
    assert red.address == blue.address
    for pod in pods:
        with answering(host.namespace, host.address, 83) as callers:
            assert dials(pod.namespace, host.address, 83)
        assert callers == [private_address(pod)]
        bed.delete_pod(pod)
        bed.netctl("net", "rm", "-t", str(pod.conf["contiv"]["tenant"]), "same")


def test_policies_are_judged_on_the_way_to_the_host(bed: Bed, host: Host) -> None:
    bed.netctl("policy", "create", "walled")
    bed.netctl("group", "create", "-p", "walled", "default-net", "walled")
    for number, words in {
        "1": ["--action=deny", "--protocol=tcp", "--priority=1"],
        "2": ["--action=allow", "--protocol=tcp", "--port=84", "--priority=10"],
    }.items():
        bed.netctl("policy", "rule-add", "-d", "out", *words, "walled", number)
    add_rules(bed, "walled", {})
    pod = bed.add_pod(host, "walled", group="walled")
    for namespace, address in (
        (host.namespace, host.address),
        (bed.fabric.namespace, bed.fabric.address),
    ):
        with answering(namespace, address, 84), answering(namespace, address, 85):
            assert dials(pod.namespace, address, 84)
            assert dials(namespace, address, 85), "the server listens"
            assert not dials(pod.namespace, address, 85, SILENCE)
    bed.delete_pod(pod)
    bed.netctl("group", "rm", "walled")


def test_a_restart_of_the_agent_loses_nothing(
    bed: Bed, host: Host, pod: Pod, tmp_path: Path
) -> None:
    (agent,) = bed.agents
    ways = {
        "to-host": (pod.namespace, host.address),
        "from-host": (host.namespace, private_address(pod)),
        "outside": (pod.namespace, bed.fabric.address),
    }
    before = rules(host)
    with unbroken(tmp_path, **ways):
        agent.kill()
        agent.start()
    assert rules(host) == before == [ours()]


def test_what_somebody_takes_away_comes_back(bed: Bed, host: Host, pod: Pod) -> None:
    foreign = ["POSTROUTING", "-s", "192.0.2.0/24", "-j", "MASQUERADE"]
    outside = bed.fabric.address
    for words in (
        ["iptables", "-w", "-t", "nat", "-F"],
        ["ip", "address", "flush", "dev", PORT],
        ["ip", "route", "flush", "table", str(TABLE)],
        ["ip", "rule", "flush", "protocol", str(ROUTE_PROTOCOL)],
        ["ip", "link", "set", PORT, "down"],
        without_link(PORT),
        ["ovs-vsctl", "del-port", PORT],
    ):
        eventually(lambda: reaches(pod.namespace, outside), "the way is open")
        host.namespace.run(words, env=host.ovs.environment)
        gone = " ".join(words)
        eventually(lambda: reaches(pod.namespace, outside), f"back after {gone}")
        eventually(lambda: rules(host) == [ours()], f"rules back after {gone}")
        eventually(lambda: held_by(host) == ["172.19.255.254/16"], gone)
        eventually(lambda: reaches(host.namespace, private_address(pod)), gone)
    host.namespace.run(["iptables", "-w", "-t", "nat", "-A", *foreign])
    for words in (["-A", *rules(host)[0].split()[1:]], ["-D", *rules(host)[0].split()[1:]]):
        host.namespace.run(["iptables", "-w", "-t", "nat", *words])
        eventually(lambda: sorted(rules(host)) == sorted([ours(), f"-A {' '.join(foreign)}"]), "")
    host.namespace.run(["iptables", "-w", "-t", "nat", "-D", *foreign])


def test_another_private_subnet_holds_at_once(bed: Bed, host: Host) -> None:
    """The cluster changes it only while there are no networks."""
    change_subnet(bed, OTHER_SUBNET)
    eventually(lambda: held_by(host) == ["172.22.255.254/16"], "the host's other address")
    eventually(lambda: rules(host) == [ours(OTHER_SUBNET)], "the rule of the other subnet")
    pod = bed.add_pod(host, "later")
    for source, target in (
        (pod.namespace, bed.fabric.address),
        (host.namespace, private_address(pod, "172.22")),
    ):
        eventually(partial(reaches, source, target), f"{target} is reached")
    assert not reaches(pod.namespace, "172.22.255.254")
    bed.delete_pod(pod)
    change_subnet(bed, "172.19.0.0/16")
    eventually(lambda: rules(host) == [ours()], "the rule of before")


def change_subnet(bed: Bed, subnet: str) -> None:
    bed.netctl("net", "rm", "default-net")
    bed.netctl("global", "set", "--private-subnet", subnet)
    bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
