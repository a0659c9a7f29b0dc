"""Hosts as they are: without IPv6, with firewalls of their own, whose rules come and go.

A pod of the first host has a host port and is behind a service with a node port. What reaches it,
and what it reaches, must be so whatever the administrator did to the host. The interval of audits
is the default one, so that nothing is mended by it in time.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.bed.cluster import NO_AUDITS, Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.kubernetes import ApiServer
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import eventually
from tests.bed.without_ipv6 import PREFIX
from tests.system.echoes import answering, dials
from tests.system.host_ways import (
    HOST_PORT,
    NETWORK,
    SILENCE,
    TARGET,
    HostAndPods,
    dual_site,
    make_network,
    restart,
    running,
)
from tests.system.kube_site import api_flags

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.thorough]

LISTENER = 9009


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


@contextmanager
def switched(host: Host, name: str, off: str) -> Iterator[None]:
    """Set a switch of the host's kernel, and set it back."""
    before = host.namespace.run(["sysctl", "-n", name]).stdout.strip()
    host.namespace.run(["sysctl", "-q", "-w", f"{name}={off}"])
    try:
        yield
    finally:
        host.namespace.run(["sysctl", "-q", "-w", f"{name}={before}"])


def test_a_host_without_ipv6_has_ipv4_and_says_what_it_lacks(bed: Bed, api: ApiServer) -> None:
    one = bed.hosts[0]
    with ExitStack() as stack:
        for which in ("all", "default"):
            stack.enter_context(switched(one, f"net.ipv6.conf.{which}.disable_ipv6", "1"))
        restart(bed.agents[0])
        subject = stack.enter_context(running(bed, api))
        subject.all_open()
        eventually(lambda: subject.names("IPv6", "contivh0"), "the host says that it has no IPv6")
    eventually(lambda: not subject.names("IPv6"), "the fault is gone with its cause")


def test_a_kernel_without_ipv6_serves_ipv4(bed: Bed, api: ApiServer) -> None:
    """IPv6 is an error of the host only while a network has it."""
    agent = bed.agents[0]
    with ExitStack() as stack:
        for which in ("all", "default"):
            off = f"net.ipv6.conf.{which}.disable_ipv6"
            stack.enter_context(switched(bed.hosts[0], off, "1"))
        agent.command[:0] = PREFIX
        stack.callback(restart, agent)
        stack.callback(agent.command.__delitem__, slice(len(PREFIX)))
        restart(agent)
        with running(bed, api) as subject:
            subject.all_open()
            eventually(lambda: subject.names("IPv6", "contivh0"), "the host says what it lacks")
            flush_ruleset(subject.host)
            subject.all_open()
        bed.netctl("net", "rm", NETWORK)
        eventually(lambda: not subject.errors(), "nothing needs it")
        make_network(bed)


@contextmanager
def path_without(agent: Daemon, directory: Path, *absent: str) -> Iterator[None]:
    """Start the agent with programs out of its reach; give them back at the end."""
    directory.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        for program in Path(folder).glob("*"):
            link = directory / program.name
            if not program.name.startswith(absent):
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    agent.command[:0] = ["env", f"PATH={directory}"]
    try:
        restart(agent)
        yield
    finally:
        del agent.command[:2]
        restart(agent)


@pytest.mark.parametrize("broken", [False, True], ids=["absent", "broken"])
def test_a_host_without_ip6tables_has_ipv4_and_says_what_it_lacks(
    bed: Bed, api: ApiServer, tmp_path: Path, broken: bool
) -> None:
    programs = tmp_path / "bin"
    with path_without(bed.agents[0], programs, "ip6tables", "nft"):
        if broken:
            for name in ("ip6tables", "ip6tables-restore"):
                program = programs / name
                program.write_text(f"#!{shutil.which('sh')}\necho no ip6_tables here >&2\nexit 3\n")
                program.chmod(0o755)
        with running(bed, api) as subject:
            subject.all_open()
            eventually(lambda: subject.names("IPv6", "ip6tables"), "the host says what it lacks")
    eventually(lambda: not subject.names("IPv6"), "the fault is gone with its cause")


TABLES = ("raw", "mangle", "nat", "filter")


