"""Beside kube-proxy, of either mode, hosts and the outside reach pods of every host.

The rows of `tests/system/test_service_table.py` are asked with the agents beside a kube-proxy
(`tests.system.proxies`) with several settings, in all four modes and both
families. The outside asks the host that has not the target. What cannot pass is data.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system import proxies
from tests.system.echoes import answering, asks, dials, echoing
from tests.system.joined import OUTSIDE6, address6, joined_site
from tests.system.planes import FWD_MODES, NETWORKS, addresses, switches_lead
from tests.system.proxies import BALANCED, BALANCED6, LOCAL_PORT, MODES, SETTINGS, Served
from tests.system.service_table import CLOSED, LOOPBACK, closed_rows, rows_of
from tests.system.service_ways import (
    ALL,
    EXTERNAL,
    EXTERNAL6,
    SILENCE,
    TARGET,
    Asked,
    Row,
    unanswered,
)

pytestmark = [pytest.mark.system, pytest.mark.ovs]


class Case(NamedTuple):
    """Mode and settings of kube-proxy, and the family of the service and its target."""

    mode: str
    settings: str
    version: int


CASES = [
    Case(mode, settings, version)
    for (at, mode), (place, settings), version in product(
        enumerate(MODES), enumerate(SETTINGS), (4, 6)
    )
    if "K8S_BIN" in os.environ or (at + place) % 2 == version // 6
]
"""All of them with a real kube-proxy. Without one each mode meets each setting in one family."""
KUBE_PROXYS: Mapping[str, Sequence[Row]] = {
    # 1.20 leaves out what its own host sends to such an address
    "iptables": [Row("other host", "externalIP")],
    # has no node ports at loopback addresses
    "nftables": [Row("host", "loopback"), Row("other host", "loopback")],
}
"""What kube-proxy itself leaves unserved, by its mode."""


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run a cluster of two hosts beside an API server, and a router between all networks."""
    site = joined_site(
        next(bed_dirs),
        request.param,
        tmp_path_factory,
        more=["--kube-proxy=coexist"],
        groups=[f"apis/{proxies.DISCOVERY}"],
    )
    with site as bed:
        outside, other = bed.fabric.namespace, bed.hosts[1]
        for address in (EXTERNAL, BALANCED):
            outside.run(["ip", "route", "replace", f"{address}/32", "via", other.address])
        for address in (EXTERNAL6, BALANCED6):
            to = ["via", address6(other)]
            outside.run(["ip", "-6", "route", "replace", f"{address}/128", *to])
        yield bed


@pytest.fixture(scope="module", params=list(NETWORKS))
def pods(bed: Bed, request: pytest.FixtureRequest) -> Iterator[list[Pod]]:
    """Run a provider and a client beside it, and a client on the other host."""
    one, two = bed.hosts
    network: str = request.param
    pods = [
        bed.add_pod(one, "provider", network=network),
        bed.add_pod(one, "near", network=network),
        bed.add_pod(two, "far", network=network),
    ]
    yield pods
    for pod in pods:
        bed.delete_pod(pod)


@contextmanager
def serving(bed: Bed, pods: list[Pod], case: Case) -> Iterator[list[list[str]]]:
    """Run the services, with the first pod as target; yield who called, by TCP and UDP."""
    api, provider = bed.api, pods[0]
    assert api is not None
    served = Served(case.version, addresses(provider)[case.version == 6], bed.hosts[0].label)
    hosts = {host.label: host.namespace for host in bed.hosts}
    at = (provider.namespace, served.target, TARGET)
    with answering(*at) as connected, echoing(*at) as sent:
        proxies.tell(api, served)
        try:
            with proxies.beside(case.mode, case.settings, hosts, api, served):
                network = str(provider.conf["contiv"]["network"])
                switches_lead(bed, network, proxies.addresses(case.version), served.at)
                yield [connected, sent]
        finally:
            proxies.untell(api)


def unserved(bed: Bed, pods: list[Pod], case: Case, asked: Asked) -> Mapping[Row, str]:
    """Return what stays silent in which rows."""
    # kube-proxy has all links route loopback addresses
    others = [one for one in CLOSED if one.why != LOOPBACK]
    closed = closed_rows(bed, pods, "pod", asked, others)
    more = set(KUBE_PROXYS[case.mode])
    if closed.get(Row("other host", "ClusterIP")):
        # the outside comes by the other host, and so does what this one sends there
        more |= {Row("outside", "externalIP"), Row("outside", "load balancer")}
        more |= {Row("host", "externalIP")} if case.mode == "iptables" else set()
    return {**closed, **dict.fromkeys(more & asked.keys(), ALL)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_every_way_leads_to_a_pod(bed: Bed, pods: list[Pod], case: Case) -> None:
    asked = rows_of(bed, pods, "pod", case.version)
    asked = {row: where for row, where in asked.items() if "hostPort" not in row.way}
    balanced = BALANCED if case.version == 4 else BALANCED6
    asked[Row("outside", "load balancer")] = (bed.fabric.namespace, balanced, 80)
    closed = unserved(bed, pods, case, asked)
    with serving(bed, pods, case):
        assert unanswered(asked, lambda row: closed.get(row, "")) == closed


@pytest.mark.parametrize("version", [4, 6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("mode", MODES)
def test_traffic_that_is_to_stay_local_keeps_its_source(
    bed: Bed, pods: list[Pod], mode: str, version: int
) -> None:
    outside = bed.fabric
    here, there = (host.address if version == 4 else address6(host) for host in bed.hosts)
    client = outside.address if version == 4 else OUTSIDE6
    with serving(bed, pods, Case(mode, "plain", version)) as callers:
        assert dials(outside.namespace, here, LOCAL_PORT)
        assert asks(outside.namespace, here, LOCAL_PORT)
        eventually(lambda: [set(one) for one in callers] == [{client}, {client}], "its source")
        # not by TCP, whose ports a kube-proxy of 1.20 holds open itself
        assert not asks(outside.namespace, there, LOCAL_PORT, patience=SILENCE), "no target there"
