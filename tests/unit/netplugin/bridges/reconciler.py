"""What tests of reconciler share."""

from netplugin.bridges.vxlan.tunnels import by_remote, tunnel_ports
from netplugin.ovsdb import PortRow
from ofnet.world import Bridge
from state.records import Record
from tests.unit.netplugin.agent import Agent, Outside


def tell(agent: Agent, *records: Record) -> None:
    for record in records:
        agent.learn("key", record)


def flows_of(outside: Outside) -> str:
    return "\n".join(str(flow) for s in outside.switches.values() for flow in s.table.values())


def tunnels(outside: Outside) -> dict[str, PortRow]:
    return by_remote(tunnel_ports(outside.ovsdb.ports(Bridge.VXLAN).values()))
