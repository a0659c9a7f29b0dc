"""What flows say about the connections they translate, so that ended ones can be forgotten. Pure.

Connection tracking keeps a connection to its provider, also when the provider has gone. In come
flows of services (`ofnet.pipelines.features.service_nat`); `ofnet.flow_sync` has the switch forget
what no flow begins any more, so that the next packet of such a connection begins anew.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from ofnet.flows import Flow
from ofnet.openflow.actions import Action, Conntrack
from ofnet.tables import TableId

Address = IPv4Address | IPv6Address


_BEGINNING: Final = frozenset({TableId.SERVICES, TableId.CHOICE})


class Translated(NamedTuple):
    """Connections from any client that are translated to one provider, in a zone.

    `address` and `service_port` are the service's; None and 0 stand for any service.
    """

    zone: int
    protocol: int
    provider: Address
    port: int
    address: Address | None = None
    service_port: int = 0


def begun(flows: Iterable[Flow]) -> Iterator[Translated]:
    """Yield the connections that some flows begin, each with its service."""
    for flow in flows:
        if flow.table in _BEGINNING:
            fields = dict(flow.match.fields)
            address = fields.get("ipv4_dst") or fields.get("ipv6_dst")
            # a flow for fragments has no port, but the service's other flows begin the same
            port = fields.get("ct_tp_dst", 0)
            for action in _beginning(flow) if port else ():
                nat = action.nat
                if nat is not None and nat.address is not None:
                    ends = (fields["ip_proto"], nat.address, nat.port)
                    yield Translated(action.zone, *ends, address, port)


def answered(flows: Iterable[Flow]) -> Iterator[Translated]:
    """Yield the connections whose answers some flows translate, by any service."""
    for flow in flows:
        if flow.table == TableId.SRV_PROXY_SNAT:
            fields = dict(flow.match.fields)
            port = fields.get("tcp_src") or fields.get("udp_src")
            address = fields.get("ipv4_src") or fields.get("ipv6_src")
            if port is not None and address is not None:
                for action in _tracking(flow.instructions.actions):
                    yield Translated(action.zone, fields["ip_proto"], address, port)


def _beginning(flow: Flow) -> Iterator[Conntrack]:
    yield from _tracking(flow.instructions.actions)
    group = flow.instructions.group
    for bucket in group.buckets if group is not None else ():
        yield from _tracking(bucket.actions)


def _tracking(actions: Iterable[Action]) -> Iterator[Conntrack]:
    return (action for action in actions if isinstance(action, Conntrack))
