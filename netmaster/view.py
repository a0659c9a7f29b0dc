"""The leader's own part of the store, in memory: what decisions are made against (ADR 9). Pure.

Built from the store's bytes (`View.load`) and updated by `apply` with committed and pending writes;
`netmaster.commits.commit` owns it. Beside the records it keeps indexes (`netmaster.indexes`) and
pools (`netmaster.ipam`), so that a decision about one endpoint costs the same among ten endpoints
and among ten thousand.
"""

import copy
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, TypeVar

from contivmodel.kinds import KINDS
from contivmodel.objects import Link, RestObject
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
from netmaster.indexes.endpoint_index import EndpointIndex
from netmaster.indexes.rest_objects import RestObjects
from netmaster.ipam.group_ids import GroupIds
from netmaster.ipam.network_addresses import NetworkAddresses
from netmaster.ipam.ranges import excluded
from netmaster.ipam.resting import AddressRest
from netmaster.ipam.segments import Segments, parse_vlans, parse_vxlans
from netmaster.known_underlay import KnownUnderlay
from netmaster.stored import (
    BlockLease,
    ChangeRecord,
    EndpointCleanup,
    GroupIdCursor,
    HostAbsence,
    HostDrain,
    KeptAnswer,
    PendingDockerNetwork,
    PendingEffect,
    PendingProfile,
    Stored,
    Write,
)
from state import schema, service_providers
from state.lineage import Lineage
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

_Plain = (
    ServiceRecord
    | BgpRecord
    | DocknetRecord
    | EndpointCleanup
    | HostAbsence
    | HostDrain
    | BlockLease
    | KeptAnswer
    | ChangeRecord
    | PendingEffect
)
K = TypeVar("K", bound=Hashable)
_LOAD_RANK: Final = {
    **dict.fromkeys(KINDS.values(), 0),
    TagRangesRecord: 1,
    NetworkRecord: 2,
    GroupRecord: 3,
    GrantRecord: 4,
}
"""The order in which a load puts records: pools before what is allocated from them.

Types that are not listed come last.
"""


