"""Records and host facts in, one World per bridge out. Pure: no I/O, no clock.

`netplugin.bridges.record_events` feeds it typed records (`state.watch`), `netplugin.kube.feed`
Kubernetes' services. Its table `_handlers` says which methods take which type of record; they pass
it to the modules it concerns, in the order that their dependencies need:

* `forwarding_mode`: how the whole cluster forwards;
* `networks`, with `vrfs`: which network is on which bridge, and in which VRF;
* `endpoint_table`: the records of endpoints, which all that needs them finds there;
* `endpoints`: which endpoints are local or remote, and with which values;
* `services`, with `service_records`: the services and their providers;
* `pod_policies`: Kubernetes' policies;
* `policies`, `aci_announcements`: rules, and the groups whose endpoints are announced;
* `peers`: the other hosts, and this host's BGP peer; `management`: what pods must not reach;
  `underlay`: what routes to pods must not take, and with `spared` no flow;
* `dns_records`: names and addresses.

They translate records by `netplugin.world.conversion` and set the results on the state of a bridge
(`netplugin.world.bridge_state`). `take` returns the World with its changes, for `ofnet.agent`. What
this host itself reports (ports, tunnels, routes) is set on the parts directly. Every change sets
the `netplugin.world.change_signal`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final, TypeVar

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId, TenantName, split_network_id
from netplugin.world.aci_announcements import AciAnnouncements
from netplugin.world.bridge_state import BridgeState
from netplugin.world.change_signal import ChangeSignal
from netplugin.world.conversion import LocalPort, check_endpoint
from netplugin.world.dns_records import DnsRecords
from netplugin.world.docker_networks import DockerNetworks
from netplugin.world.endpoint_table import EndpointTable
from netplugin.world.endpoints import Endpoints
from netplugin.world.forwarding_mode import ForwardingMode
from netplugin.world.kube_names import CLUSTER_DOMAIN
from netplugin.world.kube_services import KubeService
from netplugin.world.management import Management
from netplugin.world.networks import NetworkChange, Networks
from netplugin.world.peers import Peers
from netplugin.world.pod_policies import PodPolicies
from netplugin.world.policies import Policies
from netplugin.world.services import Services
from netplugin.world.spared import Spared
from netplugin.world.underlay import KnownUnderlay
from netplugin.world.vrfs import VrfIds
from ofnet.changes import Changes
from ofnet.world import Bridge, FwdMode, World
from state.intents import Attachment, Fact, Launch, Profile
from state.lineage import Lineage
from state.policy_rules import PolicyRule
from state.records import (
    BgpRecord,
    DocknetRecord,
    EndpointRecord,
    GlobalRecord,
    GrantRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    ServiceRecord,
    TagRangesRecord,
)

_F = TypeVar("_F")

IGNORED: Final[frozenset[type[Fact]]] = frozenset({TagRangesRecord, GrantRecord, Lineage})
"""The types of records that say nothing of what switches forward."""


@dataclass(frozen=True, slots=True)
class _Handler:
    """The methods for records of one type: one puts or replaces a record, one removes it."""

    put: Callable[[Any], None]
    remove: Callable[[Any], None]


class WorldBuilder:
    """Folds facts into the Worlds of both bridges of this host.

    `vrfs` are the VRF ids this host used before. Records come in by `put` and `remove`. The public
    parts are there to be queried, and to be set to what this host reports.
    """

    def __init__(
        self,
        host: HostLabel,
        fwd_mode: FwdMode,
        vrfs: Mapping[TenantName, int] | None = None,
        *,
        guard: bool = True,
        cluster_domain: str = CLUSTER_DOMAIN,
        dns_address: IPv4Address | None = None,
        underlay: KnownUnderlay | None = None,
    ) -> None:
        self._host = host
        self._dns_address = dns_address
        self._guard = guard
        self._cluster_domain = cluster_domain
        self._signal = ChangeSignal()
        self._revisions: dict[str, int] = {}
        self._bridges = {bridge: BridgeState(bridge, self._signal.set) for bridge in Bridge}
        self.vxlan, self.vlan = self._bridges[Bridge.VXLAN], self._bridges[Bridge.VLAN]
        self._vrfs = VrfIds(vrfs or {})
        self.forwarding = ForwardingMode(fwd_mode)
        self.networks = Networks(self._bridges, self._vrfs)
        self.endpoint_records = EndpointTable(host)
        self.endpoints = Endpoints(host, self._bridges, self.endpoint_records)
        self.services = Services(
            host, self._bridges, self._vrfs.ids, self.endpoint_records, self._signal.set
        )
        self.peers = Peers(host, self.vlan)
        self.docker_networks = DockerNetworks()
        self.management = Management(self._bridges)
        self.underlay = underlay or KnownUnderlay(host)
        self._spared = Spared()
        for source in (self.management, self.underlay):
            source.observe(self._signal.set)
        self.names = DnsRecords(self.endpoint_records, cluster_domain)
        self._policies = Policies()
        self.pod_policies = PodPolicies(
            host, self._bridges, self._vrfs.ids, self.endpoint_records, self._signal.set
        )
        self.endpoint_records.feed(
            self.endpoints.update,
            self.names.update_endpoint,
            self.management.update_endpoint,
            self.services.update_endpoint,
            self.pod_policies.update_endpoint,
        )
        self._profiles = AciAnnouncements()
        self._launches: dict[int, int] = {}
        self._held_tenants: frozenset[TenantName] | None = None
        self._complete = False
        self._kubernetes_partial = False
        self._handlers: dict[type[Fact], _Handler] = {
            NetworkRecord: _handler(NetworkRecord, self._put_network, self._remove_network),
            EndpointRecord: _handler(EndpointRecord, self._put_endpoint, self._remove_endpoint),
            ServiceRecord: _handler(ServiceRecord, self._put_service, self._remove_service),
            GroupRecord: _handler(GroupRecord, self._put_group, self._remove_group),
            Attachment: _handler(Attachment, self._put_attachment, self._remove_attachment),
            PolicyRule: _handler(PolicyRule, self._put_rule, self._remove_rule),
            Profile: _handler(Profile, self._put_profile, self._profiles.remove),
            Launch: _handler(Launch, _ignore, self._end_launch),
            # settings that are removed stay in force: forwarding needs some
            GlobalRecord: _handler(GlobalRecord, self._put_settings, _ignore),
            HostRecord: _handler(HostRecord, self._put_host, self._remove_host),
            BgpRecord: _handler(BgpRecord, self.peers.put_bgp, self.peers.remove_bgp),
            DocknetRecord: _handler(
                DocknetRecord, self.docker_networks.put, self.docker_networks.remove
            ),
            **dict.fromkeys(IGNORED, _Handler(_ignore, _ignore)),
        }

    # -- records from the store ----------------------------------------------------------------

    @property
    def record_types(self) -> frozenset[type[Fact]]:
        """The types of records that `put` and `remove` take."""
        return frozenset(self._handlers)

    def put(self, fact: Fact) -> None:
        """Add or replace a record.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        self._handlers[type(fact)].put(fact)

    def remove(self, fact: Fact) -> None:
        """Remove a record, by its key; one that is not known is passed over."""
        self._handlers[type(fact)].remove(fact)

    def _put_network(self, record: NetworkRecord) -> None:
        change = self.networks.put(record)  # first, for it raises Invalid
        self.endpoint_records.set_tenant(record.id, record.tenant)
        self._follow(change)
        self._hold_policies()
        self._mark_rules(self._policies.put_network(record))

    def _remove_network(self, record: NetworkRecord) -> None:
        self._follow(self.networks.remove(record.id))
        self._hold_policies()
        self.endpoint_records.set_tenant(record.id, split_network_id(record.id)[1])
        self._mark_rules(self._policies.remove_network(record.id))

    def _put_endpoint(self, record: EndpointRecord) -> None:
        check_endpoint(record)
        self.endpoint_records.put(record)

    def _remove_endpoint(self, record: EndpointRecord) -> None:
        self.endpoint_records.remove(record.key)

    def _put_service(self, record: ServiceRecord) -> None:
        self.services.put(record)
        self.names.put_service(record)

    def _remove_service(self, record: ServiceRecord) -> None:
        self.services.remove(record.key)
        self.names.remove_service(record.key)

    def _put_group(self, record: GroupRecord) -> None:
        self.endpoints.put_group(record)
        self._mark_rules(self._policies.put_group(record))

    def _remove_group(self, record: GroupRecord) -> None:
        self.endpoints.remove_group(record.key)
        self._mark_rules(self._policies.remove_group(record.key))

    def _put_attachment(self, attachment: Attachment) -> None:
        self._mark_rules(self._policies.put_attachment(attachment))

    def _remove_attachment(self, attachment: Attachment) -> None:
        self._mark_rules(self._policies.remove_attachment(attachment.key))

    def _put_rule(self, rule: PolicyRule) -> None:
        self._mark_rules(self._policies.put_rule(rule))

    def _remove_rule(self, rule: PolicyRule) -> None:
        self._mark_rules(self._policies.remove_rule(rule))

    def _put_profile(self, profile: Profile) -> None:
        self._announce(self._profiles.put(profile))

    def _end_launch(self, launch: Launch) -> None:
        self._announce(self._profiles.launched(launch.profile))

    def _put_settings(self, record: GlobalRecord) -> None:
        if self.forwarding.put(record):
            self._alter_everything()

    def _put_host(self, record: HostRecord) -> None:
        self.peers.put(record)  # first, for it raises Invalid
        self.management.put_host(record)
        self.underlay.put_host(record)

    def _remove_host(self, record: HostRecord) -> None:
        self.peers.remove(record.label)
        self.management.remove_host(record)
        self.underlay.remove_host(record.label)

    def _follow(self, change: NetworkChange) -> None:
        self.endpoints.networks_changed(change.networks)
        self.services.tenants_changed(change.tenants)
        self.pod_policies.tenants_changed(change.tenants)

    def _mark_rules(self, rules: Iterable[str]) -> None:
        classed = self._policies.take_classed()
        for bridge in self._bridges.values():
            bridge.alter_rules(rules, classed)

    def _alter_everything(self) -> None:
        for bridge in self._bridges.values():
            bridge.alter_everything()

    def _announce(self, groups: Iterable[GroupKey]) -> None:
        """Have the endpoints of groups announced that were launched on an ACI fabric."""
        known = [group for key in groups if (group := self.endpoints.group(key)) is not None]
        for group in known if self.forwarding.fabric_enforces else ():
            self._launches[group.group_id] = self._launches.get(group.group_id, 0) + 1
            self.vlan.announce(group.group_id)

    def hold(self, networks: frozenset[NetworkId]) -> None:
        """Set the networks that concern this host: endpoints of others come and go unnoticed."""
        self._follow(self.networks.hold(networks))
        self._hold_policies()

    def _hold_policies(self) -> None:
        tenants = self.networks.held_tenants()
        if tenants is not None and tenants != self._held_tenants:
            self._held_tenants = tenants
            self._mark_rules(self._policies.hold(tenants))

    # -- pods of this host ---------------------------------------------------------------------

    def put_port(self, key: EndpointKey, port: LocalPort) -> None:
        """Set the port of an endpoint of this host. Raises Invalid as `put` does."""
        self.endpoints.put_port(key, port)
        self.pod_policies.put_port(port.record)

    def remove_port(self, key: EndpointKey) -> None:
        """Remove the port of an endpoint of this host."""
        self.endpoints.remove_port(key)
        self.pod_policies.remove_port(key)

    # -- services of Kubernetes ----------------------------------------------------------------

    def put_kube_service(self, service: KubeService) -> None:
        """Add or replace a service of Kubernetes, which pods of every tenant may use."""
        self.services.put_kube(service)
        self.names.put_kube_service(service)

    def remove_kube_service(self, key: str) -> None:
        """Remove a service of Kubernetes."""
        self.services.remove_kube(key)
        self.names.remove_kube_service(key)

    def set_kubernetes_partial(self, *, partial: bool) -> None:
        """Set whether services of Kubernetes may exist that are not known here."""
        # A host that never heard of Kubernetes, or lost its memory of it, must not take a server
        # that is away for a cluster without services (ADR 19).
        if partial != self._kubernetes_partial:
            self._kubernetes_partial = partial
            self._alter_everything()

    # -- what would be -------------------------------------------------------------------------

    def twin(self) -> "WorldBuilder":
        """Return another builder for this host that knows all but records, and shares nothing.

        It has the host's ports and tunnels, the VRF ids and the services of Kubernetes. Records are
        to be put. It has no policies of Kubernetes.
        """
        other = WorldBuilder(
            self._host,
            self.forwarding.fwd_mode,
            self.vrfs,
            guard=self._guard,
            cluster_domain=self._cluster_domain,
            dns_address=self._dns_address,
            underlay=self.underlay.copy(),
        )
        for bridge, state in self._bridges.items():
            other._bridges[bridge].adopt(state)
        for key, port in self.endpoints.ports.items():
            other.put_port(key, port)
        for service in self.services.kube.values():
            other.put_kube_service(service)
        other.set_kubernetes_partial(partial=self._kubernetes_partial)
        return other

    # -- completeness and revisions ------------------------------------------------------------

    def set_complete(self) -> None:
        """Note that every source has been read once: from now on absence means gone (ADR 11)."""
        if not self._complete:
            self._complete = True
            self._follow(self.networks.set_complete())
            self._alter_everything()

    @property
    def complete(self) -> bool:
        """True once every source has been read: absence means gone."""
        # Until then nothing may be deleted, neither flows nor ports (ADR 11). To an agent that
        # starts, what it has not read yet looks the same as what was removed while it was away. If
        # it deleted that, pods that run would be cut off until the rest has been read.
        return self._complete

    def set_revision(self, prefix: str, revision: int) -> None:
        """Note that all records under a store prefix, up to a revision, have been put."""
        self._revisions[prefix] = revision
        self._signal.set()

    def forget_revision(self, prefix: str) -> None:
        """Note that the revisions of a prefix mean nothing any more: the store went back."""
        self._revisions.pop(prefix, None)
        self._signal.set()

    @property
    def revisions(self) -> Mapping[str, int]:
        """The revision up to which this World has the records, by store prefix."""
        return dict(self._revisions)

    # -- what comes out ------------------------------------------------------------------------

    def observe(self, notify: Callable[[], None]) -> None:
        """Call `notify` on the first change since the last `take`, and now if there was one.

        There is one observer. It takes the state of every bridge each time.
        """
        self._signal.observe(notify)

    @property
    def vrfs(self) -> Mapping[TenantName, int]:
        """VRF ids in use; they must be stored before flows with them are sent."""
        return self._vrfs.ids

    def private_addresses(self) -> dict[IPv4Address, IPv4Address]:
        """Return the private addresses of this host's pods, by their own; none in bridge mode."""
        routing = self.forwarding.fwd_mode is FwdMode.ROUTING
        return self.endpoints.private_addresses() if routing else {}

    def take(self, bridge: Bridge) -> tuple[World, Changes]:
        """Return the bridge's World and what changed in it since the last call."""
        self._begin_take()
        return self._bridges[bridge].take(self._cluster())

    def take_changed(self) -> dict[Bridge, tuple[World, Changes]]:
        """Return what `take` does, for each bridge of which something changed."""
        self._begin_take()
        cluster = self._cluster()
        return {b: state.take(cluster) for b, state in self._bridges.items() if state.dirty}

    def dirty(self, bridge: Bridge) -> bool:
        """Return whether anything changed since the last `take`."""
        self._update_bridges()
        return self._bridges[bridge].dirty

    def _begin_take(self) -> None:
        # Services mark the bridges here, late. The change they notified of is still pending then,
        # so that these marks cause no further round.
        self._update_bridges()
        self._signal.clear()

    def _update_bridges(self) -> None:
        self._spare()
        self.services.update_bridges()
        self.pod_policies.update_bridges()

    def _spare(self) -> None:
        """Keep the bridges' objects off what hosts need for themselves."""
        # This is done when the World is taken, too: hosts come by the thousand.
        addresses, management = self.underlay.kept, self.management.known
        before = self._spared
        if addresses is before.addresses and management is before.management:
            return
        self._spared = Spared(addresses, management)
        changed = before.addresses.keys() ^ addresses.keys()
        subjects = self.pod_policies.policies.subjects.items()
        judged = [name for name, one in subjects if one.address in changed] if changed else []
        for state in self._bridges.values():
            state.spare(self._spared)
            state.alter_kube_policies((), judged)

    def faults(self) -> list[str]:
        """Return what is wrong with objects that would take what hosts need for themselves."""
        found = (fault for state in self._bridges.values() for fault in state.faults())
        return list(dict.fromkeys(found))

    def _cluster(self) -> World:
        """Return the part of the World that both bridges share."""
        return World(
            fwd_mode=self.forwarding.fwd_mode,
            arp_mode=self.forwarding.arp_mode,
            rules={} if self.forwarding.fabric_enforces else self._policies.rules,
            policy_classes={} if self.forwarding.fabric_enforces else self._policies.classes,
            policy_entries=dict(self.pod_policies.policies.entries),
            policy_subjects=dict(self.pod_policies.policies.subjects),
            launches=dict(self._launches),
            dns_address=self._dns_address,
            guard=self._guard,
            kubernetes_partial=self._kubernetes_partial,
            complete=self._complete,
        )


def _handler(_type: type[_F], put: Callable[[_F], None], remove: Callable[[_F], None]) -> _Handler:
    """Return a handler; the type is there for the type checker, which compares both methods."""
    return _Handler(put, remove)


def _ignore(_fact: object) -> None:
    """Take a record that changes nothing."""
