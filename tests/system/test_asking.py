"""What netmaster asks all hosts at once, on a cluster with TLS between its daemons."""

import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.kubernetes import ApiServer
from tests.bed.traffic import round_trip
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen

API_PORT = 6480
PASSWORD = "correct horse battery"
API_TOKEN = "an-api-token-that-nobody-may-see"
BGP_PASSWORD = "a-password-of-a-peer"

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


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
        assert round_trip(sender.namespace, receiver.address, count=3) is not None

        def counted() -> bool:
            here = stats(bed)["2"]["hosts"].get(second.label, {"packets": 0})
            return bool(here["packets"] >= 3)

        eventually(counted, "the switch has told of the packets")
        assert stats(bed)["1"] == {"packets": 0, "bytes": 0, "hosts": {}}
        assert stats(bed)["2"]["bytes"] >= 3 * 98

        bed.agents[0].kill()
        try:
            words = ["policy", "rule-ls", "--stats", "hits"]
            shown = bed.fabric.namespace.run(bed.netctl_command(*words))
            assert shown.stderr.startswith(f"no counters of {first.label}: ")
        finally:
            bed.agents[0].start()
    finally:
        for pod in list(bed.pods):
            bed.delete_pod(pod)
        bed.netctl("group", "rm", "counted")
        bed.netctl("policy", "rm", "hits")


def bundle(bed: Bed) -> dict[str, str]:
    """Return the files of a bundle, by their names below its directory."""
    words = [*bed.fabric.namespace.enter, *bed.netctl_command("diag", "-o", "-")]
    done = subprocess.run(words, check=True, capture_output=True, timeout=60)
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


def test_an_agent_that_does_not_answer_is_a_file_that_says_so(bed: Bed) -> None:
    second = bed.hosts[1]
    bed.agents[1].pause()
    try:
        files = bundle(bed)
    finally:
        bed.agents[1].resume()
    said = [name for name in files if name.startswith(f"hosts/{second.label}/")]
    assert said == [f"hosts/{second.label}/no-answer.txt"]
    assert second.label in files[said[0]]
