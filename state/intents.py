"""REST objects that agents read: policies of groups, their rules, application profiles.

Also the profiles with a pending update of the ACI fabric. The objects are the original's JSON under
the original's keys; agents read only the fields below. `state.policy_rules` expands rules,
`state.codec` decodes all other keys.
"""

from dataclasses import dataclass

from core import keys
from core.errors import Invalid
from core.ids import GroupKey, GroupName, TenantName, group_key, object_key
from state import codec, lineage
from state.lineage import Lineage
from state.policy_rules import PolicyRule, policy_rule
from state.reading import RecordFields
from state.records import Record


@dataclass(frozen=True, slots=True)
class Attachment:
    """The policies of a group, by name; they belong to the group's tenant."""

    tenant: TenantName
    group: GroupName
    policies: tuple[str, ...]

    @property
    def key(self) -> GroupKey:
        """The key of the group's record."""
        return group_key(self.group, self.tenant)


@dataclass(frozen=True, slots=True)
class Profile:
    """The groups of an application profile, by name; they belong to the profile's tenant."""

    tenant: TenantName
    name: str
    groups: tuple[GroupName, ...]

    @property
    def key(self) -> str:
        """The key of the object."""
        return object_key(self.tenant, self.name)


@dataclass(frozen=True, slots=True)
class Launch:
    """A pending update of the ACI fabric for a profile, named by its key; deleted when done."""

    profile: str


Fact = Record | Attachment | PolicyRule | Profile | Launch | Lineage
"""Everything that an agent reads in the store."""


def decode(key: str, value: bytes) -> Fact | None:
    """Return the fact stored under a key; None if the key holds none. Raises Invalid."""
    if key.startswith(keys.RULES):
        return decode_rule(key, value)
    if key.startswith(keys.GROUP_OBJECTS):
        return decode_attachment(key, value)
    if key.startswith(keys.PROFILE_OBJECTS):
        return decode_profile(key, value)
    if key.startswith(keys.ACI_LAUNCHES):
        return Launch(keys.after(keys.ACI_LAUNCHES, key))
    if key == keys.LINEAGE:
        return lineage.decode(value)
    return codec.decode(key, value)


def decode_attachment(key: str, value: bytes) -> Attachment:
    """Return the policies of the endpoint group object under a key. Raises Invalid."""
    fields = RecordFields.parse(key, value)
    fields.expect("key", keys.after(keys.GROUP_OBJECTS, key))
    return Attachment(
        tenant=TenantName(fields.text("tenantName")),
        group=GroupName(fields.text("groupName")),
        policies=fields.texts("policies"),
    )


def decode_profile(key: str, value: bytes) -> Profile:
    """Return the application profile under a key. Raises Invalid."""
    fields = RecordFields.parse(key, value)
    fields.expect("key", keys.after(keys.PROFILE_OBJECTS, key))
    return Profile(
        tenant=TenantName(fields.text("tenantName")),
        name=fields.text("appProfileName"),
        groups=tuple(GroupName(group) for group in fields.texts("endpointGroups")),
    )


def decode_rule(key: str, value: bytes) -> PolicyRule:
    """Return the rule object under a key. Raises Invalid."""
    fields = RecordFields.parse(key, value)
    fields.expect("key", keys.after(keys.RULES, key))
    try:
        return policy_rule(
            tenant=fields.text("tenantName"),
            policy=fields.text("policyName"),
            rule_id=fields.text("ruleId"),
            direction=fields.text("direction"),
            action=fields.text("action"),
            priority=fields.number("priority"),
            protocol=fields.text("protocol"),
            port=fields.number("port"),
            group=fields.text("fromEndpointGroup") or fields.text("toEndpointGroup"),
            network=fields.text("fromNetwork") or fields.text("toNetwork"),
            source=fields.text("fromIpAddress"),
            destination=fields.text("toIpAddress"),
            log=fields.flag("log"),
            audit=fields.flag("audit"),
        )
    except ValueError as exc:
        raise Invalid(f"record {key}: {exc}") from exc
