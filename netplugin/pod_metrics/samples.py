"""Writes the accounts of pods and groups as numbers by labels, for a page of metrics. Pure.

Few pods are named, so that a page stays short; sums of groups are of all pods. Pods of the same
names are one, as they are for a while when one takes another's place.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from netplugin.pod_metrics.ledger import Account, Direction, Ledger, PodAccount

Labels = tuple[str, ...]


class Samples(NamedTuple):
    """Bytes and packets by names and direction; dropped packets by these and the reason."""

    bytes: Mapping[Labels, int]
    packets: Mapping[Labels, int]
    drops: Mapping[Labels, int]


def of_pods(ledger: Ledger, most: int) -> Samples:
    """Return the numbers of so many pods with most traffic.

    Their names are tenant, network, group, namespace, pod and container: what has a pod's name is
    not called by its container.
    """
    return _samples((_names(one), one) for one in ledger.named(most))


def of_groups(ledger: Ledger) -> Samples:
    """Return the numbers of all groups, by tenant, network and group."""
    return _samples(ledger.groups.items())


def _names(account: PodAccount) -> Labels:
    one = account.names
    container = "" if one.pod else one.container.removeprefix("/")  # docker's names have one
    return one.tenant, one.network, one.group, one.namespace, one.pod, container


def _samples(accounts: Iterable[tuple[Labels, Account]]) -> Samples:
    sizes, packets, drops = Counter[Labels](), Counter[Labels](), Counter[Labels]()
    for labels, account in accounts:
        traffic = account.traffic
        received, sent = (*labels, Direction.RECEIVED), (*labels, Direction.SENT)
        sizes[received] += traffic.received_bytes
        sizes[sent] += traffic.sent_bytes
        packets[received] += traffic.received_packets
        packets[sent] += traffic.sent_packets
        for drop, count in account.drops.items():
            drops[*labels, *drop] += count
    return Samples(sizes, packets, drops)
