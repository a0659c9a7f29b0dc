"""Containers of real docker engines on two hosts: networks, addresses, names, and what restarts do.

Each host has an engine of its own, whose network driver and IPAM driver is the host's agent. The
networks are of local scope: netmaster makes those of the first host's engine, each agent those of
its own.
"""

import json
import os
import re
import select
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bed.cluster import ROOT, Bed
from tests.bed.docker import ask
from tests.bed.engines import NAME_SERVER, Engine, release_in, version
from tests.bed.images import IMAGE
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.docker import endpoints, leftovers
from tests.system.echoes import Way

pytestmark = [pytest.mark.system]

DOCUMENT = ROOT / "docs" / "docker.md"
GRACE = 3
NAME_SERVER6 = "2001:db8::53"
"""As `NAME_SERVER`, for those who cannot ask that one."""
IPV6_ALONE = 28
"""From this release on docker has networks without IPv4."""
CYCLES = int(os.environ.get("CONTIV_TEST_CYCLES", "10"))
"""Containers that come and go in one test; `make docker-cycles` has more of them."""


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {"netplugin": ("--leak-grace", str(GRACE))}


@pytest.fixture(scope="module")
def bed(
    bed_dirs: Iterator[Path], store_kind: str, flags: Mapping[str, Sequence[str]]
) -> Iterator[Bed]:
    """Run two hosts with engines, and networks `net1` (both families) and `bare` (no gateway)."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, 2, store=store_kind, flags=flags, engines=("--live-restore",)).start()
    try:
        six = ("--subnetv6=fd00:7::/64", "--gatewayv6=fd00:7::1")
        create = ("net", "create", "--subnet=10.1.0.0/24", "--gateway=10.1.0.254")
        bed.netctl(*create, *six, "net1")
        bed.netctl("net", "create", "--subnet=10.2.0.0/24", "bare")
        for engine in bed.engines:
            has(engine, "net1")
            has(engine, "bare")
        yield bed
        assert unforeseen(bed) == []
    finally:
        bed.stop()


@pytest.fixture
def engines(bed: Bed) -> Iterator[tuple[Engine, Engine]]:
    """Give both engines; each test leaves no container and no endpoint."""
    one, two = bed.engines
    yield one, two
    for engine in bed.engines:
        engine.empty()
    eventually(lambda: not leftovers(bed), "nothing is left")


def networks(engine: Engine) -> set[str]:
    """Return the names of the networks of our driver."""
    listed = engine.docker("network", "ls", "--filter", "driver=netplugin", "--format", "{{.Name}}")
    return set(listed.split())


def reaches(engine: Engine, container: str, target: str) -> None:
    # another host hears of a container a moment after its engine does
    eventually(lambda: engine.pings(container, target), f"{container} reaches {target}")


def test_containers_of_two_hosts_reach_each_other_by_address_and_name(
    engines: tuple[Engine, Engine],
) -> None:
    one, two = engines
    one.run("left", "net1")
    two.run("right", "net1", "--label", "app=web")
    reaches(one, "left", two.address("right", "net1"))
    reaches(one, "left", two.address("right", "net1", family=6))
    reaches(one, "left", "right")
    reaches(two, "right", "left")
    routes = one.docker("exec", "left", "ip", "route")
    assert "default via 10.1.0.254" in routes
    # in pieces and over TCP: the link has the MTU of tunnels, and checksums that they carry
    listening = "tail -f /dev/null | nc -l -p 7 >/tmp/heard"
    two.docker("exec", "-d", "right", "sh", "-c", listening)
    sent = f"seq 20000 | nc {two.address('right', 'net1')} 7"
    eventually(lambda: one.attempt("exec", "left", "sh", "-c", sent).returncode == 0, "it is sent")
    heard = ("exec", "right", "tail", "-n", "1", "/tmp/heard")
    eventually(lambda: two.docker(*heard) == "20000", "all has arrived")


def test_a_network_of_ipv6_alone(bed: Bed, engines: tuple[Engine, Engine]) -> None:
    create = ("net", "create", "--subnetv6=fd00:9::/64", "--gatewayv6=fd00:9::1", "six")
    if release_in(version()) < IPV6_ALONE:
        with pytest.raises(RuntimeError, match="needs docker 28"):
            bed.netctl(*create)
        assert "six" not in bed.netctl("net", "ls", "-q").split()
        return
    bed.netctl(*create)
    try:
        for engine in engines:
            has(engine, "six")
        one, two = engines
        one.run("left", "six", "--dns", NAME_SERVER6)
        two.run("right", "six", "--ip6", "fd00:9::77")
        assert (two.address("right", "six"), two.address("right", "six", family=6)) == (
            "",
            "fd00:9::77",
        )
        reaches(one, "left", "fd00:9::77")
        reaches(one, "left", "right")
        one.remove("left")
        two.remove("right")
    finally:
        bed.netctl("net", "rm", "six")
    for engine in engines:
        lacks(engine, "six")


def test_aliases_are_known_on_all_hosts_and_by_a_server_of_dockers_settings(
    engines: tuple[Engine, Engine],
) -> None:
    one, two = engines
    two.run("right", "net1", "--network-alias", "db", "--network-alias", "a.b")
    # an engine that asks the servers of the host's own settings from the host's namespace
    # reaches no agent: servers that are named for docker are asked from the container
    one.run("left", "net1", "--dns", NAME_SERVER)
    for name in ("right", "db"):
        reaches(one, "left", name)
    assert not one.pings("left", "a.b")
    two.docker("rename", "right", "renamed")
    reaches(one, "left", "renamed")
    reaches(one, "left", "db")
    two.docker("network", "disconnect", "net1", "renamed")
    two.docker("network", "connect", "--alias", "other", "net1", "renamed")
    reaches(one, "left", "other")
    eventually(lambda: not one.pings("left", "db"), "an alias ends with its endpoint")


def test_a_network_with_a_subnet_of_ours_is_that_network(
    engines: tuple[Engine, Engine],
) -> None:
    one, two = engines
    ours = ("-d", "netplugin", "--ipam-driver", "netplugin")
    refused = one.attempt("network", "create", *ours, "--subnet", "10.99.0.0/24", "strange")
    assert "no network has subnet 10.99.0.0/24" in refused.stderr
    one.docker("network", "create", *ours, "--subnet", "10.2.0.0/24", "shop_bare")
    try:
        one.run("left", "shop_bare")
        two.run("right", "bare")
        assert one.address("left", "shop_bare").startswith("10.2.0.")
        reaches(one, "left", two.address("right", "bare"))
    finally:
        one.attempt("rm", "-f", "left")
        one.docker("network", "rm", "shop_bare")


def first_steps() -> tuple[list[list[str]], list[list[str]]]:
    """Return the words of the document's first commands: the daemons', then those of users."""
    text = DOCUMENT.read_text().partition("## From nothing")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    words = [[shlex.split(line) for line in block.splitlines()] for block in blocks]
    _packages, _services, daemons, users = words
    return daemons, users


def test_the_documents_first_steps(bed: Bed, engines: tuple[Engine, Engine]) -> None:
    """docs/docker.md, with the addresses and the names of this test."""
    one, two = engines
    daemons, users = first_steps()
    store = f"--{bed.store.kind}"
    meant = {"--etcd": store, "http://10.0.0.1:2379": f"http://{bed.fabric.address}:2379"}
    for words, running in zip(daemons, (bed.netmaster, bed.agents[0]), strict=True):
        wanted = [meant.get(word, word).replace("10.0.0.1", bed.hosts[0].address) for word in words]
        assert running.name == wanted[0]
        assert set(wanted[1:]) <= set(running.command), wanted
    try:
        for words in users:
            said = " ".join(words).replace("net1", "first").replace("10.1.0.", "10.6.0.")
            command, _, where = said.replace("busybox", IMAGE).partition(" # on ")
            program, *rest = command.split()
            if program == "netctl":
                bed.netctl(*rest)
                for engine in engines:
                    has(engine, "first")
                continue
            assert program == "docker"
            engine = two if where == "another" else one
            # a name is known on another host a moment later
            eventually(lambda: engine.attempt(*rest).returncode == 0, command)  # noqa: B023
    finally:
        for engine in engines:
            engine.empty()
        eventually(lambda: not leftovers(bed), "nothing is left")
        bed.netctl("net", "rm", "first")


def test_an_address_that_is_asked_for_is_granted_once(engines: tuple[Engine, Engine]) -> None:
    one, two = engines
    one.run("first", "net1", "--ip", "10.1.0.77", "--ip6", "fd00:7::77")
    assert one.address("first", "net1") == "10.1.0.77"
    assert one.address("first", "net1", family=6) == "fd00:7::77"
    refused = two.attempt("run", "--rm", "--network", "net1", "--ip", "10.1.0.77", IMAGE, "true")
    assert refused.returncode != 0
    assert "ip address 10.1.0.77 is not available" in refused.stderr
    one.remove("first")
    two.run("second", "net1", "--ip", "10.1.0.77")
    assert two.address("second", "net1") == "10.1.0.77"


def test_a_network_without_gateway_leaves_by_dockers_own_bridge(
    bed: Bed, engines: tuple[Engine, Engine]
) -> None:
    one, two = engines
    one.run("asks", "bare")
    two.run("serves", "bare", "-p", "18080:80")
    reaches(one, "asks", two.address("serves", "bare"))
    two.docker("exec", "-d", "serves", "sh", "-c", "while true; do echo hello | nc -l -p 80; done")
    host = bed.hosts[1].namespace
    said = ["sh", "-c", "nc -w 2 127.0.0.1 18080 </dev/null || true"]
    busybox = [*said[:2], said[2].replace("nc", "busybox nc")]
    eventually(lambda: "hello" in host.run(busybox).stdout, "the published port answers")


def test_groups_tags_ranges_and_auxiliary_addresses(
    bed: Bed, engines: tuple[Engine, Engine]
) -> None:
    """Networks that users make stand for ours by options, tags or names, and stay theirs."""
    one, two = engines
    bed.netctl("group", "create", "-tag", "gold", "net1", "team")
    eventually(lambda: "team" in networks(two), "the group has a network")
    driver = ("network", "create", "-d", "netplugin", "--ipam-driver", "netplugin")
    part = ("--subnet", "10.1.0.0/24", "--ip-range", "10.1.0.128/26")
    with_others = ("--aux-address", "printer=10.1.0.129", "--ipam-opt", "network=net1")
    one.docker(*driver, *part, *with_others, "-o", "network=net1", "mine")
    two.docker(*driver, "--ipam-opt", "contiv-tag=gold", "-o", "contiv-tag=gold", "golden")
    try:
        one.run("ranged", "mine")
        assert one.address("ranged", "mine") == "10.1.0.128"
        one.run("next", "mine")
        assert one.address("next", "mine") == "10.1.0.130"
        two.run("golden1", "golden")
        two.run("team1", "team")
        reaches(one, "ranged", two.address("golden1", "golden"))
        in_group = json.loads(bed.netctl("group", "inspect", "team"))["Oper"]["numEndpoints"]
        assert in_group == 2
        # what stands for nothing, or has another subnet or gateway than ours, is refused
        for words, why in (
            (("--subnet", "10.9.0.0/24", "x1"), "no network has subnet 10.9.0.0/24"),
            (("--ipam-opt", "contiv-tag=lead", "x2"), "failed to lookup tag lead"),
            (("--subnet", "10.1.0.0/24", "--gateway", "10.1.0.9", "x3"), "has gateway 10.1.0.254"),
            (("--subnet", "10.1.0.0/16", "--ipam-opt", "network=net1", "x4"), "has subnet"),
        ):
            refused = one.attempt(*driver, *words)
            assert refused.returncode != 0
            assert why in refused.stderr
        assert networks(one) == {"net1", "bare", "team", "mine"}
        bed.netctl("group", "rm", "team", check=False)
        assert "team" in bed.netctl("group", "ls")
    finally:
        for engine in (one, two):
            engine.empty()
        one.docker("network", "rm", "mine")
        two.docker("network", "rm", "golden")
    eventually(lambda: not leftovers(bed), "nothing is left")
    bed.netctl("group", "rm", "team")
    for engine in (one, two):
        lacks(engine, "team")


def test_policies_are_enforced_between_containers(bed: Bed, engines: tuple[Engine, Engine]) -> None:
    """A group's policy holds on both hosts, and a changed rule for containers that run already."""
    one, two = engines
    bed.netctl("policy", "create", "doors")
    rule = ("policy", "rule-add", "-d", "in", "--protocol=tcp")
    bed.netctl(*rule, "--priority=1", "--action=deny", "doors", "1")
    bed.netctl(*rule, "--priority=2", "--action=allow", "--port=7", "doors", "2")
    bed.netctl("group", "create", "-p", "doors", "net1", "guarded")
    has(two, "guarded")
    has(one, "guarded")
    serving = "for port in 7 8; do nc -ll -p $port -e true & done; sleep 3600"
    for engine, name in ((one, "near"), (two, "far")):
        engine.run(name, "guarded", command=("sh", "-c", serving))
    one.run("asker", "net1")
    for engine, name in ((one, "near"), (two, "far")):
        opened(one, engine.address(name, "guarded"), 7)
        assert not opens(one, engine.address(name, "guarded"), 8)
    bed.netctl(*rule, "--priority=3", "--action=allow", "--port=8", "doors", "3")
    bed.netctl("policy", "rule-rm", "doors", "2")
    for engine, name in ((one, "near"), (two, "far")):
        opened(one, engine.address(name, "guarded"), 8)
        closed(one, engine.address(name, "guarded"), 7)
    for engine in engines:
        engine.empty()
    eventually(lambda: not leftovers(bed), "nothing is left")
    bed.netctl("group", "rm", "guarded")
    bed.netctl("policy", "rm", "doors")
    for engine in engines:
        lacks(engine, "guarded")


