"""Client of the leading netmaster: follows the leader lock and requests endpoints.

`follow` watches the leader lock in the store; while the store is unreachable the last known leader
is used. A call waits for an election to end, but fails soon once no leader has served for longer
than an election takes, so that the runtime is told to try later. Both requests are idempotent at
netmaster, so a leader that dies in between costs the caller time, not correctness. Next module:
`contivmodel.client`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from contivmodel.client import AddressBlocksReply, EndpointConfig, MasterClient
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
    ContivError,
    MasterUnavailable,
    NotFound,
    NotLeader,
    outcome_is_unknown,
)
from core.ids import EndpointKey, GroupName, HostLabel, NetworkId, NetworkName, TenantName
from core.logs import fields
from core.patience import patient
from netplugin.masters.address_blocks import BlocksAnswer, BlocksAsked, HeldAddress
from objdb.api import Backend, Snapshot
from state.docker_networks import DockerPlace
from state.lineage import Position
from state.records import EndpointRecord, NetworkRecord

log = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderTiming:
    """Time limits and pauses, in seconds."""

    answer: float = patient(8.0)
    """A leader must answer within this time; runtimes wait longer for an ADD."""
    election: float = patient(4.0)
    """Without a serving leader for longer than this, it is an outage, not an election."""
    outage_wait: float = patient(1.0)
    """A call still waits so long for a leader during an outage."""
    retry: float = 0.1
    """Pause between two attempts of one call."""


class Granted(NamedTuple):
    """An endpoint, and the store revisions, by prefix, that this host must have realised.

    At these revisions the policies that netmaster knew when it granted the endpoint are in force.
    `history` is the leader's term (`state.lineage`), in whose history they are; "" if unknown.
    """

    record: EndpointRecord
    revisions: Mapping[str, int]
    history: str = ""

    @property
    def position(self) -> Position:
        """Where in the store's history the endpoint was there."""
        return Position(self.history, self.revisions.get(keys.ENDPOINTS, 0))


class MasterApi(Protocol):
    """The requests of this host to netmaster."""

    async def create_endpoint(self, wanted: "WantedEndpoint") -> Granted:
        """Return the endpoint, created now or by an earlier request.

        Raises MasterUnavailable when no leader answered in time, or the ContivError of a refusal.
        """

    async def delete_endpoint(
        self, tenant: TenantName, network: NetworkName, endpoint_id: str
    ) -> None:
        """Release an endpoint; one that does not exist is a success. Raises as above."""

    async def set_labels(self, record: EndpointRecord, network: NetworkRecord) -> None:
        """Replace the labels of an endpoint by those of `record`. Raises as above."""

    async def ready(self) -> None:
        """Return if a netmaster leads, after an election if there is one. Raises as above."""

    async def reserve_address(self, wanted: AllocAddressRequest) -> str:
        """Reserve an address; return it with its prefix length. Raises as above."""

    async def release_address(self, held: ReleaseAddressRequest) -> None:
        """Release a reserved address; any other stays as it is. Raises as above."""

    async def renew_address_blocks(self, host: HostLabel, asked: BlocksAsked) -> BlocksAnswer:
        """Renew the lease under which a host holds addresses, and get some. Raises as above."""

    async def allocate_network(self, wanted: AllocNetworkRequest) -> DockerPlace:
        """Record a network of docker's swarm; return what it stands for. Raises as above."""

    async def free_network(self, docker_id: str) -> None:
        """Forget a network of docker's swarm; an unknown one is a success. Raises as above."""

    async def update_endpoint(self, update: UpdateEndpointRequest) -> None:
        """Tell that an endpoint's container started or died. Raises as above."""


class Addresses(NamedTuple):
    """Addresses that an endpoint is to have; "" where any will do."""

    ipv4: str = ""
    ipv6: str = ""
    mac: str = ""


