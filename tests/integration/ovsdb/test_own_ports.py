"""The port that has a bridge's name, on either datapath: Open vSwitch has nothing to say of it."""

import re
from collections.abc import AsyncIterator

import pytest

from core.ids import HostLabel
from netplugin.bridges.bridge_keeper import differences
from netplugin.bridges.bridges import bridge_specs
from netplugin.ovsdb import BridgeSpec, Ovsdb, PortSpec
from ofnet.world import Bridge
from tests.bed.ovs import DATAPATH, OvsHost
from tests.bed.waiting import PATIENCE, eventually_async

pytestmark = pytest.mark.ovs

SPECS = bridge_specs(HostLabel("h1"), DATAPATH, dict.fromkeys(Bridge, "tcp:127.0.0.1:6633"), "h1")
WARNINGS = re.compile(r"\|bridge\|(?:WARN|ERR)\|.*")
DEVICES = {Bridge.VXLAN: "contivVxlan", Bridge.VLAN: "contivVlan"}


@pytest.fixture
async def ovsdb(ovs: OvsHost) -> AsyncIterator[Ovsdb]:
    """Give a connection to a switch without bridges."""
    async with await Ovsdb.connect(f"unix:{ovs.db_socket}", wait=10 * PATIENCE) as ovsdb:
        yield ovsdb


async def settled(ovsdb: Ovsdb, spec: BridgeSpec) -> None:
    async def right() -> bool:
        row = ovsdb.bridge(spec.name)
        return row is not None and differences(spec, row) == []

    await eventually_async(right, f"{spec.name} is as specified")


async def test_changes_of_other_ports_leave_no_line_about_it(ovs: OvsHost, ovsdb: Ovsdb) -> None:
    for spec in SPECS:
        await ovsdb.ensure_bridge(spec)
        await settled(ovsdb, spec)
    for number in range(3):
        for spec in SPECS:
            name = f"{spec.name[6:8]}{number}"
            await ovsdb.add_port(spec.name, PortSpec(name=name, type="internal"))
            await ovsdb.wait_ofport(name, 10 * PATIENCE)
    assert WARNINGS.findall((ovs.rundir / "ovs-vswitchd.log").read_text()) == []
    for bridge, device in DEVICES.items():
        assert device in ovs.vsctl("list-ifaces", bridge).split()
        shown = ovs.ofctl("dump-ports-desc", bridge)
        assert f"({device})" in shown
        assert "LOCAL" not in shown


async def test_it_replaces_what_others_made(ovs: OvsHost, ovsdb: Ovsdb) -> None:
    spec = SPECS[0]
    bare = ["--", "set", "bridge", spec.name, f"datapath_type={DATAPATH}"]
    ovs.vsctl("add-br", spec.name, *bare)  # with a device of the bridge's name
    await ovsdb.ensure_bridge(spec)
    await settled(ovsdb, spec)
    ovs.vsctl("clear", "bridge", spec.name, "ports")
    assert await until_told(ovsdb, spec) == "own port was none, must be contivVxlan"
    await ovsdb.ensure_bridge(spec)
    await settled(ovsdb, spec)


async def until_told(ovsdb: Ovsdb, spec: BridgeSpec) -> str:
    async def told() -> str:
        row = ovsdb.bridge(spec.name)
        return "; ".join(differences(spec, row)) if row is not None else ""

    return await eventually_async(told, f"{spec.name} differs")
