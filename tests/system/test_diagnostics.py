"""What netmaster asks all hosts at once, on a cluster with TLS between its daemons."""

import io
import json
import re
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from ofnet.world import Bridge
from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.hosts import FABRIC_ADDRESS, Host
from tests.bed.kubernetes import ApiServer
from tests.bed.waiting import WITHIN, eventually
from tests.system.conftest import unforeseen
from tests.system.planes import applied

API_PORT = 6480
PASSWORD = "correct horse battery"
API_TOKEN = "an-api-token-that-nobody-may-see"
BGP_PASSWORD = "a-password-of-a-peer"

pytestmark = [pytest.mark.system]


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path], store_kind: str) -> Iterator[Bed]:
    """Run two hosts with a network `default-net` (10.20.0.0/16)."""
    directory = next(bed_dirs)
    directory.mkdir()
    kubernetes, peers = directory / "contiv.json", directory / "peers"
    server = f"http://{FABRIC_ADDRESS}:{API_PORT}"
    kubernetes.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": API_TOKEN}))
    peers.write_text(f"192.0.2.9 {BGP_PASSWORD}\n")
    peers.chmod(0o600)
    flags = ["--bgp-password-file", str(peers), "--k8s-config", str(kubernetes)]
    bed = Bed(directory, 2, store=store_kind, secure=True, flags={"netplugin": flags})
    with ExitStack() as stack:
        bed.start()
        stack.callback(bed.stop)
        namespace = bed.fabric.namespace
        bed.api = stack.enter_context(ApiServer(bed.fabric.address, API_PORT, namespace=namespace))
        bed.api.token = API_TOKEN
        bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
        yield bed
        assert unforeseen(bed) == []


def outcomes_of(bed: Bed) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code of a self-test, and the checks of each host."""
    done = bed.fabric.namespace.run(bed.netctl_command("selftest", "-j"), check=False)
    return done.returncode, {one["host"]: one["checks"] for one in json.loads(done.stdout)["hosts"]}


def stats(bed: Bed) -> dict[str, Any]:
    """Return what `rule-ls --stats` shows, by the rules' ids."""
    shown = json.loads(bed.netctl("policy", "rule-ls", "--stats", "-j", "hits"))
    return {one["ruleId"]: one["stats"] for one in shown}


def test_packets_count_for_the_rules_they_match_on_the_hosts_they_cross(bed: Bed) -> None:
    bed.netctl("policy", "create", "hits")
    for number, action, protocol in (("1", "deny", "udp"), ("2", "allow", "icmp")):
        words = ["-j", action, "-l", protocol, "-d", "in", "-p", f"{number}0"]
        bed.netctl("policy", "rule-add", "hits", number, *words)
    bed.netctl("group", "create", "default-net", "counted", "-policy", "hits")
    try:
        first, second = bed.hosts
        sender = bed.add_pod(first, "s")
        receiver = bed.add_pod(second, "r", group="counted")
        eventually(lambda: sender.ping(receiver.address), "the pods reach each other")
        assert sender.loses_nothing_to(receiver.address, count=3)

        def counted() -> bool:
            here = stats(bed)["2"]["hosts"].get(second.label, {"packets": 0})
            return bool(here["packets"] >= 3)

        eventually(counted, "the switch has told of the packets")
        assert stats(bed)["1"] == {"packets": 0, "bytes": 0, "hosts": {}}
        assert stats(bed)["2"]["bytes"] >= 3 * 98
    finally:
        for pod in list(bed.pods):
            bed.delete_pod(pod)
        bed.netctl("group", "rm", "counted")
        bed.netctl("policy", "rm", "hits")


Flows = dict[tuple[str, str], str]


def flows(host: Host) -> Flows:
    """Return the cookies of the flows in a host's switches, by bridge and table with match."""
    found: Flows = {}
    for bridge in Bridge:
        for line in host.ovs.ofctl("dump-flows", "--no-stats", bridge).splitlines():
            cookie, _, rest = line.strip().partition(", ")
            if cookie.startswith("cookie="):
                found[bridge, rest.partition(" actions=")[0]] = cookie
    return found


def shift(before: Flows, after: Flows) -> dict[str, int]:
    """Return how many flows a host's switches gained, lost, and have with other contents."""
    return {
        "added": len(after.keys() - before.keys()),
        "removed": len(before.keys() - after.keys()),
        "replaced": sum(before[key] != after[key] for key in before.keys() & after.keys()),
    }


def told_flows(text: str) -> dict[str, dict[str, int]]:
    """Return what `--what-if` says of flows, by host."""
    pattern = r"^  host (\S+): (\d+) added, (\d+) removed, (\d+) replaced$"
    assert "No figures" not in text
    return {
        host: dict(zip(("added", "removed", "replaced"), map(int, counts), strict=True))
        for host, *counts in re.findall(pattern, text, re.MULTILINE)
    }


