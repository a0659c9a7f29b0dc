"""Infra networks: each host has an interface on them, and by `contivh1` it reaches all pods."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from daemons import machine_addresses
from netplugin.kernel.routes.route_table import TABLE
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.waiting import eventually
from tests.system.echoes import passes, reaches, unbroken
from tests.system.footprint import eventually_same, flows, inspect, steady

pytestmark = [pytest.mark.system, pytest.mark.ovs]

GATEWAY = "contivh1"
SERVICES = "10.96.0.0/12"


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Have the agents look at links often, and know of Kubernetes' services."""
    config = tmp_path_factory.mktemp("k8s") / "contiv.json"
    config.write_text(json.dumps({"SVC_SUBNET": SERVICES}))
    return {"netplugin": ["--audit-interval", "2", "--k8s-config", str(config)]}


def address_of(host: Host, name: str) -> str:
    """Return the host's address on an infra network, once it has one."""

    def held() -> str:
        done = host.namespace.run(["ip", "-json", "-4", "addr", "show", name], check=False)
        found = json.loads(done.stdout or "[]")
        return next((a["local"] for link in found for a in link.get("addr_info", ())), "")

    return eventually(held, f"{host.label} has an address on {name}")


def routes(host: Host, name: str = GATEWAY) -> set[str]:
    words = ["ip", "-json", "route", "show", "table", str(TABLE), "dev", name]
    listed = host.namespace.run(words, check=False).stdout
    return {route["dst"] for route in json.loads(listed or "[]")}


@pytest.fixture(scope="module", autouse=True)
def gateway(bed: Bed) -> None:
    """Make the network by which hosts reach pods; hosts doubt what comes by the wrong way."""
    for host in bed.hosts:
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.conf.all.rp_filter=1"])
    create(bed, GATEWAY, "123.4.5.0/24", "--nw-type=infra", "--gateway=123.4.5.254")


def create(bed: Bed, name: str, subnet: str, *more: str) -> None:
    bed.netctl("net", "create", f"--subnet={subnet}", *more, name)


def test_a_host_reaches_all_pods_of_its_tenant_by_contivh1(bed: Bed) -> None:
    create(bed, "bunker-net", "13.5.7.0/24", "--gateway=13.5.7.254")
    create(bed, "wire", "10.8.0.0/24", "--gateway=10.8.0.254", "--encap=vlan", "--pkt-tag=8")
    pods = [bed.add_pod(host, f"on-{host.label}") for host in bed.hosts]
    pods += [bed.add_pod(host, f"b-{host.label}", network="bunker-net") for host in bed.hosts]
    own = {host.label: address_of(host, GATEWAY) for host in bed.hosts}
    assert len(set(own.values())) == 2
    for host in bed.hosts:
        there = {"123.4.5.0/24", "10.20.0.0/16", "13.5.7.0/24", SERVICES}
        eventually(lambda: routes(host) == there, f"routes of {host.label}")  # noqa: B023 - now
    for host, pod in product(bed.hosts, pods):
        to_pod = partial(reaches, host.namespace, pod.address)
        eventually(to_pod, f"{host.label} reaches {pod.name}")
        to_host = partial(reaches, pod.namespace, own[host.label])
        eventually(to_host, f"{pod.name} reaches {host.label}")
    for pod in list(bed.pods):
        bed.delete_pod(pod)
    bed.netctl("net", "rm", "bunker-net")
    for host in bed.hosts:
        rest = {"123.4.5.0/24", "10.20.0.0/16", SERVICES}
        eventually(lambda: routes(host) == rest, f"routes of {host.label}")  # noqa: B023 - now
    bed.netctl("net", "rm", "wire")


def test_an_interface_of_any_name_is_none_of_the_machines_own(bed: Bed) -> None:
    create(bed, "mgmt", "123.4.6.0/24", "--nw-type=infra", "--gateway=123.4.6.254")
    for host in bed.hosts:
        given = address_of(host, "mgmt")
        found = host.namespace.call(lambda: machine_addresses.read(lambda _link: False)).addresses
        assert host.address in found
        assert given not in found
    bed.netctl("net", "rm", "mgmt")
    for host in bed.hosts:
        gone = partial(lacks, host, "nw_src=123.4.6.")
        eventually(gone, f"no flow of {host.label} names its address on mgmt")


def lacks(host: Host, words: str) -> bool:
    return not any(words in line for line in flows(host))


def test_long_packets_of_a_host_without_pods_arrive(bed: Bed) -> None:
    """Its own pods, which are none, are not what says how long a packet may be."""
    host, other = bed.hosts
    pod = bed.add_pod(other, "alone")
    shown = partial(host.namespace.run, ["ip", "-json", "link", "show", GATEWAY])
    eventually(lambda: json.loads(shown().stdout)[0]["mtu"] == 1450, f"{GATEWAY} has its MTU")
    eventually(partial(passes, host.namespace, pod.address, 1450), "1450 bytes pass")
    longer = ["ping", "-q", "-n", "-c1", "-W30", "-s", "1472", pod.address]
    assert host.namespace.run(longer, check=False).returncode == 0, "longer ones in pieces"
    bed.delete_pod(pod)


def test_a_restart_loses_nothing_and_changes_nothing(bed: Bed, tmp_path: Path) -> None:
    host, other = bed.hosts
    pod = bed.add_pod(other, "far")
    ways = {
        "to-pod": (host.namespace, pod.address),
        "to-host": (pod.namespace, address_of(host, GATEWAY)),
    }
    before = steady(bed)
    with unbroken(tmp_path, **ways):
        bed.agents[0].kill()
        bed.agents[0].start()
    eventually_same(bed, before)
    bed.delete_pod(pod)


@pytest.mark.parametrize(
    "words",
    [["ip", "link", "delete", GATEWAY], ["ovs-vsctl", "del-port", GATEWAY], ["netplugin dies"]],
    ids=["link", "port", "agent"],
)
def test_what_is_taken_away_comes_back(bed: Bed, words: list[str]) -> None:
    host, other = bed.hosts
    address = address_of(host, GATEWAY)
    if words == ["netplugin dies"]:
        bed.agents[0].kill()
        host.namespace.run(["ip", "link", "delete", GATEWAY])
        bed.agents[0].start()
    else:
        host.namespace.run(words, env=host.ovs.environment)
    across = partial(reaches, other.namespace, address)
    eventually(across, "the other host reaches it again")
    assert address_of(host, GATEWAY) == address


def test_it_goes_with_its_network(bed: Bed) -> None:
    for number in (1, 2):
        create(bed, f"infra{number}", f"10.{number}.1.0/24", "--nw-type=infra")
    for host, number in product(bed.hosts, (1, 2)):
        for peer in bed.hosts:
            target = address_of(peer, f"infra{number}")
            eventually(partial(reaches, host.namespace, target), f"{target} from {host.label}")
    assert len(inspect(bed, "default", "infra1")["endpoints"]) == 2
    bed.agents[0].kill()
    for name in ("infra1", "infra2"):
        bed.netctl("net", "rm", name)
    bed.agents[0].start()
    for host in bed.hosts:
        links = partial(host.namespace.run, ["ip", "-json", "link"])
        ours = {"infra1", "infra2"}
        eventually(
            lambda: not ours & {link["ifname"] for link in json.loads(links().stdout)},  # noqa: B023
            f"no interface is left on {host.label}",
        )
    left = partial(bed.store.entries, "/contiv.io/state/eps/infra")
    eventually(lambda: not left(), "no endpoint is left")
