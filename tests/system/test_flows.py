"""Records of flows on real pods, beside what was really sent: names, bytes, services, drops."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bed.cluster import Bed
from tests.bed.collector import collecting
from tests.bed.hosts import UNDERLAY
from tests.bed.waiting import eventually
from tests.system.footprint import steady
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, applied, client_and_server, planes
from tests.system.rest import ask
from tests.system.services import create_service, label
from tests.system.streams import address6, send, syns, taking
from tests.system.traffic import blocked, connects

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.thorough]

COLLECTOR, PORT = f"{UNDERLAY}.254", 4739
OPEN, SHUT, SEEN = 8080, 8081, 9090
SYNS = 10_000


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that agents export to; both hosts have one file system."""
    return tmp_path_factory.mktemp("exported") / "flows.jsonl"


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path], exported: Path) -> Iterator[Bed]:
    """Run two hosts that record flows, in a forwarding mode, with a port that is denied."""
    to = f"ipfix:{COLLECTOR}:{PORT},file:{exported}"
    flags = {"netplugin": ["--flow-records", f"--flow-export={to}"]}
    with planes(next(bed_dirs), str(request.param), flags=flags) as bed:
        assert bed.fabric.address == COLLECTOR
        for network in NETWORKS:
            deny = ["-j", "deny", "-l", "tcp", "-P", str(SHUT)]
            add_rules(bed, f"guard-{network}", {"1": deny})
        yield bed


def flows(bed: Bed, *words: str) -> list[dict[str, Any]]:
    """Return the last records that `netctl flows` finds, the oldest first."""
    found: list[dict[str, Any]] = json.loads(
        bed.netctl("flows", "-n", "5000", "-o", "json", *words)
    )
    return found


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_a_connection_is_recorded_once_with_names_and_bytes(
    bed: Bed, network: str, family: str
) -> None:
    with (
        client_and_server(bed, network, f"bytes{family[-1]}") as (client, server),
        taking(server, OPEN),
    ):
        address = server.address if family == "ipv4" else address6(server)
        eventually(lambda: client.ping(address), "the pods know each other")
        steady(bed)  # where Open vSwitch needs purges, each change of flows loses counts
        sent = send(client, address, OPEN, 1.5)

        def ended() -> list[dict[str, Any]]:
            found = flows(bed, f"--from={client.name}", f"--port={OPEN}", "--verdict=forwarded")
            return [one for one in found if one["source"]["port"] == sent.port and one["ended"]]

        (one,) = eventually(ended, "the connection is recorded, and has ended")
        assert one["host"] == bed.hosts[0].label
        assert one["protocol"] == "tcp"
        names = {"tenant": "default", "network": network, "group": f"web-{network}"}
        for end, pod in (("source", client), ("destination", server)):
            assert names.items() <= one[end].items()
            assert one[end]["container"] == pod.name
        assert (one["destination"]["address"], one["destination"]["port"]) == (address, OPEN)
        assert sent.least * 0.99 < one["bytes"] < sent.most * 1.01
        assert one["answerPackets"] > 0
        assert flows(bed, "--to=nobody") == []
        text = bed.netctl("flows", f"--from={client.name}", f"--to={server.name}")
        assert f"(default/{network}/web-{network}/{client.name}) -> " in text


@pytest.mark.parametrize("network", NETWORKS)
def test_a_service_is_named_with_its_address_and_its_provider(bed: Bed, network: str) -> None:
    with client_and_server(bed, network, "service") as (client, server), taking(server, OPEN):
        label(bed, server, app="web")
        vip = create_service(bed, network, f"80:{OPEN}:TCP")
        steady(bed)
        sent = send(client, vip, 80, 1.2)

        def seen() -> list[dict[str, Any]]:
            found = flows(bed, f"--from={client.name}", "--service=web:default")
            return [one for one in found if one["source"]["port"] == sent.port and one["ended"]]

        (one,) = eventually(seen, "the connection is recorded")
        assert (one["serviceAddress"], one["servicePort"]) == (vip, 80)
        assert one["destination"]["container"] == server.name
        assert one["destination"]["port"] == OPEN
        assert one["answerPackets"] > 0
        assert sent.least * 0.99 < one["bytes"] < sent.most * 1.01
        # what went to the service's address is no second connection
        assert not flows(bed, f"--to={vip}/32", f"--from={server.name}")
        bed.netctl("service", "rm", "web")