def rules(host: Host) -> list[str]:
    """Return the agent's rules and chains on a host, of both families."""
    saved = [
        line
        for program in ("iptables-save", "ip6tables-save")
        for line in host.namespace.run([program]).stdout.splitlines()
    ]
    return sorted(line.partition(" [")[0] for line in saved if "contiv" in line.lower())


def flush_tables(host: Host) -> None:
    for program in ("iptables", "ip6tables"):
        for table in TABLES:
            for action in ("-F", "-X"):
                # a chain that the agent has set again meanwhile is in use
                host.namespace.run([program, "-w", "-t", table, action], check=action == "-F")


def flush_ruleset(host: Host) -> None:
    host.namespace.run(["nft", "flush", "ruleset"])


def flush_mangle(host: Host) -> None:
    host.namespace.run(["iptables", "-w", "-t", "mangle", "-F", "FORWARD"])


@pytest.mark.parametrize("flush", [flush_tables, flush_ruleset, flush_mangle])
def test_what_somebody_flushes_is_back_at_once(
    subject: HostAndPods, flush: Callable[[Host], None]
) -> None:
    before = {*rules(subject.host)}
    assert any("contivh0" in rule for rule in before)
    flush(subject.host)
    eventually(lambda: before <= {*rules(subject.host)}, "the rules are back")
    subject.all_open()


class Neighbour:
    """A machine beside the hosts that sends to a host's loopback addresses."""

    def __init__(self, bed: Bed, host: Host) -> None:
        self.namespace = Namespace(fresh_name("beside"))
        self._bed, self._host = bed, host

    def __enter__(self) -> "Neighbour":
        self.namespace.create()
        self._bed.fabric.join(self.namespace, "ubeside")
        run = self.namespace.run
        run(["ip", "address", "add", "192.168.77.99/24", "dev", "eth0"])
        # a route of its own to the address, before that of the loopback
        run(["ip", "address", "del", "127.0.0.1/8", "dev", "lo"])
        run(["sysctl", "-q", "-w", "net.ipv4.conf.all.route_localnet=1"])
        run(["ip", "route", "add", "127.0.0.5/32", "via", self._host.address])
        return self

    def __exit__(self, *_: object) -> None:
        self.namespace.delete()

    def gets_in(self) -> bool:
        """Say whether the host's loopback answers."""
        return dials(self.namespace, "127.0.0.5", LISTENER, 0.2)


def test_loopback_is_closed_while_rules_are_gone(subject: HostAndPods) -> None:
    """All links routed it once, and a flush let the host's neighbours in (CVE-2020-8558)."""
    host = subject.host.namespace
    with (
        answering(host, "127.0.0.5", LISTENER) as callers,
        Neighbour(subject.bed, subject.host) as beside,
    ):
        assert dials(host, "127.0.0.5", LISTENER), "the listener answers its host"
        for _ in range(3):
            flush_tables(subject.host)
            assert not beside.gets_in()
        subject.agent.pause()
        try:
            flush_ruleset(subject.host)
            assert not beside.gets_in(), "nobody is there to set rules again"
        finally:
            subject.agent.resume()
        assert callers == ["127.0.0.1"], "only its host"
    subject.all_open()


def test_what_an_earlier_release_left_open_is_closed(bed: Bed, api: ApiServer) -> None:
    with switched(bed.hosts[0], "net.ipv4.conf.all.route_localnet", "1"):
        restart(bed.agents[0])
        with running(bed, api) as subject:
            subject.all_open()
            shown = ["sysctl", "-n", "net.ipv4.conf.all.route_localnet"]
            assert subject.host.namespace.run(shown).stdout.strip() == "0"


@contextmanager
def dropping(bed: Bed, *rejecting: str) -> Iterator[None]:
    """Have the hosts drop what they forward, as docker and ufw do, or by a last rule."""
    for host in bed.hosts:
        if rejecting:
            host.namespace.run(["iptables", "-w", "-A", "FORWARD", *rejecting])
        else:
            host.namespace.run(["iptables", "-w", "-P", "FORWARD", "DROP"])
    try:
        yield
    finally:
        for host in bed.hosts:
            host.namespace.run(["iptables", "-w", "-P", "FORWARD", "ACCEPT"])
            if rejecting:
                host.namespace.run(["iptables", "-w", "-D", "FORWARD", *rejecting], check=False)


