"""On how many hosts an object of API v2 is realised, and why not on the others. Pure.

In come the view and what the hosts have applied (`netmaster.host_progress`); out comes what
`netmaster.api.leader.conditions_api` answers. An object is realised on a host whose agent has
applied the last change of each record that agents make flows of.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from contivmodel.answers import Count
from contivmodel.objects import EndpointGroup, Network, Policy, Rule
from core import ids, keys
from core.errors import NotFound
from core.ids import EndpointKey, GroupName, HostLabel, NetworkName, TenantName
from netmaster.view import View

ENDPOINT: Final = "endpoint"


class Condition(TypedDict):
    """What is so, or is not, of an object."""

    type: Literal["realised"]
    status: bool
    since: Annotated[
        str, Field(description="since when the leading netmaster, which looks if asked, sees it so")
    ]
    hosts: Annotated[Count, Field(description="on which it is so")]
    of: Annotated[Count, Field(description="hosts with an agent, and that of an endpoint")]
    host: Annotated[str, Field(description="the first host on which it is not so")]
    reason: Annotated[str, Field(description="why not there")]


class Conditions(TypedDict):
    """The conditions of an object."""

    key: str
    conditions: list[Condition]
    absent: Annotated[
        list[str], Field(description="hosts without an agent, which are not waited for")
    ]


def records_of(view: View, kind: str, key: str) -> tuple[list[str], HostLabel | None]:
    """Return the store's keys of an object that agents follow, and the host of an endpoint.

    Raises NotFound.
    """
    if kind == ENDPOINT:
        record = view.endpoints.get(EndpointKey(key))
        if record is None:
            raise NotFound(f"endpoint {key} not found")
        return [keys.endpoint(record.key)], record.homing_host
    if key not in view.objects[kind]:
        raise NotFound(f"{kind} {key} not found")
    return _RECORDS[kind](view, key), None


def _network(_view: View, key: str) -> list[str]:
    tenant, _, name = key.partition(":")
    return [keys.network(ids.network_id(NetworkName(name), TenantName(tenant)))]


def _group(_view: View, key: str) -> list[str]:
    tenant, _, name = key.partition(":")
    record = ids.group_key(GroupName(name), TenantName(tenant))
    return [keys.obj(EndpointGroup.kind, key), keys.group(record)]


def _policy(view: View, key: str) -> list[str]:
    """Return the keys of a policy's rules and of the groups that name it."""
    rules = view.members(Rule.kind, Policy.kind, key)
    groups = view.members(EndpointGroup.kind, Policy.kind, key)
    return [
        *(keys.obj(Rule.kind, one) for one in rules),
        *(keys.obj(EndpointGroup.kind, one) for one in groups),
    ]


def _rule(_view: View, key: str) -> list[str]:
    return [keys.obj(Rule.kind, key)]


_RECORDS: Final[Mapping[str, Callable[[View, str], list[str]]]] = {
    Network.kind: _network,
    EndpointGroup.kind: _group,
    Policy.kind: _policy,
    Rule.kind: _rule,
}
KINDS: Final = frozenset(_RECORDS)
"""The kinds of objects, beside endpoints, that have conditions."""


def realised(behind: Mapping[HostLabel, str], since: str) -> Condition:
    """Return the condition; `behind` has for each host why not, "" if it is realised there."""
    first = next(((host, why) for host, why in behind.items() if why), ("", ""))
    return {
        "type": "realised",
        "status": not first[1],
        "since": since,
        "hosts": sum(not why for why in behind.values()),
        "of": len(behind),
        "host": first[0],
        "reason": first[1],
    }