@pytest.mark.parametrize("network", NETWORKS)
def test_suggested_policies_allow_what_was_seen_and_nothing_else(bed: Bed, network: str) -> None:
    groups = [f"{name}-{network}" for name in ("askers", "base")]
    for name in groups:
        bed.netctl("group", "create", network, name)
    asker, base = (
        bed.add_pod(host, name, network=network, group=name)
        for host, name in zip(bed.hosts, groups, strict=True)
    )
    chosen = [f"--group={name}" for name in groups]
    try:
        steady(bed)  # where Open vSwitch needs purges, each change of flows loses counts
        assert connects(asker, base, base.address, OPEN)
        assert connects(asker, base, base.address, SHUT), "without a policy all ports are open"
        with taking(base, SEEN):
            send(asker, base.address, SEEN, 1.2)
            send(asker, address6(base), SEEN, 0.1)

        def suggested() -> Any:
            found = json.loads(bed.netctl("policy", "suggest", *chosen, "-o", "json"))
            allowed = {one["port"] for one in found["rules"] if one["action"] == "allow"}
            return found if {OPEN, SHUT, SEEN} <= allowed else None

        found = eventually(suggested, "the connections are recorded")
        denied = bed.netctl("policy", "suggest", *chosen).partition("newly be denied:\n")[2]
        assert f"{groups[1]} (1 endpoints) to {groups[0]} (1), any: denied" in denied
        for plural in ("policys", "rules"):
            for one in found[plural]:
                made = ask(bed, "POST", f"/api/v2/{plural}", one)
                assert made.status == 201, made.text
        for one in found["endpointGroups"]:
            path = f"/api/v2/endpointGroups/{one['key']}"
            changed = ask(bed, "PATCH", path, {"policies": one["policies"]})
            assert changed.status == 200, changed.text
        applied(bed)
        for address in (base.address, address6(base)):
            for port in (OPEN, SHUT, SEEN):
                assert connects(asker, base, address, port)
            assert blocked(asker, base, address, SEEN + 1)
        assert blocked(base, asker, asker.address, OPEN)
        assert not asker.ping(base.address)

        def dropped() -> bool:
            found = ask(bed, "GET", f"/api/v2/policy-suggestion?tenant=default&groups={groups[0]}")
            return bool(found.json()["dropped"])

        eventually(dropped, "what the policy drops is counted, not suggested")
    finally:
        for pod in (asker, base):
            bed.delete_pod(pod)
        for name in groups:
            bed.netctl("group", "rm", name)
            if f"seen-{name}" in bed.netctl("policy", "ls", "-q"):
                bed.netctl("policy", "rm", f"seen-{name}")


def test_records_are_exported_with_names(bed: Bed, exported: Path, tmp_path: Path) -> None:
    network = "vxlan"
    space = bed.fabric.namespace
    with (
        collecting(tmp_path / "flows", COLLECTOR, PORT, space) as collector,
        client_and_server(bed, network, "export") as (client, server),
        taking(server, OPEN),
    ):
        eventually(lambda: client.ping(server.address), "the pods know each other")
        steady(bed)
        sent = send(client, server.address, OPEN, 1.2)
        ends = {"sa": client.address, "da": server.address, "sp": str(sent.port), "dp": str(OPEN)}

        def told() -> list[dict[str, str]]:
            return [one for one in collector.flows() if ends.items() <= one.items()]

        (one,) = eventually(told, "the collector has the connection")
        assert sent.least * 0.99 < int(one["byt"]) < sent.most * 1.01
        assert one["pr"] == "6"
        assert collector.faults() == []
        lines = exported.read_text().splitlines()
        found = [json.loads(line) for line in lines]
        (record,) = [one for one in found if one["source"]["port"] == sent.port]
        assert (record["host"], record["ended"]) == (bed.hosts[0].label, True)
        assert record["source"]["container"] == client.name
        assert record["destination"]["group"] == f"web-{network}"


