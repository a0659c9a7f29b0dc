"""The REST objects of `/api/v1` that this build serves (docs/original/netmaster-rest.md §2).

Declared order is the order on the wire: `key`, then fields by Go name, then `link-sets`, `links`.
"""

from typing import ClassVar, TypeVar

from contivmodel.checks import (
    Address4,
    Address6,
    AddressMatch,
    AddressPool,
    ArpMode,
    Bandwidth,
    Burst,
    Direction,
    Dscp,
    Encapsulation,
    Enforcement,
    Family,
    ForwardMode,
    GatewayName,
    GlobalName,
    InfraType,
    Name,
    NetworkKind,
    NodeBindings,
    OptionalName,
    PacketTag,
    PathBindings,
    PhysicalDomain,
    Port,
    Priority,
    PrivateSubnet,
    Protocol,
    Quota,
    RuleAction,
    ShortText,
    Subnet4,
    Subnet6,
    Tag,
    VlanRange,
    VxlanRange,
    YesOrNo,
    validate,
)
from contivmodel.wire import WireModel, field
from core.errors import Invalid


class Link(WireModel):
    """A reference to another object; always emitted, even when empty."""

    go_package: ClassVar[str] = "modeldb"

    type: str = field("type")
    key: str = field("key")


LinkSet = dict[str, Link]
"""Keyed by the target's key."""


class RestObject(WireModel):
    """Base of all objects. `kind` is the object type in links, keys of the store and errors.

    `plural` is the path segment under `/api/v1/`.
    """

    kind: ClassVar[str]
    plural: ClassVar[str]
    key_fields: ClassVar[tuple[str, ...]]

    key: str = field("key")

    def object_key(self) -> str:
        """Return the key made of the key fields, joined by `:`."""
        return ":".join(str(getattr(self, name)) for name in self.key_fields)


class TenantLinkSets(WireModel):
    """Everything that belongs to a tenant."""

    app_profiles: LinkSet = field("AppProfiles", default_factory=dict)
    endpoint_groups: LinkSet = field("EndpointGroups", default_factory=dict)
    net_profiles: LinkSet = field("NetProfiles", default_factory=dict)
    networks: LinkSet = field("Networks", default_factory=dict)
    policies: LinkSet = field("Policies", default_factory=dict)
    servicelbs: LinkSet = field("Servicelbs", default_factory=dict)
    volume_profiles: LinkSet = field("VolumeProfiles", default_factory=dict)
    volumes: LinkSet = field("Volumes", default_factory=dict)


class Tenant(RestObject):
    """A namespace for everything else.

    The quotas, which the original does not have, are how much it may have, 0 for any number.
    """

    kind: ClassVar[str] = "tenant"
    plural: ClassVar[str] = "tenants"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name",)

    address_quota: Quota = field("addressQuota", default=0)
    default_network: OptionalName = field("defaultNetwork")
    endpoint_quota: Quota = field("endpointQuota", default=0)
    group_quota: Quota = field("groupQuota", default=0)
    network_prefixes: list[str] = field("networkPrefixes", default_factory=list)
    network_quota: Quota = field("networkQuota", default=0)
    policy_quota: Quota = field("policyQuota", default=0)
    rule_quota: Quota = field("ruleQuota", default=0)
    tenant_name: Name = field("tenantName")
    used_address_quota: Quota = field("usedAddressQuota", default=0)
    link_sets: TenantLinkSets = field("link-sets", default_factory=TenantLinkSets)

    @property
    def has_usage_quota(self) -> bool:
        """Return whether a quota limits how many of something the tenant may have."""
        objects = self.network_quota or self.group_quota or self.policy_quota or self.rule_quota
        return bool(objects or self.endpoint_quota or self.used_address_quota)


class NetworkLinkSets(WireModel):
    """The users of a network."""

    endpoint_groups: LinkSet = field("EndpointGroups", default_factory=dict)
    servicelbs: LinkSet = field("Servicelbs", default_factory=dict)
    services: LinkSet = field("Services", default_factory=dict)


class NetworkLinks(WireModel):
    """The tenant of a network."""

    tenant: Link = field("Tenant", default_factory=Link)


