"""Reverse path filtering that somebody makes strict while the agent runs.

The agent's own link is set right again; of the host's it says whose packets it drops.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import FABRIC_ADDRESS, UPLINK
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually
from tests.system.echoes import reaches
from tests.system.host_health import faults, is_well
from tests.system.planes import planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

CARD = "br-phy"
"""The link of a host that has its address."""
INFRA = "contivh1"
ROUTER = "192.168.77.61"


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a host whose vlan pods reach it by a router, and which is on an infra network."""
    with planes(next(bed_dirs), "bridge", hosts=1, cards=[UPLINK]) as bed:
        (host,) = bed.hosts
        bed.physical.route({61: ["10.61.0.1/24"]})
        router = bed.physical.router
        bed.fabric.join(router, "to-router")
        router.run(["ip", "address", "add", f"{ROUTER}/24", "dev", "eth0"])
        host.namespace.run(["ip", "route", "replace", "default", "via", FABRIC_ADDRESS])
        words = ["--subnet=123.4.5.0/24", "--gateway=123.4.5.254", "--nw-type=infra", INFRA]
        bed.netctl("net", "create", *words)
        yield bed


def setting(link: str) -> str:
    return f"/proc/sys/net/ipv4/conf/{link}/rp_filter"


def write(namespace: Namespace, link: str, value: str) -> None:
    namespace.run(["sh", "-ec", f"echo {value} >{setting(link)}"])


def read(namespace: Namespace, link: str) -> str:
    return namespace.run(["cat", setting(link)], check=False).stdout.strip()


def test_the_agents_own_link_is_loose_again_at_once(bed: Bed) -> None:
    (host,) = bed.hosts
    eventually(lambda: read(host.namespace, INFRA) == "2", "the link is loose", within=60)
    for value in ("1", "0"):
        write(host.namespace, INFRA, value)
        eventually(lambda: read(host.namespace, INFRA) == "2", "loose again", within=10)


@pytest.mark.parametrize("link", [CARD, "all"])
def test_a_strict_link_that_drops_what_pods_send_is_an_error_of_the_host(
    bed: Bed, link: str
) -> None:
    (host,) = bed.hosts
    was = read(host.namespace, link)
    own = read(host.namespace, CARD)
    remedy = f"net.ipv4.conf.{CARD}.rp_filter=2"
    pod = bed.add_pod(host, "wired", network="vlan")
    eventually(lambda: reaches(pod.namespace, host.address), "the pod reaches its host")
    eventually(lambda: is_well(bed, 0), "no errors")
    try:
        write(host.namespace, link, "1")
        eventually(lambda: remedy in faults(bed, 0), "the host tells the remedy", within=10)
        assert not reaches(pod.namespace, host.address)
        write(host.namespace, CARD, "2")
        eventually(lambda: is_well(bed, 0), "no errors any more", within=10)
        eventually(lambda: reaches(pod.namespace, host.address), "the pod reaches its host")
        write(host.namespace, CARD, "1")
        eventually(lambda: remedy in faults(bed, 0), "told once more", within=10)
    except BaseException:
        bed.delete_pod(pod)  # or the next case would find it
        raise
    else:
        bed.delete_pod(pod)
        eventually(lambda: is_well(bed, 0), "nobody is dropped any more", within=10)
    finally:
        write(host.namespace, link, was)
        write(host.namespace, CARD, own)
