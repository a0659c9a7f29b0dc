"""Records and host facts in, one World per bridge out. Pure: no I/O, no clock.

`netplugin.bridges.reconciler` feeds it typed store events (`state.watch`), `netplugin.kube.feed`
Kubernetes' services; this module says who hears of which, and in what order. What follows is
decided elsewhere:

* `forwarding_mode`: how the whole cluster forwards;
* `networks`, with `vrfs`: which network is on which bridge, and in which VRF;
* `endpoints`: who is local, who is remote, and with what;
* `services`, with `service_records`: what is served, and by whom;
* `policies`, `aci_announcements`: rules, and whose endpoints are to be announced;
* `peers`: the other hosts, and the host this one speaks BGP with;
* `dns_records`: names and addresses; `network_tenants`: the tenant of each network.

They read records by `netplugin.world.conversion` and set what comes of them on a bridge's side
(`netplugin.world.bridge_state`). From there `take` has the World, with what changed in it since the
last time, for `ofnet.agent`. What this host itself reports goes to its subject, or its side,
directly.
"""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId, TenantName, split_network_id
from netplugin.world.aci_announcements import AciAnnouncements
from netplugin.world.bridge_state import BridgeState
from netplugin.world.dns_records import DnsRecords
from netplugin.world.endpoints import Endpoints
from netplugin.world.forwarding_mode import ForwardingMode
from netplugin.world.kube_services import KubeService
from netplugin.world.network_tenants import NetworkTenants
from netplugin.world.networks import Moved, Networks
from netplugin.world.peers import Peers
from netplugin.world.policies import Policies
from netplugin.world.services import Services
from netplugin.world.vrfs import VrfIds
from ofnet.changes import Changes
from ofnet.world import Bridge, FwdMode, World
from state.intents import Attachment, Fact, Launch, Profile
from state.policy_rules import PolicyRule
from state.records import (
    BgpRecord,
    EndpointRecord,
    GlobalRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    ServiceRecord,
)


