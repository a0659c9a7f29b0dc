"""What records of flows say about policies: who talked to whom at which port, each said once. Pure.

In come the records of a host (`state.flow_records`); out come conversations, by which netmaster
suggests rules (`netmaster.plan.reachability.suggestion`). Of 100 000 records few are left: an end
is no more than what rules, and policies of Kubernetes, can tell from other ends.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from state.flow_records import DROPPED, FORWARDED, End, FlowRecord

MOST: Final = 5000
"""Conversations that a host tells, at most: those with the most connections."""

BY_POLICY: Final = frozenset({"policy", "kubernetes-policy"})
"""The reasons of drops that other rules would not have dropped."""


class Party(NamedTuple):
    """An end: its group and network, its pod's namespace; the address of one with no network."""

    network: str
    group: str
    namespace: str
    address: str


class Conversation(NamedTuple):
    """Connections that rules do not tell apart; `port` is the destination's, 0 without any.

    The destination of what was sent to a service is its provider, as for rules.
    """

    source: Party
    destination: Party
    protocol: str
    port: int
    dropped: bool = False


def of_records(records: Iterable[FlowRecord], tenant: str) -> Counter[Conversation]:
    """Return how many connections of a tenant there were of each conversation.

    Of ends of other tenants there is the address alone. What was dropped for another reason than a
    policy is left out, and so is what would have been: the connection has a record of its own.
    """
    own = frozenset({tenant})
    return Counter(
        Conversation(
            _party(one.source, own),
            _party(one.destination, own),
            one.protocol,
            one.destination.port,
            one.verdict != FORWARDED,
        )
        for one in records
        if tenant in one.tenants
        and (one.verdict == FORWARDED or (one.verdict == DROPPED and one.reason in BY_POLICY))
    )


def _party(end: End, tenants: frozenset[str]) -> Party:
    names = end.names
    if names.tenant not in tenants:
        return Party("", "", "", end.address)
    return Party(names.network, names.group, names.namespace, "")


def shown(found: Counter[Conversation]) -> list[dict[str, Any]]:
    """Return the most frequent conversations as an agent tells them."""
    return [
        {
            "source": one.source._asdict(),
            "destination": one.destination._asdict(),
            "protocol": one.protocol,
            "port": one.port,
            "dropped": one.dropped,
            "connections": count,
        }
        for one, count in found.most_common(MOST)
    ]
