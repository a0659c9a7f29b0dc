"""The whole translation: the original's keys and values in, ours and the findings out."""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from core import keys
from netmaster import codec
from netmaster.plan import address_space
from netmaster.stored import GroupIdCursor
from netmaster.takeover import address_grants, hosts, records, rest_objects, source
from netmaster.takeover.draft import Draft
from netmaster.takeover.findings import Skipped, TakeoverFinding, TakeoverOutcome
from netmaster.view import View
from state import codec as state_codec
from state.records import GrantOwner


@dataclass(frozen=True, slots=True)
class Translation:
    """Our keys and values, and how they differ from the original's.

    `values` are the leader's keys, `hosts` the records of hosts by their keys. `leader` is who led
    the original when it was read, "" for nobody.
    """

    values: Mapping[str, bytes]
    hosts: Mapping[str, bytes]
    counts: Mapping[str, int]
    findings: tuple[TakeoverFinding, ...]
    skipped: tuple[Skipped, ...]
    leader: str = ""

    @property
    def refusals(self) -> tuple[TakeoverFinding, ...]:
        """The findings that keep it from being imported."""
        return tuple(one for one in self.findings if one.outcome is TakeoverOutcome.REFUSED)


def translate(
    values: Mapping[str, bytes],
    leave_out: Container[str] = (),
    uplink_macs: Mapping[str, str] = MappingProxyType({}),
) -> Translation:
    """Return what the original's store becomes here; `leave_out` are keys to do without.

    `uplink_macs` are MAC addresses of hosts' uplinks by the hosts' labels.
    Raises Conflict for a store that is not the original's.
    """
    found = source.read(values, leave_out)
    draft = Draft(findings=list(found.findings))
    records.translate(found, draft)
    rest_objects.translate(found, draft)
    address_grants.translate(draft)
    hosts.translate(found, draft, uplink_macs)
    ours = _written(draft)
    records_of_hosts = {keys.host(label): codec.encode(one) for label, one in draft.hosts.items()}
    if not any(one.outcome is TakeoverOutcome.REFUSED for one in draft.findings):
        view = View.load(ours)  # what a leader cannot read must not be written
        for key, value in records_of_hosts.items():
            view.underlay.put(key, 1, value)
        for fault in address_space.network_faults(view):
            draft.refuse(keys.network(fault.network), fault.text, "delete it in the original")
    return Translation(
        values=ours,
        hosts=records_of_hosts,
        counts=_counts(draft),
        findings=tuple(draft.findings),
        skipped=tuple(found.skipped),
        leader=found.leader,
    )


def _written(draft: Draft) -> dict[str, bytes]:
    stored = records.written(draft) | dict(draft.stored())
    written = {key: codec.encode(one) for key, one in stored.items()}
    if draft.ranges is not None:
        written |= state_codec.tag_resources(draft.ranges)
    if draft.groups:
        # New groups go on after it: the original's agents may still have flows with lower ids.
        last = max(group.group_id for group in draft.groups.values())
        written[keys.GROUP_ID_CURSOR] = codec.encode(GroupIdCursor(last))
    return written


def _counts(draft: Draft) -> dict[str, int]:
    held = Counter(grant.owner for grant in draft.grants.values())
    kinds = {f"{kind} objects": len(found) for kind, found in draft.objects.items() if found}
    return {
        **kinds,
        "endpoints": len(draft.endpoints),
        "hosts": len(draft.hosts),
        **{f"addresses of kind {owner}": held[owner] for owner in GrantOwner if held[owner]},
    }