def opens(engine: Engine, address: str, port: int) -> bool:
    """Return whether a TCP connection from the container `asker` is answered within a second."""
    tried = engine.attempt("exec", "asker", "nc", "-w", "1", address, str(port))
    return tried.returncode == 0


def opened(engine: Engine, address: str, port: int) -> None:
    eventually(lambda: opens(engine, address, port), f"port {port} of {address} is open")


def closed(engine: Engine, address: str, port: int) -> None:
    eventually(lambda: not opens(engine, address, port), f"port {port} of {address} is closed")


def has(engine: Engine, name: str) -> None:
    eventually(lambda: name in networks(engine), f"{engine.label} has {name}")


def lacks(engine: Engine, name: str) -> None:
    eventually(lambda: name not in networks(engine), f"{engine.label} has no {name}")


def returns(engine: Engine, name: str, before: str) -> None:
    def is_another() -> bool:
        return name in networks(engine) and engine.inspect(name)["Id"] != before

    eventually(is_another, f"{engine.label} has {name} again")


def test_networks_in_use_stay_and_removed_ones_return(
    bed: Bed, engines: tuple[Engine, Engine]
) -> None:
    one, two = engines
    bed.netctl("net", "create", "--subnet=10.3.0.0/24", "--gateway=10.3.0.1", "brief")
    for engine in engines:
        has(engine, "brief")
    two.run("user", "brief")
    assert two.attempt("network", "rm", "brief").returncode != 0
    bed.netctl("net", "rm", "brief", check=False)
    assert "brief" in bed.netctl("net", "ls")
    assert "brief" in networks(one)
    two.remove("user")
    for engine in engines:
        before = engine.inspect("brief")["Id"]
        engine.docker("network", "rm", "brief")
        returns(engine, "brief", before)
    two.once("brief", "true")
    eventually(lambda: not leftovers(bed), "nothing is left")
    bed.netctl("net", "rm", "brief")
    for engine in engines:
        lacks(engine, "brief")


