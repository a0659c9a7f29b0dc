"""Firewalls that are common on hosts, themselves: docker's rules, ufw, firewalld.

Each is enabled with its defaults, reloaded and restarted while pods talk. The agent's interval of
audits is the default one, so that nothing is mended by it in time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from netplugin.kernel.firewall.foreign_chains import FIREWALLD
from tests.bed.cluster import NO_AUDITS, Bed
from tests.bed.docker import FILTERING, Dockerd
from tests.bed.firewalls import Firewalld, Ufw, missing
from tests.bed.hosts import Host
from tests.bed.kubernetes import ApiServer
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import pinging
from tests.system.host_ways import HostAndPods, dual_site, restart, running
from tests.system.kube_site import api_flags

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.thorough]

needs_firewalls = pytest.mark.skipif(
    bool(missing()), reason=f"not on this machine: {', '.join(missing())}"
)
PORTS = ("9090/tcp", "9002/tcp", "4789/udp")
"""What other hosts must reach (docs/installation.md)."""
PAUSE = 0.05
LONGEST = 30.0
"""Seconds in which lost rules are back, on a busy machine; it takes two at most on another one."""


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Tell the agents of the API server; what is mended here is so at once, not by an audit."""
    return {"netplugin": [*api_flags(tmp_path_factory), *NO_AUDITS]}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server; hosts forward, and have a default route."""
    with dual_site(bed) as api:
        yield api


@pytest.fixture
def subject(bed: Bed, api: ApiServer) -> Iterator[HostAndPods]:
    """Run the pods and the service, and see that all ways are open."""
    with running(bed, api) as subject:
        subject.all_open()
        yield subject


def policy(host: Host, program: str = "iptables") -> str:
    """Return what the kernel does with what the host forwards and no rule names."""
    return host.namespace.run([program, "-w", "-S", "FORWARD"]).stdout.splitlines()[0]


def address6(pod: Pod) -> str:
    """Return the pod's IPv6 address."""
    return str(pod.result["ips"][1]["address"]).partition("/")[0]


@contextmanager
def talking(subject: HostAndPods, directory: Path) -> Iterator[None]:
    """Fail if the pod is cut off for longer than lost rules may be away."""
    directory.mkdir()
    ways = {
        "to-the-outside": (subject.pod.namespace, subject.bed.fabric.address),
        "to-a-pod": (subject.far.namespace, subject.pod.address),
        "from-its-host": (subject.host.namespace, subject.pod.address),
        "from-its-host-by-ipv6": (subject.host.namespace, address6(subject.pod)),
    }
    with pinging(directory, PAUSE, **ways) as running_ways:
        for way in running_ways:
            way.goes_on()
        yield
        for way in running_ways:
            way.goes_on()
        lost = {way.name: len(way.missing()) * PAUSE for way in running_ways}
        assert all(seconds < LONGEST for seconds in lost.values()), lost


@pytest.mark.parametrize("first", ["agent", "docker"])
def test_pods_pass_beside_a_docker_engine(
    bed: Bed, api: ApiServer, tmp_path: Path, first: str
) -> None:
    host = bed.hosts[0]
    # docker has what the host forwards dropped if it is the one that has it forward
    host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=0"])
    engine = Dockerd(tmp_path, host.namespace, flags=FILTERING)
    try:
        engine.start()
        assert policy(host) == "-P FORWARD DROP"
        shown = host.namespace.run(["iptables", "-w", "-S"]).stdout
        assert all(f"-N {chain}" in shown for chain in ("DOCKER-USER", "DOCKER-ISOLATION-STAGE-1"))
        if first == "docker":
            restart(bed.agents[0])
        with running(bed, api) as subject:
            subject.all_open()
            with talking(subject, tmp_path / "pings"):
                engine.restart()
            subject.all_open()
            assert policy(host) == "-P FORWARD DROP"
            eventually(lambda: subject.errors() == [], "no error is left")
    finally:
        engine.stop()
        host.namespace.run(["iptables", "-w", "-P", "FORWARD", "ACCEPT"])
        host.namespace.run(["ip", "link", "del", "docker0"], check=False)


