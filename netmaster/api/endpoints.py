"""The agents' routes `/plugin/*`: bodies to decisions, their results to answers.

Bodies and answers are docs/original/netmaster-daemon.md §7's. The time an address was given at is
part of the decision, so a clock reading is an argument.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contivmodel.rpc import (
    AllocAddressRequest,
    CreateEndpointRequest,
    DeleteEndpointRequest,
    ReleaseAddressRequest,
    UpdateEndpointRequest,
)
from contivmodel.wire import decode, dumps, escaped
from netmaster.api.objects import SWARM
from netmaster.api.routes import RouteAction
from netmaster.plan.endpoints import address, endpoint
from netmaster.plan.model import Plan
from netmaster.view import View
from state import codec
from state.records import EndpointRecord

JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """What is to be decided, and how its reply is written.

    Some also tell how far the store has come with policies (`contivmodel.client.REVISIONS_HEADER`).
    """

    decide: Callable[[View], Plan]
    answer: Callable[[Any], bytes]
    tells_revisions: bool = False


@dataclass(frozen=True, slots=True)
class CallContext:
    """When something is asked, in wall-clock seconds, and the mode of the cluster."""

    now: float
    mode: str


def is_json(content_type: str) -> bool:
    """Return whether a content type is JSON, with or without parameters."""
    return content_type == JSON_TYPE or content_type.partition(";")[0].strip().lower() == JSON_TYPE


def create_endpoint(body: bytes, at: CallContext) -> Call:
    """Give an endpoint its addresses and its record."""
    request = decode(CreateEndpointRequest, body)
    return Call(
        lambda view: endpoint.create(view, request, at.now), _endpoint_config, tells_revisions=True
    )


def update_endpoint(body: bytes, _: CallContext) -> Call:
    """Note that an endpoint's container started or died."""
    request = decode(UpdateEndpointRequest, body)
    return Call(
        lambda view: endpoint.update(view, request),
        lambda address: dumps(None if address is None else {"IPAddress": address}),
    )


def delete_endpoint(body: bytes, _: CallContext) -> Call:
    """Take an endpoint and its addresses back."""
    request = decode(DeleteEndpointRequest, body)
    return Call(lambda view: endpoint.delete(view, request), _endpoint_config)


def allocate_address(body: bytes, at: CallContext) -> Call:
    """Reserve an address; IPv6 stands in the field named for IPv4."""
    request = decode(AllocAddressRequest, body)
    decide = address.allocate_in_swarm if at.mode == SWARM else address.allocate
    return Call(
        lambda view: decide(view, request, at.now),
        lambda given: dumps({"NetworkID": request.network_id, "IPv4Address": given}),
    )


def release_address(body: bytes, _: CallContext) -> Call:
    """Give a reserved address back."""
    request = decode(ReleaseAddressRequest, body)
    return Call(lambda view: address.release(view, request), dumps)


NewCall = Callable[[bytes, CallContext], Call]
"""(body, when and where) -> what is asked for; Invalid for a body that cannot be read."""

CALLS: Final[Mapping[RouteAction, NewCall]] = {
    RouteAction.CREATE_ENDPOINT: create_endpoint,
    RouteAction.UPDATE_ENDPOINT: update_endpoint,
    RouteAction.DELETE_ENDPOINT: delete_endpoint,
    RouteAction.ALLOCATE_ADDRESS: allocate_address,
    RouteAction.RELEASE_ADDRESS: release_address,
}


def _endpoint_config(record: EndpointRecord) -> bytes:
    return b'{"EndpointConfig":' + escaped(codec.encode(record).decode()).encode() + b"}"