def test_labels_make_providers_and_names_end_with_their_container(
    bed: Bed, engines: tuple[Engine, Engine]
) -> None:
    one, two = engines
    words = ("--network", "net1", "--selector", "app=web", "--port", "80:8080:TCP", "web")
    bed.netctl("service", "create", *words)
    try:
        two.run("provider", "net1", "--label", "app=web", "--label", "tier=1")
        one.run("other", "net1", "--label", "app=db")
        held = two.address("provider", "net1")
        eventually(lambda: providers(bed) == [held], "the service has one provider")
        two.docker("kill", "provider")
        eventually(lambda: providers(bed) == [], "the service has none")
        two.docker("start", "provider")
        eventually(lambda: len(providers(bed)) == 1, "the service has one again")
    finally:
        bed.netctl("service", "rm", "web")


def providers(bed: Bed) -> list[str]:
    shown = json.loads(bed.netctl("service", "inspect", "web"))
    return [one["ipAddress"][0] for one in shown["Oper"].get("providers", [])]


@contextmanager
def unbroken(engine: Engine, container: str, target: str, log: Path) -> Iterator[None]:
    """Ping from a container during the body, whatever its engine does: nothing may be lost."""
    pid = engine.inspect(container)["State"]["Pid"]
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", "ping", "-n", "-i", "0.2"]
    way = Way(container, log)
    with log.open("wb") as said:
        pings = subprocess.Popen([*inside, target], stdout=said, stderr=subprocess.STDOUT)
    try:
        way.goes_on()
        yield
        # not until ping ends: it counts an answer that is on its way then as lost
        way.goes_on()
    finally:
        pings.kill()
        pings.wait()
    assert way.missing() == set(), log.read_text()