@pytest.fixture
def engines(bed_dirs: Iterator[Path], store_kind: str) -> Iterator[Bed]:
    """Run two hosts in mode docker, whose engines keep their firewall."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, 2, store=store_kind, engines=(*FILTERING, "--live-restore")).start()
    try:
        bed.netctl("net", "create", "--subnet=10.1.0.0/24", "--gateway=10.1.0.254", "net1")
        yield bed
    finally:
        bed.stop()


def test_containers_pass_the_rules_of_their_own_engines(engines: Bed) -> None:
    one, two = engines.engines
    assert [policy(host) for host in engines.hosts] == ["-P FORWARD DROP"] * 2
    for engine in (one, two):
        known = partial(engine.attempt, "network", "inspect", "net1")
        eventually(lambda: known().returncode == 0, "the network is docker's")  # noqa: B023 - now
    one.run("left", "net1")
    two.run("right", "net1")
    ways = [
        (one, "left", two.address("right", "net1")),
        (two, "right", one.address("left", "net1")),
        (one, "left", engines.fabric.address),
        (two, "right", engines.fabric.address),
    ]
    for restarted in (False, True):
        if restarted:
            for engine in (one, two):
                engine.restart()
        for engine, container, target in ways:
            eventually(partial(engine.pings, container, target), f"{container} to {target}")
    for host in engines.hosts:
        assert policy(host) == "-P FORWARD DROP"
        assert json.loads(engines.netctl("host", "inspect", host.label))["errors"] == []


@needs_firewalls
def test_pods_pass_beside_ufw(subject: HostAndPods, tmp_path: Path) -> None:
    ufw = Ufw(subject.host.namespace, tmp_path)
    for port in PORTS:  # before it filters: tunnels of the kernel's datapath are the host's own
        ufw.run("allow", port)
    with talking(subject, tmp_path / "enabled"), ufw.enabled():
        assert policy(subject.host) == "-P FORWARD DROP"
        assert policy(subject.host, "ip6tables") == "-P FORWARD DROP"
        subject.all_open()
        with talking(subject, tmp_path / "reloaded"):
            ufw.run("reload")
        subject.all_open()
        with talking(subject, tmp_path / "restarted"):
            ufw.run("disable")
            ufw.run("--force", "enable")
        restart(subject.agent)
        subject.all_open()
        eventually(lambda: subject.errors() == [], "no error is left")
    subject.all_open()


def remedies(subject: HostAndPods) -> list[list[str]]:
    """Return the commands that the host's fault about firewalld names, without the program."""
    (fault,) = {one for one in subject.errors() if FIREWALLD in one}
    _, _, commands = fault.partition("): ")
    return [command.split()[1:] for command in commands.split(" && ")]


@needs_firewalls
def test_firewalld_is_named_with_its_remedy_which_helps(
    subject: HostAndPods, tmp_path: Path
) -> None:
    firewalld = Firewalld(subject.host.namespace, tmp_path)
    dialled = subject.ways()["pod to outside"]
    with firewalld.running():
        assert not dialled(), "firewalld drops what the host forwards"
        eventually(lambda: subject.names(FIREWALLD, "--zone=trusted"), "the host says so")
        for words in remedies(subject):
            firewalld.command(*words)
        for port in PORTS:
            firewalld.command("--permanent", f"--add-port={port}")
        firewalld.command("--reload")
        eventually(lambda: not subject.names(FIREWALLD), "the fault is gone with its cause")
        subject.all_open()
        with talking(subject, tmp_path / "reloaded"):
            firewalld.command("--reload")
            firewalld.command("--complete-reload")
        subject.all_open()
        with talking(subject, tmp_path / "restarted"):
            firewalld.daemon.restart()
        restart(subject.agent)
        subject.all_open()
        assert not subject.names(FIREWALLD)
    subject.all_open()
