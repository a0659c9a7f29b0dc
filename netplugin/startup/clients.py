"""The agent's clients of the outside: store, OVSDB, kernel, journal, iptables, BGP connections.

In come the command line's settings; out come connected clients. They are opened first and closed
last. `netplugin.startup.dataplane`, `netplugin.startup.host_services` and
`netplugin.startup.pod_services` build the agent's parts on them; tests pass fakes instead.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from core import keys
from core.errors import SwitchRefused
from core.logs import fields
from netplugin.bgp.passwords import PasswordFile
from netplugin.bridges.bridges import owner_of
from netplugin.bridges.host_ports import HostPorts
from netplugin.bridges.megaflow_purge import Control
from netplugin.bridges.pod_guard import resolve
from netplugin.bridges.service_access import RouteLocalnet, route_localnet
from netplugin.bridges.stale_datagrams import SweepDatagrams, sweep
from netplugin.bridges.underlay_routes import UnderlayRoutes
from netplugin.kernel.address_watch import AddressWatch
from netplugin.kernel.firewall_watch import FirewallWatch
from netplugin.kernel.foreign_rules import FindRefusals, refusals
from netplugin.kernel.iptables import Chain, Iptables
from netplugin.kernel.iptables_chains import OwnChains
from netplugin.kernel.netlink import Address
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.port_probe import in_use
from netplugin.kernel.route_watch import RouteWatch
from netplugin.ovsdb import Ovsdb
from netplugin.ovsdb.control_socket import ControlSocket, rundir_of
from netplugin.pods.journal import Journal
from netplugin.startup.context import Context, Tasks
from netplugin.world import port_names
from objdb.api import Backend
from objdb.connect import connect
from objdb.wait_for_store import wait_for_store
from ofnet.bgp.connection import Connect, dial
from ofnet.world import Bridge
from state import schema

OVSDB_LOCK: Final = "contiv_netplugin"
"""The lock in OVSDB's server that an agent holds for as long as it runs."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The clients, and `host_ports` and `underlay_routes`, which only combine some of them."""

    store: Backend
    ovsdb: Ovsdb
    vswitchd: Control
    links: KernelLinks
    journal: Journal
    host_ports: HostPorts
    underlay_routes: UnderlayRoutes
    route_watch: RouteWatch
    address_watch: AddressWatch
    iptables: Callable[[Collection[Chain]], Iptables] = Iptables
    """Returns the client of the agent's rules in the chains given."""
    chains: Callable[[str], OwnChains] = OwnChains
    """Returns the client of the agent's own chains whose names begin as given."""
    route_localnet: RouteLocalnet = route_localnet
    """Has a link of the host route loopback addresses."""
    firewall_watch: FirewallWatch = field(default_factory=FirewallWatch)
    """Tells when others changed rules of this host."""
    sweep_datagrams: SweepDatagrams = sweep
    """Ends what connection tracking remembers of datagrams whose way has changed."""
    refusals: FindRefusals = refusals
    """Finds rules of others that drop what the host forwards."""
    port_in_use: Callable[[str, Address, int], bool] = in_use
    """Tells whether a program of the host has a port of an address."""
    dial_bgp: Connect = dial

    def tasks(self) -> Tasks:
        """Return what runs for the life of the agent, by name."""
        return {
            "firewall watch": self.firewall_watch.run,
            "route watch": self.route_watch.run,
            "address watch": self.address_watch.run,
        }


async def connect_clients(context: Context, servers: Sequence[str]) -> Clients:
    """Connect all of them; `servers` are the hosts of Kubernetes' API servers.

    Raises ContivError for a store or an OVSDB that cannot be used.
    """
    settings, stack = context.settings, context.stack
    links = stack.enter_context(closing(KernelLinks()))
    underlay = UnderlayRoutes(settings, links, resolve=resolve, servers=servers)
    # Before the store, to which a network of the cluster may have led this host astray.
    await underlay.prepare()
    store = connect(settings.store)
    stack.push_async_callback(store.close)
    # The schema is checked before anything on this host is touched: an agent too old for the
    # store's records must not act on a part of them.
    stamp = await wait_for_store(settings.store, store, keys.SCHEMA)
    if stamp is not None:
        schema.check_version(stamp.value)
    journal = stack.enter_context(closing(Journal(settings.journal)))
    ovsdb = await _connect_ovsdb(context)
    return Clients(
        store=store,
        ovsdb=ovsdb,
        vswitchd=ControlSocket(rundir_of(settings.ovsdb)),
        links=links,
        journal=journal,
        host_ports=HostPorts(ovsdb, links, underlay.known),
        underlay_routes=underlay,
        route_watch=RouteWatch(partial(is_host_port, ovsdb)),
        address_watch=AddressWatch(links.address_changes),
        dial_bgp=PasswordFile(settings.bgp_password_file).dial,
    )


def is_host_port(ovsdb: Ovsdb, link: str) -> bool:
    """Return whether a link is one of the host's own interfaces on the agent's bridges."""
    others = port_names.pod_number(link) is not None or port_names.is_name_port(link)
    return not others and any(link in ovsdb.ports(bridge) for bridge in Bridge)


async def _connect_ovsdb(context: Context) -> Ovsdb:
    log.info("waiting for Open vSwitch", extra=fields(path=context.settings.ovsdb))
    remote, timing = context.settings.ovsdb, context.timing
    ovsdb = await Ovsdb.connect(remote, wait=timing.ovsdb_wait, lock=OVSDB_LOCK)
    await context.stack.enter_async_context(ovsdb)
    # Two agents on one switch would each undo what the other does. The server releases the lock of
    # an agent that ended, however it ended.
    if not await ovsdb.hold_lock(timing.ovsdb_lock_wait):
        raise SwitchRefused(
            f"another agent controls the Open vSwitch at {remote} "
            f"({owner_of(ovsdb) or 'an unknown host'}): end it, or name another with --ovsdb"
        )
    replica = context.supervisor.supervise("ovsdb replica", ovsdb.follow())
    # Closing the connection ends the replica, and a supervised task that ends is an error of its
    # own. It is cancelled first, so that the log shows why the agent really ends.
    context.stack.callback(replica.cancel)
    return ovsdb