class WantedEndpoint:
    """A request for an endpoint: its network, its group, its id, its addresses.

    `claim` says that a pod runs with these addresses, and the store does not know it; `block` is
    the token by which this host held them ahead of it.
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
            config=ConfigEP(
                container=endpoint_id,
                host=host,
                ip_address=addresses.ipv4,
                ipv6_address=addresses.ipv6,
                mac_address=addresses.mac,
                service_name=group or "",
            ),
        )


class LeaderClient:
    """Follows the leader lock and sends requests to the leader."""

    def __init__(
        self, backend: Backend, client: MasterClient, timing: LeaderTiming | None = None
    ) -> None:
        self.timing = timing or LeaderTiming()
        self._backend = backend
        self._client = client
        self._leader: str | None = None
        self._known = asyncio.Event()
        self._ended = False
        self._unserved_since: float | None = None

    @property
    def leader(self) -> str | None:
        """The leader's `ip:port`; None while the lock is free."""
        return self._leader

    async def follow(self) -> None:
        """Keep `leader` in sync with the lock for ever; calls fail once this has ended."""
        try:
            async for item in self._backend.watch(keys.LOCKS):
                if isinstance(item, Snapshot):
                    entry = item.entries.get(keys.LEADER_LOCK)
                    self._set_leader(entry.value if entry is not None else None)
                    continue
                if keys.LEADER_LOCK in item.deletes:
                    self._set_leader(None)
                for put in item.puts:
                    if put.key == keys.LEADER_LOCK:
                        self._set_leader(put.value)
        finally:
            self._ended = True
            self._known.set()

    async def create_endpoint(self, wanted: WantedEndpoint) -> Granted:
        """As `MasterApi.create_endpoint`."""
        reply = await self._request(
            lambda url: self._client.create_endpoint(wanted.request, base_url=url)
        )
        return Granted(record_of(reply.endpoint), reply.revisions, reply.history)

    async def delete_endpoint(
        self, tenant: TenantName, network: NetworkName, endpoint_id: str
    ) -> None:
        """As `MasterApi.delete_endpoint`."""
        request = DeleteEndpointRequest(
            tenant_name=tenant, network_name=network, endpoint_id=endpoint_id
        )
        try:
            await self._request(lambda url: self._client.delete_endpoint(request, base_url=url))
        except NotFound:
            log.info("endpoint already released", extra=fields(endpoint=endpoint_id))

    async def set_labels(self, record: EndpointRecord, network: NetworkRecord) -> None:
        """As `MasterApi.set_labels`."""
        request = UpdateEndpointRequest(
            event="labels",
            tenant=network.tenant,
            network=network.name,
            endpoint_id=record.endpoint_id,
            labels=dict(record.labels or {}),
        )
        await self._request(lambda url: self._client.update_endpoint(request, base_url=url))

    async def reserve_address(self, wanted: AllocAddressRequest) -> str:
        """As `MasterApi.reserve_address`."""
        reply = await self._request(lambda url: self._client.alloc_address(wanted, base_url=url))
        return reply.address

    async def release_address(self, held: ReleaseAddressRequest) -> None:
        """As `MasterApi.release_address`."""
        try:
            await self._request(lambda url: self._client.release_address(held, base_url=url))
        except NotFound:
            log.info(
                "network of a released address is gone", extra=fields(address=held.ipv4_address)
            )

    async def renew_address_blocks(self, host: HostLabel, asked: BlocksAsked) -> BlocksAnswer:
        """As `MasterApi.renew_address_blocks`."""
        request = blocks_request(host, asked)
        reply = await self._request(lambda url: self._client.address_blocks(request, base_url=url))
        return blocks_answer(reply)

    async def allocate_network(self, wanted: AllocNetworkRequest) -> DockerPlace:
        """As `MasterApi.allocate_network`."""
        reply = await self._request(lambda url: self._client.alloc_network(wanted, base_url=url))
        return DockerPlace(
            TenantName(reply.tenant_name),
            NetworkName(reply.network_name),
            GroupName(reply.service_name) or None,
        )

    async def free_network(self, docker_id: str) -> None:
        """As `MasterApi.free_network`."""
        request = FreeNetworkRequest(docker_id=docker_id)
        await self._request(lambda url: self._client.free_network(request, base_url=url))

    async def update_endpoint(self, update: UpdateEndpointRequest) -> None:
        """As `MasterApi.update_endpoint`."""
        await self._request(lambda url: self._client.update_endpoint(update, base_url=url))

    async def ready(self) -> None:
        """As `MasterApi.ready`."""
        await self._wait_for_leader(time.monotonic() + self._wait(), outcome_unknown=False)

    async def ask(self) -> None:
        """Return if the leader answers and can do its work. Raises MasterUnavailable.

        Nothing is waited for, and what requests know of an outage does not change.
        """
        if self._leader is None:
            raise MasterUnavailable("no netmaster leads: start one, or wait for the election")
        try:
            await self._client.check_ready(base_url=f"{self._client.scheme}://{self._leader}")
        except MasterUnavailable as exc:
            raise MasterUnavailable(
                f"netmaster {self._leader}: {exc}: is it up, and does a firewall let this host "
                f"reach it?"
            ) from exc

    def _set_leader(self, value: bytes | None) -> None:
        leader = value.decode("utf-8", "replace") if value else None
        if leader != self._leader:
            log.info("netmaster leader changed", extra=fields(master=leader or "none"))
            self._unserved_since = None if leader else time.monotonic()
        self._leader = leader
        if leader is None:
            self._known.clear()
        else:
            self._known.set()

    # Which failures are retried:
    #
    # * A connection refused or broken, and NotLeader: retried until the wait is over. The leader
    #   changes, and both requests may be repeated, also when the first one was carried out:
    #   netmaster returns the same endpoint for the same container, and a release is idempotent.
    # * A leader that accepts the request and stays silent: not retried. A runtime does not
    #   wait for a second time limit of this length; the ADD is undone and the runtime tries again.
    # * Any other ContivError is netmaster's decision (exhausted, conflict, ...): it is the caller's
    #   at once, and shows that a leader serves.

    async def _request(self, call: Callable[[str], Awaitable[_T]]) -> _T:
        give_up_at = time.monotonic() + self._wait()
        # Once one attempt may have been carried out, no later failure takes that back.
        unknown = False
        while True:
            leader = await self._wait_for_leader(give_up_at, outcome_unknown=unknown)
            try:
                async with asyncio.timeout(self.timing.answer):
                    answer = await call(f"{self._client.scheme}://{leader}")
            except TimeoutError as exc:
                self._note_outage()
                silent = f"netmaster {leader} does not answer"
                raise MasterUnavailable(silent, outcome_unknown=True) from exc
            except (MasterUnavailable, NotLeader) as exc:
                self._note_outage()
                unknown = unknown or outcome_is_unknown(exc)
                if time.monotonic() >= give_up_at:
                    text = f"netmaster {leader}: {exc}"
                    raise MasterUnavailable(text, outcome_unknown=unknown) from exc
            except ContivError:
                self._unserved_since = None
                raise
            else:
                self._unserved_since = None
                return answer
            await asyncio.sleep(self.timing.retry)  # `follow` may see another leader meanwhile

    def _wait(self) -> float:
        """Return how many seconds a call waits for a leader that serves."""
        # The time of an election is waited for once, by all calls together. Later calls of the same
        # outage fail soon: a runtime that starts fifty pods must not wait fifty elections.
        if self._unserved_since is None:
            return self.timing.election
        election_ends = self._unserved_since + self.timing.election
        return max(self.timing.outage_wait, election_ends - time.monotonic())

    def _note_outage(self) -> None:
        if self._unserved_since is None:
            self._unserved_since = time.monotonic()

    async def _wait_for_leader(self, give_up_at: float, *, outcome_unknown: bool) -> str:
        try:
            async with asyncio.timeout(give_up_at - time.monotonic()):
                while self._leader is None and not self._ended:
                    await self._known.wait()
        except TimeoutError as exc:
            self._note_outage()
            raise MasterUnavailable(
                "no netmaster leads: start one, or wait for the election",
                outcome_unknown=outcome_unknown,
            ) from exc
        if self._leader is None or self._ended:
            raise MasterUnavailable("the agent stops", outcome_unknown=outcome_unknown)
        return self._leader


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
