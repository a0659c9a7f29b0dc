"""What a rule that groups share is for one of them."""

from dataclasses import replace

from ofnet.world import Rule


def of_group(shared: Rule, group_id: int, rule_id: str) -> Rule:
    """Return a shared rule with a group in the place of its class, by another id."""
    return replace(
        shared,
        id=rule_id,
        src_group=group_id if shared.src_class else shared.src_group,
        dst_group=group_id if shared.dst_class else shared.dst_group,
        src_class=0,
        dst_class=0,
    )
