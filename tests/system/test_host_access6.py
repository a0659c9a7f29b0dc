"""Between a pod and its host, and beyond, by IPv6: `contivh0` (vxlan, routing).

As `tests/system/test_host_access.py` has it for IPv4.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from netplugin.kernel.routes.route_table import ROUTE_PROTOCOL, TABLE
from ofnet.world import tunnel_source6
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.ovs import without_link
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import (
    answering,
    asks,
    dials,
    echoing,
    private_address6,
    reaches,
    refused,
    unbroken,
)
from tests.system.planes import add_rules, addresses

pytestmark = [pytest.mark.system, pytest.mark.ovs]

HOST6, OUTSIDE6 = "fd77::1", "fd77::fe"
NETWORK = "dual"
WORDS = (
    *("--subnet=10.60.0.0/24", "--gateway=10.60.0.1"),
    *("--subnetv6=fd00:60::/64", "--gatewayv6=fd00:60::1"),
)
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
    """Give the host, which forwards packets of both families, and a network of both."""
    (host,) = bed.hosts
    forwards = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]
    host.namespace.run(["sysctl", "-q", "-w", *forwards])
    for namespace, link, address in (
        (host.namespace, "br-phy", HOST6),
        (bed.fabric.namespace, "sw", OUTSIDE6),
    ):
        namespace.run(["ip", "address", "add", f"{address}/64", "dev", link, "nodad"])
    bed.netctl("net", "create", *WORDS, NETWORK)
    return host


@pytest.fixture
def pod(bed: Bed, host: Host) -> Iterator[Pod]:
    """Run a pod."""
    pod = bed.add_pod(host, "p", network=NETWORK)
    yield pod
    bed.delete_pod(pod)


def rules(host: Host) -> list[str]:
    listed = host.namespace.run(["ip6tables", "-w", "-t", "nat", "-S", "POSTROUTING"]).stdout
    return [line for line in listed.splitlines() if line.startswith("-A")]


def test_a_pod_and_its_host_reach_each_other(host: Host, pod: Pod) -> None:
    private = private_address6(pod)
    for source, target in ((pod.namespace, HOST6), (host.namespace, private)):
        eventually(partial(reaches, source, target), f"{target} is reached")
    with answering(host.namespace, HOST6, 81) as callers:
        assert dials(pod.namespace, HOST6, 81)
    assert callers == [private], "the host sees a pod by its private address"
    with answering(pod.namespace, addresses(pod)[1], 80) as callers:
        assert dials(host.namespace, private, 80)
    assert callers == [HOST6]


def test_a_pod_reaches_the_outside_under_its_hosts_address(bed: Bed, pod: Pod) -> None:
    outside = bed.fabric.namespace
    eventually(lambda: reaches(pod.namespace, OUTSIDE6), "the outside is reached")
    with answering(outside, OUTSIDE6, 82) as callers:
        assert dials(pod.namespace, OUTSIDE6, 82)
    assert callers == [HOST6]
    with echoing(outside, OUTSIDE6, 83) as callers:
        assert asks(pod.namespace, OUTSIDE6, 83)
        # the host tells the outside that pods' links carry less, by the first answer
        large = partial(asks, pod.namespace, OUTSIDE6, 83, 4000, SILENCE)
        eventually(large, "fragments")
    assert set(callers) == {HOST6}


def test_a_pod_hears_what_becomes_of_what_it_sends(pod: Pod) -> None:
    """Errors of ICMPv6 quote the pod's packet under the address that it had on its way."""
    for address in (HOST6, OUTSIDE6):
        eventually(partial(reaches, pod.namespace, address), f"{address} is reached")
        assert pod.namespace.call(partial(refused, address, 9, 5)), address


def test_a_pod_hears_of_a_link_that_carries_less(bed: Bed, host: Host, pod: Pod) -> None:
    """Its host says so, and it sends in fragments from then on."""
    far = "fd78::1"
    outside = bed.fabric.namespace
    outside.run(["ip", "address", "add", f"{far}/128", "dev", "lo"])
    host.namespace.run(["ip", "-6", "route", "add", f"{far}/128", "via", OUTSIDE6, "mtu", "1300"])
    with echoing(outside, far, 84):
        eventually(lambda: asks(pod.namespace, far, 84, size=1400, patience=SILENCE), "it passes")
    shown = pod.namespace.run(["ip", "-6", "route", "get", far]).stdout
    assert " mtu 1300" in shown
    host.namespace.run(["ip", "-6", "route", "del", f"{far}/128"])
    outside.run(["ip", "address", "del", f"{far}/128", "dev", "lo"])


def test_private_addresses_are_nobodys_to_reach(bed: Bed, host: Host, pod: Pod) -> None:
    other = bed.add_pod(host, "q", network=NETWORK)
    eventually(lambda: reaches(pod.namespace, HOST6), "the way to the host is open")
    for target in (private_address6(other), str(tunnel_source6(IPv4Address(host.address)))):
        assert not reaches(pod.namespace, target)
    bed.delete_pod(other)


