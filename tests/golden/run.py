"""The run behind the recordings: two hosts whose agents hear what the store said at each step.

`play` feeds the steps (`tests.golden.steps`) and the recorded ports to a `WorldBuilder` for each
host, and yields for each recording the flows that follow. `tests.golden.deviations` is next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from core.ids import EndpointKey, HostLabel
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.bridges.port_names import ROUTER_PORT
from netplugin.world.builder import WorldBuilder
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.tables import Mode, mode_of
from ofnet.world import Bridge, FwdMode, HostPort, Router, Uplink, Vtep
from state.records import HostRecord
from tests.golden.recordings import Line, Recording, lines, recordings
from tests.golden.steps import (
    HERE,
    PEER,
    Change,
    change,
    settings,
)

BRIDGE_OF: Final = {"vlan": Bridge.VLAN, "vxlan": Bridge.VXLAN}
PRIVATE: Final = IPv4Network("172.19.0.0/16")


@dataclass(frozen=True)
class Host:
    """Who a node is, and who the other one is."""

    label: HostLabel
    address: str
    peer: HostLabel
    peer_address: str
    tunnel: str


HOSTS: Final = {
    "node1": Host(HERE, "10.77.0.1", PEER, "10.77.0.3", "vxif107703"),
    "node2": Host(PEER, "10.77.0.3", HERE, "10.77.0.1", "vxif107701"),
}


class Node:
    """One host of the run: an agent's World, and the flows of both bridges.

    Its port numbers are its own: that of port N is 1000 + N. Names tie them to the recorded ones.
    """

    def __init__(self, name: str, mode: FwdMode, empty: Recording, *, guard: bool) -> None:
        host = HOSTS[name]
        self._fixed = {"up0": 900, "contivh0": 901, host.tunnel: 902}
        self.ports = dict(self._fixed)
        self.world = WorldBuilder(host.label, mode, guard=guard)
        self._desired = {bridge: Desired(bridge) for bridge in Bridge}
        self._plugged: dict[str, EndpointKey] = {}
        tunnel = Vtep(host=host.peer, ip=IPv4Address(host.peer_address), ofport=902)
        mac = empty.interfaces["contivh0"].mac
        self.world.vxlan.set_vteps({host.peer: tunnel})
        self.world.endpoints.set_host_port(HostPort(ofport=901, mac=mac, subnet=PRIVATE))
        self.world.vlan.set_uplinks([Uplink(ofport=900, mac=empty.interfaces["up0"].mac)])
        self.world.put(settings("proxy"))
        self.world.set_complete()

    def plug(self, recording: Recording) -> None:
        """Have the ports that the recording says the host has."""
        there = {
            port: EndpointKey(interface.endpoint_id)
            for port, interface in recording.interfaces.items()
            if interface.endpoint_id and port not in self._fixed
        }
        self._plug_router(recording)
        for port in self._plugged.keys() - there.keys():
            if self._plugged[port] not in there.values():
                self.world.endpoints.remove_port(self._plugged[port])
        for port, key in there.items():
            self._put_port(port, key)
        self._plugged = there

    def _plug_router(self, recording: Recording) -> None:
        """Have the port for BGP, whose peer nobody ever heard of."""
        interface, peering = recording.interfaces.get(ROUTER_PORT), self.world.peers.peering
        if interface is None or peering is None or recording.encap != "vlan":
            return
        self.ports[ROUTER_PORT] = 903
        own, peer = IPv4Address(str(peering.own)), peering.peer
        self.world.vlan.set_router(Router(ofport=903, mac=interface.mac, ip=own, peer=peer))

    def lines(self, bridge: Bridge) -> frozenset[Line]:
        """Return the flows of a bridge, computed from what changed since the last time."""
        world, changes = self.world.take(bridge)
        desired = self._desired[bridge]
        desired.update(world, changes)
        assert not desired.faults
        anew = Desired(bridge)
        anew.update(world, EVERYTHING)
        assert desired.flows == anew.flows
        return frozenset(lines(map(str, desired.flows.values()), self.ports))

    def _put_port(self, port: str, key: EndpointKey) -> None:
        number = ports_number(port)
        record = self.world.endpoint_records.get(key)
        assert record is not None, f"nothing is known of {key}"
        self.ports[port] = 1000 + number
        own = number if number < INFRA else None
        plugged = LocalPort(record=record, ofport=1000 + number, number=own)
        self.world.endpoints.put_port(key, plugged)


INFRA: Final = 500
_INFRA_PORTS: Final = {"nvxlaninf": INFRA, "nvlaninf": INFRA + 1}


def ports_number(port: str) -> int:
    """Return N of `vvport<N>`, and numbers of our own for the ports of infra networks."""
    return _INFRA_PORTS[port] if port in _INFRA_PORTS else int(port.removeprefix("vvport"))


@dataclass(frozen=True)
class Case:
    """A recording beside the flows that are ours."""

    mode: Mode
    recording: Recording
    ours: frozenset[Line]


def play(mode: FwdMode, *, guard: bool) -> Iterator[Case]:
    """Yield every recording of a forwarding mode with ours, in the order of the run."""
    found = recordings(mode)
    empty = {recording.node: recording for recording in found if recording.step == 1}
    nodes = {name: Node(name, mode, empty[name], guard=guard) for name in HOSTS}
    for name, node in nodes.items():
        for other, host in HOSTS.items():
            macs = (empty[other].interfaces["up0"].mac,)
            node.world.put(_host_record(host, macs))
        assert node.world.forwarding.fwd_mode is mode, name
    for recording in found:
        done = change(recording)
        for node in nodes.values():
            _tell(node.world, done)
        node = nodes[recording.node]
        node.plug(recording)
        bridge = BRIDGE_OF[recording.encap]
        yield Case(mode_of(bridge, mode), recording, node.lines(bridge))


def _tell(world: WorldBuilder, done: Change) -> None:
    for fact in done.put:
        world.put(fact)
    for fact in done.gone:
        world.remove(fact)


def _host_record(host: Host, macs: tuple[str, ...]) -> HostRecord:
    return HostRecord(
        label=host.label,
        control_ip=host.address,
        vtep_ip=host.address,
        vxlan_port=4789,
        uplink_macs=macs,
    )
