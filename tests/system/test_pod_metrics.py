"""Metrics of pods beside what they really sent: bytes, packets, drops; and of pods that go."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from netplugin.startup import metric_names as names
from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.hosts import Host
from tests.bed.metrics import Metrics, parsed
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.footprint import steady
from tests.system.forging import Wire, ethernet, ipv4, udp
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, planes
from tests.system.streams import address6, send_bytes, syns, taking

pytestmark = [pytest.mark.system, pytest.mark.ovs]

OPEN, SHUT = 8080, 8081
SIZE: Final = 20_000_000
SYNS: Final = 12_000
"""More than the switch reports at once (`ofnet.openflow.meters`)."""
FORGED: Final = 200


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run two hosts that record flows, in a forwarding mode, with a port that is denied."""
    flags = {"netplugin": ["--flow-records"]}
    with planes(next(bed_dirs), str(request.param), flags=flags) as bed:
        for network in NETWORKS:
            deny = ["-j", "deny", "-l", "tcp", "-P", str(SHUT)]
            add_rules(bed, f"guard-{network}", {"1": deny})
        yield bed


def page(host: Host) -> Metrics:
    """Return what the agent of a host shows."""
    url = f"http://{host.address}:{AGENT_PORT}/metrics"
    status, body = http_request(url, namespace=host.namespace)
    assert status == 200
    return parsed(body)


def add(bed: Bed, host: Host, name: str, network: str) -> Pod:
    return bed.add_pod(host, name, network=network, group=f"web-{network}")


def labels(pod: Pod, network: str) -> dict[str, str]:
    own = {"namespace": "", "pod": "", "container": pod.name}
    return {**of_group(network), **own}


def of_group(network: str) -> dict[str, str]:
    return {"tenant": "default", "network": network, "group": f"web-{network}"}


def switch_counters(pod: Pod) -> Mapping[str, int]:
    """Return what Open vSwitch's database has of a pod's port; it is renewed every five seconds."""
    (interface,) = (
        dict(one[1])
        for name, one in json.loads(
            pod.host.ovs.vsctl("--format=json", "--columns=name,statistics", "list", "interface")
        )["data"]
        if name == pod.result["interfaces"][0]["name"]
    )
    return interface


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_pods_have_the_bytes_that_one_sent_to_the_other(
    bed: Bed, network: str, family: str
) -> None:
    client, server = (
        add(bed, host, f"{name}-{family}", network)
        for host, name in zip(bed.hosts, ("client", "server"), strict=True)
    )
    try:
        address = server.address if family == "ipv4" else address6(server)
        eventually(lambda: client.ping(address), "the pods know each other")
        before = [page(pod.host) for pod in (client, server)]
        with taking(server, OPEN):
            sent = send_bytes(client, address, OPEN, SIZE)
        after = [page(pod.host) for pod in (client, server)]
        own = [labels(pod, network) for pod in (client, server)]
        for at, way in ((0, "sent"), (1, "received")):
            grown = _grown(names.POD_BYTES.name, before[at], after[at], **own[at], direction=way)
            assert sent.least * 0.99 < grown < sent.most * 1.01
            of_all = _grown(
                names.GROUP_BYTES.name, before[at], after[at], **of_group(network), direction=way
            )
            assert of_all == grown
        answers = [
            _grown(names.POD_PACKETS.name, before[at], after[at], **own[at], direction=way)
            for at, way in ((1, "sent"), (0, "received"))
        ]
        assert answers[1] > 100
        assert answers[1] == pytest.approx(answers[0], rel=0.01, abs=10)  # some are on their way
        eventually(
            lambda: _same_as_in_the_database(client, network),
            "Open vSwitch has counted the same, if not at the same time",
        )
    finally:
        for pod in (client, server):
            bed.delete_pod(pod)


def _grown(name: str, before: Metrics, after: Metrics, **has: str) -> float:
    return after.value(name, **has) - before.value(name, **has)


def _same_as_in_the_database(pod: Pod, network: str) -> bool:
    counted, shown = switch_counters(pod), page(pod.host)
    own = labels(pod, network)
    return all(
        shown.value(metric.name, **own, direction=way) == counted[f"{side}_{unit}"]
        for metric, unit in ((names.POD_BYTES, "bytes"), (names.POD_PACKETS, "packets"))
        for way, side in (("sent", "rx"), ("received", "tx"))
    )


def test_a_pod_that_goes_is_named_no_more_and_stays_in_the_sum_of_its_group(bed: Bed) -> None:
    network, (host, other) = "vxlan", bed.hosts
    goes, stays, server = (
        add(bed, at, name, network)
        for at, name in ((host, "goes"), (host, "stays"), (other, "server"))
    )
    group = {**of_group(network), "direction": "sent"}
    try:
        eventually(lambda: goes.ping(server.address), "the pods know each other")
        before = page(host)
        assert before.value(names.POD_BYTES.name, **labels(goes, network), direction="sent") > 0
        with taking(server, OPEN):
            sent = send_bytes(goes, server.address, OPEN, 1_000_000)
        bed.delete_pod(goes)  # nobody has looked since it sent that
        after = page(host)
        assert after.total(names.POD_BYTES.name, container=goes.name) == 0
        assert after.value(names.POD_BYTES.name, **labels(stays, network), direction="sent") > 0
        grown = _grown(names.GROUP_BYTES.name, before, after, **group)
        assert sent.least * 0.99 < grown < sent.most * 1.02
    finally:
        for pod in (stays, server):
            bed.delete_pod(pod)
    last = page(host)
    assert last.total(names.POD_BYTES.name) == 0
    assert last.value(names.GROUP_BYTES.name, **group) >= after.value(
        names.GROUP_BYTES.name, **group
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_what_is_dropped_is_counted_once_for_the_pod_that_sent_it(bed: Bed, network: str) -> None:
    client, server = (
        add(bed, host, f"{name}-drops", network)
        for host, name in zip(bed.hosts, ("client", "server"), strict=True)
    )
    sent = {**labels(client, network), "direction": "sent"}

    def dropped(reason: str) -> float:
        return page(client.host).total(names.POD_DROPS.name, **sent, reason=reason)

    try:
        eventually(lambda: client.ping(server.address), "the pods know each other")
        steady(bed)  # where Open vSwitch needs purges, each change of flows loses counts
        syns(client, server.address, SHUT, range(20_000, 20_000 + SYNS), 0.001)
        about = pytest.approx(SYNS, rel=0.01)
        eventually(lambda: dropped("policy") == about, "each packet for the denied port is counted")
        before = dropped("spoofed")
        forged = ipv4("192.0.2.1", server.address, 17, udp(1, 1, b"x"))
        with Wire(client.namespace) as wire:
            for _ in range(FORGED):
                wire.send(ethernet(server.mac, client.mac, 0x0800, forged))
        about = pytest.approx(FORGED, abs=ASKED_IN_VAIN)
        eventually(lambda: dropped("spoofed") - before == about, "so is what the guard drops")
        of_all = page(client.host).total(names.GROUP_DROPS.name, **of_group(network))
        assert of_all >= SYNS * 0.99 + FORGED
        other = page(server.host)
        assert other.total(names.POD_DROPS.name, container=server.name, reason="policy") == 0
    finally:
        for pod in (client, server):
            bed.delete_pod(pod)


ASKED_IN_VAIN: Final = 20
"""Questions of IPv6 that a pod's kernel asks from an address that is not the pod's."""