class WorldBuilder:
    """Folds facts into the Worlds of both bridges of this host; `vrfs` are the ids it had before.

    Records come by `put`; its parts are there to be asked, and told what this host reports.
    """

    def __init__(
        self,
        host: HostLabel,
        fwd_mode: FwdMode,
        vrfs: Mapping[TenantName, int] | None = None,
        *,
        guard: bool = True,
    ) -> None:
        self._guard = guard
        self._notify: Callable[[], None] = _no_observer
        self._change_pending = True
        self._revisions: dict[str, int] = {}
        self._sides = {bridge: BridgeState(self._changed) for bridge in Bridge}
        self.vxlan, self.vlan = self._sides[Bridge.VXLAN], self._sides[Bridge.VLAN]
        self._vrfs = VrfIds(vrfs or {})
        self.modes = ForwardingMode(fwd_mode)
        self.networks = Networks(self._sides, self._vrfs)
        self.endpoints = Endpoints(host, self._sides)
        self._tenants = NetworkTenants()
        self.services = Services(self._sides, self._vrfs.ids, self._tenants, self._changed)
        self.hosts = Peers(host, self.vlan)
        self.names = DnsRecords(self._tenants)
        self._policies = Policies()
        self._profiles = AciAnnouncements()
        self._launches: dict[int, int] = {}
        self._complete = False

    # -- facts from the store ------------------------------------------------------------------

    def put(self, fact: Fact) -> None:
        """Learn or replace what the store says.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        match fact:
            case NetworkRecord():
                moved = self.networks.put(fact)
                self._belongs(fact.id, fact.tenant)
                self._moved(moved)
                self._altered(self._policies.put_network(fact))
            case EndpointRecord():
                self._put_endpoint(fact)
            case ServiceRecord():
                self.services.put(fact)
                self.names.put_service(fact)
            case GroupRecord():
                self.endpoints.put_group(fact)
                self._altered(self._policies.put_group(fact))
            case Attachment():
                self._altered(self._policies.put_attachment(fact))
            case PolicyRule():
                self._altered(self._policies.put_rule(fact))
            case Profile():
                self._launched(self._profiles.put(fact))
            case GlobalRecord():
                if self.modes.put(fact):
                    self._alter_everything()
            case HostRecord():
                self.hosts.put(fact)
            case BgpRecord():
                self.hosts.put_bgp(fact)
            case _:
                return

    def remove(self, fact: Fact) -> None:
        """Forget what the store no longer says."""
        match fact:
            case NetworkRecord():
                self._moved(self.networks.remove(fact.id))
                self._belongs(fact.id, split_network_id(fact.id)[1])
                self._altered(self._policies.remove_network(fact.id))
            case EndpointRecord():
                self._remove_endpoint(fact.key)
            case ServiceRecord():
                self.services.remove(fact.key)
                self.names.remove_service(fact.key)
            case GroupRecord():
                self.endpoints.remove_group(fact.key)
                self._altered(self._policies.remove_group(fact.key))
            case Attachment():
                self._altered(self._policies.remove_attachment(fact.key))
            case PolicyRule():
                self._altered(self._policies.remove_rule(fact))
            case Profile():
                self._profiles.remove(fact)
            case Launch():
                self._launched(self._profiles.launched(fact.profile))
            case HostRecord():
                self.hosts.remove(fact.label)
            case BgpRecord():
                self.hosts.remove_bgp(fact)
            case _:
                # the settings stay in force; the rest is nobody's here
                return

    def _put_endpoint(self, record: EndpointRecord) -> None:
        old = self.endpoints.put(record)
        self.names.put_endpoint(record)
        if old is not None and old.network != record.network:
            self.services.remove_endpoint(old)
        self.services.put_endpoint(record)

    def _remove_endpoint(self, key: EndpointKey) -> None:
        old = self.endpoints.remove(key)
        self.names.remove_endpoint(key)
        if old is not None:
            self.services.remove_endpoint(old)

    def _belongs(self, nid: NetworkId, tenant: TenantName) -> None:
        """Have a network be a tenant's, and the names and services of its endpoints likewise."""
        if tenant == self._tenants.of(nid):
            return
        here = self.endpoints.on(nid)
        for record in here:
            self.names.remove_endpoint(record.key)
            self.services.remove_endpoint(record)
        self._tenants.put(nid, tenant)
        for record in here:
            self.names.put_endpoint(record)
            self.services.put_endpoint(record)

    def _moved(self, moved: Moved) -> None:
        self.endpoints.networks_moved(moved.networks)
        self.services.networks_moved(moved.tenants)

    def _altered(self, rules: Iterable[str]) -> None:
        for side in self._sides.values():
            side.alter_rules(rules)

    def _alter_everything(self) -> None:
        for side in self._sides.values():
            side.alter_everything()

    def _launched(self, groups: Iterable[GroupKey]) -> None:
        """Have the endpoints of groups announced that an ACI fabric has been told of."""
        known = [group for key in groups if (group := self.endpoints.group(key)) is not None]
        for group in known if self.modes.fabric_enforces else ():
            self._launches[group.group_id] = self._launches.get(group.group_id, 0) + 1
            self.vlan.announce(group.group_id)

    # -- facts from Kubernetes -----------------------------------------------------------------

    def put_kube_service(self, service: KubeService) -> None:
        """Learn or replace a service of Kubernetes, which pods of every tenant may use."""
        self.services.put_kube(service)
        self.names.put_kube_service(service)

    def remove_kube_service(self, key: str) -> None:
        """Forget a service of Kubernetes."""
        self.services.remove_kube(key)
        self.names.remove_kube_service(key)

    # -- the whole -----------------------------------------------------------------------------

    def observe(self, notify: Callable[[], None]) -> None:
        """Call `notify` on the first change since the last `take`, and now if there was one.

        There is one observer. It takes the state of every bridge each time.
        """
        self._notify = notify
        if self._change_pending:
            notify()

    def _changed(self) -> None:
        if not self._change_pending:
            self._change_pending = True
            self._notify()

    def set_revision(self, prefix: str, revision: int) -> None:
        """Note that all records under a store prefix, up to a revision, have been put."""
        self._revisions[prefix] = revision
        self._changed()

    @property
    def revisions(self) -> Mapping[str, int]:
        """The revision up to which this World has the records, by store prefix."""
        return dict(self._revisions)

    def set_complete(self) -> None:
        """Say that every source has been read once: from now on absence means gone."""
        if not self._complete:
            self._complete = True
            self._moved(self.networks.set_complete())
            self._alter_everything()

    @property
    def complete(self) -> bool:
        """True once every source has been read: absence means gone."""
        return self._complete

    @property
    def vrfs(self) -> Mapping[TenantName, int]:
        """VRF ids in use; to be kept across restarts before flows with them are sent."""
        return self._vrfs.ids

    def private_addresses(self) -> dict[IPv4Address, IPv4Address]:
        """Return what this host reaches its own pods by, by their addresses: where we route."""
        routing = self.modes.fwd_mode is FwdMode.ROUTING
        return self.endpoints.private_addresses() if routing else {}

    def take(self, bridge: Bridge) -> tuple[World, Changes]:
        """Return the bridge's World and what changed in it since the last call."""
        self.services.serve_altered()
        self._change_pending = False
        return self._sides[bridge].take(self._cluster())

    def take_changed(self) -> dict[Bridge, tuple[World, Changes]]:
        """Return what `take` does, for each bridge of which something changed."""
        self.services.serve_altered()
        self._change_pending = False
        cluster = self._cluster()
        return {b: side.take(cluster) for b, side in self._sides.items() if side.dirty}

    def _cluster(self) -> World:
        """Return the part of the World that both bridges share."""
        return World(
            fwd_mode=self.modes.fwd_mode,
            arp_mode=self.modes.arp_mode,
            rules={} if self.modes.fabric_enforces else dict(self._policies.rules),
            launches=dict(self._launches),
            guard=self._guard,
            complete=self._complete,
        )

    def dirty(self, bridge: Bridge) -> bool:
        """Tell whether anything changed since the last `take`."""
        self.services.serve_altered()
        return self._sides[bridge].dirty


def _no_observer() -> None:
    """Ignore changes until `observe` is called."""
