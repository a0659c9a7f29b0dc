"""Mesos' plugin on real hosts: labels say the network, addresses end, and nothing is left.

The steps are those of the original's system test of Mesos (docs/original/mesos-plugin.md): each
combination of labels, and a network whose addresses run out.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from netplugin.mesos.namespace_links import DIRECTORY
from netplugin.mesos.server import SOCKET
from tests.bed.cluster import Bed
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Sandbox, new_sandbox
from tests.bed.traffic import round_trip
from tests.bed.waiting import WITHIN, eventually
from tests.system.footprint import eventually_same, footprint

pytestmark = [pytest.mark.system]

PLUGIN = Path(__file__).parents[2] / "contivk8s" / "netcontiv.py"
COMBINATIONS: tuple[Mapping[str, str], ...] = (
    {},
    {"io.contiv.tenant": "ten1", "io.contiv.network": "net1"},
    {"io.contiv.tenant": "ten1", "io.contiv.network": "net1", "io.contiv.net-group": "web"},
    {"io.contiv.network": "default-net"},
    {"io.contiv.tenant": "default"},
    {"io.contiv.tenant": "default", "io.contiv.network": "default-net"},
    {"io.contiv.network": "default-net", "io.contiv.net-group": "front"},
)


class Outcome(NamedTuple):
    """The exit status of the plugin, and what it printed."""

    status: int
    said: dict[str, Any]


class Containers:
    """Containers of Mesos on the first host; `folder` is where Mesos writes about them."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.host = bed.hosts[0]
        self.folder = folder
        self.made: list[Sandbox] = []

    def new(self, labels: Mapping[str, str]) -> Sandbox:
        """Make a container's namespace, and the labels beside it as Mesos' isolator does."""
        sandbox = new_sandbox("m", Namespace(fresh_name("m")))
        self.made.append(sandbox)
        folder = self.folder / sandbox.container_id
        (folder / "netcontiv").mkdir(parents=True)
        (folder / "ns").symlink_to(sandbox.namespace.path)
        listed = [{"key": key, "value": value} for key, value in labels.items()]
        info = {"network_info": {"labels": {"labels": listed}}}
        config = {"name": "contiv", "args": {"org.apache.mesos": info}}
        (folder / "netcontiv" / "network.conf").write_text(json.dumps(config))
        return sandbox

    def call(self, command: str, sandbox: Sandbox) -> Outcome:
        """Run the plugin as Mesos does."""
        done = subprocess.run(
            [*self.host.namespace.enter, str(PLUGIN)],
            env={
                "PATH": os.environ["PATH"],
                "CNI_COMMAND": command,
                "CNI_CONTAINERID": sandbox.container_id,
                "CNI_NETNS": str(self.folder / sandbox.container_id / "ns"),
                "CNI_IFNAME": "eth0",
                "CONTIV_MESOS_SOCKET": str(self.host.dir / SOCKET),
                "CONTIV_MESOS_LOG": str(self.folder / "netcontiv.log"),
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=WITHIN,
        )
        return Outcome(done.returncode, json.loads(done.stdout) if done.stdout.strip() else {})

    def end(self) -> None:
        """Disconnect all containers and remove their namespaces."""
        for sandbox in self.made:
            assert self.call("DEL", sandbox) == (0, {})
            sandbox.namespace.delete()
        self.made.clear()


@pytest.fixture
def containers(bed: Bed, tmp_path: Path) -> Iterator[Containers]:
    """Give containers that are gone at the end, with all that they had."""
    before = footprint(bed)
    containers = Containers(bed, tmp_path)
    yield containers
    containers.end()
    eventually_same(bed, before)


@pytest.fixture(scope="module")
def place(bed: Bed) -> None:
    """Make the networks and groups that labels name; net1 has two addresses for containers."""
    bed.netctl("tenant", "create", "ten1")
    bed.netctl("net", "create", "-t", "ten1", "--subnet=10.36.3.0/30", "net1")
    bed.netctl("group", "create", "-t", "ten1", "net1", "web")
    bed.netctl("group", "create", "default-net", "front")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("labels", COMBINATIONS)
def test_labels_say_where_a_container_belongs(
    containers: Containers, labels: Mapping[str, str]
) -> None:
    sandbox = containers.new(labels)
    status, said = containers.call("ADD", sandbox)
    assert status == 0
    subnet = "10.36.3." if labels.get("io.contiv.tenant") == "ten1" else "10.20."
    address = said["ip4"]["ip"]
    assert address.startswith(subnet)
    shown = sandbox.namespace.run(["ip", "-br", "address", "show", "eth0"]).stdout
    assert address in shown
    link = DIRECTORY / sandbox.container_id
    assert link.readlink() == containers.folder / sandbox.container_id / "ns"
    assert containers.call("ADD", sandbox) == (0, said), "a repeated call is answered alike"
    assert containers.call("DEL", sandbox) == (0, {})
    assert not link.is_symlink()
    shown = sandbox.namespace.run(["ip", "-br", "link"]).stdout
    assert "eth0" not in shown


@pytest.mark.usefixtures("place")
def test_a_network_without_addresses_refuses(containers: Containers) -> None:
    labels = {"io.contiv.tenant": "ten1", "io.contiv.network": "net1"}
    for _ in range(2):
        assert containers.call("ADD", containers.new(labels)).status == 0
    third = containers.new(labels)
    status, said = containers.call("ADD", third)
    assert (status, said["code"], said["cniVersion"]) == (2, 2, "0.2")
    assert said["msg"].startswith("Contiv: ")
    assert not (DIRECTORY / third.container_id).is_symlink()


def test_containers_and_pods_reach_each_other(bed: Bed, containers: Containers) -> None:
    sandbox = containers.new({})
    assert containers.call("ADD", sandbox).status == 0
    pod = bed.add_pod(bed.hosts[1], "pod")
    eventually(lambda: round_trip(sandbox.namespace, pod.address), "the container reaches the pod")
    bed.delete_pod(pod)
