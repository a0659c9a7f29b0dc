"""Every master knows how far each host has come, whoever is frozen, ends or is killed meanwhile."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from netmaster.host_progress import NO_AGENT, NOT_REPORTED
from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.traffic import round_trip
from tests.bed.waiting import WITHIN, eventually
from tests.system.footprint import flow_ages, stored
from tests.system.rest import ask

pytestmark = [pytest.mark.system]

SECOND_PORT = 9998
ALL = (0, ["applied on 2 of 2 hosts"])
LATE, REFUSED = 5, 3


def applied(bed: Bed, *words: str, url: str = "") -> tuple[int, list[str]]:
    """Run `netctl host applied`; its exit code and lines."""
    command = [PROGRAMS / "netctl", "--netmaster", url or bed.url, "host", "applied", *words]
    done = bed.fabric.namespace.run([str(word) for word in command], check=False)
    return done.returncode, done.stdout.splitlines()


def create_network(bed: Bed, name: str, number: int) -> None:
    subnet = f"10.{number}.0.0/16"
    bed.netctl("net", "create", f"--subnet={subnet}", f"--gateway=10.{number}.0.1", name)


def tunnelled(host: Host, vni: int) -> bool:
    """Say whether the host's switch takes a network's packets out of the tunnel."""
    return any(f"tun_id=0x{vni:x}," in flow for flow in flow_ages(host))


def vni_of(bed: Bed, name: str) -> int:
    found = ask(bed, "GET", f"/api/v1/inspect/networks/default:{name}/").json()
    tag: int = found["Oper"]["externalPktTag"]
    return tag


def agent_ends(bed: Bed) -> dict[str, Any]:
    stats: dict[str, Any] = ask(bed, "GET", "/debug/ofnet").json()["AgentStats"]
    return stats


def test_what_is_applied_is_on_the_switches(bed: Bed) -> None:
    for number in range(101, 106):
        create_network(bed, "n1", number)
        vni = vni_of(bed, "n1")
        assert applied(bed, "--wait", f"{WITHIN:g}") == ALL
        assert [tunnelled(host, vni) for host in bed.hosts] == [True, True]
        bed.netctl("net", "rm", "n1")
        assert applied(bed, "--wait", f"{WITHIN:g}") == ALL
        assert [tunnelled(host, vni) for host in bed.hosts] == [False, False]


def test_hosts_are_shown(bed: Bed) -> None:
    pod = bed.add_pod(bed.hosts[0], "shown")
    try:
        assert applied(bed, "--wait", f"{WITHIN:g}") == ALL
        answer = ask(bed, "GET", "/hosts")
        assert answer.status == 200
        first, second = answer.json()
        assert (first["label"], second["label"]) == ("h1", "h2")
        assert (first["controlIP"], first["vtepIP"]) == (bed.hosts[0].address,) * 2
        assert (first["endpoints"], second["endpoints"]) == (1, 0)
        assert (first["registered"], first["applied"], first["errors"]) == (True, True, [])
        assert ask(bed, "GET", "/hosts/h2").json() == second
        assert ask(bed, "GET", "/hosts/h3").text == "host h3 not found"
        assert first["ends"] == [f"{bed.hosts[0].address}:{port}" for port in (9002, 9003)]
    finally:
        bed.delete_pod(pod)


def test_a_frozen_agent_is_behind_until_it_goes_on(bed: Bed) -> None:
    assert applied(bed, "--wait", f"{WITHIN:g}") == ALL
    bed.agents[1].pause()
    try:
        create_network(bed, "n2", 110)
        found = eventually(lambda: only_one(bed), "one of two has applied it")
        assert found
        code, lines = found
        # its registrations may have ended meanwhile, or some; without any nobody need wait for it
        gone = lines[1] == f"h2: {NO_AGENT}"
        assert gone or lines[1].startswith(("h2: state/nets/ at ", f"h2: {NOT_REPORTED}"))
        assert code == (0 if gone else LATE)
    finally:
        bed.agents[1].resume()
    eventually(lambda: applied(bed) == ALL, "the other has too")


def wait(bed: Bed, kind: str, name: str, *words: str) -> tuple[int, str]:
    """Run `netctl wait --realised`; its exit code and what it says."""
    command = [PROGRAMS / "netctl", "--netmaster", bed.url, "wait", kind, name, "--realised"]
    done = bed.fabric.namespace.run([str(word) for word in (*command, *words)], check=False)
    return done.returncode, done.stdout + done.stderr


def test_every_kind_of_object_is_waited_for_until_all_hosts_have_it(bed: Bed) -> None:
    create_network(bed, "awaited", 111)
    bed.netctl("policy", "create", "awaited-in")
    bed.netctl("policy", "rule-add", "-l", "tcp", "-j", "deny", "awaited-in", "1")
    bed.netctl("group", "create", "-p", "awaited-in", "awaited", "awaiting")
    pod = bed.add_pod(bed.hosts[0], "awaited", network="awaited", group="awaiting")
    try:
        listed = ask(bed, "GET", "/api/v2/endpoints?group=awaiting").json()
        (endpoint,) = [one["key"] for one in listed["items"]]
        for kind, name in (
            ("network", "default/awaited"),
            ("group", "awaiting"),
            ("policy", "awaited-in"),
            ("rule", "awaited-in/1"),
            ("endpoint", endpoint),
        ):
            told = f"{kind} {name} is realised on 2 of 2 hosts\n"
            assert wait(bed, kind, name, f"--timeout={WITHIN:.0f}s") == (0, told)
        vni = vni_of(bed, "awaited")
        assert [tunnelled(host, vni) for host in bed.hosts] == [True, True]
        bed.agents[1].pause()
        try:
            bed.netctl("policy", "rule-add", "-l", "udp", "-j", "deny", "awaited-in", "2")
            code, told = wait(bed, "rule", "awaited-in/2", "--timeout=2s")
            # its registrations may have ended meanwhile; without any nobody waits for it
            assert (code, "host h2: " in told) == (LATE, True) or "agent: h2" in told
        finally:
            bed.agents[1].resume()
        eventually(lambda: applied(bed) == ALL, "the other has it too")
        assert wait(bed, "policy", "awaited-in", f"--timeout={WITHIN:.0f}s")[0] == 0
        assert wait(bed, "rule", "awaited-in/3")[0] == REFUSED
    finally:
        bed.delete_pod(pod)
        bed.netctl("group", "rm", "awaiting")
        bed.netctl("policy", "rm", "awaited-in")
        bed.netctl("net", "rm", "awaited")


def only_one(bed: Bed) -> tuple[int, list[str]] | None:
    code, lines = applied(bed)
    return (code, lines) if lines and lines[0] == "applied on 1 of 2 hosts" else None


def test_an_agent_that_ends_is_known_to_be_gone_at_once(bed: Bed) -> None:
    assert applied(bed, "--wait", f"{WITHIN:g}") == ALL
    assert {end["Host"] for end in agent_ends(bed).values()} == {"h1", "h2"}
    assert bed.agents[1].terminate() == 0
    eventually(lambda: {end["Host"] for end in agent_ends(bed).values()} == {"h1"}, "it is gone")
    assert applied(bed, "--wait", f"{WITHIN:g}") == (
        0,
        ["applied on 1 of 2 hosts", f"h2: {NO_AGENT}"],
    )
    bed.agents[1].start()
    eventually(lambda: applied(bed) == ALL, "both have applied all")


@pytest.fixture
def second(bed: Bed) -> Iterator[Daemon]:
    """Run another master; in the end the first one leads, alone."""
    second = bed.another_master(SECOND_PORT)
    second.start()
    try:
        yield second
        assert "internal error" not in second.log_text()
    finally:
        second.stop()
        bed.netmaster.stop()
        bed.netmaster.start()


def test_the_next_leader_says_the_same(bed: Bed, second: Daemon) -> None:
    create_network(bed, "n3", 111)
    assert applied(bed, "--wait", f"{WITHIN:g}") == ALL
    bed.netmaster.kill()
    url = f"http://{bed.fabric.address}:{SECOND_PORT}"
    eventually(lambda: applied(bed, url=url) == ALL, "the second says the same")
    _, body = http_request(f"{url}/debug/ofnet", namespace=bed.fabric.namespace)
    assert b'"Host":"h2"' in body
    assert second.running
    # agents find it without being restarted
    pods = [bed.add_pod(host, f"late-{host.label}") for host in bed.hosts]
    try:
        assert applied(bed, "--wait", f"{WITHIN:g}", url=url) == ALL
        eventually(lambda: pods[0].ping(pods[1].address), "the pods reach each other")
    finally:
        for pod in pods:
            bed.delete_pod(pod)


def set_flags(agent: Daemon, **flags: str) -> None:
    """Give an agent that has ended other values of some flags."""
    for name, value in flags.items():
        agent.command[agent.command.index(f"--{name.replace('_', '-')}") + 1] = value


def readdress(bed: Bed, host: Host, address: str) -> None:
    """Give a host an address; the switches of it and of the first host learn who has it."""
    host.namespace.run(["ip", "-4", "address", "flush", "dev", "br-phy"])
    host.namespace.run(["ip", "address", "add", f"{address}/24", "dev", "br-phy"])
    first = bed.hosts[0]
    for asker, asked in ((host, first.address), (first, address)):
        eventually(partial(round_trip, asker.namespace, asked), f"{asked} is known")


@pytest.fixture
def pair(bed: Bed) -> Iterator[tuple[Pod, Pod]]:
    """Run a pod on each host, the first of which stays as it is."""
    peer, pod = (bed.add_pod(host, f"on-{host.label}") for host in bed.hosts)
    eventually(lambda: peer.ping(pod.address), "the pods reach each other")
    yield peer, pod
    for one in (peer, pod):
        if one in bed.pods:
            bed.delete_pod(one)


def test_a_host_at_another_address_keeps_its_pods(bed: Bed, pair: tuple[Pod, Pod]) -> None:
    (peer, pod), host, agent = pair, bed.hosts[1], bed.agents[1]
    elsewhere = host.address.rpartition(".")[0] + ".77"
    for address in (elsewhere, host.address):
        agent.stop()
        readdress(bed, host, address)
        set_flags(agent, ctrl_ip=address, vtep_ip=address)
        agent.start()
        eventually(lambda: peer.ping(pod.address), f"the pod is reached at {address}")


def test_a_host_under_another_name_ends_the_pods_of_the_first(
    bed: Bed, pair: tuple[Pod, Pod]
) -> None:
    (peer, pod), agent = pair, bed.agents[1]
    before = stored(bed)

    def rename(name: str) -> None:
        agent.stop()
        set_flags(agent, host=name)
        agent.start()

    rename("renamed")
    eventually(lambda: peer.ping(pod.address), "the pod keeps its network")
    known = "host h2 goes on as host renamed, with 1 endpoints"
    eventually(lambda: known in ask(bed, "DELETE", "/hosts/h2").text, "the new name is known")
    bed.delete_pod(pod)
    bed.netctl("host", "rm", "h2")  # refused while there is an endpoint on it
    new = bed.add_pod(bed.hosts[1], "new")
    eventually(lambda: peer.ping(new.address), "the new pod is reached")
    bed.delete_pod(new)
    rename("h2")
    bed.netctl("host", "rm", "renamed")
    eventually(lambda: applied(bed) == ALL, "there are the two hosts of before")
    eventually(lambda: stored(bed) < before, "no record of the pods is left")
