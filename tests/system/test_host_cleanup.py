"""`netplugin cleanup`: what an agent made on a host goes, what others made stays."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.waiting import WITHIN, eventually

pytestmark = [pytest.mark.system, pytest.mark.ovs]


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path]) -> Iterator["Untouched"]:
    """Run the whole system on one host, with a network of either encapsulation."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Untouched(directory, hosts=1)
    bed.start()
    try:
        bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
        bed.netctl("net", "create", "--subnet=10.21.0.0/16", "--encap=vlan", "--pkt-tag=9", "wire")
        bed.netctl("net", "create", "--subnet=10.22.0.0/16", "bare")
        bed.netctl("net", "create", "--subnet=10.23.0.0/16", "--nw-type=infra", "contivh1")
        yield bed
    finally:
        bed.stop()


def clean_up(bed: Bed, *more: str, run_dir: Path | None = None) -> tuple[int, str]:
    """Run the command on the first host; return its status and all it said."""
    (host,) = bed.hosts
    places = ["--ovsdb", f"unix:{host.ovs.db_socket}", "--data-dir", str(host.dir / "data")]
    places += ["--run-dir", str(run_dir or host.dir), "--cni-socket", str(bed.cni_socket(host))]
    command = [str(PROGRAMS / "netplugin"), "cleanup", *places, *more]
    done = host.namespace.run(command, check=False, timeout=WITHIN)
    return done.returncode, done.stdout + done.stderr


def footprint(host: Host) -> dict[str, Any]:
    """Return a host's links, addresses, routes, rules, and rows of Open vSwitch."""
    links = json.loads(host.namespace.run(["ip", "-json", "address"]).stdout)
    return {
        "links": {link["ifname"]: [a["local"] for a in link["addr_info"]] for link in links},
        **{
            " ".join(words): sorted(host.namespace.run(["ip", *words]).stdout.splitlines())
            for words in (
                ["-4", "route", "show", "table", "all"],
                ["-6", "route"],
                ["rule"],
                ["-6", "rule"],
            )
        },
        **{
            table: host.namespace.run(["iptables", "-w", "-t", table, "-S"]).stdout
            for table in ("filter", "nat", "mangle", "raw")
        },
        **{
            table: host.ovs.vsctl("--bare", "--columns=name", "list", table).split()
            for table in ("Bridge", "Port", "Interface")
        },
        "controllers": host.ovs.vsctl("--bare", "list", "Controller"),
    }


class Untouched(Bed):
    """A cluster that notes what its host is like before anything of ours has been started."""

    before: dict[str, Any]

    def _daemons(self) -> list[tuple[str, Daemon]]:
        (host,) = self.hosts
        foreign = ["POSTROUTING", "-s", "192.0.2.0/24", "-j", "MASQUERADE"]
        host.namespace.run(["iptables", "-w", "-t", "nat", "-A", *foreign])
        self.before = footprint(host)
        return super()._daemons()


def test_a_host_is_left_as_it_was(bed: Untouched) -> None:
    (host,), (agent,) = bed.hosts, bed.agents
    for network in ("default-net", "wire", "bare"):
        bed.add_pod(host, f"pod-{network}", network=network)
    peer = ["--router-ip=50.1.1.1/24", "--as=65002", "--neighbor=50.1.1.2", "--neighbor-as=500"]
    bed.netctl("bgp", "create", host.label, *peer)
    eventually(lambda: "inb01" in footprint(host)["links"], "the port for BGP is there")
    status, said = clean_up(bed)
    assert status != 0
    assert "stop netplugin first" in said
    agent.kill()
    status, said = clean_up(bed, "--dry-run")
    assert status == 0, said
    assert {line.split()[0] for line in said.splitlines()} == {
        *("bridge", "link", "namespace", "path", "routing", "rule")
    }
    assert "contivVlanBridge" in footprint(host)["Bridge"], "so far it was only said"
    assert clean_up(bed) == (0, said)
    assert footprint(host) == bed.before
    assert not (host.dir / "data" / "endpoints").exists()
    assert clean_up(bed) == (0, "nothing of contiv is on this host\n")
    for pod in list(bed.pods):
        pod.namespace.delete()
        bed.pods.remove(pod)
    agent.start()
    agent.kill()
    run_dir = host.dir / "purged"
    (run_dir / "within").mkdir(parents=True)
    (run_dir / "link").symlink_to(host.dir)
    (run_dir / "within" / "file").touch()
    status, said = clean_up(bed, "--purge", "--dry-run", run_dir=run_dir)
    assert status == 0, said
    assert f"path {run_dir / 'within'}\n" in said
    assert clean_up(bed, "--purge", run_dir=run_dir) == (0, said)
    for emptied in (run_dir, host.dir / "data"):
        assert list(emptied.iterdir()) == []
    assert footprint(host) == bed.before
