"""DNS to the address under which the agent is the pods' own name server. The same in all pipelines.

In comes `World.dns_address`; out come the flows that send what a pod asks of this address through
the tables as any packet of the pod, and at their end to the agent instead of a port. So all that
judges a pod's packets judges its questions as well: the source guard, the rules of Contiv and the
policies of Kubernetes, which see a packet to this address at port 53. What does not come out at the
end is no question to this server: `netplugin.dns.nameserver` answers those alone that did.

Questions to any other address are intercepted before (`ofnet.pipelines.features.name_port`): what
the agent does not know of them goes on to their server as the pod's own packet, and is judged then.
"""

# The agent asks servers outside in the pod's name. Were the question taken out of the tables before
# they judge it, a pod that may send nothing could send all it likes by the names it asks for.
#
# Connections by TCP get another stand-in address than intercepted ones, so that the agent can tell
# what was judged. The answers do not pass the tables. But connection tracking must see them, or it
# would take the rest of a pod's half of the connection for invalid.

from collections.abc import Iterator
from functools import partial
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    PORT_CONTROLLER,
    Action,
    ConntrackNote,
    Instructions,
    Output,
    PopVlan,
    goto,
)
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features import name_port, network_policy
from ofnet.pipelines.features.feature import Feature, of_world
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Mode, Priority, TableId, vrf_in
from ofnet.world import LocalEndpoint, NamePort, World

ENDS: Final = frozenset({TableId.IP, TableId.MAC_DEST})
"""The tables from which the agent gets questions to its own address."""

_UDP: Final[MatchFields] = {"ip_proto": oxm.PROTO_UDP, "udp_dst": stages.DNS_PORT}
_TCP: Final[MatchFields] = {"ip_proto": oxm.PROTO_TCP, "tcp_dst": stages.DNS_PORT}


def flows(world: World) -> Iterator[Flow]:
    """Yield the flows that keep the address from being a service's."""
    if world.dns_address is None:
        return
    for protocol in (_UDP, _TCP):
        request: MatchFields = {**stages.to_address(world.dns_address), **protocol}
        where = TableId.SRV_PROXY_DNAT, Priority.EXEMPT
        yield Flow(ObjectKind.PIPELINE, *where, Match(**request), goto(TableId.DST_GRP))


def of_pod(mode: Mode, endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    """Yield the flows of a pod's questions to the address; a host's own interface has none."""
    network = world.networks.get(endpoint.network)
    if world.dns_address is None or endpoint.of_host or network is None:
        return
    version = world.dns_address.version
    address = next((one for one in stages.addresses(endpoint) if one.version == version), None)
    if address is None:
        return
    own: MatchFields = {"in_port": endpoint.ofport, "eth_src": endpoint.mac}
    own |= stages.from_address(address)
    to_server: MatchFields = {**stages.to_address(world.dns_address)}
    for protocol in (_UDP, _TCP):
        fields: MatchFields = {**own, **to_server, **protocol}
        yield _flow(TableId.INPUT, fields, goto(TableId.VLAN))
    end = TableId.IP if mode in {Mode.VROUTER, Mode.VLROUTER} else TableId.MAC_DEST
    # table 1 has put a tag on a packet where networks are VLANs inside the switch
    tagged = mode is Mode.VXLAN
    arrived: MatchFields = {"in_port": endpoint.ofport, **to_server}
    if tagged:
        arrived["vlan_vid"] = network.vlan
    untag: tuple[Action, ...] = (PopVlan(),) if tagged else ()
    asked = Instructions((*untag, Output(PORT_CONTROLLER)))
    yield _flow(end, {**arrived, **_UDP}, asked)
    if world.name_port is None:
        return
    there = (*untag, *name_port.to_agent(endpoint, world.name_port, judged=True, version=version))
    yield _flow(end, {**arrived, **_TCP}, Instructions(there))
    zone = network_policy.ZONE[mode] + vrf_in(mode, network.vrf)
    yield _answers(endpoint, address, world.name_port, zone)


def _answers(endpoint: LocalEndpoint, own: name_port.Address, port: NamePort, zone: int) -> Flow:
    """Return the flow of the agent's answers to a pod by TCP."""
    answer = name_port.answer_of(port, endpoint, own.version, judged=True)
    back = (*name_port.back_to(endpoint, own), ConntrackNote(zone), Output(endpoint.ofport))
    return _flow(TableId.INPUT, answer, Instructions(back))


def _flow(table: TableId, fields: MatchFields, instructions: Instructions) -> Flow:
    # above every route and MAC of table 7 and 9, and above the interception of DNS
    return Flow(ObjectKind.LOCAL, table, Priority.OWN_DNS, Match(**fields), instructions)


def feature(mode: Mode) -> Feature:
    """Return the flows of the agent as the pods' own name server."""
    return {ObjectKind.PIPELINE: of_world(flows), ObjectKind.LOCAL: partial(of_pod, mode)}
