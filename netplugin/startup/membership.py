"""Builds this host's place in the cluster: its record, the leader, calls of masters, services.

In come the clients, and the data plane, whose progress masters are told. `claim_host` comes first
of all that others see: peers create their tunnels to this host meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from contivmodel.client import MasterClient
from core.metrics import Reading, labelled, single
from netplugin.masters import registration
from netplugin.masters.control import ControlChannel
from netplugin.masters.host_id import host_id
from netplugin.masters.label_claim import claim_label, keep_label
from netplugin.masters.leader import LeaderClient
from netplugin.masters.master_api import MasterApi
from netplugin.masters.own_record import OwnRecord
from netplugin.masters.registration import AgentRegistrations
from netplugin.masters.spread import Spread
from netplugin.startup import metric_names as names
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Subsystem, Tasks
from netplugin.startup.dataplane import Dataplane
from ofnet.inspection import AgentIdentity
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMembership(Subsystem):
    """What ties this host to the cluster; `control` and `services` open with the servers."""

    context: Context
    clients: Clients
    dataplane: Dataplane
    own: OwnRecord
    leader: LeaderClient
    control: ControlChannel
    services: AgentRegistrations

    @property
    def master(self) -> MasterApi:
        """The client of whoever leads."""
        return MasterApi(self.leader)

    def identity(self, bridge: Bridge) -> AgentIdentity:
        """Return who a bridge's agent is, and its masters."""
        masters = {node.host: node.port for node in self.control.masters.values()}
        local_ip, port = str(self.context.settings.vtep_ip), self.control.port(bridge)
        return AgentIdentity(local_ip=local_ip, port=port, masters=masters)

    def tasks(self) -> Tasks:
        """Return what keeps the record of this host."""
        settings, changed = self.context.settings, self.clients.watches.addresses.changed
        stored = partial(self.dataplane.world.peers.record, settings.host)
        return {
            "own addresses": partial(self.own.follow, changed, settings.audit_interval),
            "host record": partial(keep_label, self.clients.store, self.own.current, stored),
        }

    async def readings(self) -> Iterable[Reading]:
        """Return whether a leader is known, and what is registered."""
        return [
            single(names.LEADER_KNOWN, float(self.leader.leader is not None)),
            labelled(names.REGISTERED, self.services.states()),
            single(names.LEASES_LOST, self.services.lease.losses),
        ]


async def claim_host(context: Context, clients: Clients, macs: Mapping[str, str]) -> OwnRecord:
    """Write the record of this host, whose uplinks have these MACs. Raises Conflict, HostError."""
    settings = context.settings
    # An address that this host does not have would lead its peers' tunnels astray at once.
    for address in (settings.ctrl_ip, *settings.vtep_ips):
        await clients.links.holder(address)
    own_id = host_id(settings.host_id_file)
    record = registration.host_record(settings, macs.values(), context.version, own_id)
    own = OwnRecord(record, clients.ovsdb)
    await own.look()
    await claim_label(clients.store, own.current(), takeover=settings.takeover_label)
    return own


def join_cluster(
    context: Context, clients: Clients, dataplane: Dataplane, own: OwnRecord
) -> ClusterMembership:
    """Follow the leader; return what else ties this host to the cluster, not running."""
    settings, tls = context.settings, context.tls
    http = MasterClient(ssl=tls.to_masters if tls else None)
    context.stack.push_async_callback(http.close)
    leader = LeaderClient(clients.store, http)
    context.supervisor.supervise("netmaster leader", leader.follow())
    control = ControlChannel(
        clients.store,
        settings.host,
        str(settings.ctrl_ip),
        dataplane.progress,
        spread=Spread(dataplane.world.peers.count),
        tls=tls,
    )
    return ClusterMembership(
        context=context,
        clients=clients,
        dataplane=dataplane,
        own=own,
        leader=leader,
        control=control,
        services=AgentRegistrations(clients.store, context.supervisor),
    )
