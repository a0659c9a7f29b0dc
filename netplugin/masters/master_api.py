"""What this host asks of netmaster: endpoints, addresses, networks of docker.

Requests and answers are turned into those of `contivmodel.client` and back here;
`netplugin.masters.leader` finds the leader and repeats what may be repeated.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from contivmodel import client
from contivmodel.client import AddressBlocksReply, EndpointConfig
from contivmodel.rpc import (
    AddressBlocksRequest,
    AllocAddressRequest,
    AllocNetworkRequest,
    ConfigEP,
    CreateEndpointRequest,
    DeleteEndpointRequest,
    FreeNetworkRequest,
    ReleaseAddressRequest,
    UpdateEndpointRequest,
)
from core import keys
from core.errors import (
    NotFound,
)
from core.ids import EndpointKey, GroupName, HostLabel, NetworkId, NetworkName, TenantName
from core.logs import fields
from netplugin.masters.address_blocks import BlocksAnswer, BlocksAsked, HeldAddress
from netplugin.masters.leader import LeaderClient
from state.docker_networks import DockerPlace
from state.lineage import Position
from state.records import EndpointRecord, NetworkRecord

log = logging.getLogger(__name__)


class Granted(NamedTuple):
    """An endpoint, and the store revisions, by prefix, that this host must have realised.

    At these revisions the policies that netmaster knew when it granted the endpoint are in force.
    `history` is the leader's term (`state.lineage`), in whose history they are; "" if unknown.
    `source` is the endpoint id of the pod that has the addresses while the machine runs there, ""
    for an endpoint that is there.
    """

    record: EndpointRecord
    revisions: Mapping[str, int]
    history: str = ""
    source: str = ""

    @property
    def position(self) -> Position:
        """Where in the store's history the endpoint was there."""
        return Position(self.history, self.revisions.get(keys.ENDPOINTS, 0))


class Addresses(NamedTuple):
    """Addresses that an endpoint is to have; "" where any will do."""

    ipv4: str = ""
    ipv6: str = ""
    mac: str = ""


class WantedEndpoint:
    """A request for an endpoint: its network, its group, its id, its addresses.

    `claim` says that a pod runs with these addresses, and the store does not know it; `block` is
    the token by which this host held them ahead of it, `keep` whom they are kept for. A pod that
    `awaits_machine` has its endpoint once the machine runs in it, and then `replaces` that of the
    pod with this endpoint id.
    """

    def __init__(
        self,
        *,
        host: HostLabel,
        tenant: TenantName,
        network: NetworkName,
        group: GroupName | None,
        endpoint_id: str,
        common_name: str,
        addresses: Addresses = Addresses(),  # noqa: B008 - it cannot be changed
        claim: bool = False,
        labels: Mapping[str, str] | None = None,
        block: str = "",
        keep: str = "",
        awaits_machine: bool = False,
        replaces: str = "",
    ) -> None:
        self.request = CreateEndpointRequest(
            tenant_name=tenant,
            network_name=network,
            service_name=group or "",
            endpoint_id=endpoint_id,
            common_name=common_name,
            claim="true" if claim else "",
            labels=dict(labels or {}),
            block=block,
            keep=keep,
            awaits_machine="true" if awaits_machine else "",
            replaces=replaces,
            config=ConfigEP(
                container=endpoint_id,
                host=host,
                ip_address=addresses.ipv4,
                ipv6_address=addresses.ipv6,
                mac_address=addresses.mac,
                service_name=group or "",
            ),
        )


