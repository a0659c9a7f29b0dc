"""The rules for REST objects: what each refers to must exist, and has a record where it needs one.

The original writes an object and its record apart, and a failure in between leaves one of the two.
The record is what its agents work with. So an object without a record is left out, and an object is
made anew for a record in use; a record that nothing uses is left out, too. Link-sets are derived
here, and not kept. Source: docs/original/netmaster-rest.md, docs/original/recorded-defects.md.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from contivmodel.checks import validate
from contivmodel.objects import (
    AppProfile,
    EndpointGroup,
    EndpointGroupLinks,
    ExtContractsGroup,
    Global,
    Link,
    Netprofile,
    Network,
    NetworkLinks,
    Policy,
    RestObject,
    Rule,
    RuleLinks,
    Tenant,
)
from contivmodel.service_objects import Bgp, ServiceLB, ServiceLBLinks
from contivmodel.wire import blank
from core import ids, keys
from core.errors import Invalid
from core.ids import GroupName, NetworkId, TenantName
from netmaster import codec
from netmaster.indexes.backlinks import policy_key, references
from netmaster.plan.objects import rule as rule_plans
from netmaster.plan.objects import service as service_plans
from netmaster.plan.objects.globals import DEFAULT_VLANS, DEFAULT_VXLANS
from netmaster.plan.objects.globals import KEY as GLOBAL
from netmaster.takeover.draft import Draft
from netmaster.takeover.records import network_of
from netmaster.takeover.source import TakeoverSource
from state.records import NetworkRecord, NetworkType, ServiceRecord, TagRangesRecord

Some = TypeVar("Some", bound=RestObject)

_UNUSABLE = "it has no record, so the original could not use it"
_UNUSED = "nothing uses it, and its object is gone"


def translate(source: TakeoverSource, draft: Draft) -> None:
    """Add all objects of the original's to a draft, which has the records."""
    for key, value in source.objects.items():
        stored = draft.decoded(key, partial(codec.decode, key, value))
        if isinstance(stored, RestObject):
            draft.objects[stored.kind][stored.key] = _plain(stored)
    _global(draft)
    for reconcile in (_networks, _groups, _services, _peerings):
        reconcile(draft)
    _policies(draft)
    _profiles(draft)
    _tenants(draft)


def _plain(stored: RestObject) -> RestObject:
    """Return an object without link-sets, which are derived."""
    if "link_sets" not in type(stored).model_fields:
        return stored
    return stored.model_copy(update={"link_sets": blank(type(stored)).link_sets})


def _all(draft: Draft, kind: type[Some]) -> list[Some]:
    return [one for one in draft.objects[kind.kind].values() if isinstance(one, kind)]


def _put(draft: Draft, stored: RestObject) -> None:
    draft.objects[stored.kind][stored.key] = stored


def _made(draft: Draft, stored: RestObject, why: str) -> None:
    """Add an object that the original has not, or has otherwise."""
    _put(draft, stored)
    draft.change(keys.obj(stored.kind, stored.key), why)


def _drop(draft: Draft, stored: RestObject, why: str) -> None:
    del draft.objects[stored.kind][stored.key]
    draft.leave_out(keys.obj(stored.kind, stored.key), why)


def _global(draft: Draft) -> None:
    """Make object and records of the cluster's settings one; what agents use counts."""
    stored = draft.objects[Global.kind].get(GLOBAL)
    settings = draft.settings
    if settings is None:
        if stored is not None:
            _drop(draft, stored, _UNUSABLE)
        if draft.networks:
            text = "the settings were deleted: the first leader makes them, of its own flags"
            draft.note(keys.GLOBAL_CONFIG, text)
        draft.ranges = None
        return
    ranges = draft.ranges = draft.ranges or TagRangesRecord(
        vlans=DEFAULT_VLANS, vxlans=DEFAULT_VXLANS
    )
    wanted = Global(
        key=GLOBAL,
        arp_mode=settings.arp_mode,
        fwd_mode=settings.fwd_mode,
        name=GLOBAL,
        network_infra_type=settings.infra_type,
        pvt_subnet=settings.pvt_subnet,
        vlans=ranges.vlans,
        vxlans=ranges.vxlans,
    )
    if stored != wanted:
        _made(draft, wanted, "it becomes what the records of the settings say")


