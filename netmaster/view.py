"""The leader's own part of the store, in memory: what decisions are made against (ADR 9).

Built from the store's bytes (`View.load`) and kept in step by `apply`, with what is committed and
what is on its way. Beside the records it keeps indexes, so that a decision about one endpoint
costs the same among ten endpoints and among ten thousand. No I/O; `netmaster.commit` owns it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from contivmodel.objects import Link, Network, Policy, RestObject, Rule
from core import ids, keys
from core.addresses import parse_pool
from core.errors import Invalid
from core.ids import (
    DocknetId,
    EndpointKey,
    GroupKey,
    HostLabel,
    NetworkId,
    NetworkName,
    ServiceKey,
    TenantName,
)
from netmaster import codec
from netmaster.backlinks import Backlinks, policy_key
from netmaster.ipam.claims import SubnetClaims
from netmaster.ipam.group_ids import GroupIds
from netmaster.ipam.network import NetworkAddresses
from netmaster.ipam.segments import Segments, parse_vlans, parse_vxlans
from netmaster.stored import (
    EndpointCleanup,
    GroupIdCursor,
    HostAbsence,
    HostDrain,
    PendingDockerNetwork,
    PendingEffect,
    PendingProfile,
    Stored,
    Write,
)
from state import schema, service_providers
from state.records import (
    BgpRecord,
    DocknetRecord,
    EndpointRecord,
    GlobalRecord,
    GrantOwner,
    GrantRecord,
    GroupRecord,
    NetworkRecord,
    ServiceRecord,
    TagRangesRecord,
)
from state.service_providers import Candidate

K = TypeVar("K", bound=str | tuple[str, str])

_Plain = (
    ServiceRecord
    | BgpRecord
    | DocknetRecord
    | EndpointCleanup
    | HostAbsence
    | HostDrain
    | PendingEffect
)
_LOAD_RANK: Final = {
    **dict.fromkeys(codec.KINDS.values(), 0),
    TagRangesRecord: 1,
    NetworkRecord: 2,
    GroupRecord: 3,
    GrantRecord: 4,
}
"""Pools come before what is taken out of them; whatever is not named comes last."""


class View:
    """All that the leader has stored, with indexes.

    Readers look at the attributes and never change them; `apply` does.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, RestObject]] = {kind: {} for kind in codec.KINDS}
        self.networks: dict[NetworkId, NetworkRecord] = {}
        self.endpoints: dict[EndpointKey, EndpointRecord] = {}
        self.groups: dict[GroupKey, GroupRecord] = {}
        self.services: dict[ServiceKey, ServiceRecord] = {}
        self.bgps: dict[str, BgpRecord] = {}
        self.cleanups: dict[str, EndpointCleanup] = {}
        self.absences: dict[HostLabel, HostAbsence] = {}
        self.drains: dict[HostLabel, HostDrain] = {}
        self.doubts: dict[str, PendingEffect] = {}
        self.docknets: dict[DocknetId, DocknetRecord] = {}
        self.global_record: GlobalRecord | None = None
        self.tag_ranges: TagRangesRecord | None = None
        self.unread: dict[str, bytes] = {}

        self.addresses: dict[NetworkId, NetworkAddresses] = {}
        self.reservations: dict[str, GrantRecord] = {}
        self.network_endpoints: dict[NetworkId, dict[EndpointKey, None]] = {}
        self.group_endpoints: dict[GroupKey, dict[EndpointKey, None]] = {}
        self.host_endpoints: dict[HostLabel, dict[EndpointKey, None]] = {}
        self.same_endpoint_id: dict[str, dict[EndpointKey, None]] = {}
        self.same_container_id: dict[str, dict[EndpointKey, None]] = {}
        self.labelled: dict[tuple[str, str], dict[EndpointKey, None]] = {}
        self.network_tags: dict[str, NetworkId] = {}
        self.group_tags: dict[str, GroupKey] = {}
        self.claims = SubnetClaims()
        self.segments = Segments()
        self.group_ids = GroupIds()
        self.group_id_cursor: GroupIdCursor | None = None
        self.schema: schema.SchemaStamp | None = None
        self.next_seq = 1
        self.condemned: dict[str, dict[str, Rule]] = {}
        """Rules that a deleted policy has left in the store, by its key and their keys there."""
        self._names = Backlinks()
        self._own_vlans: dict[GroupKey, int] = {}

    @property
    def is_aci(self) -> bool:
        """Return whether the fabric is ACI, so that groups are the gateway's business too."""
        return self.global_record is not None and self.global_record.infra_type == "aci"

    @classmethod
    def load(cls, values: Mapping[str, bytes]) -> "View":
        """Return the view of a store's content; keys that are not the leader's are passed over.

        Raises SchemaMismatch for a store that is not ours to read; Invalid, naming the key, for a
        value that cannot be read.
        """
        schema.check(values.get(keys.SCHEMA))
        view = cls()
        stored = [
            (key, codec.decode(key, value))
            for key, value in values.items()
            if codec.is_leaders(key)
        ]
        for key, record in sorted(stored, key=_load_rank):
            try:
                view._put(key, record)
            except ValueError as exc:
                raise Invalid(f"key {key}: {exc}") from exc
        for addresses in view.addresses.values():
            addresses.resume()
        view._condemn_orphans()
        return view

    def apply(self, writes: Sequence[Write]) -> None:
        """Make the changes a plan wants; the plan was made against this very view."""
        for write in writes:
            if write.rev is not None:  # not the leader's key: it is not in here
                continue
            if write.record is None:
                self._delete(write.key)
            else:
                self._put(write.key, write.record)

    def read(self, kind: str, key: str) -> RestObject | None:
        """Return a REST object with its link-sets; None if there is none."""
        stored = self.objects[kind].get(key)
        return None if stored is None else self.linked(stored)

    def listed(self, kind: str) -> bytes:
        """Return all REST objects of a kind as a line of JSON, with their link-sets."""
        return self._names.listed(kind, self.objects[kind])

    def providers(self, service: ServiceRecord) -> list[Candidate]:
        """Return who serves a service, in order."""
        selected = [self.labelled.get(label, {}) for label in service.selectors.items()]
        fewest = min(selected, key=len, default={})
        found = (self.candidate(self.endpoints[key]) for key in fewest)
        return service_providers.providers(service, (one for one in found if one is not None))

    def candidate(self, endpoint: EndpointRecord) -> Candidate | None:
        """Return an endpoint as one that may serve; None if its network is gone."""
        network = self.networks.get(endpoint.network)
        return Candidate(endpoint, network.name, network.tenant) if network else None

    def linked(self, stored: RestObject) -> RestObject:
        """Return an object with the link-sets it has, or will have once it is stored."""
        return self._names.linked(stored)

    def members(self, kind: str, of: str, key: str) -> Mapping[str, Link]:
        """Return links to the objects of a kind that name one object, by their keys.

        `of` and `key` are the kind and key of the one named.
        """
        return self._names.members(kind, of, key)

    def _put(self, key: str, record: Stored) -> None:
        match record:
            case GrantRecord():
                self._put_grant(key, record)
            case EndpointRecord():
                self._delete_endpoint(record.key)
                self._put_endpoint(record)
            case NetworkRecord():
                self._put_network(record)
            case GroupRecord():
                self._delete_group(record.key)
                self._put_group(record)
            case (
                ServiceRecord()
                | BgpRecord()
                | DocknetRecord()
                | EndpointCleanup()
                | HostAbsence()
                | HostDrain()
                | PendingProfile()
                | PendingDockerNetwork()
            ):
                self._put_plain(key, record)
            case GlobalRecord():
                self.global_record = record
            case TagRangesRecord():
                self.tag_ranges = record
                self.segments.configure(parse_vlans(record.vlans), parse_vxlans(record.vxlans))
            case GroupIdCursor():
                self.group_id_cursor = record
                self.group_ids.last = record.last
            case schema.SchemaStamp():
                self.schema = record
            case RestObject():
                self._put_object(record)
            case bytes():
                self.unread[key] = record
            case _:
                raise Invalid(f"key {key}: a {type(record).__name__} is not the leader's")

    def _put_plain(self, key: str, record: _Plain) -> None:
        """Keep a record that no index and no pool depends on."""
        match record:
            case ServiceRecord():
                self.services[record.key] = record
            case BgpRecord():
                self.bgps[record.hostname] = record
            case DocknetRecord():
                self.docknets[record.id] = record
            case EndpointCleanup():
                self.cleanups[key] = record
            case HostAbsence():
                self.absences[record.label] = record
            case HostDrain():
                self.drains[record.label] = record
            case PendingProfile() | PendingDockerNetwork():
                self.doubts[key] = record

    def _delete(self, key: str) -> None:
        if key.startswith(keys.GRANTS):
            self._delete_grant(key)
        elif key.startswith(keys.ENDPOINTS):
            self._delete_endpoint(EndpointKey(keys.after(keys.ENDPOINTS, key)))
        elif key.startswith(keys.OBJECTS):
            self._delete_object(key)
        elif key.startswith(keys.NETWORKS):
            self._delete_network(NetworkId(keys.after(keys.NETWORKS, key)))
        elif key.startswith(keys.GROUPS):
            self._delete_group(GroupKey(keys.after(keys.GROUPS, key)))
        elif key == keys.GLOBAL_CONFIG:
            self.global_record = None
        elif key == keys.TAG_RANGES:
            self.tag_ranges = None
            self.segments.configure(None, None)
        else:
            self._delete_plain(key)

    def _delete_plain(self, key: str) -> None:
        """Forget a record that no index and no pool depends on."""
        if key.startswith(keys.SERVICE_LBS):
            del self.services[ServiceKey(keys.after(keys.SERVICE_LBS, key))]
        elif key.startswith(keys.BGPS):
            del self.bgps[keys.after(keys.BGPS, key)]
        elif key.startswith(keys.DOCKNETS):  # a swarm's guard deletes what is not there
            self.docknets.pop(DocknetId(keys.after(keys.DOCKNETS, key)), None)
        elif key.startswith(keys.CLEANUPS):
            del self.cleanups[key]
        elif key.startswith(keys.ABSENCES):
            del self.absences[HostLabel(keys.after(keys.ABSENCES, key))]
        elif key.startswith(keys.DRAINS):
            del self.drains[HostLabel(keys.after(keys.DRAINS, key))]
        elif key.startswith((keys.ACI_LAUNCHES, keys.DOCKNET_DOUBTS)):
            del self.doubts[key]
        else:
            del self.unread[key]

    def _put_grant(self, key: str, grant: GrantRecord) -> None:
        nid, address = keys.parse_grant(key)
        self._addresses(nid).grant(address, grant)
        if grant.owner is GrantOwner.RESERVATION:
            self.reservations[key] = grant
        else:
            self.reservations.pop(key, None)
        if grant.seq >= self.next_seq:
            self.next_seq = grant.seq + 1

    def _delete_grant(self, key: str) -> None:
        nid, address = keys.parse_grant(key)
        self.addresses[nid].release(address)
        self.reservations.pop(key, None)
        self._forget_if_empty(nid)

    def _put_endpoint(self, endpoint: EndpointRecord) -> None:
        key = endpoint.key
        self.endpoints[key] = endpoint
        self.network_endpoints.setdefault(endpoint.network, {})[key] = None
        self.host_endpoints.setdefault(endpoint.homing_host, {})[key] = None
        self.same_endpoint_id.setdefault(endpoint.endpoint_id, {})[key] = None
        if endpoint.group_key:
            self.group_endpoints.setdefault(GroupKey(endpoint.group_key), {})[key] = None
        if endpoint.container_id:
            self.same_container_id.setdefault(endpoint.container_id, {})[key] = None
        for label in _labels(endpoint):
            self.labelled.setdefault(label, {})[key] = None

    def _delete_endpoint(self, key: EndpointKey) -> None:
        endpoint = self.endpoints.pop(key, None)
        if endpoint is None:
            return
        _drop(self.network_endpoints, endpoint.network, key)
        _drop(self.host_endpoints, endpoint.homing_host, key)
        _drop(self.same_endpoint_id, endpoint.endpoint_id, key)
        if endpoint.group_key:
            _drop(self.group_endpoints, GroupKey(endpoint.group_key), key)
        if endpoint.container_id:
            _drop(self.same_container_id, endpoint.container_id, key)
        for label in _labels(endpoint):
            _drop(self.labelled, label, key)

    def _put_network(self, network: NetworkRecord) -> None:
        self.networks[network.id] = network
        self.network_tags[network.network_tag] = network.id
        self.segments.take(network)
        self._addresses(network.id).open(network)

    def _delete_network(self, nid: NetworkId) -> None:
        network = self.networks.pop(nid, None)
        if network is None:
            return
        self.network_tags.pop(network.network_tag, None)
        self.segments.give(network)
        self.addresses[nid].close()
        self._forget_if_empty(nid)

    def _put_group(self, group: GroupRecord) -> None:
        self.groups[group.key] = group
        self.group_tags[group.group_tag] = group.key
        self.group_ids.take(group.group_id)
        network = self.networks.get(network_of(group))
        if network is not None and group.pkt_tag != network.pkt_tag:
            self._own_vlans[group.key] = group.pkt_tag
            self.segments.take_vlan(group.pkt_tag)
        if group.ip_pool:
            addresses = self.addresses.get(network_of(group))
            if addresses is None or addresses.v4 is None:
                raise Invalid(f"group {group.key}: its network {group.network} is missing")
            addresses.v4.carve(group.key, *parse_pool(group.ip_pool))

    def _delete_group(self, key: GroupKey) -> None:
        group = self.groups.pop(key, None)
        if group is None:
            return
        self.group_tags.pop(group.group_tag, None)
        self.group_ids.give(group.group_id)
        vlan = self._own_vlans.pop(key, None)
        if vlan is not None:
            self.segments.give_vlan(vlan)
        addresses = self.addresses.get(network_of(group))
        if addresses is not None and addresses.v4 is not None:
            addresses.v4.restore(key)

    def _addresses(self, nid: NetworkId) -> NetworkAddresses:
        addresses = self.addresses.get(nid)
        if addresses is None:
            addresses = self.addresses[nid] = NetworkAddresses()
        return addresses

    def _forget_if_empty(self, nid: NetworkId) -> None:
        if nid not in self.networks and not self.addresses[nid].grants:
            del self.addresses[nid]

    def _put_object(self, record: RestObject) -> None:
        objects = self.objects[record.kind]
        before = objects.get(record.key)
        if before is not None:
            self._forget_object(before)
        objects[record.key] = record
        self._names.add(record)
        if isinstance(record, Network):
            self.claims.add(record)

    def _delete_object(self, key: str) -> None:
        kind, object_key = keys.parse_obj(key)
        removed = self.objects[kind].pop(object_key, None)
        if removed is None:
            self._forget_condemned(key)
            return
        self._forget_object(removed)
        if isinstance(removed, Policy):
            for rule in list(self.members(Rule.kind, Policy.kind, removed.key)):
                self._condemn(rule)

    def _forget_object(self, removed: RestObject) -> None:
        self._names.remove(removed)
        if isinstance(removed, Network):
            self.claims.remove(removed)

    def _condemn_orphans(self) -> None:
        rules, policies = self.objects[Rule.kind], self.objects[Policy.kind]
        for rule in list(rules.values()):
            if isinstance(rule, Rule) and policy_key(rule) not in policies:
                self._condemn(rule.key)

    def _condemn(self, key: str) -> None:
        """Take a rule out of sight: its policy is gone, and its own key soon will be."""
        rule = self.objects[Rule.kind].pop(key)
        self._names.remove(rule)
        if isinstance(rule, Rule):
            place = keys.obj(Rule.kind, key)
            self.condemned.setdefault(policy_key(rule), {})[place] = rule

    def _forget_condemned(self, key: str) -> None:
        for policy, rules in self.condemned.items():
            if key in rules:
                del rules[key]
                if not rules:
                    del self.condemned[policy]
                return
        raise Invalid(f"key {key}: there is no such object")


def network_of(group: GroupRecord) -> NetworkId:
    """Return the id of a group's network."""
    return ids.network_id(NetworkName(group.network), TenantName(group.tenant))


def _labels(endpoint: EndpointRecord) -> Iterable[tuple[str, str]]:
    """Return what services may select an endpoint by: nothing while its container is not up."""
    return (endpoint.labels or {}).items() if endpoint.container_id else ()


def _drop(index: dict[K, dict[EndpointKey, None]], entry: K, key: EndpointKey) -> None:
    """Take a key out of an index; an entry without keys goes."""
    members = index[entry]
    del members[key]
    if not members:
        del index[entry]


def _load_rank(stored: tuple[str, Stored]) -> int:
    return _LOAD_RANK.get(type(stored[1]), len(_LOAD_RANK))
