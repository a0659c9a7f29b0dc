"""The agent's clients of the outside: store, OVSDB, kernel, journal, iptables, BGP connections.

In come the command line's settings; out come connected clients. They are opened first and closed
last. `netplugin.startup.dataplane`, `netplugin.startup.host_services` and
`netplugin.startup.pod_services` build the agent's parts on them; tests pass fakes instead.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from core import keys
from core.errors import SwitchRefused
from core.logs import fields
from netplugin.bgp.passwords import PasswordFile
from netplugin.bridges.bridges import owner_of
from netplugin.bridges.guards.pod_guard import resolve
from netplugin.bridges.host.host_ports import HostPorts, is_host_port
from netplugin.bridges.host.underlay_routes import UnderlayRoutes
from netplugin.bridges.megaflow_purge import PurgedSwitch
from netplugin.bridges.services.service_access import route_localnet
from netplugin.bridges.services.stale_datagrams import StaleDatagrams
from netplugin.kernel.address_watch import AddressWatch
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.firewall.foreign_rules import Refusal, refusals
from netplugin.kernel.firewall.iptables import Chain, Iptables
from netplugin.kernel.firewall.iptables_chains import OwnChains
from netplugin.kernel.firewall.packet_rules import Way
from netplugin.kernel.host_watches import HostWatches
from netplugin.kernel.links import link_counters
from netplugin.kernel.links.link_counters import LinkCount
from netplugin.kernel.netlink.requests import Address
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.port_probe import in_use
from netplugin.kernel.routes.route_watch import RouteWatch
from netplugin.ovsdb import Ovsdb
from netplugin.ovsdb.control_socket import ControlSocket, rundir_of
from netplugin.pods.registry.journal import Journal
from netplugin.startup.context import Context, Subsystem, Tasks
from objdb.api import Backend
from objdb.connect import connect
from objdb.wait_for_store import wait_for_store
from ofnet.bgp.connection import Connect, dial
from state import schema

OVSDB_LOCK: Final = "contiv_netplugin"
"""The lock in OVSDB's server that an agent holds for as long as it runs."""

log = logging.getLogger(__name__)


class HostTools:
    """By what the agent reads and changes this host, beside its links; tests have others."""

    def iptables(self, chains: Collection[Chain]) -> Iptables:
        """Return the client of the agent's rules in the chains given."""
        return Iptables(chains)

    def chains(self, prefix: str) -> OwnChains:
        """Return the client of the agent's own chains whose names begin as given."""
        return OwnChains(prefix)

    def link_counters(self, beginnings: tuple[str, ...]) -> Mapping[str, LinkCount]:
        """Return what links have counted whose names begin so. Raises HostError."""
        return link_counters.read(beginnings)

    async def route_localnet(self, link: str, *, wanted: bool = True) -> None:
        """Have a link of the host route loopback addresses, or not. Raises HostError."""
        await route_localnet(link, wanted=wanted)

    async def refusals(self, ways: Sequence[Way], links: Collection[str]) -> list[Refusal]:
        """Return the rules of others that drop what the host forwards. Raises HostError."""
        return await refusals(ways, links)

    def port_in_use(self, protocol: str, address: Address, number: int) -> bool:
        """Tell whether a program of the host has a port of an address."""
        return in_use(protocol, address, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients(Subsystem):
    """The clients, and `host_ports` and `underlay_routes`, which only combine some of them."""

    store: Backend
    ovsdb: Ovsdb
    vswitchd: PurgedSwitch
    links: KernelLinks
    journal: Journal
    host_ports: HostPorts
    underlay_routes: UnderlayRoutes
    watches: HostWatches
    tools: HostTools = field(default_factory=HostTools)
    datagrams: StaleDatagrams = field(default_factory=StaleDatagrams)
    dial_bgp: Connect = dial

    def tasks(self) -> Tasks:
        """Return the watches of this host."""
        return {
            "firewall watch": self.watches.firewall.run,
            "route watch": self.watches.routes.run,
            "address watch": self.watches.addresses.run,
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
        watches=HostWatches(
            firewall=FirewallWatch(),
            routes=RouteWatch(partial(is_host_port, ovsdb)),
            addresses=AddressWatch(links),
        ),
        dial_bgp=PasswordFile(settings.bgp_password_file).dial,
    )


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