def test_running_containers_lose_nothing_while_the_agent_is_killed(
    bed: Bed, engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    one, two = engines
    one.run("left", "net1")
    two.run("right", "net1")
    reaches(one, "left", two.address("right", "net1"))
    with unbroken(one, "left", two.address("right", "net1"), tmp_path / "pings"):
        bed.agents[0].kill()
        bed.agents[0].start()
    one.docker("restart", "-t", "0", "left")
    reaches(one, "left", two.address("right", "net1"))


def test_what_the_engine_asks_meanwhile_waits_for_the_next_agent(
    bed: Bed, engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    """Here a container starts: to tunnels that costs packets (docs/troubleshooting.md)."""
    one, _ = engines
    one.run("left", "net1")
    one.run("right", "net1")
    reaches(one, "left", one.address("right", "net1"))
    with unbroken(one, "left", one.address("right", "net1"), tmp_path / "pings"):
        bed.agents[0].kill()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(one.once, "net1", "ip", "-4", "address", "show", "eth0")
            bed.agents[0].start()
            assert "10.1.0." in waiting.result()


def test_calls_wait_in_a_socket_that_outlives_the_agent(
    bed: Bed, engines: tuple[Engine, Engine]
) -> None:
    """As netplugin-docker.socket holds it: the engine never sees that nobody listens."""
    one, _ = engines
    agent, path = bed.agents[0], one.plugin_socket
    agent.kill()
    path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        held.bind(str(path))
        held.listen(64)
        agent.pass_socket(held.fileno())
        try:
            agent.start()
            one.once("net1", "true")
            agent.kill()
            before = len(one.log_text())
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(one.once, "net1", "ip", "-4", "address", "show", "eth0")
                eventually(lambda: select.select([held], [], [], 0)[0], "the engine calls")
                agent.start()
                assert "10.1.0." in waiting.result()
            assert "retrying in" not in one.log_text()[before:]
        finally:
            agent.kill()
            agent.pass_socket(None)
    agent.start()


def test_a_live_engine_restarts_and_its_containers_lose_nothing(
    engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    one, two = engines
    one.run("left", "net1")
    two.run("right", "net1")
    reaches(one, "left", two.address("right", "net1"))
    with unbroken(one, "left", two.address("right", "net1"), tmp_path / "pings"):
        one.kill()
        one.start()
    reaches(one, "left", "right")
    one.run("more", "net1")
    reaches(one, "more", "right")


def test_an_engine_ends_its_containers_and_starts_them_again(
    bed: Bed, engines: tuple[Engine, Engine]
) -> None:
    one, two = engines
    two.run("right", "net1")
    one.command.remove("--live-restore")
    try:
        one.restart()
        one.run("left", "net1", "--restart", "always", "--stop-timeout", "1")
        one.run("gone", "net1", "--stop-timeout", "1")
        one.kill()
        one.start()
        eventually(lambda: one.pings("left", "right"), "it runs again")
        eventually(lambda: len(endpoints(bed)) == 2, "the other's endpoint is gone")
        one.stop()
        eventually(lambda: len(endpoints(bed)) == 1, "all of its endpoints are gone")
        one.start()
        eventually(lambda: one.pings("left", "right"), "it runs again")
    finally:
        one.command.append("--live-restore")
        one.restart()


def test_what_an_engine_has_forgotten_is_released(bed: Bed, engines: tuple[Engine, Engine]) -> None:
    """An engine without its state has no endpoint; our links are alive, and nobody else's."""
    one, _ = engines
    one.run("lost", "net1")
    one.kill()
    (one.socket.parent / "docker" / "network" / "files" / "local-kv.db").unlink()
    one.start()
    eventually(lambda: "net1" in networks(one), "the engine has its networks again")
    one.remove("lost")
    eventually(lambda: not endpoints(bed), "the endpoint is released")


def test_bad_input_is_refused_and_changes_nothing(bed: Bed, engines: tuple[Engine, Engine]) -> None:
    one, _ = engines
    path = one.plugin_socket
    known = one.inspect("net1")["Id"]
    endpoint = {"NetworkID": known, "EndpointID": "e1"}
    for call, body, status, text in (
        ("NetworkDriver.CreateEndpoint", None, 400, "the request has no body"),
        ("NetworkDriver.CreateEndpoint", [], 400, "CreateEndpoint"),
        ("NetworkDriver.CreateEndpoint", {**endpoint, "Interface": "x"}, 400, "Interface"),
        ("NetworkDriver.CreateEndpoint", {**endpoint, "EndpointID": "../e"}, 400, "EndpointID"),
        (
            "NetworkDriver.CreateEndpoint",
            {**endpoint, "Interface": {"Address": "10.1.0.300/24"}},
            400,
            "is not an address",
        ),
        ("NetworkDriver.Join", {**endpoint, "SandboxKey": "/x"}, 500, "is not on this host"),
        ("IpamDriver.RequestAddress", {"PoolID": "10.1.0.0"}, 400, "is none of this driver"),
        ("IpamDriver.RequestAddress", {"PoolID": "no.net|10.7.0.0/24"}, 500, "not found"),
        ("IpamDriver.RequestPool", {"Pool": "10.1.0.0/33"}, 400, "is not a subnet"),
        ("NetworkDriver.CreateNetwork", {"NetworkID": "n", "IPv4Data": {}}, 400, "IPv4Data"),
        ("NetworkDriver.CreateNetwork", {"NetworkID": "x" * 2_000_000}, 413, "is larger than"),
        ("NetworkDriver.Nothing", {}, 404, "no such call"),
        ("DELETE", {}, 404, "no such call"),
    ):
        answer_status, answer = ask(path, "POST", f"/{call}", body)
        assert (answer_status, answer["Err"]) == (status, answer["Error"])
        assert text in answer["Err"]
    for call in ("NetworkDriver.DeleteEndpoint", "NetworkDriver.Leave"):
        assert ask(path, "POST", f"/{call}", endpoint) == (200, {"Err": ""})
    assert ask(path, "GET", "/Plugin.Activate")[0] == 404
    assert leftovers(bed) == []


@pytest.mark.timeout(240 + 15 * CYCLES)
def test_many_containers_come_and_go_and_leave_nothing(
    bed: Bed, engines: tuple[Engine, Engine]
) -> None:
    def cycle(number: int) -> None:
        engines[number % 2].once("net1", "true")

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(cycle, range(CYCLES)))
    eventually(lambda: not leftovers(bed), "nothing is left")
    assert "no findings" in bed.netctl("ipam", "check") or not bed.netctl("ipam", "check").strip()