class View:
    """All that the leader has stored, with indexes. Readers never change its attributes.

    Endpoints: `network_endpoints`, `group_endpoints`, `host_endpoints`, `same_container_id` and
    `labelled` are indexes of `endpoints`. `orphaned_rules` are those of
    `netmaster.indexes.rest_objects`.
    """

    # Invariant: applying writes one by one gives the same view as loading a store that has them. A
    # rebuild after a failure relies on it, and so does the next leader. So every index must follow
    # from the records, and what does not follow is stored (the cursor of group ids). Exceptions: a
    # load forgets the last IPv6 address and the highest sequence number of grants if their grants
    # were released. The tests' `Scene` compares the two views after each step.
    #
    # The view is optimistic: it holds writes that are not committed yet, so that the next decision
    # need not wait for the store. No caller is told before the commit (`netmaster.commits.commit`).

    def __init__(
        self, resting: AddressRest | None = None, underlay: KnownUnderlay | None = None
    ) -> None:
        self._resting = resting or AddressRest()
        self.underlay = underlay or KnownUnderlay()
        """The addresses of hosts, masters and the store, which the leader does not write."""
        self._rest = RestObjects(KINDS)
        self.objects = self._rest.objects
        self.claims = self._rest.claims
        self.limited_tenants = self._rest.limited_tenants
        self.orphaned_rules = self._rest.orphaned_rules
        self._endpoint_index = EndpointIndex()
        self.endpoints = self._endpoint_index.endpoints
        self.network_endpoints = self._endpoint_index.by_network
        self.group_endpoints = self._endpoint_index.by_group
        self.host_endpoints = self._endpoint_index.by_host
        self.same_container_id = self._endpoint_index.by_container_id
        self.labelled = self._endpoint_index.by_label

        self.networks: dict[NetworkId, NetworkRecord] = {}
        self.groups: dict[GroupKey, GroupRecord] = {}
        self.services: dict[ServiceKey, ServiceRecord] = {}
        self.bgps: dict[str, BgpRecord] = {}
        self.cleanups: dict[str, EndpointCleanup] = {}
        self.absences: dict[HostLabel, HostAbsence] = {}
        self.drains: dict[HostLabel, HostDrain] = {}
        self.block_leases: dict[HostLabel, BlockLease] = {}
        self.answers: dict[str, KeptAnswer] = {}
        self.changes: dict[int, ChangeRecord] = {}
        """By the place in the ring."""
        self.last_change = 0
        self.pending_effects: dict[str, PendingEffect] = {}
        self.docknets: dict[DocknetId, DocknetRecord] = {}
        self.global_record: GlobalRecord | None = None
        self.tag_ranges: TagRangesRecord | None = None
        self.unread: dict[str, bytes] = {}

        self.addresses: dict[NetworkId, NetworkAddresses] = {}
        self.reservations: dict[str, GrantRecord] = {}
        self.blocks: dict[HostLabel, dict[str, GrantRecord]] = {}
        """The grants of addresses that hosts hold ahead of their pods, by host and key."""
        self.kept: dict[tuple[NetworkId, str], dict[str, GrantRecord]] = {}
        """The grants that are kept for a pod or machine, there or away, by network, name and key.
        """
        self.network_tags: dict[str, NetworkId] = {}
        self.group_tags: dict[str, GroupKey] = {}
        self.segments = Segments()
        self.group_ids = GroupIds()
        self.group_id_cursor: GroupIdCursor | None = None
        self.schema: schema.SchemaStamp | None = None
        self.lineage = Lineage()
        self.next_seq = 1
        self._own_vlans: dict[GroupKey, int] = {}

    @property
    def is_aci(self) -> bool:
        """Return whether the fabric is ACI, so that the gateway must know of groups."""
        return self.global_record is not None and self.global_record.infra_type == "aci"

    @classmethod
    def load(cls, values: Mapping[str, bytes]) -> "View":
        """Return the view of a store's content; keys that are not the leader's are ignored.

        Raises SchemaMismatch for a store of another release; Invalid, naming the key, for a value
        that cannot be decoded.
        """
        schema.check(values.get(keys.SCHEMA))
        records = {
            key: codec.decode(key, value) for key, value in values.items() if codec.is_leaders(key)
        }
        return cls.of(records)

    @classmethod
    def of(
        cls,
        records: Mapping[str, Stored],
        resting: AddressRest | None = None,
        underlay: KnownUnderlay | None = None,
    ) -> "View":
        """Return the view of all records of a store, by their keys.

        Raises Invalid, naming the key, for a record that does not fit the others.
        """
        view = cls(resting, underlay)
        for key, record in sorted(records.items(), key=_load_rank):
            try:
                view._put(key, record)
            except ValueError as exc:
                raise Invalid(f"key {key}: {exc}") from exc
        for addresses in view.addresses.values():
            addresses.resume()
        view._rest.orphan_rules()
        return view

    def apply(self, writes: Sequence[Write]) -> None:
        """Apply a plan's writes; the plan was decided against this very view."""
        for write in writes:
            if write.rev is not None:  # another process owns the key, so the view does not hold it
                continue
            if write.record is None:
                self._delete(write.key)
            else:
                self._put(write.key, write.record)

    def copy(self) -> "View":
        """Return a view of the same content, to which writes can be applied on trial."""
        # Records and objects are immutable, so both views have the same ones; only what holds them
        # is copied. What may hold thousands is copied here, with the speed of `dict.copy`, and
        # `deepcopy` takes these copies for it: each object that it walks through costs it as much
        # as a hundred entries cost here, and the leader answers nobody meanwhile.
        flat: tuple[Mapping[Any, object], ...] = (
            *(self.endpoints, self.networks, self.groups, self.services, self.bgps, self.docknets),
            *(self.cleanups, self.absences, self.drains, self.answers, self.pending_effects),
            *(self.block_leases, self.same_container_id),
            *(self.changes, self.reservations, self.network_tags, self.group_tags),
            *(of.grants for of in self.addresses.values()),
            *self.orphaned_rules.values(),
            *self.objects.values(),
        )
        nested: tuple[Mapping[Any, Mapping[Any, object]], ...] = (
            *(self.network_endpoints, self.group_endpoints, self.host_endpoints, self.labelled),
            *(self.blocks, self.kept),
        )
        copies: dict[int, object] = {id(each): dict(each) for each in flat}
        for index in nested:
            copies[id(index)] = {entry: dict(members) for entry, members in index.items()}
        return copy.deepcopy(self, copies)

    def read(self, kind: str, key: str) -> RestObject | None:
        """Return a REST object with its link-sets; None if there is none."""
        stored = self.objects[kind].get(key)
        return None if stored is None else self.linked(stored)

    def listed(self, kind: str) -> bytes:
        """Return all REST objects of a kind as a line of JSON, with their link-sets."""
        return self._rest.backlinks.listed(kind, self.objects[kind])

    def providers(self, service: ServiceRecord) -> list[Candidate]:
        """Return the endpoints that serve a service, in order."""
        # Endpoints that have all labels are among those of the rarest one.
        selected = [self.labelled.get(label, {}) for label in service.selectors.items()]
        fewest = min(selected, key=len, default={})
        found = (self.candidate(self.endpoints[key]) for key in fewest)
        return service_providers.providers(service, (one for one in found if one is not None))

    def candidate(self, endpoint: EndpointRecord) -> Candidate | None:
        """Return an endpoint as a candidate provider; None if its network is gone."""
        network = self.networks.get(endpoint.network)
        return Candidate(endpoint, network.name, network.tenant) if network else None

    def linked(self, stored: RestObject) -> RestObject:
        """Return an object with its link-sets, also one that is not stored yet."""
        return self._rest.backlinks.linked(stored)

    def members(self, kind: str, of: str, key: str) -> Mapping[str, Link]:
        """Return links to the objects of a kind that reference one object, by their keys.

        `of` and `key` are the kind and key of the referenced object.
        """
        return self._rest.backlinks.members(kind, of, key)

    def _put(self, key: str, record: Stored) -> None:
        match record:
            case GrantRecord():
                self._put_grant(key, record)
            case EndpointRecord():
                self._endpoint_index.put(record)
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
                | BlockLease()
                | KeptAnswer()
                | ChangeRecord()
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
            case schema.SchemaStamp() | Lineage():
                self._put_of_the_store(record)
            case RestObject():
                self._rest.put(record)
            case bytes():
                self.unread[key] = record
            case _:
                raise Invalid(f"key {key}: a {type(record).__name__} is not the leader's")

    def _put_of_the_store(self, record: schema.SchemaStamp | Lineage) -> None:
        """Keep what describes the store itself."""
        if isinstance(record, Lineage):
            self.lineage = record
        else:
            self.schema = record

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
                # It removes endpoints with lower numbers, and the grants it has removed no longer
                # tell how far these went. A new endpoint must get a number it does not cover.
                self.next_seq = max(self.next_seq, record.before)
            case HostAbsence():
                self.absences[record.label] = record
            case HostDrain():
                self.drains[record.label] = record
            case BlockLease():
                self.block_leases[record.label] = record
            case KeptAnswer():
                self.answers[record.digest] = record
            case ChangeRecord():
                self.changes[int(keys.after(keys.CHANGES, key))] = record
                self.last_change = max(self.last_change, record.number)
            case PendingProfile() | PendingDockerNetwork():
                self.pending_effects[key] = record

    def _delete(self, key: str) -> None:
        if key.startswith(keys.GRANTS):
            self._delete_grant(key)
        elif key.startswith(keys.ENDPOINTS):
            self._endpoint_index.remove(EndpointKey(keys.after(keys.ENDPOINTS, key)))
        elif key.startswith(keys.OBJECTS):
            self._rest.remove(key)
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
        """Remove a record that no index and no pool depends on."""
        if key.startswith(keys.SERVICE_LBS):
            del self.services[ServiceKey(keys.after(keys.SERVICE_LBS, key))]
        elif key.startswith(keys.BGPS):
            del self.bgps[keys.after(keys.BGPS, key)]
        elif key.startswith(keys.DOCKNETS):  # the guard of swarm mode deletes what does not exist
            self.docknets.pop(DocknetId(keys.after(keys.DOCKNETS, key)), None)
        elif key.startswith(keys.CLEANUPS):
            del self.cleanups[key]
        elif key.startswith(keys.ABSENCES):
            del self.absences[HostLabel(keys.after(keys.ABSENCES, key))]
        elif key.startswith(keys.DRAINS):
            del self.drains[HostLabel(keys.after(keys.DRAINS, key))]
        elif key.startswith(keys.ADDRESS_BLOCKS):
            del self.block_leases[HostLabel(keys.after(keys.ADDRESS_BLOCKS, key))]
        elif key.startswith(keys.ANSWERS):
            del self.answers[keys.after(keys.ANSWERS, key)]
        elif key.startswith(keys.CHANGES):
            del self.changes[int(keys.after(keys.CHANGES, key))]
        elif key.startswith((keys.ACI_LAUNCHES, keys.DOCKNET_DOUBTS)):
            del self.pending_effects[key]
        else:
            del self.unread[key]

    def _put_grant(self, key: str, grant: GrantRecord) -> None:
        nid, address = keys.parse_grant(key)
        addresses = self._addresses(nid)
        before = addresses.grants.get(address)
        addresses.grant(address, grant)
        self._drop_from_indexes(key, before)
        if grant.owner is GrantOwner.RESERVATION:
            self.reservations[key] = grant
        elif grant.owner is GrantOwner.BLOCK:
            self.blocks.setdefault(block_host(grant), {})[key] = grant
        if grant.kept_for:
            self.kept.setdefault((nid, grant.kept_for), {})[key] = grant
        if grant.seq >= self.next_seq:
            self.next_seq = grant.seq + 1

    def _delete_grant(self, key: str) -> None:
        nid, address = keys.parse_grant(key)
        self._drop_from_indexes(key, self.addresses[nid].grants.get(address))
        self.addresses[nid].release(address)
        self._drop_addresses_if_unused(nid)

    def _drop_from_indexes(self, key: str, before: GrantRecord | None) -> None:
        self.reservations.pop(key, None)
        if before is not None and before.owner is GrantOwner.BLOCK:
            _drop(self.blocks, block_host(before), key)
        if before is not None and before.kept_for:
            _drop(self.kept, (keys.parse_grant(key)[0], before.kept_for), key)

    def _put_network(self, network: NetworkRecord) -> None:
        known = network.id in self.networks
        self.networks[network.id] = network
        if known:  # what it excludes is all of a network that can change
            self._addresses(network.id).exclude(network)
            return
        self.network_tags[network.network_tag] = network.id
        self.segments.take(network)
        self._addresses(network.id).open(network)

    def _delete_network(self, nid: NetworkId) -> None:
        network = self.networks.pop(nid, None)
        if network is None:
            return
        self.network_tags.pop(network.network_tag, None)
        self.segments.release(network)
        self.addresses[nid].close()
        self._drop_addresses_if_unused(nid)

    def _put_group(self, group: GroupRecord) -> None:
        # A VLAN unlike the network's is the group's own (ACI), and is taken from the VLAN range.
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
            ranges = excluded(group.exclude)
            addresses.v4.carve(group.key, *parse_pool(group.ip_pool), ranges.v4)

    def _delete_group(self, key: GroupKey) -> None:
        group = self.groups.pop(key, None)
        if group is None:
            return
        self.group_tags.pop(group.group_tag, None)
        self.group_ids.release(group.group_id)
        vlan = self._own_vlans.pop(key, None)
        if vlan is not None:
            self.segments.release_vlan(vlan)
        addresses = self.addresses.get(network_of(group))
        if addresses is not None and addresses.v4 is not None:
            addresses.v4.restore(key)

    def _addresses(self, nid: NetworkId) -> NetworkAddresses:
        addresses = self.addresses.get(nid)
        if addresses is None:
            addresses = self.addresses[nid] = NetworkAddresses(self._resting.of(nid))
        return addresses

    def _drop_addresses_if_unused(self, nid: NetworkId) -> None:
        # Grants outlive an infra network, whose hosts release their addresses only after it.
        if nid not in self.networks and not self.addresses[nid].grants:
            del self.addresses[nid]


