"""What tells that others changed this host: its firewall, its routing, its addresses."""

from dataclasses import dataclass

from netplugin.kernel.address_watch import AddressWatch
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.routes.route_watch import RouteWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWatches:
    """The watches of one agent; each returns events, and runs for the life of the agent."""

    firewall: FirewallWatch
    routes: RouteWatch
    addresses: AddressWatch