def test_a_dry_run_names_the_flows(bed: Bed) -> None:
    """Each change is tried, then made; the switches gain and lose what its dry run said."""
    bed.netctl("policy", "create", "tried")
    bed.netctl("group", "create", "default-net", "tried")
    bed.netctl("group", "create", "default-net", "other")
    pods = [bed.add_pod(host, f"w{host.label}", group="tried") for host in bed.hosts]
    changes = {
        "rule without group": ["policy", "rule-add", "tried", "1", "-j", "deny", "-d", "in"],
        "policy attached": ["group", "create", "default-net", "tried", "-policy", "tried"],
        "rule added": ["policy", "rule-add", "tried", "2", "-l", "tcp", "-d", "in", "-g", "other"],
        "rule removed": ["policy", "rule-rm", "tried", "1"],
        "group removed": ["group", "rm", "other"],
        "network added": ["net", "create", "--subnet=10.21.0.0/16", "tried-net"],
        "network removed": ["net", "rm", "tried-net"],
    }
    try:
        for change, words in changes.items():
            applied(bed)
            told = told_flows(bed.netctl(*words, "--what-if"))
            before = {host.label: flows(host) for host in bed.hosts}
            bed.netctl(*words)
            applied(bed)
            found = {host.label: shift(before[host.label], flows(host)) for host in bed.hosts}
            assert told == {host: one for host, one in found.items() if any(one.values())}, change
            assert bool(told) == (change != "rule without group"), change
    finally:
        for pod in pods:
            bed.delete_pod(pod)
        for kind, name in (("group", "tried"), ("policy", "tried")):
            bed.netctl(kind, "rm", name, check=False)


def bundle(bed: Bed) -> dict[str, str]:
    """Return the files of a bundle, by their names below its directory."""
    words = [*bed.fabric.namespace.enter, *bed.netctl_command("diag", "-o", "-")]
    done = subprocess.run(words, check=True, capture_output=True, timeout=WITHIN)
    assert len(done.stdout) < 8 << 20
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        files = {one.name: tar.extractfile(one) for one in tar.getmembers()}
        return {
            name.removeprefix("contiv-diagnosis/"): file.read().decode()
            for name, file in files.items()
            if file is not None
        }


def secrets(bed: Bed) -> dict[str, str]:
    """Return texts that no bundle may have: lines of all keys, passwords and tokens."""
    assert bed.identities is not None
    found = {"password": PASSWORD, "api": API_TOKEN, "bgp": BGP_PASSWORD}
    for key in bed.identities.directory.glob("**/*key.pem"):
        lines = key.read_text().splitlines()
        found[str(key)] = max((line for line in lines if "-----" not in line), key=len)
    assert len(found) > 5
    return found


def test_a_bundle_has_all_daemons_and_no_secret(bed: Bed) -> None:
    namespace, (first, second) = bed.fabric.namespace, bed.hosts
    user = ["set-user", "--name", "joe", "--role", "admin", *bed.store_flags()]
    subprocess.run(
        [*namespace.enter, str(PROGRAMS / "netmaster"), *user],
        input=f"{PASSWORD}\n",
        check=True,
        capture_output=True,
        text=True,
    )
    pod = bed.add_pod(first, "d")
    try:
        files = bundle(bed)
        everything = "\n".join(files.values())
        assert [name for name, text in secrets(bed).items() if text in everything] == []
        assert "PRIVATE KEY" not in everything
        (master,) = {name.split("/")[1] for name in files if name.startswith("masters/")}
        for name in ("settings.json", "health.json", "metrics.txt", "log.txt", "store.json"):
            assert files[f"masters/{master}/{name}"], name
        assert json.loads(files[f"masters/{master}/store.json"])["/contiv.io/state/eps/"] == 1
        for host in (first, second):
            at = f"hosts/{host.label}"
            assert json.loads(files[f"{at}/settings.json"])["host"] == host.label
            assert "contivVxlanBridge" in json.loads(files[f"{at}/ovsdb.json"])
            flows = files[f"{at}/flows-contivVxlanBridge.txt"]
            wanted, held = re.findall(r"^(?:wanted|in the switch): (\d+)$", flows, re.MULTILINE)
            assert int(wanted) == int(held) > 0
            assert host.address in files[f"{at}/links.json"]
        assert pod.address in files[f"hosts/{first.label}/inspect.json"]
    finally:
        bed.delete_pod(pod)


def captured(stream: bytes) -> list[bytes]:
    """Return the packets of a file in pcap format."""
    assert stream[:4] == bytes.fromhex("4d3cb2a1")
    packets, at = [], 24
    while at < len(stream):
        length = int.from_bytes(stream[at + 8 : at + 12], "little")
        packets.append(stream[at + 16 : at + 16 + length])
        at += 16 + length
    return packets