def _drop(index: dict[K, dict[str, GrantRecord]], entry: K, key: str) -> None:
    """Remove a grant from an index, and an entry that is empty then."""
    del index[entry][key]
    if not index[entry]:
        del index[entry]


def block_host(grant: GrantRecord) -> HostLabel:
    """Return the host that holds an address ahead of its pods, by the token of the grant."""
    return HostLabel(grant.owner_id.partition("/")[0])


def network_of(group: GroupRecord) -> NetworkId:
    """Return the id of a group's network."""
    return ids.network_id(NetworkName(group.network), TenantName(group.tenant))


def network_named(view: View, name: str, tenant: str) -> NetworkRecord | None:
    """Return the network of a name in a tenant, None if this tenant has none of that name.

    Ask this, not `networks` by an id that is made of names: names have dots, so network `n.dev` of
    tenant `red` would have the id of `n` of `dev.red`, and its users what is another tenant's.
    """
    nid = own_network_id(view, name, tenant)
    return None if nid is None else view.networks.get(nid)


def own_network_id(view: View, name: str, tenant: str) -> NetworkId | None:
    """Return the id of a tenant's network that may be gone; None for that of another tenant's.

    Endpoints of hosts outlive their infra network, and are deleted by its name.
    """
    nid = ids.network_id(NetworkName(name), TenantName(tenant))
    record = view.networks.get(nid)
    return None if record is not None and record.tenant != tenant else nid


def _load_rank(stored: tuple[str, Stored]) -> int:
    return _LOAD_RANK.get(type(stored[1]), len(_LOAD_RANK))
