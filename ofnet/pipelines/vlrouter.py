"""vlan networks, routed (contivVlanBridge): the flows at connect and of the uplink."""

from collections.abc import Iterator

from ofnet import oxm
from ofnet.actions import goto
from ofnet.changes import Kind
from ofnet.flows import Flow
from ofnet.match import Match
from ofnet.pipelines import stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode, Priority, TableId
from ofnet.world import World


def _start(_world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VLROUTER)
    yield from stages.dns_interception()
    yield stages.multicast_source_drop()
    yield stages.arp_to_controller(requests_only=False)
    own_arp = Match(eth_type=oxm.ETH_ARP, eth_src=stages.ROUTER_MAC)
    yield Flow(Kind.PIPELINE, TableId.INPUT, Priority.OWN_ARP, own_arp, goto(TableId.IP))


def _uplinks(world: World) -> Iterator[Flow]:
    """Yield the first uplink's flows: a routed host has one way out."""
    for uplink in world.uplinks[:1]:
        yield from stages.uplink_input(uplink)


PIPELINE = Pipeline(mode=Mode.VLROUTER, start=_start, uplinks=_uplinks)