class Network(RestObject):
    """A subnet with an encapsulation and a tag.

    `first_family`, which the original does not have, says which address of a pod comes first:
    "ipv4", as without it, or "ipv6".
    `exclude`, which it does not have either, are addresses that nobody is given.
    """

    kind: ClassVar[str] = "network"
    plural: ClassVar[str] = "networks"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "network_name")

    cfgd_tag: Tag = field("cfgdTag")
    encap: Encapsulation = field("encap")
    exclude: list[str] = field("exclude", default_factory=list)
    first_family: Family = field("firstFamily")
    gateway: Address4 = field("gateway")
    ipv6_gateway: Address6 = field("ipv6Gateway")
    ipv6_subnet: Subnet6 = field("ipv6Subnet")
    network_name: Name = field("networkName")
    nw_type: NetworkKind = field("nwType")
    pkt_tag: PacketTag = field("pktTag", default=0)
    subnet: Subnet4 = field("subnet")
    tenant_name: Name = field("tenantName")
    link_sets: NetworkLinkSets = field("link-sets", default_factory=NetworkLinkSets)
    links: NetworkLinks = field("links", default_factory=NetworkLinks)


class EndpointGroupLinkSets(WireModel):
    """The objects attached to a group."""

    ext_contracts_grps: LinkSet = field("ExtContractsGrps", default_factory=dict)
    match_rules: LinkSet = field("MatchRules", default_factory=dict)
    policies: LinkSet = field("Policies", default_factory=dict)
    services: LinkSet = field("Services", default_factory=dict)


class EndpointGroupLinks(WireModel):
    """The objects that a group belongs to."""

    app_profile: Link = field("AppProfile", default_factory=Link)
    net_profile: Link = field("NetProfile", default_factory=Link)
    network: Link = field("Network", default_factory=Link)
    tenant: Link = field("Tenant", default_factory=Link)


class EndpointGroup(RestObject):
    """Endpoints of one network that share policies.

    `exclude`, which the original does not have, are addresses that they are not given.
    """

    kind: ClassVar[str] = "endpointGroup"
    plural: ClassVar[str] = "endpointGroups"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "group_name")

    cfgd_tag: Tag = field("cfgdTag")
    exclude: list[str] = field("exclude", default_factory=list)
    ext_contracts_grps: list[str] = field("extContractsGrps", default_factory=list)
    group_name: Name = field("groupName")
    ip_pool: AddressPool = field("ipPool")
    net_profile: ShortText = field("netProfile")
    network_name: Name = field("networkName")
    policies: list[str] = field("policies", default_factory=list)
    tenant_name: Name = field("tenantName")
    link_sets: EndpointGroupLinkSets = field("link-sets", default_factory=EndpointGroupLinkSets)
    links: EndpointGroupLinks = field("links", default_factory=EndpointGroupLinks)


class PolicyLinkSets(WireModel):
    """The groups and the rules of a policy."""

    endpoint_groups: LinkSet = field("EndpointGroups", default_factory=dict)
    rules: LinkSet = field("Rules", default_factory=dict)


class PolicyLinks(WireModel):
    """The tenant of a policy."""

    tenant: Link = field("Tenant", default_factory=Link)


class Policy(RestObject):
    """Rules for the endpoints of all groups that name the policy.

    `enforcement`, which the original does not have, is "audit" while all its rules have `audit`,
    those that are added too. "enforcing" takes it off all of them, and is shown until that is done.
    """

    kind: ClassVar[str] = "policy"
    plural: ClassVar[str] = "policys"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "policy_name")

    enforcement: Enforcement = field("enforcement")
    policy_name: Name = field("policyName")
    tenant_name: Name = field("tenantName")
    link_sets: PolicyLinkSets = field("link-sets", default_factory=PolicyLinkSets)
    links: PolicyLinks = field("links", default_factory=PolicyLinks)


class RuleLinkSets(WireModel):
    """The policy of a rule."""

    policies: LinkSet = field("Policies", default_factory=dict)


class RuleLinks(WireModel):
    """The remote group, if the rule names one."""

    match_endpoint_group: Link = field("MatchEndpointGroup", default_factory=Link)


