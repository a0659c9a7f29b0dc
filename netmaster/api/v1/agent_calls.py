"""The agents' routes `/plugin/*`: from a body to a decision, and from its reply to an answer.

Bodies and answers are docs/original/netmaster-daemon.md §7's. A grant records when it was made,
so the time of the request is an argument.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from contivmodel.checks import validate
from contivmodel.rpc import (
    AddressBlocksRequest,
    AllocAddressRequest,
    AllocNetworkRequest,
    CreateEndpointRequest,
    DeleteEndpointRequest,
    FreeNetworkRequest,
    ReleaseAddressRequest,
    UpdateEndpointRequest,
)
from contivmodel.wire import decode, dumps, escaped
from core.errors import Conflict
from netmaster.api.v1.objects import SWARM
from netmaster.hosts.claim_window import refusal
from netmaster.plan.endpoints import address, address_blocks, endpoint
from netmaster.plan.endpoints.address_blocks import BlocksReply, Renewal
from netmaster.plan.endpoints.live_migration import Awaiting
from netmaster.plan.external import swarm_network
from netmaster.plan.model import Plan
from netmaster.view import View
from state import codec
from state.docker_networks import DockerPlace
from state.records import EndpointRecord

JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class AgentCall:
    """The decision of a request, and how its reply is encoded.

    With `tells_revisions` the answer also has the store revisions of the policies that hold for
    the endpoint (`contivmodel.client.REVISIONS_HEADER`); the agent waits until it applied them.
    `hosts` returns the hosts that the request is about: an agent may name its own only. `event` is
    logged once the decision is in the store, about the endpoint that is the reply; "" is not.
    `within_quotas` is false for what no quota refuses: the endpoint of a pod that runs.
    """

    decide: Callable[[View], Plan]
    answer: Callable[[Any], bytes]
    tells_revisions: bool = False
    hosts: Callable[[View], Iterable[str]] = lambda _: ()
    event: str = ""
    within_quotas: bool = True


@dataclass(frozen=True, slots=True)
class CallContext:
    """The time of a request in wall-clock seconds, and the mode of the cluster.

    With `claims_only` no address is granted but to a running pod.
    """

    now: float
    mode: str
    claims_only: bool = False
    new_id: Callable[[], str] = lambda: ""
    """Makes a random id."""
    block_seconds: float = address_blocks.LONGEST_WITHOUT_REMOVAL
    """For how long a host may use the addresses that it holds ahead of its pods."""
    agent: str = ""
    """The host whose agent asks, as its certificate says; "" for a master, or without TLS."""


def is_json(content_type: str) -> bool:
    """Return whether a content type is JSON, with or without parameters."""
    return content_type == JSON_TYPE or content_type.partition(";")[0].strip().lower() == JSON_TYPE


def create_endpoint(body: bytes, at: CallContext) -> AgentCall:
    """Create an endpoint and grant its addresses."""
    request = validate(decode(CreateEndpointRequest, body))
    validate(request.config)
    claims_only = at.claims_only and not request.claim

    def decide(view: View) -> Plan:
        plan = endpoint.create(view, request, at.now, in_swarm=at.mode == SWARM)
        # Without writes it is an endpoint that exists, or one that awaits its machine.
        if plan.writes and claims_only:
            raise refusal()
        return plan

    return AgentCall(
        decide,
        _created_endpoint,
        tells_revisions=True,
        hosts=lambda view: endpoint.hosts_of_create(view, request),
        event="endpoint created",
        within_quotas=not request.claim,
    )


def update_endpoint(body: bytes, _: CallContext) -> AgentCall:
    """Record that an endpoint's container started or died."""
    request = validate(decode(UpdateEndpointRequest, body))
    return AgentCall(
        lambda view: endpoint.update(view, request),
        lambda address: dumps(None if address is None else {"IPAddress": address}),
        hosts=lambda view: endpoint.hosts_of_update(view, request),
    )