def test_pods_pass_a_host_that_forwards_nothing_by_itself(subject: HostAndPods) -> None:
    with dropping(subject.bed):
        subject.all_open()


def test_pods_pass_before_a_rule_that_rejects_the_rest(bed: Bed, api: ApiServer) -> None:
    """It is there before the agent: the distribution's default, for one."""
    with dropping(bed, "-j", "REJECT", "--reject-with", "icmp-host-prohibited"):
        for agent in bed.agents:
            restart(agent)
        with running(bed, api) as subject:
            subject.all_open()


def test_what_the_administrator_forbids_stays_forbidden(subject: HostAndPods) -> None:
    """A rule against pods counts, wherever it is, and so does what the agent itself refuses."""
    host, outside = subject.host, subject.bed.fabric.namespace
    forbidden = ["-o", "contivh0", "-p", "tcp", "--dport", str(TARGET), "-j", "DROP"]
    host.namespace.run(["iptables", "-w", "-I", "FORWARD", *forbidden])
    try:
        assert not dials(outside, host.address, HOST_PORT, SILENCE)
    finally:
        host.namespace.run(["iptables", "-w", "-D", "FORWARD", *forbidden])
    assert dials(outside, host.address, HOST_PORT, SILENCE)
    outside.run(["ip", "route", "add", f"{subject.pod.address}/32", "via", host.address])
    try:
        assert not dials(outside, subject.pod.address, TARGET, SILENCE), "past policies"
    finally:
        outside.run(["ip", "route", "del", f"{subject.pod.address}/32", "via", host.address])


def test_a_firewall_in_a_table_of_its_own_is_an_error_of_the_host(subject: HostAndPods) -> None:
    host = subject.host.namespace
    host.run(["nft", "add", "table", "inet", "firewalld"])
    hooked = "{ type filter hook forward priority 10 ; policy drop ; }"
    try:
        host.run(["nft", f"add chain inet firewalld filter_FORWARD {hooked}"])
        flush_mangle(subject.host)  # the agent looks at the firewall again
        eventually(lambda: subject.names("firewalld", "--zone=trusted"), "the host names it")
    finally:
        host.run(["nft", "delete", "table", "inet", "firewalld"])
    eventually(lambda: not subject.names("firewalld"), "the fault is gone with its cause")


def own_table(host: Host, family: str) -> str:
    """Return the agent's table of nftables, without what it says of itself."""
    listed = host.namespace.run(["nft", "list", "table", family, "contiv"], check=False).stdout
    return listed.partition("contiv-words")[0]


def test_a_host_without_iptables_has_its_rules_in_nftables(
    bed: Bed, api: ApiServer, tmp_path: Path
) -> None:
    host, agent = bed.hosts[0], bed.agents[0]
    agent.stop()
    flush_ruleset(host)  # what this host had while it had iptables
    with dropping(bed), path_without(agent, tmp_path / "bin", "iptables", "ip6tables", "xtables"):
        # there is none of iptables' chains that drops
        host.namespace.run(["iptables", "-w", "-P", "FORWARD", "ACCEPT"])
        with running(bed, api) as subject:
            subject.all_open()
            assert not any("contiv" in rule for rule in rules(host))
            before = [own_table(host, family).splitlines() for family in ("ip", "ip6")]
            assert all(before)
            restart(agent)
            after = [own_table(host, family).splitlines() for family in ("ip", "ip6")]
            others = [
                line
                for was, now in zip(before, after, strict=True)
                for line in unified_diff(was, now, lineterm="", n=0)
            ]
            assert others == [], "no rule is another"
            subject.all_open()
            flush_ruleset(host)
            eventually(lambda: own_table(host, "ip"), "the rules are back")
            subject.all_open()
        agent.stop()
        host.namespace.run(["nft", "delete", "table", "ip", "contiv"])
        host.namespace.run(["nft", "delete", "table", "ip6", "contiv"])
        agent.start()
    host.namespace.run(["nft", "delete", "table", "ip", "contiv"], check=False)
    host.namespace.run(["nft", "delete", "table", "ip6", "contiv"], check=False)