def _networks(draft: Draft) -> None:
    recorded = {ids.object_key(one.tenant, one.name): one for one in draft.networks.values()}
    for network in _all(draft, Network):
        if network.key not in recorded:
            _drop(draft, network, _UNUSABLE)
    used = set(_used_networks(draft))
    for key, record in recorded.items():
        if key in draft.objects[Network.kind]:
            continue
        if record.id in used:
            _made(draft, _network(record), "made from the network's record, which is in use")
        else:
            del draft.networks[record.id]
            draft.leave_out(keys.network(record.id), _UNUSED)


def _used_networks(draft: Draft) -> Iterator[NetworkId]:
    yield from (one.network for one in draft.endpoints.values())
    yield from map(network_of, draft.groups.values())
    yield from (ids.network_id(one.network, one.tenant) for one in draft.services.values())


def _network(record: NetworkRecord) -> Network:
    subnet = f"{record.first}/{record.subnet_len}" if record.subnet else ""
    if record.bounded:
        subnet = f"{record.first}-{record.last}/{record.subnet_len}"
    return Network(
        key=ids.object_key(record.tenant, record.name),
        cfgd_tag="" if record.network_tag == record.id else record.network_tag,
        encap=record.encap,
        gateway=record.gateway,
        ipv6_gateway=record.ipv6_gateway,
        ipv6_subnet=f"{record.ipv6_subnet}/{record.ipv6_subnet_len}" if record.ipv6_subnet else "",
        network_name=record.name,
        nw_type=record.type if record.type is not NetworkType.DATA else "data",
        pkt_tag=record.ext_pkt_tag or record.pkt_tag,
        subnet=subnet,
        tenant_name=record.tenant,
        links=NetworkLinks(tenant=Link(type=Tenant.kind, key=record.tenant)),
    )


def _groups(draft: Draft) -> None:
    recorded = {ids.object_key(one.tenant, one.name): one for one in draft.groups.values()}
    used = {one.group_key for one in draft.endpoints.values()}
    for group in _all(draft, EndpointGroup):
        if group.key not in recorded:
            _drop(draft, group, _UNUSABLE)
    for key, record in recorded.items():
        if key in draft.objects[EndpointGroup.kind]:
            continue
        if record.key not in used:
            del draft.groups[record.key]
            draft.leave_out(keys.group(record.key), _UNUSED)
            continue
        default = f"{record.name}.{record.tenant}"
        group = EndpointGroup(
            key=key,
            cfgd_tag="" if record.group_tag == default else record.group_tag,
            group_name=record.name,
            ip_pool=record.ip_pool,
            network_name=record.network,
            tenant_name=record.tenant,
        )
        _made(draft, group, "made from the group's record, which is in use; it has no policies")
    for group in _all(draft, EndpointGroup):
        _attach(draft, group)


def _attach(draft: Draft, group: EndpointGroup) -> None:
    """Drop what a group names that does not exist, and set its links."""
    tenant = TenantName(group.tenant_name)

    def exists(kind: type[RestObject]) -> Callable[[str], bool]:
        return lambda name: ids.object_key(tenant, name) in draft.objects[kind.kind]

    policies = list(filter(exists(Policy), dict.fromkeys(group.policies)))
    contracts = list(filter(exists(ExtContractsGroup), dict.fromkeys(group.ext_contracts_grps)))
    profile = next(filter(exists(Netprofile), filter(None, [group.net_profile])), "")
    linked = Link(type=Netprofile.kind, key=ids.object_key(tenant, profile)) if profile else Link()
    network = ids.object_key(tenant, group.network_name)
    wanted = group.model_copy(
        update={
            "policies": policies,
            "ext_contracts_grps": contracts,
            "net_profile": profile,
            # The link to an application profile is derived.
            "links": EndpointGroupLinks(
                net_profile=linked,
                network=Link(type=Network.kind, key=network),
                tenant=Link(type=Tenant.kind, key=tenant),
            ),
        }
    )
    _put(draft, wanted)
    before = [*group.policies, *group.ext_contracts_grps, *filter(None, [group.net_profile])]
    after = [*policies, *contracts, *filter(None, [profile])]
    if before != after:
        text = f"it named {', '.join(before)}; of these there are, once each: {', '.join(after)}"
        draft.change(keys.obj(EndpointGroup.kind, group.key), text)