def delete_endpoint(body: bytes, _: CallContext) -> AgentCall:
    """Delete an endpoint and release its addresses."""
    request = validate(decode(DeleteEndpointRequest, body))
    return AgentCall(
        lambda view: endpoint.delete(view, request),
        _endpoint_config,
        hosts=lambda view: endpoint.hosts_of_delete(view, request),
        event="endpoint deleted",
    )


def allocate_address(body: bytes, at: CallContext) -> AgentCall:
    """Reserve an address; an IPv6 address is answered in the field named for IPv4, too."""
    request = validate(decode(AllocAddressRequest, body))

    def decide(view: View) -> Plan:
        if at.claims_only:
            raise refusal()
        if at.mode == SWARM:  # a manager asks in the name of all hosts, whichever manager leads
            return address.allocate_in_swarm(view, request, at.now)
        return address.allocate(view, request, at.now, host=at.agent)

    return AgentCall(
        decide,
        lambda given: dumps({"NetworkID": request.network_id, "IPv4Address": given}),
    )


def release_address(body: bytes, at: CallContext) -> AgentCall:
    """Release a reserved address."""
    request = validate(decode(ReleaseAddressRequest, body))
    host = "" if at.mode == SWARM else at.agent
    return AgentCall(lambda view: address.release(view, request, host=host), dumps)


def renew_address_blocks(body: bytes, at: CallContext) -> AgentCall:
    """Renew the lease under which a host holds addresses ahead of its pods, and grant some."""
    request = validate(decode(AddressBlocksRequest, body))
    how = Renewal(new_lease=at.new_id(), seconds=at.block_seconds, now=at.now)

    def decide(view: View) -> Plan:
        if at.claims_only:
            raise refusal()
        return address_blocks.renew(view, request, how)

    return AgentCall(decide, _blocks_reply, hosts=lambda _: (request.host,))


def _blocks_reply(reply: BlocksReply) -> bytes:
    granted = [
        {"NetworkID": one.network, "IPv4Address": one.ipv4, "IPv6Address": one.ipv6}
        for one in reply.granted
    ]
    return dumps(
        {
            "Lease": reply.lease,
            "Number": reply.number,
            "Renewed": reply.renewed,
            "Seconds": reply.seconds,
            "Token": reply.token,
            "Granted": granted,
            "Drained": reply.drained,
        }
    )


def allocate_network(body: bytes, at: CallContext) -> AgentCall:
    """Record what a network of docker's swarm stands for, and create it if it is new."""
    request = validate(decode(AllocNetworkRequest, body))
    _check_swarm(at)

    def answer(place: DockerPlace) -> bytes:
        named = {"TenantName": place.tenant, "NetworkName": place.network}
        return dumps({**named, "ServiceName": place.group or ""})

    return AgentCall(lambda view: swarm_network.allocate(view, request), answer)


def free_network(body: bytes, at: CallContext) -> AgentCall:
    """Forget a network of docker's swarm, and delete the one that was created for it."""
    request = validate(decode(FreeNetworkRequest, body))
    _check_swarm(at)
    return AgentCall(lambda view: swarm_network.free(view, request), dumps)


def _check_swarm(at: CallContext) -> None:
    if at.mode != SWARM:
        raise Conflict(f"netmaster runs in mode {at.mode}: start it with --mode {SWARM}")


ReadCall = Callable[[bytes, CallContext], AgentCall]
"""Turns a body into a call; raises Invalid for a body that cannot be decoded."""


def _created_endpoint(reply: EndpointRecord | Awaiting) -> bytes:
    if isinstance(reply, EndpointRecord):
        return _endpoint_config(reply)
    head = _endpoint_config(reply.endpoint).removesuffix(b"}")
    return head + b',"SourceEndpoint":' + dumps(reply.source.endpoint_id) + b"}"


def _endpoint_config(record: EndpointRecord) -> bytes:
    return b'{"EndpointConfig":' + escaped(codec.encode(record).decode()).encode() + b"}"
