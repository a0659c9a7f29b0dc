"""What keeps pods from being added, or packets from passing, is an error of the host meanwhile."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.etcd import Etcd
from tests.bed.metrics import parsed
from tests.bed.netns import http_request
from tests.bed.waiting import eventually
from tests.system.host_health import faults, is_ready, is_well, readyz

pytestmark = [pytest.mark.system]


@pytest.fixture
def undo(bed: Bed) -> Iterator[ExitStack]:
    """Undo what a test broke, and see that no error and no host that is not ready is left."""
    with ExitStack() as undo:
        yield undo
    for host in range(2):
        eventually(partial(is_well, bed, host), "no errors any more, and ready")


def break_with(undo: ExitStack, bed: Bed, doing: list[str], undoing: list[str]) -> None:
    """Run a command in the second host's namespaces now, and another one at the end."""
    inside = ["nsenter", "-t", str(bed.agents[1].pid), "-n", "-m", "--"]
    bed.hosts[1].namespace.run([*inside, *doing])
    undo.callback(bed.hosts[1].namespace.run, [*inside, *undoing])


def test_what_is_wrong_with_the_host_and_its_store(bed: Bed, undo: ExitStack) -> None:
    data = str(bed.hosts[1].dir / "data")
    forward = "net.ipv4.ip_forward="
    break_with(undo, bed, ["mount", "-o", "bind,ro", data, data], ["umount", "-l", data])
    break_with(undo, bed, ["sysctl", "-qw", forward + "0"], ["sysctl", "-qw", forward + "1"])
    expected = [
        *("Read-only file system", "--data-dir"),
        *("net.ipv4.ip_forward is 0", "sysctl net.ipv4.ip_forward=1"),
    ]
    if isinstance(bed.store, Etcd):
        undo.callback(bed.store.alarm, "DEACTIVATE")
        bed.store.alarm("ACTIVATE")
        expected.append("etcdctl alarm disarm")

    def told() -> bool:
        found = faults(bed, 1)
        return all(text in found for text in expected)

    eventually(told, f"the host tells {expected}")
    status, text = readyz(bed, 1)
    assert status == 503
    assert "Read-only file system" in text
    assert "ip_forward" not in text, "pods can be added all the same"


@pytest.mark.parametrize("part", ["ovsdb-server", "ovs-vswitchd"])
def test_a_part_of_the_switch_that_hangs(bed: Bed, undo: ExitStack, part: str) -> None:
    # Only `/readyz` is asked: with ovs-vswitchd hangs the way of this host's reports.
    ovs = bed.hosts[1].ovs
    daemon = ovs.server if part == "ovsdb-server" else ovs.vswitchd
    daemon.pause()
    undo.callback(daemon.resume)

    def told() -> bool:
        status, text = readyz(bed, 1)
        return status == 503 and json.loads(text)["checks"].get(part, "ok") != "ok"

    eventually(told, f"{part} does not answer")


def test_masters_out_of_reach(bed: Bed, undo: ExitStack) -> None:
    rule = ["OUTPUT", "-p", "tcp", "--dport", "9999", "-j", "DROP"]
    break_with(undo, bed, ["iptables", "-I", *rule], ["iptables", "-D", *rule])
    eventually(lambda: "does not answer" in faults(bed, 1), "the host says so")
    eventually(lambda: not is_ready(bed, 1), "its agent is not ready")
    assert "netmaster answers" in readyz(bed, 1)[1]


def test_a_rule_that_refuses_all_comes_behind_the_agents_own(bed: Bed, undo: ExitStack) -> None:
    drop = ["FORWARD", "-j", "DROP"]
    break_with(undo, bed, ["iptables", "-I", *drop], ["iptables", "-D", *drop])

    def behind() -> bool:
        listed = bed.hosts[1].namespace.run(["iptables", "-S", "FORWARD"]).stdout.splitlines()
        marked = [number for number, line in enumerate(listed) if "contiv-forward" in line]
        return bool(marked) and max(marked) < listed.index("-A FORWARD -j DROP")

    eventually(behind, "pods' packets pass")


def test_a_loop_that_fails_is_an_error_of_the_host_and_counted(bed: Bed, undo: ExitStack) -> None:
    """Nftables gives another program the chain that iptables needs for the agent's rules."""
    host, name = bed.hosts[1].namespace, "rules for links of pods not in sync"
    metric = "contiv_netplugin_loop_failures_total"

    def failures() -> float:
        url = f"http://127.0.0.1:{AGENT_PORT}/metrics"
        return parsed(http_request(url, namespace=host)[1]).value(metric, loop=name)

    def is_told() -> bool:
        return name in faults(bed, 1)

    before = failures()
    undo.callback(host.run, ["nft", "delete table ip raw"])
    taken = "{ type filter hook prerouting priority 7; }"
    # in one transaction: the agent puts its chain back at once
    anew = "delete table ip raw; add table ip raw"
    host.run(["nft", f"{anew}; add chain ip raw PREROUTING {taken}"])
    eventually(is_told, "the host tells the loop")
    assert "chain PREROUTING" in faults(bed, 1)
    assert failures() > before
    status, text = readyz(bed, 1)
    assert status == 200, "pods can be added all the same"
    assert any(one.startswith(f"{name}: ") for one in json.loads(text)["faults"])
