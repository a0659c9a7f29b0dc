"""The port that a former agent left: known at once, so that its flows stay as they are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from core.ids import HostLabel
from netplugin.bridges.host.name_ports import NamePorts
from netplugin.kernel.links.name_space import NAME_MAC
from netplugin.ovsdb import PortRow
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from ofnet.world import Bridge, FwdMode, NamePort
from tests.unit.netplugin.port_rows import port_row


def row(name: str, bridge: Bridge, owner: str) -> PortRow:
    external_ids = {port_names.ENDPOINT_ID: owner}
    error = "could not open network device"
    return port_row(name, bridge=bridge, ofport=-1, external_ids=external_ids, error=error)


def published(*rows: PortRow) -> WorldBuilder:
    """Return the World after an agent has found these ports."""
    world = WorldBuilder(HostLabel("h1"), FwdMode.ROUTING)

    def ports(bridge: Bridge) -> dict[str, PortRow]:
        return {one.name: one for one in rows if one.bridge == bridge}

    # finding ports touches no link
    context: Any = SimpleNamespace(ovsdb=SimpleNamespace(ports=ports), world=world, links=None)
    NamePorts(context, {}, directory=Path("/run"), tx_off=False).publish()
    return world


def test_a_port_that_is_there_is_in_the_world_although_its_device_is_gone() -> None:
    owner = port_names.NAME_ENDPOINT_ID
    world = published(
        row("contivdns0", Bridge.VXLAN, owner), row("contivh1", Bridge.VLAN, "another")
    )
    left = NamePort(ofport=port_names.NAME_OFPORT, mac=NAME_MAC)
    assert (world.vxlan.name_port, world.vlan.name_port) == (left, None)


def test_the_ports_of_both_bridges_have_names_of_their_own() -> None:
    assert [port_names.name_port(number) for number in (0, 1)] == ["contivdns0", "contivdns1"]