@pytest.mark.parametrize("network", NETWORKS)
def test_every_dropped_packet_is_recorded_or_counted_as_lost(bed: Bed, network: str) -> None:
    with client_and_server(bed, network, "drops") as (client, server):
        eventually(lambda: client.ping(server.address), "the pods know each other")
        ports = range(20_000, 20_000 + SYNS)
        syns(client, server.address, SHUT, ports, 0.001)
        where = ["--verdict=dropped", f"--from={client.name}", f"--port={SHUT}"]

        def recorded() -> list[dict[str, Any]]:
            found = flows(bed, *where, "-n", "5000")
            return found if len(found) == 5000 else []

        first = eventually(recorded, "drops are recorded")[0]
        assert (first["reason"], first["policy"], first["rule"]) == (
            "policy",
            f"guard-{network}",
            "1",
        )
        assert first["destination"]["container"] == server.name

        def accounted() -> bool:
            path = f"/api/v2/flows?verdict=dropped&from={client.name}&limit=5000"
            found = ask(bed, "GET", path).json()
            items = list(found["items"])
            while found["next"]:
                found = ask(bed, "GET", f"{path}&after={found['next']}").json()
                items += found["items"]
            seen = {one["source"]["port"] for one in items if one["destination"]["port"] == SHUT}
            lost = sum(one.get("drop", 0) for one in found["lost"].values())
            return bool(len(seen) <= SYNS <= len(seen) + lost + SLACK)

        eventually(accounted, "each is recorded, or counted as lost")


SLACK = 50
"""Packets that a busy machine may lose before they come to the switch."""


def test_what_a_policy_under_audit_would_deny_has_a_record_of_its_own(bed: Bed) -> None:
    network = "vlan"
    name, group = "audited", "asked"
    bed.netctl("policy", "create", "--audit", name)
    bed.netctl("policy", "rule-add", "-d", "in", "-j", "deny", "-l", "tcp", name, "1")
    bed.netctl("group", "create", "-p", name, network, group)
    with client_and_server(bed, network, "audit") as (client, _):
        server = bed.add_pod(bed.hosts[1], group, network=network, group=group)
        applied(bed)  # the sender's host has to know the group, too
        with taking(server, OPEN):
            port = send(client, server.address, OPEN, 0.1).port

        def audited() -> list[dict[str, Any]]:
            found = flows(bed, "--verdict=audited", f"--policy={name}")
            return [one for one in found if one["source"]["port"] == port]

        (one,) = eventually(audited, "what would be denied is recorded")
        assert (one["host"], one["rule"], one["packets"]) == (bed.hosts[0].label, "1", 1)
        assert one["destination"]["container"] == server.name

        def forwarded() -> list[dict[str, Any]]:
            found = flows(bed, "--verdict=forwarded", f"--from={client.name}")
            return [one for one in found if one["source"]["port"] == port]

        assert len(eventually(forwarded, "and so is the connection")) == 1
        bed.delete_pod(server)
    bed.netctl("group", "rm", group)
    bed.netctl("policy", "rm", name)


def test_a_watch_tells_of_beginnings_and_ends(bed: Bed, tmp_path: Path) -> None:
    with client_and_server(bed, "vxlan", "watch") as (client, server), taking(server, OPEN):
        eventually(lambda: client.ping(server.address), "the pods know each other")
        told = tmp_path / "told"
        words = bed.netctl_command("flows", "-f", f"--from={client.name}", "-o", "jsonl")
        follow = bed.fabric.namespace.popen(words, log=told)

        def states(*ports: int) -> list[bool]:
            seen = [json.loads(one) for one in told.read_text().splitlines() if one[0] == "{"]
            return [one["ended"] for one in seen if one["source"]["port"] in ports]

        sent: list[int] = []

        def begun() -> bool:
            sent.append(send(client, server.address, OPEN, 0.1).port)
            return bool(states(*sent))

        try:
            eventually(begun, "the watch has begun")
            port = send(client, server.address, OPEN, 1.0).port
            eventually(lambda: states(port) == [False, True], "beginning and end are told")
        finally:
            follow.kill()
            follow.wait()
