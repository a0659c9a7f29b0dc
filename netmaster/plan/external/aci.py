"""What the ACI gateway is told of an application profile, and which changes it must hear of (§3).

Pure: from the view and the writes of a plan to `GatewayLaunch`es, each with the JSON that
`netmaster.aci` sends; `netmaster.external_effects` sees to it that gateway and store agree. A rule
becomes a filter of a contract that one side provides and the other consumes; deny rules say
nothing, for a fabric denies what no contract allows.
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
from core.ids import GroupName, NetworkName, TenantName
from netmaster.backlinks import Place, named, policy_key
from netmaster.plan.objects.contracts import CONSUMED
from netmaster.stored import PendingProfile, Write
from netmaster.view import View

API_VERSION: Final = "v1.2"
CONSUME: Final = "CONSUME"
PROVIDE: Final = "PROVIDE"


@dataclass(frozen=True, slots=True)
class GatewayLaunch:
    """What the gateway must do about one profile: forget it, if it knows it, then make it anew.

    `wanted` is what to send, None for a profile that is to be gone.
    """

    profile: str
    known: bool
    wanted: str | None

    @property
    def doubt(self) -> PendingProfile:
        """What is in doubt until it is done."""
        return PendingProfile(self.profile)


def launches(view: View, writes: Sequence[Write]) -> tuple[GatewayLaunch, ...]:
    """Return what a plan's writes mean for the gateway; nothing on another fabric.

    Raises Invalid where a profile would come about that the gateway cannot express.
    """
    if not view.is_aci:
        return ()
    before, after = _Picture(view), _Picture(view, writes)
    touched = {key for place in after.changed for key in _profiles_touched(before, after, place)}
    found = (_launch(before, after, key) for key in sorted(touched))
    return tuple(launch for launch in found if launch is not None)


def launched(view: View, profile: str) -> GatewayLaunch:
    """Return what makes the gateway hold of a profile what the store says, whatever it holds."""
    picture = _Picture(view)
    wanted = _body(picture, profile) if picture.find(AppProfile.kind, profile) else None
    return GatewayLaunch(profile, known=True, wanted=wanted)


def deletion(profile: str) -> str:
    """Return what is sent to have a profile forgotten."""
    tenant, _, name = profile.partition(":")
    return wire.dumps({"tenant": tenant, "app-prof": name}).decode()


class _Picture:
    """The objects of a view as they will be with a plan's writes made."""

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
        """Yield the objects of a kind that name one, by key."""
        known = set(self.view.members(kind, *place))
        known |= {key for changed_kind, key in self.changed if changed_kind == kind}
        for key in sorted(known):
            found = self.find(kind, key)
            if found is not None and place in named(found):
                yield found

    def rules(self, place: Place) -> Iterator[Rule]:
        """Yield the rules of a policy, or those that name a group as their other end."""
        for rule in self.naming(Rule.kind, place):
            if isinstance(rule, Rule) and self.find(Policy.kind, policy_key(rule)) is not None:
                yield rule


def _profiles_touched(before: _Picture, after: _Picture, place: Place) -> Iterator[str]:
    """Yield the profiles whose launch may look different once an object has changed."""
    kind, key = place
    if kind == AppProfile.kind:
        yield key
    elif kind == EndpointGroup.kind:
        yield from after.view.members(AppProfile.kind, *place)
    elif kind in (Policy.kind, Rule.kind):
        for picture in (before, after):
            found = picture.find(kind, key)
            rules = picture.rules(place) if kind == Policy.kind else (found,)
            groups = {
                group
                for rule in rules
                if isinstance(rule, Rule)
                for group in _groups_of(picture, rule)
            }
            for group in groups:
                yield from picture.view.members(AppProfile.kind, EndpointGroup.kind, group)


def _groups_of(picture: _Picture, rule: Rule) -> Iterator[str]:
    yield from picture.view.members(EndpointGroup.kind, Policy.kind, policy_key(rule))
    if rule.links.match_endpoint_group.key:
        yield rule.links.match_endpoint_group.key


def _launch(before: _Picture, after: _Picture, profile: str) -> GatewayLaunch | None:
    known = before.find(AppProfile.kind, profile) is not None
    if after.find(AppProfile.kind, profile) is None:
        return GatewayLaunch(profile, known=known, wanted=None) if known else None
    wanted = _body(after, profile)
    if known and _held(before, profile) == wanted:
        return None
    return GatewayLaunch(profile, known=known, wanted=wanted)


