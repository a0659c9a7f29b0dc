"""A purge of `netplugin.bridges.megaflow_purge` and the revalidators of a real ovs-vswitchd."""

import asyncio
import socket
from itertools import cycle

import pytest

from netplugin.bridges.megaflow_purge import PURGE
from netplugin.ovsdb.control_socket import ControlSocket, rundir_of
from tests.bed.ovs import OvsHost
from tests.bed.waiting import eventually, repeating

pytestmark = pytest.mark.ovs

BRIDGE, ADDRESS, NEIGHBOUR = "purged", "192.0.2.1", "192.0.2.2"
PORTS = range(1000, 1500)
"""Each has a flow, and so a megaflow of its own: a round of the revalidators takes a while."""
PURGES = 400


@pytest.fixture
def switch(ovs_module: OvsHost) -> OvsHost:
    """Give a switch with a bridge, into which the host can send to `NEIGHBOUR`."""
    bridge = ("--", "set", "bridge", BRIDGE, "datapath_type=netdev")
    ovs_module.vsctl("add-br", BRIDGE, *bridge)
    for words in (
        ("address", "add", f"{ADDRESS}/24", "dev", BRIDGE),
        ("link", "set", BRIDGE, "up"),
        ("neigh", "add", NEIGHBOUR, "lladdr", "02:00:00:00:00:02", "dev", BRIDGE),
    ):
        ovs_module.namespace.run(["ip", *words])
    flows = ovs_module.rundir / "flows"
    flows.write_text("".join(f"udp,tp_dst={port},actions=in_port\n" for port in PORTS))
    ovs_module.ofctl("add-flows", BRIDGE, str(flows))
    return ovs_module


async def test_no_revalidator_works_during_a_purge(switch: OvsHost) -> None:
    """`revalidator/purge` fails here: a race in which a change may be written to a new megaflow."""
    control = ControlSocket(rundir_of(f"unix:{switch.db_socket}"))
    actions = cycle(("drop", "in_port"))

    def change() -> None:
        switch.ofctl("mod-flows", BRIDGE, f"udp,tp_dst={PORTS[0]},actions={next(actions)}")

    with switch.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender:

        def send() -> None:
            for port in PORTS:
                sender.sendto(b"x", (NEIGHBOUR, port))

        with repeating(send, 0.02), repeating(change, 0.0):
            eventually(lambda: _megaflows(switch) > len(PORTS) / 2, "there is something to purge")
            for _ in range(PURGES):
                await control.call(PURGE)
                await asyncio.sleep(0.005)
    logged = (switch.rundir / "ovs-vswitchd.log").read_text().splitlines()
    assert [line for line in logged if "failed to" in line and "revalidator" in line] == []


def _megaflows(switch: OvsHost) -> int:
    shown = switch.appctl("upcall/show")
    return int(shown.partition("(current ")[2].partition(")")[0])