def _services(draft: Draft) -> None:
    recorded = {ids.object_key(one.tenant, one.name): one for one in draft.services.values()}
    for service in _all(draft, ServiceLB):
        if service.key not in recorded:
            _drop(draft, service, _UNUSABLE)
    for key, record in recorded.items():
        if not all(map(service_plans.is_port, record.ports)):
            text = f"its ports {', '.join(record.ports)} are not all <port>:<port>:<protocol>"
            draft.refuse(keys.service_lb(record.key), text, "correct it")
        stored = draft.objects[ServiceLB.kind].get(key)
        wanted = _service(record, stored.ip_address if isinstance(stored, ServiceLB) else "")
        if stored is None:
            _made(draft, wanted, "made from the service's record, which is in use")
        elif stored != wanted:
            _made(draft, wanted, "it becomes what the service's record says")


def _service(record: ServiceRecord, requested: str) -> ServiceLB:
    network = ids.object_key(record.tenant, record.network)
    return ServiceLB(
        key=ids.object_key(record.tenant, record.name),
        ip_address=requested and record.ip_address,
        network_name=record.network,
        ports=list(record.ports),
        selectors=[f"{name}={value}" for name, value in record.selectors.items()],
        service_name=record.name,
        tenant_name=record.tenant,
        links=ServiceLBLinks(
            network=Link(type=Network.kind, key=network),
            tenant=Link(type=Tenant.kind, key=record.tenant),
        ),
    )


def _peerings(draft: Draft) -> None:
    for peering in _all(draft, Bgp):
        if peering.hostname not in draft.bgps:
            _drop(draft, peering, _UNUSABLE)
    for name, record in draft.bgps.items():
        wanted = Bgp(
            key=name,
            as_number=record.as_number,
            hostname=name,
            neighbor=record.neighbor,
            neighbor_as=record.neighbor_as,
            router_ip=record.router_ip,
            router_ipv6=record.router_ipv6,
            neighbor_ipv6=record.neighbor_ipv6,
        )
        if draft.objects[Bgp.kind].get(name) != wanted:
            _made(draft, wanted, "it becomes what the record of the peering says")


def _policies(draft: Draft) -> None:
    for rule in _all(draft, Rule):
        if policy_key(rule) not in draft.objects[Policy.kind]:
            _drop(draft, rule, "its policy is gone")
            continue
        rule = _without_subnet(draft, rule)  # noqa: PLW2901 - the same rule, corrected
        key = keys.obj(Rule.kind, rule.key)
        try:
            validate(rule)
            rule_plans.policy_rule(rule)
        except (Invalid, ValueError) as exc:
            draft.refuse(key, f"no switch can match it: {exc}", "delete it in the original")
        _put(draft, rule.model_copy(update={"links": RuleLinks(match_endpoint_group=_peer(rule))}))


def _without_subnet(draft: Draft, rule: Rule) -> Rule:
    """Remove the subnet that the original wrote into a rule which names a network."""
    named = ((rule.from_network, "from_ip_address"), (rule.to_network, "to_ip_address"))
    for network, attribute in named:
        if network and getattr(rule, attribute):
            text = f"it names network {network}, and the subnet is the network's own: removed"
            draft.change(keys.obj(Rule.kind, rule.key), text)
            rule = rule.model_copy(update={attribute: ""})
    return rule


def _peer(rule: Rule) -> Link:
    name = rule.from_endpoint_group or rule.to_endpoint_group
    if not name:
        return Link()
    key = ids.object_key(TenantName(rule.tenant_name), GroupName(name))
    return Link(type=EndpointGroup.kind, key=key)


def _profiles(draft: Draft) -> None:
    for profile in _all(draft, AppProfile):
        tenant = TenantName(profile.tenant_name)
        groups = [
            name
            for name in dict.fromkeys(profile.endpoint_groups)
            if ids.object_key(tenant, name) in draft.objects[EndpointGroup.kind]
        ]
        if groups != profile.endpoint_groups:
            changed = profile.model_copy(update={"endpoint_groups": groups})
            _made(draft, changed, f"of its groups there are, once each: {', '.join(groups)}")


def _tenants(draft: Draft) -> None:
    """Make the tenants that objects name; the original lets them be deleted."""
    known = draft.objects[Tenant.kind]
    for name in sorted(set(_named_tenants(one for _, one in draft.stored()))):
        if name not in known:
            why = "made, since objects belong to it"
            _made(draft, Tenant(key=name, tenant_name=name), why)


def _named_tenants(objects: Iterable[RestObject]) -> Iterator[str]:
    for one in objects:
        yield from (key for kind, key in references(one) if kind == Tenant.kind and key)
