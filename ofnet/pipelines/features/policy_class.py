"""Groups with the same policies: one flow in table 5 stands for a rule of all of them.

Such groups are a class, with a number. Its rules match the number in a register, on the side that
the policy is of: register 2 for the sender's class, register 3 for the receiver's. Two flows for
each group write them from the groups in the metadata. Groups that are alone with their policies
have none, and the flows of rules that the original has.
"""

# The registers are written in table 5 itself, above all rules: the packet is looked up there again,
# and its second look-up has a register that is no longer 0. So nothing stands between the writing
# and the rules that read it, neither another table nor connection tracking, and the flows of
# endpoints are the same with classes and without. Written where the groups are, in tables 1, 2 and
# 4, a class would be remembered by connection tracking for packets that were on their way through
# it when the class changed, and such a packet would pass rules of a class that nobody has any more.
#
# A packet comes back to table 5 from table 18 alone (`features.contiv_policy`), with the same
# groups, and a packet that comes in has registers of 0: none is stale.

from collections.abc import Iterator
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import Instructions, Lookup, SetField
from ofnet.openflow.fields import DESTINATION_GROUP, SOURCE_GROUP
from ofnet.openflow.match import Match
from ofnet.pipelines.features.feature import Feature
from ofnet.tables import Priority, TableId
from ofnet.world import PolicyClass, World


def flows(member: PolicyClass, _world: World) -> Iterator[Flow]:
    """Yield the flows that give the class of a group to packets from and to it."""
    sent = Match(metadata=SOURCE_GROUP.put(member.group_id), reg2=0)
    received = Match(metadata=DESTINATION_GROUP.put(member.group_id), reg3=0)
    yield _flow(Priority.SOURCE_CLASS, sent, SetField("reg2", member.number))
    yield _flow(Priority.DESTINATION_CLASS, received, SetField("reg3", member.number))


def _flow(priority: Priority, match: Match, write: SetField) -> Flow:
    again = Instructions((write, Lookup(TableId.POLICY)))
    return Flow(ObjectKind.POLICY_CLASS, TableId.POLICY, priority, match, again)


FEATURE: Final[Feature] = {ObjectKind.POLICY_CLASS: flows}