class Rule(RestObject):
    """Allows or denies traffic into (`in`) or out of (`out`) a policy's groups.

    `log`, which the original does not have, records what it decides; it is not shown unless set.
    Nor has the original `audit`, which has the rule decide nothing: what it would deny is recorded,
    and the other rules decide.
    """

    kind: ClassVar[str] = "rule"
    plural: ClassVar[str] = "rules"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "policy_name", "rule_id")

    action: RuleAction = field("action")
    audit: bool = field("audit", default=False)
    direction: Direction = field("direction")
    from_endpoint_group: OptionalName = field("fromEndpointGroup")
    from_ip_address: AddressMatch = field("fromIpAddress")
    from_network: OptionalName = field("fromNetwork")
    log: bool = field("log", default=False)
    policy_name: Name = field("policyName")
    port: Port = field("port", default=0)
    priority: Priority = field("priority", default=0)
    protocol: Protocol = field("protocol")
    rule_id: Name = field("ruleId")
    tenant_name: Name = field("tenantName")
    to_endpoint_group: OptionalName = field("toEndpointGroup")
    to_ip_address: AddressMatch = field("toIpAddress")
    to_network: OptionalName = field("toNetwork")
    link_sets: RuleLinkSets = field("link-sets", default_factory=RuleLinkSets)
    links: RuleLinks = field("links", default_factory=RuleLinks)


class Global(RestObject):
    """Cluster-wide settings; there is one, named `global`. It has no links."""

    kind: ClassVar[str] = "global"
    plural: ClassVar[str] = "globals"
    key_fields: ClassVar[tuple[str, ...]] = ("name",)

    arp_mode: ArpMode = field("arpMode")
    fwd_mode: ForwardMode = field("fwdMode")
    name: GlobalName = field("name")
    network_infra_type: InfraType = field("networkInfraType")
    pvt_subnet: PrivateSubnet = field("pvtSubnet")
    vlans: VlanRange = field("vlans")
    vxlans: VxlanRange = field("vxlans")


class GroupLinkSet(WireModel):
    """The groups that use an object, or that it consists of."""

    endpoint_groups: LinkSet = field("EndpointGroups", default_factory=dict)


class TenantLink(WireModel):
    """The tenant of an object."""

    tenant: Link = field("Tenant", default_factory=Link)


class Netprofile(RestObject):
    """A bandwidth and a mark for the traffic of the groups that name it."""

    kind: ClassVar[str] = "netprofile"
    plural: ClassVar[str] = "netprofiles"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "profile_name")

    dscp: Dscp = field("DSCP", default=0)
    bandwidth: Bandwidth = field("bandwidth")
    burst: Burst = field("burst", default=0)
    profile_name: Name = field("profileName")
    tenant_name: OptionalName = field("tenantName")
    link_sets: GroupLinkSet = field("link-sets", default_factory=GroupLinkSet)
    links: TenantLink = field("links", default_factory=TenantLink)


class ExtContractsGroup(RestObject):
    """Contracts of an ACI fabric that groups provide or consume. It has no links."""

    kind: ClassVar[str] = "extContractsGroup"
    plural: ClassVar[str] = "extContractsGroups"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "contracts_group_name")

    contracts: list[str] = field("contracts", default_factory=list)
    contracts_group_name: Name = field("contractsGroupName")
    contracts_type: str = field("contractsType")
    tenant_name: Name = field("tenantName")
    link_sets: GroupLinkSet = field("link-sets", default_factory=GroupLinkSet)


class AppProfile(RestObject):
    """Groups that an ACI fabric treats as one application."""

    kind: ClassVar[str] = "appProfile"
    plural: ClassVar[str] = "appProfiles"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "app_profile_name")

    app_profile_name: Name = field("appProfileName")
    endpoint_groups: list[str] = field("endpointGroups", default_factory=list)
    tenant_name: Name = field("tenantName")
    link_sets: GroupLinkSet = field("link-sets", default_factory=GroupLinkSet)
    links: TenantLink = field("links", default_factory=TenantLink)


class AciGw(RestObject):
    """How the ACI gateway reaches the fabric; there is one. It has no links."""

    kind: ClassVar[str] = "aciGw"
    plural: ClassVar[str] = "aciGws"
    key_fields: ClassVar[tuple[str, ...]] = ("name",)

    enforce_policies: YesOrNo = field("enforcePolicies")
    include_common_tenant: YesOrNo = field("includeCommonTenant")
    name: GatewayName = field("name")
    node_bindings: NodeBindings = field("nodeBindings")
    path_bindings: PathBindings = field("pathBindings")
    physical_domain: PhysicalDomain = field("physicalDomain")


Object = TypeVar("Object", bound=RestObject)


def posted(obj: Object, key: str) -> Object:
    """Return a posted object with the URL's key and defaults filled in, validated.

    Raises Invalid: first if the key differs from the key fields, then for the first invalid field.
    """
    if obj.object_key() != key:
        raise Invalid("Invalid Key")
    return validate(obj.model_copy(update={"key": key}))
