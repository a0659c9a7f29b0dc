"""The bridges' OpenFlow sessions: unix sockets for the switch alone, or ports of loopback.

A change from one to the other, as by an upgrade, loses no flow and no packet.
"""

import socket
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.footprint import BRIDGES, flow_ages
from tests.system.planes import applied
from tests.system.watcher import both_ways, unbroken

pytestmark = [pytest.mark.system, pytest.mark.ovs]

PORTS = {"--vxlan-openflow-port": "6633", "--vlan-openflow-port": "6634"}
"""The original's ports, which agents before the unix sockets listened on too."""
NOBODY = 65534
STRANGER = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.settimeout(10)
print(connection.recv(8))
"""


@pytest.fixture(scope="module")
def pair(bed: Bed) -> tuple[Pod, Pod]:
    """Run a pod on either host."""
    near, far = (bed.add_pod(host, f"pod-{host.label}") for host in bed.hosts)
    eventually(lambda: near.ping(far.address), "the pods reach each other")
    return near, far


def sockets(host: Host) -> list[Path]:
    return [host.ovs.rundir / f"{bridge}.openflow" for bridge in BRIDGES]


def targets(host: Host) -> list[str]:
    return [host.ovs.vsctl("get-controller", bridge).strip() for bridge in BRIDGES]


def listening_ports(host: Host) -> set[str]:
    listed = host.namespace.run(["ss", "-Htln"]).stdout.splitlines()
    return {line.split()[3].rpartition(":")[2] for line in listed}


def test_only_the_switch_s_user_may_connect(bed: Bed, pair: tuple[Pod, Pod]) -> None:
    """The finding of docs/notes/trust.md §14."""
    host = bed.hosts[0]
    assert targets(host) == [f"unix:{path}" for path in sockets(host)]
    assert not listening_ports(host) & set(PORTS.values())
    for path in sockets(host):
        found = path.stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o600, 0)
    path = sockets(host)[0]
    path.chmod(0o666)
    try:
        done = host.namespace.run(
            [
                *("setpriv", f"--reuid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c"),
                STRANGER,
                str(path),
            ],
            check=False,
        )
    finally:
        path.chmod(0o600)
    # The agent ends the connection without a word: end of file, or a reset.
    assert done.stdout == "b''\n" or "ConnectionResetError" in done.stderr, done
    assert f"not the switch's user: {NOBODY}" in bed.agents[0].log_text()
    assert pair[0].loses_nothing_to(pair[1].address)


def test_the_sockets_of_a_killed_agent_are_replaced(bed: Bed) -> None:
    host, agent = bed.hosts[0], bed.agents[0]
    agent.kill()
    assert all(path.is_socket() for path in sockets(host))
    agent.start()
    applied(bed)


def test_an_agent_that_ends_removes_its_sockets(bed: Bed) -> None:
    host, agent = bed.hosts[0], bed.agents[0]
    agent.stop()
    assert not any(path.exists() for path in sockets(host))
    agent.start()
    applied(bed)


def test_a_change_to_ports_and_back_loses_no_flow(bed: Bed, pair: tuple[Pod, Pod]) -> None:
    host, agent = bed.hosts[0], bed.agents[0]
    usual = list(agent.command)
    before = flow_ages(host)
    with unbroken(both_ways(pair)) as watcher:
        agent.stop()
        agent.command += [word for pair in PORTS.items() for word in pair]
        try:
            agent.start()
            assert targets(host) == ["tcp:127.0.0.1:6633", "tcp:127.0.0.1:6634"]
            applied(bed)
            with host.namespace.call(
                lambda: socket.create_connection(("127.0.0.1", 6633), 5)
            ) as anyone:
                assert anyone.recv(1) == b"\x04"  # the hello of OpenFlow 1.3
            watcher.goes_on()
        finally:
            # Killed, as an upgrade may do it: the bridges still have the ports as controllers.
            agent.kill()
            agent.command[:] = usual
        agent.start()
        applied(bed)
        assert targets(host) == [f"unix:{path}" for path in sockets(host)]
        watcher.goes_on()
    after = flow_ages(host)
    assert after.keys() == before.keys()
    assert all(age >= before[flow] for flow, age in after.items()), "no flow was written anew"


def test_controllers_are_named_as_the_switch_names_its_run_directory(bed: Bed) -> None:
    # ovs-vswitchd compares paths as text, so a symbolic link to its directory would be refused.
    host, agent = bed.hosts[0], bed.agents[0]
    usual = list(agent.command)
    link = host.dir / "linked"
    link.symlink_to(host.ovs.rundir)
    agent.stop()
    agent.command[agent.command.index("--ovsdb") + 1] = f"unix:{link}/{host.ovs.db_socket.name}"
    try:
        agent.start()
        applied(bed)
        assert targets(host) == [f"unix:{path}" for path in sockets(host)]
    finally:
        agent.stop()
        agent.command[:] = usual
        agent.start()
    applied(bed)