def test_packets_of_an_endpoint_come_to_the_client_and_who_asked_is_logged(bed: Bed) -> None:
    first, second = bed.hosts
    one, two = bed.add_pod(first, "one"), bed.add_pod(second, "two")
    try:
        eventually(lambda: one.ping(two.address), "the pods reach each other")
        (found,) = json.loads(bed.netctl("endpoint", "ls", "-j", "--address", two.address))
        name = found["endpointID"]
        words = bed.netctl_command("capture", name, "-s", "20", "-c", "4", "-f", "icmp")
        capture = subprocess.Popen(
            [*bed.fabric.namespace.enter, *words], stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            eventually(lambda: "capture began" in bed.netmaster.log_text(), "it began")
            pinging = one.namespace.popen(["ping", "-q", "-i", "0.2", two.address])
            try:
                out, _ = capture.communicate(timeout=WITHIN)
            finally:
                pinging.kill()
                pinging.wait()
        finally:
            capture.kill()
            capture.wait()
        packets = captured(out)
        assert len(packets) == 4
        ends = {socket.inet_ntoa(one[26:30]) for one in packets}
        assert ends == {one.address, two.address}
        line = next(x for x in bed.netmaster.log_text().splitlines() if "capture began" in x)
        assert all(part in line for part in ("user=admin", "role=admin", f"host={second.label}"))
        words = bed.netctl_command("capture", name, "-f", "nonsense")
        refused = bed.fabric.namespace.run(words, check=False)
        assert "nonsense is not known" in refused.stderr
    finally:
        bed.delete_pod(one)
        bed.delete_pod(two)


def failures(hosts: dict[str, dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return host, kind of check, and what failed."""
    return {
        (host, kind, name)
        for host, checks in hosts.items()
        for kind, check in checks.items()
        for name in check["failed"]
    }


def test_a_self_test_names_the_way_that_is_broken(bed: Bed) -> None:
    first, second = (host.label for host in bed.hosts)
    eventually(lambda: outcomes_of(bed)[0] == 0, "all is well")
    _, hosts = outcomes_of(bed)
    assert {host: checks["tunnels"]["passed"] for host, checks in hosts.items()} == {
        first: 1,
        second: 1,
    }
    deny = ["INPUT", "-p", "icmp", "-m", "length", "--length", "1000:65535", "-j", "DROP"]
    namespace = bed.hosts[1].namespace
    namespace.run(["iptables", "-I", *deny])
    try:
        code, hosts = outcomes_of(bed)
    finally:
        namespace.run(["iptables", "-D", *deny])
    # Both ends' long packets, or the answers to them, are dropped.
    assert (code, failures(hosts)) == (1, {(first, "tunnels", second), (second, "tunnels", first)})
    assert "short ones do" in hosts[first]["tunnels"]["failed"][second]


def test_an_agent_that_does_not_answer_is_named(bed: Bed) -> None:
    lost = bed.hosts[0].label
    bed.agents[0].kill()
    try:
        files = bundle(bed)
        said = {name: text for name, text in files.items() if name.startswith(f"hosts/{lost}/")}
        assert list(said) == [f"hosts/{lost}/no-answer.txt"]
        assert lost in said[f"hosts/{lost}/no-answer.txt"]
        shown = bed.fabric.namespace.run(bed.netctl_command("policy", "kube-stats"))
        assert shown.stderr.startswith(f"no counters of {lost}: ")
        code, hosts = outcomes_of(bed)
        assert code == 1
        assert (lost, "agent", "answer") in failures(hosts)
    finally:
        bed.agents[0].start()


def test_connections_that_a_policy_of_kubernetes_judges_count_for_its_rule(bed: Bed) -> None:
    """Open vSwitch counts a conjunction at the flow of its verdict."""
    first, second = bed.hosts
    assert bed.api is not None
    one, two = bed.add_pod(first, "one"), bed.add_pod(second, "two")
    everybody: dict[str, Any] = {"podSelector": {}}
    spec = {**everybody, "policyTypes": ["Ingress"], "ingress": [{"from": [everybody]}]}
    bed.api.put(NETWORK_POLICIES, "default", "mine", spec=spec)
    try:

        def counted() -> bool:
            one.ping(two.address)
            found = json.loads(bed.netctl("policy", "kube-stats", "-j"))
            of_rule = [rule for rule in found if rule["rule"].endswith(" default/mine/ingress/0")]
            return any(rule["verdict"] == "allow" and rule["packets"] > 0 for rule in of_rule)

        eventually(counted, "the rule has a number")
        told = json.loads(bed.netctl("policy", "kube-rules", "--pod=two", "-j"))
        assert [(one["rule"], one["action"], one["pods"]) for one in told["items"]] == [
            ("everything from all pods of namespace default", "allow", ["default/two"]),
            ("nothing else", "deny", ["default/two"]),
        ]
        assert told["items"][0]["packets"] > 0
    finally:
        bed.api.delete(NETWORK_POLICIES, "default", "mine")
        bed.delete_pod(one)
        bed.delete_pod(two)