def _held(picture: _Picture, profile: str) -> str | None:
    """Return what the gateway was told last; None where it could not be told."""
    try:
        return _body(picture, profile)
    except (Invalid, NotFound):
        return None


def _body(picture: _Picture, key: str) -> str:
    profile = picture.find(AppProfile.kind, key)
    if not isinstance(profile, AppProfile):
        raise NotFound("appProfile not found")
    tenant = TenantName(profile.tenant_name)
    groups = [
        group
        for name in dict.fromkeys(profile.endpoint_groups)
        if isinstance(
            group := picture.find(EndpointGroup.kind, ids.object_key(tenant, name)), EndpointGroup
        )
    ]
    contracts: dict[str, list[dict[str, str]]] = {}
    for policy in dict.fromkeys(name for group in groups for name in group.policies):
        for rule in _allowed(picture, (Policy.kind, ids.object_key(tenant, policy))):
            filters = contracts.setdefault(_contract(rule), [])
            filters.append(_without_empty(protocol=rule.protocol, servport=str(rule.port)))
    spec = {
        "aci-gw-api-version": API_VERSION,
        "gw-config": picture.find(AciGw.kind, "aciGw"),
        "tenant": tenant,
        "app-prof": profile.app_profile_name,
        "contract-defs": [
            {"name": name, "filter-info": filters} for name, filters in contracts.items()
        ],
        "epgs": [_group(picture, group) for group in groups],
    }
    return wire.dumps({name: value for name, value in spec.items() if value}).decode()


def _group(picture: _Picture, group: EndpointGroup) -> dict[str, Any]:
    tenant = TenantName(group.tenant_name)
    record = picture.view.groups.get(ids.group_key(GroupName(group.group_name), tenant))
    network = picture.view.networks.get(ids.network_id(NetworkName(group.network_name), tenant))
    if record is None or network is None:
        raise NotFound("key not found")
    links = [*_own_links(picture, group), *_peer_links(picture, group), *_external(picture, group)]
    spec: dict[str, Any] = {
        "name": group.group_name,
        "nw-name": group.network_name,
        "gw-cidr": f"{network.gateway}/{network.subnet_len}",
        "vlan-tag": str(record.pkt_tag),
    }
    if links:
        spec["contract-links"] = list({tuple(link.items()): link for link in links}.values())
    return spec


def _own_links(picture: _Picture, group: EndpointGroup) -> Iterator[dict[str, str]]:
    """Yield a group's part in the contracts of its own policies."""
    for policy in group.policies:
        key = ids.object_key(TenantName(group.tenant_name), policy)
        for rule in _allowed(picture, (Policy.kind, key)):
            yield _internal(CONSUME if rule.to_endpoint_group else PROVIDE, rule)


def _peer_links(picture: _Picture, group: EndpointGroup) -> Iterator[dict[str, str]]:
    """Yield a group's part in the contracts of rules that name it as their other end."""
    for rule in _allowed(picture, (EndpointGroup.kind, group.key)):
        yield _internal(CONSUME if rule.from_endpoint_group else PROVIDE, rule)


def _external(picture: _Picture, group: EndpointGroup) -> Iterator[dict[str, str]]:
    for name in group.ext_contracts_grps:
        key = ids.object_key(TenantName(group.tenant_name), name)
        found = picture.find(ExtContractsGroup.kind, key)
        if isinstance(found, ExtContractsGroup):
            kind = CONSUME if found.contracts_type == CONSUMED else PROVIDE
            for contract in found.contracts:
                yield _without_empty(
                    **{"link-kind": kind, "contract-dn": contract, "contract-kind": "EXTERNAL"}
                )


def _allowed(picture: _Picture, place: Place) -> Iterator[Rule]:
    """Yield the rules that make contracts; Invalid for one that the fabric cannot express."""
    for rule in picture.rules(place):
        if rule.from_ip_address or rule.from_network or rule.to_ip_address or rule.to_network:
            raise Invalid(
                f"rule {rule.key} is invalid, "
                "only From/ToEndpointGroup may be specified in ACI mode"
            )
        if rule.action != "deny":
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
