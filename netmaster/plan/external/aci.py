"""What the ACI gateway is sent about application profiles, and which changes require it.

Pure: from the view and the writes of a plan to `ProfileOperation`s, each with the JSON that
`netmaster.external.aci` sends; `netmaster.external.external_effects` performs them. A rule becomes
a filter of a contract that one group provides and the other consumes. Deny rules are left out,
because a fabric denies what no contract allows.

Source: docs/original/netmaster-rest.md §3.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contivmodel import wire
from contivmodel.objects import (
    AciGw,
    AppProfile,
    EndpointGroup,
    ExtContractsGroup,
    Policy,
    RestObject,
    Rule,
)
from core import ids, keys
from core.errors import Invalid, NotFound
from core.ids import GroupName, TenantName
from netmaster.indexes.backlinks import Place, policy_key, references
from netmaster.plan.objects.contracts import CONSUMED
from netmaster.stored import PendingProfile, Write
from netmaster.view import View, network_named
from state.records import NetworkRecord

API_VERSION: Final = "v1.2"
CONSUME: Final = "CONSUME"
PROVIDE: Final = "PROVIDE"


@dataclass(frozen=True, slots=True)
class ProfileOperation:
    """What the gateway must do about one profile: delete it if it is `known`, then create it.

    `wanted` is the body to create it with, None for a profile that is only deleted.
    """

    profile: str
    known: bool
    wanted: str | None

    @property
    def effect(self) -> PendingProfile:
        """The stored intent, deleted on success."""
        return PendingProfile(self.profile)


def operations(view: View, writes: Sequence[Write]) -> tuple[ProfileOperation, ...]:
    """Return the operations that a plan's writes require; none on another fabric than ACI.

    Raises Invalid where the gateway cannot express a profile as it would be.
    """
    # Computed from the writes of any plan, so that no other module has to know which changes the
    # gateway needs: a new rule may affect the profiles of all groups that have its policy.
    if not view.is_aci:
        return ()
    before, after = _PlannedObjects(view), _PlannedObjects(view, writes)
    affected = {key for place in after.changed for key in _affected_profiles(before, after, place)}
    found = (_operation(before, after, key) for key in sorted(affected))
    return tuple(operation for operation in found if operation is not None)


def sync_operation(view: View, profile: str) -> ProfileOperation:
    """Return the operation that syncs the gateway with the store for one profile."""
    planned = _PlannedObjects(view)
    wanted = _body(planned, profile) if planned.find(AppProfile.kind, profile) else None
    return ProfileOperation(profile, known=True, wanted=wanted)


def deletion(profile: str) -> str:
    """Return the body of the request that deletes a profile."""
    tenant, _, name = profile.partition(":")
    return wire.dumps({"tenant": tenant, "app-prof": name}).decode()


class _PlannedObjects:
    """The REST objects of a view as they will be after a plan's writes."""

    def __init__(self, view: View, writes: Sequence[Write] = ()) -> None:
        self.view = view
        self.changed: dict[Place, RestObject | None] = {
            keys.parse_obj(write.key): write.record
            if isinstance(write.record, RestObject)
            else None
            for write in writes
            if write.key.startswith(keys.OBJECTS)
        }

    def find(self, kind: str, key: str) -> RestObject | None:
        """Return an object."""
        if (kind, key) in self.changed:
            return self.changed[kind, key]
        return self.view.objects[kind].get(key)

    def naming(self, kind: str, place: Place) -> Iterator[RestObject]:
        """Yield the objects of a kind that reference another object, ordered by key."""
        known = set(self.view.members(kind, *place))
        known |= {key for changed_kind, key in self.changed if changed_kind == kind}
        for key in sorted(known):
            found = self.find(kind, key)
            if found is not None and place in references(found):
                yield found

    def rules(self, place: Place) -> Iterator[Rule]:
        """Yield the rules of a policy, or those that name a group as their peer."""
        for rule in self.naming(Rule.kind, place):
            if isinstance(rule, Rule) and self.find(Policy.kind, policy_key(rule)) is not None:
                yield rule


def _affected_profiles(
    before: _PlannedObjects, after: _PlannedObjects, place: Place
) -> Iterator[str]:
    """Yield the profiles whose body may change when an object changes."""
    kind, key = place
    if kind == AppProfile.kind:
        yield key
    elif kind == EndpointGroup.kind:
        yield from after.view.members(AppProfile.kind, *place)
    elif kind in (Policy.kind, Rule.kind):
        for planned in (before, after):
            found = planned.find(kind, key)
            rules = planned.rules(place) if kind == Policy.kind else (found,)
            groups = {
                group
                for rule in rules
                if isinstance(rule, Rule)
                for group in _groups_of(planned, rule)
            }
            for group in groups:
                yield from planned.view.members(AppProfile.kind, EndpointGroup.kind, group)


def _groups_of(planned: _PlannedObjects, rule: Rule) -> Iterator[str]:
    yield from planned.view.members(EndpointGroup.kind, Policy.kind, policy_key(rule))
    if rule.links.match_endpoint_group.key:
        yield rule.links.match_endpoint_group.key


