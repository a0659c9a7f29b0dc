"""Rules with `log`, on real pods: what they deny and allow is recorded once, with names."""

import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ofnet.openflow.meters import REPORT_BURST, REPORT_RATE
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import FWD_MODES, NETWORKS, applied, client_and_server, planes
from tests.system.traffic import blocked, connects

pytestmark = [pytest.mark.system, pytest.mark.ovs]

OPEN, SHUT, FLOODED = 8080, 8081, 8082
FLOOD = 1000
BOUND = REPORT_BURST + 20 * REPORT_RATE
"""Records of a flood that takes less than 20 s."""
RULES = {
    "1": ["-j", "deny", "-l", "tcp", "-P", str(SHUT), "--log"],
    "2": ["-j", "allow", "-l", "tcp", "-P", str(OPEN), "-p", "2", "--log"],
    "3": ["-j", "deny", "-l", "udp", "-P", str(FLOODED), "--log"],
    "4": ["-j", "deny", "-l", "tcp", "-P", "8083"],
}


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run two hosts in a forwarding mode, with the rules on both networks.

    The group of the pods shares the flows of the rules with another one.
    """
    with planes(next(bed_dirs), str(request.param)) as bed:
        for network in NETWORKS:
            words = ["-p", f"guard-{network}", network, f"shop-{network}"]
            bed.netctl("group", "create", *words)
            for number, words in RULES.items():
                bed.netctl("policy", "rule-add", "-d", "in", *words, f"guard-{network}", number)
        yield bed


def logged(bed: Bed, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bed.netctl("policy", "log", "-n", "5000", "-j", *words))
    return found


def records(bed: Bed, network: str, rule: str, source: Pod) -> list[dict[str, Any]]:
    """Return the records of a rule for packets of a pod that runs."""
    found = logged(bed, "-p", f"guard-{network}", "-r", rule)["items"]
    return [one for one in found if one["source"]["container"] == source.name]


def dial(source: Pod, address: str, port: int) -> None:
    """Send the first packet of a TCP connection that nobody answers."""
    with source.namespace.call(
        lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    ) as dialled:
        dialled.setblocking(False)
        dialled.connect_ex((address, port))


@pytest.mark.parametrize("network", NETWORKS)
def test_denied_and_allowed_are_recorded_once_with_names(bed: Bed, network: str) -> None:
    first, _ = bed.hosts
    with client_and_server(bed, network, "named") as (client, server):
        # a first packet that is lost comes again, and is recorded again
        eventually(lambda: client.ping(server.address), "the pods know each other")
        assert connects(client, server, server.address, OPEN)
        dial(client, server.address, SHUT)
        dial(client, server.address, 8083)
        eventually(lambda: records(bed, network, "1", client), "the denied one is recorded")
        eventually(lambda: records(bed, network, "2", client), "the allowed one is recorded")
        denied, allowed = (records(bed, network, rule, client) for rule in ("1", "2"))
        assert {one["host"] for one in (*denied, *allowed)} == {first.label}
        assert {one["action"] for one in denied} == {"deny"}
        # its data, the end of the connection and the answers are no records
        ports = [one["source"]["port"] for one in allowed]
        assert len(ports) == len(set(ports))
        assert {one["action"] for one in allowed} == {"allow"}
        names = {"tenant": "default", "network": network, "group": f"web-{network}"}
        for one, port in ((denied[0], SHUT), (allowed[0], OPEN)):
            assert one["protocol"] == "tcp"
            for end, pod in (("source", client), ("destination", server)):
                assert names.items() <= one[end].items()
                assert one[end]["address"] == pod.address
                assert one[end]["container"] == pod.name
            assert one["destination"]["port"] == port
        assert not logged(bed, "-p", f"guard-{network}", "-r", "4")["items"]
        text = bed.netctl("policy", "log", "-p", f"guard-{network}", "-r", "1")
        assert f"deny default:guard-{network}:1  tcp  {client.address}:" in text


@pytest.mark.parametrize("network", NETWORKS)
def test_a_policy_under_audit_records_once_what_it_would_deny(bed: Bed, network: str) -> None:
    name, group = f"audited-{network}", f"asked-{network}"
    bed.netctl("policy", "create", "--audit", name)
    bed.netctl("policy", "rule-add", "-d", "in", "-j", "deny", "-p", "9", name, "all")
    bed.netctl(
        "policy", "rule-add", "-d", "in", "-l", "tcp", "-P", str(OPEN), "-p", "10", name, "1"
    )
    bed.netctl("policy", "create", f"closed-{network}")
    shut = ["-d", "in", "-j", "deny", "-l", "tcp", "-P", str(SHUT), f"closed-{network}", "1"]
    bed.netctl("policy", "rule-add", *shut)
    bed.netctl("group", "create", "-p", name, "-p", f"closed-{network}", network, group)
    with client_and_server(bed, network, "audit") as (client, _):
        server = bed.add_pod(bed.hosts[1], "asked", network=network, group=group)
        applied(bed)  # the sender's host has to know the group, too

        def audited(port: int) -> list[dict[str, Any]]:
            found = logged(bed, "-p", name)["items"]
            return [one for one in found if one["destination"]["port"] == port]

        for port in (OPEN, FLOODED):
            assert connects(client, server, server.address, port)
        assert blocked(client, server, server.address, SHUT), "another policy denies it"
        (one,) = eventually(partial(audited, FLOODED), "what would be denied is recorded")
        assert (one["host"], one["action"], one["rule"]) == (bed.hosts[0].label, "audit", "all")
        assert one["source"]["container"] == client.name
        assert one["destination"]["container"] == server.name
        assert not audited(OPEN)
        bed.netctl("policy", "audit", "--off", name)
        applied(bed)
        assert connects(client, server, server.address, OPEN)
        assert blocked(client, server, server.address, FLOODED)
        bed.netctl("policy", "audit", name)
        applied(bed)
        assert connects(client, server, server.address, FLOODED)
        bed.delete_pod(server)
    bed.netctl("group", "rm", group)
    for policy in (name, f"closed-{network}"):
        bed.netctl("policy", "rm", policy)


def test_a_flood_leaves_some_records_and_the_number_of_the_others(bed: Bed) -> None:
    network = "vxlan"
    with client_and_server(bed, network, "flood") as (client, server):
        eventually(lambda: client.ping(server.address), "the pods know each other")
        for _ in range(FLOOD):
            with client.namespace.call(_datagrams) as sender:
                sender.sendto(b"flood", (server.address, FLOODED))

        rules = f"guard-{network}"

        def accounted() -> bool:
            found = logged(bed, "-p", rules, "-r", "3")
            without = sum(one["packets"] for one in found["unrecorded"])
            shown = json.loads(bed.netctl("policy", "rule-ls", "--stats", "-j", rules))
            met = next(one["stats"]["packets"] for one in shown if one["ruleId"] == "3")
            return bool(FLOOD // 2 < met == len(found["items"]) + without)

        eventually(accounted, "each packet that met the rule is recorded, or counted")
        assert 0 < len(logged(bed, "-p", rules, "-r", "3")["items"]) <= BOUND


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
