"""REST objects as agents need them: which policies hold for a group, and the rules of policies.

Everything else about a REST object is netmaster's business. The objects are the original's JSON,
under the original's keys. What rules mean is `state.policy_rules`' business; all other keys are
`state.codec`'s.
"""

from dataclasses import dataclass

from core import keys
from core.errors import Invalid
from core.ids import GroupKey, GroupName, TenantName, group_key
from state import codec
from state.policy_rules import PolicyRule, policy_rule
from state.reading import Fields
from state.records import Record


@dataclass(frozen=True, slots=True)
class Attachment:
    """The names of the policies of a group's tenant that hold for the group."""

    tenant: TenantName
    group: GroupName
    policies: tuple[str, ...]

    @property
    def key(self) -> GroupKey:
        """The key of the group's record."""
        return group_key(self.group, self.tenant)


Fact = Record | Attachment | PolicyRule
"""What an agent reads in the store."""


def decode(key: str, value: bytes) -> Fact | None:
    """Return the fact stored under a key; None if this kind of key holds none. Raises Invalid."""
    if key.startswith(keys.RULES):
        return decode_rule(key, value)
    if key.startswith(keys.GROUP_OBJECTS):
        return decode_attachment(key, value)
    return codec.decode(key, value)


def decode_attachment(key: str, value: bytes) -> Attachment:
    """Return the policies of the endpoint group object under a key. Raises Invalid."""
    fields = Fields.parse(key, value)
    fields.expect("key", keys.after(keys.GROUP_OBJECTS, key))
    return Attachment(
        tenant=TenantName(fields.text("tenantName")),
        group=GroupName(fields.text("groupName")),
        policies=fields.texts("policies"),
    )


def decode_rule(key: str, value: bytes) -> PolicyRule:
    """Return the rule object under a key. Raises Invalid."""
    fields = Fields.parse(key, value)
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
        )
    except ValueError as exc:
        raise Invalid(f"record {key}: {exc}") from exc