def _operation(
    before: _PlannedObjects, after: _PlannedObjects, profile: str
) -> ProfileOperation | None:
    known = before.find(AppProfile.kind, profile) is not None
    if after.find(AppProfile.kind, profile) is None:
        return ProfileOperation(profile, known=known, wanted=None) if known else None
    wanted = _body(after, profile)
    if known and _last_body(before, profile) == wanted:
        return None
    return ProfileOperation(profile, known=known, wanted=wanted)


def _last_body(planned: _PlannedObjects, profile: str) -> str | None:
    """Return the body that was sent last; None where none could be made."""
    try:
        return _body(planned, profile)
    except (Invalid, NotFound):
        return None


def _body(planned: _PlannedObjects, key: str) -> str:
    profile = planned.find(AppProfile.kind, key)
    if not isinstance(profile, AppProfile):
        raise NotFound("appProfile not found")
    tenant = TenantName(profile.tenant_name)
    groups = [
        group
        for name in dict.fromkeys(profile.endpoint_groups)
        if isinstance(
            group := planned.find(EndpointGroup.kind, ids.object_key(tenant, name)), EndpointGroup
        )
    ]
    contracts: dict[str, list[dict[str, str]]] = {}
    for policy in dict.fromkeys(name for group in groups for name in group.policies):
        for rule in _allowed(planned, (Policy.kind, ids.object_key(tenant, policy))):
            filters = contracts.setdefault(_contract(rule), [])
            filters.append(_without_empty(protocol=rule.protocol, servport=str(rule.port)))
    spec = {
        "aci-gw-api-version": API_VERSION,
        "gw-config": planned.find(AciGw.kind, "aciGw"),
        "tenant": tenant,
        "app-prof": profile.app_profile_name,
        "contract-defs": [
            {"name": name, "filter-info": filters} for name, filters in contracts.items()
        ],
        "epgs": [_group(planned, group) for group in groups],
    }
    return wire.dumps({name: value for name, value in spec.items() if value}).decode()


def _gateway(network: NetworkRecord) -> str:
    """Return the gateway with its prefix length; of IPv6 if there is no other."""
    if network.subnet:
        return f"{network.gateway}/{network.subnet_len}"
    return f"{network.ipv6_gateway}/{network.ipv6_subnet_len}"


def _group(planned: _PlannedObjects, group: EndpointGroup) -> dict[str, Any]:
    tenant = TenantName(group.tenant_name)
    record = planned.view.groups.get(ids.group_key(GroupName(group.group_name), tenant))
    network = network_named(planned.view, group.network_name, tenant)
    if record is None or network is None:
        raise NotFound("key not found")
    links = [*_own_links(planned, group), *_peer_links(planned, group), *_external(planned, group)]
    spec: dict[str, Any] = {
        "name": group.group_name,
        "nw-name": group.network_name,
        "gw-cidr": _gateway(network),
        "vlan-tag": str(record.pkt_tag),
    }
    if links:
        spec["contract-links"] = list({tuple(link.items()): link for link in links}.values())
    return spec


def _own_links(planned: _PlannedObjects, group: EndpointGroup) -> Iterator[dict[str, str]]:
    """Yield a group's part in the contracts of its own policies."""
    for policy in group.policies:
        key = ids.object_key(TenantName(group.tenant_name), policy)
        for rule in _allowed(planned, (Policy.kind, key)):
            yield _internal(CONSUME if rule.to_endpoint_group else PROVIDE, rule)


def _peer_links(planned: _PlannedObjects, group: EndpointGroup) -> Iterator[dict[str, str]]:
    """Yield a group's part in the contracts of rules that name it as their peer."""
    for rule in _allowed(planned, (EndpointGroup.kind, group.key)):
        yield _internal(CONSUME if rule.from_endpoint_group else PROVIDE, rule)


def _external(planned: _PlannedObjects, group: EndpointGroup) -> Iterator[dict[str, str]]:
    for name in group.ext_contracts_grps:
        key = ids.object_key(TenantName(group.tenant_name), name)
        found = planned.find(ExtContractsGroup.kind, key)
        if isinstance(found, ExtContractsGroup):
            kind = CONSUME if found.contracts_type == CONSUMED else PROVIDE
            for contract in found.contracts:
                yield _without_empty(
                    **{"link-kind": kind, "contract-dn": contract, "contract-kind": "EXTERNAL"}
                )


def _allowed(planned: _PlannedObjects, place: Place) -> Iterator[Rule]:
    """Yield the rules that become contracts; Invalid for one that the fabric cannot express."""
    for rule in planned.rules(place):
        if rule.from_ip_address or rule.from_network or rule.to_ip_address or rule.to_network:
            raise Invalid(
                f"rule {rule.key} is invalid, "
                "only From/ToEndpointGroup may be specified in ACI mode"
            )
        if rule.action != "deny" and not rule.audit:
            yield rule


def _contract(rule: Rule) -> str:
    if rule.from_endpoint_group:
        return f"{rule.policy_name}Frm{rule.from_endpoint_group}"
    if rule.to_endpoint_group:
        return f"{rule.policy_name}To{rule.to_endpoint_group}"
    return f"{rule.policy_name}Expose"


def _internal(kind: str, rule: Rule) -> dict[str, str]:
    return {"link-kind": kind, "contract-name": _contract(rule), "contract-kind": "INTERNAL"}


def _without_empty(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
