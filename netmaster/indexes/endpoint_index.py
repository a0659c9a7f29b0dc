"""Endpoints by key, and indexes of them: by network, group, host, container and labels. Pure.

`netmaster.view` keeps one, so that a decision about the endpoints of one network, group or host
does not scan all endpoints.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId
from state.records import EndpointRecord

K = TypeVar("K", bound=str | tuple[str, str])

Members = dict[EndpointKey, None]
"""A set of endpoints in the order in which they were added."""

Few = tuple[EndpointKey, ...]
"""The same where it is nearly always one: a dict of one takes three times as much memory."""


class EndpointIndex:
    """All endpoints; an index has no entry for what has no endpoints."""

    def __init__(self) -> None:
        self.endpoints: dict[EndpointKey, EndpointRecord] = {}
        self.by_network: dict[NetworkId, Members] = {}
        self.by_group: dict[GroupKey, Members] = {}
        self.by_host: dict[HostLabel, Members] = {}
        self.by_container_id: dict[str, Few] = {}
        self.by_label: dict[tuple[str, str], Members] = {}

    def put(self, endpoint: EndpointRecord) -> None:
        """Add an endpoint, or replace the one of its key."""
        # What an endpoint is indexed by may change with the record, so the old one goes first.
        self.remove(endpoint.key)
        key = endpoint.key
        self.endpoints[key] = endpoint
        self.by_network.setdefault(endpoint.network, {})[key] = None
        self.by_host.setdefault(endpoint.homing_host, {})[key] = None
        if endpoint.group_key:
            self.by_group.setdefault(GroupKey(endpoint.group_key), {})[key] = None
        if endpoint.container_id:
            _add(self.by_container_id, endpoint.container_id, key)
        for label in _labels(endpoint):
            self.by_label.setdefault(label, {})[key] = None

    def remove(self, key: EndpointKey) -> None:
        """Remove an endpoint if it exists."""
        endpoint = self.endpoints.pop(key, None)
        if endpoint is None:
            return
        _drop(self.by_network, endpoint.network, key)
        _drop(self.by_host, endpoint.homing_host, key)
        if endpoint.group_key:
            _drop(self.by_group, GroupKey(endpoint.group_key), key)
        if endpoint.container_id:
            _drop_of_few(self.by_container_id, endpoint.container_id, key)
        for label in _labels(endpoint):
            _drop(self.by_label, label, key)


def with_id(endpoints: Mapping[EndpointKey, EndpointRecord], endpoint_id: str) -> list[EndpointKey]:
    """Return the keys of the endpoints of a container, in whatever networks."""
    # Not an index: people ask this, a few times a day, and it takes 3 ms among 100 000, whose index
    # would take 12 MiB.
    return [key for key, one in endpoints.items() if one.endpoint_id == endpoint_id]


def _labels(endpoint: EndpointRecord) -> Iterable[tuple[str, str]]:
    """Return the labels that services may select; none before the container has started."""
    return (endpoint.labels or {}).items() if endpoint.container_id else ()


def _drop(index: dict[K, Members], entry: K, key: EndpointKey) -> None:
    """Remove a key from an index, and an entry that is empty then."""
    members = index[entry]
    del members[key]
    if not members:
        del index[entry]


def _add(index: dict[str, Few], entry: str, key: EndpointKey) -> None:
    index[entry] = (*index.get(entry, ()), key)


def _drop_of_few(index: dict[str, Few], entry: str, key: EndpointKey) -> None:
    left = tuple(one for one in index[entry] if one != key)
    if left:
        index[entry] = left
    else:
        del index[entry]
