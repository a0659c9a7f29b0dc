"""Which changes may share a transaction group (docs/adr/0003-what-may-share-a-commit.md). Pure.

`netmaster.commits.commit` queues changes and asks here which of them may be committed together.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from contivmodel.objects import EndpointGroup, Network
from core import keys
from netmaster.stored import Write

# Invariant: whether a change of a group stands never depends on another change of that group.
#
# The store judges the changes of a group one by one, so one may be refused while its neighbours
# are committed. Every change was decided on a view that already showed the changes before it. A
# change that builds on a refused one must not be written, so it has to be in a later group: that
# one is dropped when the refusal comes back. A prefix set may be added here only if its changes
# rest on nothing but keys outside the set, or on keys that they check themselves:
#
# * Endpoints and grants: an address is given once, by the check that its grant is new.
# * Rules rest on policies, groups and networks, which are changes of other kinds.
# * New networks and new groups only get in each other's way (tags, ids, overlapping subnets). If
#   one fails, the next still stands, perhaps with a higher tag than it would have needed. That
#   does not hold for updates and deletions, which free what the next one may then use.
# * The record of who made a change is beside any of them. It checks the place in the ring that it
#   takes; if the change before is refused, a number is missing.
_ANY_CHANGE: Final = ((keys.ENDPOINTS, keys.GRANTS), (keys.RULES,))
_CREATIONS: Final = (
    (keys.obj(Network.kind, ""), keys.NETWORKS, keys.GRANTS),
    (keys.obj(EndpointGroup.kind, ""), keys.GROUPS),
)

PrefixSet = tuple[str, ...]


def shared_prefixes(writes: Sequence[Write]) -> PrefixSet | None:
    """Return the prefix set that a change stays within; None if it must be committed alone.

    Changes with one and the same prefix set may share a group.
    """
    objects = [write for write in writes if not write.key.startswith(keys.CHANGES)]
    creates_only = all(write.new for write in objects)
    sets = (*_ANY_CHANGE, *_CREATIONS) if creates_only else _ANY_CHANGE
    return next(filter(partial(_is_within, objects), sets), None)


def _is_within(writes: Sequence[Write], prefixes: PrefixSet) -> bool:
    return all(write.key.startswith(prefixes) for write in writes)
