"""Pods ask for names: who has them is told by the agent, all else by the server they asked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.waiting import eventually
from tests.system.planes import FWD_MODES, NETWORKS, addresses, planes
from tests.system.questions import OUTSIDE, asked, asking, hears, serving

pytestmark = [
    pytest.mark.system,
    pytest.mark.usefixtures("no_pods_left"),
]

PATIENT = 20
"""How often a pod asks at most: on a busy machine an answer may take seconds."""


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param) as bed:
        yield bed


@pytest.mark.parametrize("network", list(NETWORKS))
def test_pods_ask_for_names(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    group = f"web-{network}"
    asker = bed.add_pod(here, "asker", network=network)
    near = bed.add_pod(here, "near", network=network, group=group)
    far = bed.add_pod(there, "far", network=network, group=group)
    with serving(bed.add_pod(there, "server", network=network)) as server:
        hears(asker, server, "far", {far.address})
        hears(asker, server, "NEAR", {near.address})
        hears(asker, server, group, {near.address, far.address})
        hears(asker, server, group, {addresses(near)[1], addresses(far)[1]}, "AAAA")
        hears(far, server, "near", {near.address})
        hears(asker, server, "contiv.example", {OUTSIDE})
        bed.delete_pod(far)
        hears(asker, server, "far", {OUTSIDE})
        hears(asker, server, group, {near.address})


@pytest.mark.parametrize("network", list(NETWORKS))
def test_pods_ask_by_tcp(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    asker = bed.add_pod(here, "asker", network=network)
    far = bed.add_pod(there, "far", network=network)
    with serving(bed.add_pod(there, "server", network=network)) as server:
        hears(asker, server, "far", {far.address}, tcp=True)
        hears(asker, server, "FAR", {addresses(far)[1]}, "AAAA", tcp=True)
        hears(far, server, "asker", {asker.address}, tcp=True)
        hears(asker, server, "contiv.example", {OUTSIDE}, tcp=True)


@pytest.mark.parametrize("network", list(NETWORKS))
def test_a_tenants_names_are_its_own_by_tcp_too(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    subnet, gateway, _, _, more = NETWORKS[network]
    # Tenants' addresses overlap; but routed vlan networks of all tenants are one routing domain.
    words = [f"--subnet={subnet}", f"--gateway={gateway}", f"--encap={network}", *more]
    other = [word.replace("61", "62") for word in words]
    bed.netctl("tenant", "create", "blue")
    bed.netctl("net", "create", "-t", "blue", *other, f"b-{network}")
    pods = [
        bed.add_pod(here, "ours", network=network),
        bed.add_pod(there, "server", network=network),
        bed.add_pod(here, "theirs", network=f"b-{network}", tenant="blue"),
        bed.add_pod(there, "answers", network=f"b-{network}", tenant="blue"),
    ]
    ours, server, theirs, answers = pods
    try:
        with serving(server) as known, serving(answers) as unknown:
            for tcp in (False, True):
                hears(ours, known, "ours", {ours.address}, tcp=tcp)
                hears(theirs, unknown, "theirs", {theirs.address}, tcp=tcp)
                hears(ours, known, "theirs", {OUTSIDE}, tcp=tcp)
                hears(theirs, unknown, "ours", {OUTSIDE}, tcp=tcp)
    finally:
        for pod in pods:
            bed.delete_pod(pod)
        bed.netctl("net", "rm", "-t", "blue", f"b-{network}")
        bed.netctl("tenant", "rm", "blue")


@pytest.mark.parametrize("network", list(NETWORKS))
def test_no_question_is_lost_while_an_agent_is_killed_and_starts(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    asker = bed.add_pod(here, "asker", network=network)
    near = bed.add_pod(here, "near", network=network)
    agent = bed.agents[0]
    with serving(bed.add_pod(there, "server", network=network)) as server:
        hears(asker, server, "near", {near.address}, tcp=True)
        links = name_links(here)
        with asking(asker, server, "near", rate=50) as questions:
            eventually(lambda: questions.heard[near.address] > 50, "the agent answers")
            agent.kill()
            eventually(lambda: questions.heard[OUTSIDE] > 50, "the server answers")
            assert asked(asker, server, "near", tcp=True) == {OUTSIDE}
            agent.start()
            before = questions.heard[near.address]
            eventually(lambda: questions.heard[near.address] > before + 50, "the agent is back")
        print(f"{questions.heard}, asked again: {questions.again}")  # noqa: T201 - figures
        assert questions.unanswered == 0
        assert name_links(here) == links, "a link that comes or goes costs packets of tunnels"


def test_no_question_is_lost_while_an_agent_is_frozen(bed: Bed) -> None:
    here, there = bed.hosts
    asker = bed.add_pod(here, "asker", network="vlan")
    near = bed.add_pod(here, "near", network="vlan")
    agent = bed.agents[0]
    with serving(bed.add_pod(there, "server", network="vlan")) as server:
        with asking(asker, server, "near", rate=50) as questions:
            eventually(lambda: questions.heard[near.address] > 50, "the agent answers")
            agent.pause()
            eventually(lambda: questions.heard[OUTSIDE] > 50, "the server answers")
            agent.resume()
            before = questions.heard[near.address]
            eventually(lambda: questions.heard[near.address] > before + 50, "the agent goes on")
        assert questions.unanswered == 0


def name_links(host: Host) -> dict[str, int]:
    """Return the links of the name service, by their indexes: one made anew has another one."""
    found = json.loads(host.namespace.run(["ip", "-json", "link"]).stdout)
    links = {
        one["ifname"]: one["ifindex"] for one in found if one["ifname"].startswith("contivdns")
    }
    assert len(links) == 2
    return links


def test_a_pod_that_floods_the_agent_disturbs_no_other(bed: Bed) -> None:
    here, there = bed.hosts
    asker = bed.add_pod(here, "asker", network="vxlan")
    rude = bed.add_pod(here, "rude", network="vxlan")
    with serving(bed.add_pod(there, "server", network="vxlan")) as server:
        hears(asker, server, "rude", {rude.address})
        with (
            asking(rude, server, "asker", rate=5000) as flood,
            asking(asker, server, "rude", rate=20, tries=PATIENT) as questions,
        ):
            eventually(lambda: dropped(bed) > 1000, "the flood is limited")
            before = questions.heard[rude.address]
            eventually(lambda: questions.heard[rude.address] > before + 100, "the other is heard")
        print(f"{flood.heard}, {dropped(bed)} dropped")  # noqa: T201 - figures
        assert flood.unanswered
        assert questions.unanswered == 0


def dropped(bed: Bed) -> int:
    """Return how many questions the agent did not answer since they were too many."""
    url = f"http://127.0.0.1:{AGENT_PORT}/inspect/nameserver"
    _, body = http_request(url, namespace=bed.hosts[0].namespace)
    count: int = json.loads(body)["stats"]["default"].get("limited", 0)
    return count


def test_a_service_has_a_name(bed: Bed) -> None:
    words = ["--network=vxlan", "--selector=app=shop", "--port=80:8080:TCP", "-ip=10.60.0.200"]
    bed.netctl("service", "create", *words, "shop")
    asker = bed.add_pod(bed.hosts[0], "asker", network="vlan")
    with serving(bed.add_pod(bed.hosts[1], "server", network="vlan")) as server:
        try:
            hears(asker, server, "shop", {"10.60.0.200"})
            hears(asker, server, "shop", set(), "AAAA")
        finally:
            bed.netctl("service", "rm", "shop")
        hears(asker, server, "shop", {OUTSIDE})


def test_names_are_shown(bed: Bed) -> None:
    far = bed.add_pod(bed.hosts[1], "far", network="vxlan")
    url = f"http://127.0.0.1:{AGENT_PORT}/inspect/nameserver"

    def shown() -> list[str]:
        status, body = http_request(url, namespace=bed.hosts[0].namespace)
        assert status == 200
        names = json.loads(body)["dnsRecords"].get("default", {}).get("commonNames", {})
        return names.get("far", [])  # type: ignore[no-any-return] # JSON

    four, six = addresses(far)
    assert eventually(shown, "the name is shown") == [f"ipv4:{four} ipv6:{six}"]
