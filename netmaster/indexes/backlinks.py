"""References between REST objects, and the link-sets of replies made from them (ADR 18).

An object references its tenant, its network, and what is attached to it. `Backlinks` indexes these
references by target, so that a target finds all objects that reference it. One table says which
link-set of which class shows them. `netmaster.indexes.rest_objects` keeps a `Backlinks` in sync.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from contivmodel.objects import (
    AppProfile,
    EndpointGroup,
    ExtContractsGroup,
    Link,
    LinkSet,
    Netprofile,
    Network,
    Policy,
    RestObject,
    Rule,
    Tenant,
)
from contivmodel.service_objects import ServiceLB
from contivmodel.wire import blank, dumps
from core import ids
from core.ids import TenantName

Place = tuple[str, str]
"""An object's kind and key."""

LINK_SETS: Final[Mapping[str, Mapping[str, str]]] = {
    Tenant.kind: {
        "app_profiles": AppProfile.kind,
        "endpoint_groups": EndpointGroup.kind,
        "net_profiles": Netprofile.kind,
        "networks": Network.kind,
        "servicelbs": ServiceLB.kind,
        "policies": Policy.kind,
    },
    Network.kind: {"endpoint_groups": EndpointGroup.kind, "servicelbs": ServiceLB.kind},
    EndpointGroup.kind: {
        "ext_contracts_grps": ExtContractsGroup.kind,
        "match_rules": Rule.kind,
        "policies": Policy.kind,
    },
    Policy.kind: {"endpoint_groups": EndpointGroup.kind, "rules": Rule.kind},
    Rule.kind: {"policies": Policy.kind},
    Netprofile.kind: {"endpoint_groups": EndpointGroup.kind},
    ExtContractsGroup.kind: {"endpoint_groups": EndpointGroup.kind},
    AppProfile.kind: {"endpoint_groups": EndpointGroup.kind},
}
"""Kind -> its link-sets -> the kind of object each of them holds."""


class Backlinks:
    """The references of all objects by target, and the encoded objects with their link-sets."""

    # Link-sets are computed and never stored. Stored on both sides they would be two writes that
    # can disagree, and every new group would have to write its tenant and network as well: groups
    # could then no longer share a commit.
    #
    # A reply changes only with the object itself and with what references it. `add` and `remove`
    # drop the encoded reply of the object and of all its targets, so a cached one is never stale.
    # Listing a thousand networks then encodes only the changed ones.

    def __init__(self) -> None:
        self._members: dict[tuple[str, Place], LinkSet] = {}
        self._encoded: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        """Encoded objects with link-sets, by class and key."""
        self._lists: dict[str, bytes] = {}
        """Encoded lists, by class."""

    def add(self, stored: RestObject) -> None:
        """Add the references of an object."""
        link = Link(type=stored.kind, key=stored.key)
        self._invalidate(stored.kind, stored.key)
        for place in references(stored):
            self._invalidate(*place)
            self._members.setdefault((stored.kind, place), {})[stored.key] = link

    def remove(self, stored: RestObject) -> None:
        """Remove the references of an object."""
        self._invalidate(stored.kind, stored.key)
        for place in references(stored):
            self._invalidate(*place)
            members = self._members.get((stored.kind, place), {})
            members.pop(stored.key, None)
            if not members:
                self._members.pop((stored.kind, place), None)

    def members(self, kind: str, of: str, key: str) -> Mapping[str, Link]:
        """Return links to the objects of a class that reference a target, by their keys.

        `of` and `key` are the class and key of the target.
        """
        return self._members.get((kind, (of, key)), {})

    def linked(self, stored: RestObject) -> RestObject:
        """Return an object with its link-sets: what references it, and what it references."""
        wanted = LINK_SETS.get(stored.kind)
        if wanted is None:
            return stored
        if isinstance(stored, EndpointGroup):
            stored = self._in_profile(stored)
        own = list(references(stored))
        sets: dict[str, LinkSet] = {}
        for attribute, kind in wanted.items():
            members = dict(self.members(kind, stored.kind, stored.key))
            members |= {key: Link(type=kind, key=key) for its, key in own if its == kind}
            if members:
                sets[attribute] = members
        return _with_link_sets(stored, sets) if sets else stored

    def listed(self, kind: str, objects: Mapping[str, RestObject]) -> bytes:
        """Return all objects of a class as a line of JSON with link-sets."""
        line = self._lists.get(kind)
        if line is None:
            texts = (self._text(kind, key, stored) for key, stored in objects.items())
            line = self._lists[kind] = b"[" + b",".join(texts) + b"]\n"
        return line

    def _text(self, kind: str, key: str, stored: RestObject) -> bytes:
        text = self._encoded[kind].get(key)
        if text is None:
            text = self._encoded[kind][key] = dumps(self.linked(stored))
        return text

    def _invalidate(self, kind: str, key: str) -> None:
        self._lists.pop(kind, None)
        self._encoded[kind].pop(key, None)

    def _in_profile(self, group: EndpointGroup) -> EndpointGroup:
        """Return a group with a link to its application profile, the last by name of several."""
        profiles = self.members(AppProfile.kind, EndpointGroup.kind, group.key)
        if not profiles:
            return group
        links = group.links.model_copy(update={"app_profile": profiles[max(profiles)]})
        return group.model_copy(update={"links": links})


def references(stored: RestObject) -> Iterator[Place]:
    """Yield class and key of what an object references."""
    match stored:
        case Network() | Netprofile() | Policy():
            yield Tenant.kind, stored.tenant_name
        case EndpointGroup():
            tenant = TenantName(stored.tenant_name)
            yield Tenant.kind, tenant
            yield Network.kind, ids.object_key(tenant, stored.network_name)
            for policy in stored.policies:
                yield Policy.kind, ids.object_key(tenant, policy)
            if stored.net_profile:
                yield Netprofile.kind, ids.object_key(tenant, stored.net_profile)
            for contracts in stored.ext_contracts_grps:
                yield ExtContractsGroup.kind, ids.object_key(tenant, contracts)
        case AppProfile():
            tenant = TenantName(stored.tenant_name)
            yield Tenant.kind, tenant
            for group in stored.endpoint_groups:
                yield EndpointGroup.kind, ids.object_key(tenant, group)
        case ServiceLB():
            tenant = TenantName(stored.tenant_name)
            yield Tenant.kind, tenant
            yield Network.kind, ids.object_key(tenant, stored.network_name)
        case Rule():
            yield Policy.kind, policy_key(stored)
            if stored.links.match_endpoint_group.key:
                yield EndpointGroup.kind, stored.links.match_endpoint_group.key
        case _:
            pass


def policy_key(rule: Rule) -> str:
    """Return the key of the policy that a rule is part of."""
    return ids.object_key(TenantName(rule.tenant_name), rule.policy_name)


def _with_link_sets(stored: RestObject, sets: Mapping[str, LinkSet]) -> RestObject:
    none = blank(type(stored)).link_sets
    return stored.model_copy(update={"link_sets": none.model_copy(update=sets)})