def test_pods_of_tenants_with_the_same_address_are_told_apart(bed: Bed, host: Host) -> None:
    pods = []
    for tenant in ("red", "blue"):
        bed.netctl("tenant", "create", tenant)
        bed.netctl("net", "create", "-t", tenant, *WORDS, "same")
        pods.append(bed.add_pod(host, tenant, tenant=tenant, network="same"))
    red, blue = pods
    assert addresses(red) == addresses(blue)
    for pod in pods:
        eventually(partial(reaches, pod.namespace, HOST6), "the host is reached")
        with answering(host.namespace, HOST6, 85) as callers:
            assert dials(pod.namespace, HOST6, 85)
        assert callers == [private_address6(pod)]
        bed.delete_pod(pod)
        bed.netctl("net", "rm", "-t", str(pod.conf["contiv"]["tenant"]), "same")


def test_policies_are_judged_on_the_way_to_the_host(bed: Bed, host: Host) -> None:
    bed.netctl("policy", "create", "walled")
    bed.netctl("group", "create", "-p", "walled", NETWORK, "walled")
    for number, words in {
        "1": ["--action=deny", "--protocol=tcp", "--priority=1"],
        "2": ["--action=allow", "--protocol=tcp", "--port=86", "--priority=10"],
    }.items():
        bed.netctl("policy", "rule-add", "-d", "out", *words, "walled", number)
    add_rules(bed, "walled", {})
    pod = bed.add_pod(host, "walled", network=NETWORK, group="walled")
    for namespace, address in ((host.namespace, HOST6), (bed.fabric.namespace, OUTSIDE6)):
        eventually(partial(reaches, pod.namespace, address), f"{address} is reached")
        with answering(namespace, address, 86), answering(namespace, address, 87):
            assert dials(pod.namespace, address, 86)
            assert dials(namespace, address, 87), "the server listens"
            assert not dials(pod.namespace, address, 87, SILENCE)
    bed.delete_pod(pod)
    bed.netctl("group", "rm", "walled")


def test_management_ports_stay_closed(host: Host, pod: Pod) -> None:
    eventually(lambda: reaches(pod.namespace, HOST6), "the way to the host is open")
    with answering(host.namespace, HOST6, 9001), answering(host.namespace, HOST6, 9088):
        assert dials(host.namespace, HOST6, 9001), "the server listens"
        assert dials(pod.namespace, HOST6, 9088)
        assert not dials(pod.namespace, HOST6, 9001, SILENCE)


def test_a_restart_of_the_agent_loses_nothing(
    bed: Bed, host: Host, pod: Pod, tmp_path: Path
) -> None:
    (agent,) = bed.agents
    ways = {
        "to-host": (pod.namespace, HOST6),
        "from-host": (host.namespace, private_address6(pod)),
        "outside": (pod.namespace, OUTSIDE6),
    }
    for source, target in ways.values():
        eventually(partial(reaches, source, target), f"{target} is reached")
    before = rules(host)
    with unbroken(tmp_path, **ways):
        agent.kill()
        agent.start()
    assert rules(host) == before


def test_what_somebody_takes_away_comes_back(host: Host, pod: Pod) -> None:
    eventually(lambda: reaches(pod.namespace, OUTSIDE6), "the way is open")
    before = rules(host)
    for words in (
        ["ip6tables", "-w", "-t", "nat", "-F"],
        ["ip", "-6", "address", "flush", "dev", "contivh0"],
        ["ip", "-6", "route", "flush", "table", str(TABLE)],
        ["ip", "-6", "rule", "flush", "protocol", str(ROUTE_PROTOCOL)],
        ["ip", "link", "set", "contivh0", "down"],
        without_link("contivh0"),
    ):
        host.namespace.run(words, env=host.ovs.environment)
        gone = " ".join(words)
        eventually(lambda: rules(host) == before, f"rules back after {gone}")
        eventually(lambda: reaches(pod.namespace, OUTSIDE6), f"back after {gone}")
        eventually(lambda: reaches(host.namespace, private_address6(pod)), gone)


def test_a_host_says_that_it_lacks_what_pods_leave_by(bed: Bed, host: Host) -> None:
    def errors(subject: str) -> list[str]:
        shown = json.loads(bed.netctl("host", "inspect", host.label))
        return [str(one) for one in shown["errors"] if subject in str(one)]

    forwards = "net.ipv6.conf.all.forwarding"
    for value, said in (("0", True), ("1", False)):
        host.namespace.run(["sysctl", "-q", "-w", f"{forwards}={value}"])
        eventually(lambda: bool(errors(forwards)) is said, f"{forwards} is {value}")  # noqa: B023
    lived = ["2001:db8:61::/64", "dev", "br-phy"]
    host.namespace.run(["sysctl", "-q", "-w", "net.ipv6.conf.br-phy.accept_ra=1"])
    host.namespace.run(["ip", "-6", "route", "add", *lived, "expires", "600"])
    eventually(lambda: errors("br-phy.accept_ra=2"), "it hears no advertisements")
    host.namespace.run(["ip", "-6", "route", "del", *lived])
    eventually(lambda: not errors("br-phy.accept_ra=2"), "nothing needs them")


def test_without_networks_of_ipv6_there_is_none_of_it(bed: Bed, host: Host) -> None:
    bed.netctl("net", "rm", NETWORK)
    eventually(lambda: rules(host) == [], "no rule of IPv6")

    def routed() -> list[str]:
        words = ["ip", "-json", "-6", "route", "show", "table", str(TABLE), "dev", "contivh0"]
        shown = host.namespace.run(words, check=False).stdout
        return [str(one["dst"]) for one in json.loads(shown or "[]")]

    eventually(lambda: not any("7602" in one for one in routed()), "no route of IPv6")