class MasterApi:
    """The requests of this host to netmaster, each by way of the leader."""

    def __init__(self, leader: LeaderClient) -> None:
        self._leader = leader

    async def ready(self) -> None:
        """Return if a netmaster leads, after an election if there is one. Raises as below."""
        await self._leader.ready()

    async def create_endpoint(self, wanted: WantedEndpoint) -> Granted:
        """Return the endpoint, created now or by an earlier request, or not yet (`Granted.source`).

        Raises MasterUnavailable when no leader answered in time, or the ContivError of a refusal.
        """
        reply = await self._leader.call(client.CREATE_ENDPOINT, wanted.request)
        record = record_of(reply.endpoint)
        return Granted(record, reply.revisions, reply.history, reply.source)

    async def delete_endpoint(
        self, tenant: TenantName, network: NetworkName, endpoint_id: str
    ) -> None:
        """Release an endpoint; one that does not exist is a success. Raises as above."""
        request = DeleteEndpointRequest(
            tenant_name=tenant, network_name=network, endpoint_id=endpoint_id
        )
        try:
            await self._leader.call(client.DELETE_ENDPOINT, request)
        except NotFound:
            log.info("endpoint already released", extra=fields(endpoint=endpoint_id))

    async def set_labels(self, record: EndpointRecord, network: NetworkRecord) -> None:
        """Replace the labels of an endpoint by those of `record`. Raises as above."""
        request = UpdateEndpointRequest(
            event="labels",
            tenant=network.tenant,
            network=network.name,
            endpoint_id=record.endpoint_id,
            labels=dict(record.labels or {}),
        )
        await self._leader.call(client.UPDATE_ENDPOINT, request)

    async def reserve_address(self, wanted: AllocAddressRequest) -> str:
        """Reserve an address; return it with its prefix length. Raises as above."""
        reply = await self._leader.call(client.ALLOC_ADDRESS, wanted)
        return reply.address

    async def release_address(self, held: ReleaseAddressRequest) -> None:
        """Release a reserved address; any other stays as it is. Raises as above."""
        try:
            await self._leader.call(client.RELEASE_ADDRESS, held)
        except NotFound:
            log.info(
                "network of a released address is gone", extra=fields(address=held.ipv4_address)
            )

    async def renew_address_blocks(self, host: HostLabel, asked: BlocksAsked) -> BlocksAnswer:
        """Renew the lease under which a host holds addresses, and get some. Raises as above."""
        request = blocks_request(host, asked)
        reply = await self._leader.call(client.ADDRESS_BLOCKS, request)
        return blocks_answer(reply)

    async def allocate_network(self, wanted: AllocNetworkRequest) -> DockerPlace:
        """Record a network of docker's swarm; return what it stands for. Raises as above."""
        reply = await self._leader.call(client.ALLOC_NETWORK, wanted)
        return DockerPlace(
            TenantName(reply.tenant_name),
            NetworkName(reply.network_name),
            GroupName(reply.service_name) or None,
        )

    async def free_network(self, docker_id: str) -> None:
        """Forget a network of docker's swarm; an unknown one is a success. Raises as above."""
        request = FreeNetworkRequest(docker_id=docker_id)
        await self._leader.call(client.FREE_NETWORK, request)

    async def update_endpoint(self, update: UpdateEndpointRequest) -> None:
        """Tell that an endpoint's container started or died. Raises as above."""
        await self._leader.call(client.UPDATE_ENDPOINT, update)


def blocks_request(host: HostLabel, asked: BlocksAsked) -> AddressBlocksRequest:
    """Return the body of a request for address blocks."""
    return AddressBlocksRequest(
        host=host,
        lease=asked.lease,
        number=asked.number,
        held=[f"{nid}/{address}" for nid, held in asked.held.items() for address in held],
        wanted={str(nid): str(count) for nid, count in asked.wanted.items()},
    )


def blocks_answer(reply: AddressBlocksReply) -> BlocksAnswer:
    """Return what netmaster answered to it."""
    return BlocksAnswer(
        lease=reply.lease,
        number=reply.number,
        renewed=reply.renewed,
        seconds=reply.seconds,
        granted=tuple(
            (
                NetworkId(one.network_id),
                HeldAddress(one.ipv4_address, one.ipv6_address, reply.token),
            )
            for one in reply.granted
        ),
        drained=reply.drained,
    )


def record_of(reply: EndpointConfig) -> EndpointRecord:
    """Return the record that netmaster stored, from its answer."""
    return EndpointRecord(
        key=EndpointKey(reply.id),
        network=NetworkId(reply.network_id),
        endpoint_id=reply.endpoint_id,
        service_name=reply.service_name,
        group_id=reply.group_id,
        group_key=reply.group_key,
        ip_address=reply.ip_address,
        ipv6_address=reply.ipv6_address,
        mac_address=reply.mac_address,
        homing_host=HostLabel(reply.homing_host),
        intf_name=reply.intf_name,
        vtep_ip=reply.vtep_ip,
        labels=reply.labels,
        container_id=reply.container_id,
        common_name=reply.common_name,
    )
