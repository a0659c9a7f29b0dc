"""The netmasters as this agent sees them: who leads, and asking the leader for endpoints.

`follow` watches the leader lock in the store; while the store is away the last known leader is
asked. A call waits an election out, but fails soon where nobody has served for longer than one
takes, so that a runtime hears that it is to try later. `create_endpoint` and `delete_endpoint` may
be asked again after any failure (netmaster answers the same endpoint twice alike), so a leader that
dies in between costs the caller time, not correctness. Next module: `contivmodel.client`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from contivmodel.client import EndpointConfig, MasterClient
from contivmodel.rpc import ConfigEP, CreateEndpointRequest, DeleteEndpointRequest
from core import keys
from core.errors import ContivError, MasterUnavailable, NotFound, NotLeader
from core.ids import EndpointKey, GroupName, HostLabel, NetworkId, NetworkName, TenantName
from core.logs import fields
from objdb.api import Backend, Snapshot
from state.records import EndpointRecord

log = logging.getLogger(__name__)

PATIENCE = 8.0
"""Seconds a leader may take over its answer; a runtime waits longer than this."""
ELECTION = 4.0
"""Seconds without a leader that serves after which it is no election we wait for."""
ONE_TRY = 1.0
"""Seconds a call waits then nevertheless."""
RETRY = 0.1

_T = TypeVar("_T")


class Granted(NamedTuple):
    """An endpoint, and what this host must have realised for its policies to be in force.

    `revisions` are the store's, by prefix.
    """

    record: EndpointRecord
    revisions: Mapping[str, int]


class MasterApi(Protocol):
    """What this host's endpoints need of netmaster."""

    async def create_endpoint(self, wanted: "WantedEndpoint") -> Granted:
        """Return the endpoint, made now or before.

        Raises MasterUnavailable when no leader answered in time, or the ContivError of a refusal.
        """

    async def delete_endpoint(
        self, tenant: TenantName, network: NetworkName, endpoint_id: str
    ) -> None:
        """Release an endpoint; one that is gone already is no error. Raises as above."""


class WantedEndpoint:
    """An endpoint this host wants: on which network, in which group, for which container."""

    def __init__(
        self,
        *,
        host: HostLabel,
        tenant: TenantName,
        network: NetworkName,
        group: GroupName | None,
        endpoint_id: str,
        common_name: str,
    ) -> None:
        self.request = CreateEndpointRequest(
            tenant_name=tenant,
            network_name=network,
            service_name=group or "",
            endpoint_id=endpoint_id,
            common_name=common_name,
            config=ConfigEP(container=endpoint_id, host=host, service_name=group or ""),
        )


class LeaderClient:
    """Follows the leader and asks it."""

    def __init__(self, backend: Backend, client: MasterClient) -> None:
        self._backend = backend
        self._client = client
        self._leader: str | None = None
        self._known = asyncio.Event()
        self._ended = False
        self._unserved_since: float | None = None

    @property
    def leader(self) -> str | None:
        """The leader's `ip:port`; None while nobody leads."""
        return self._leader

    async def follow(self) -> None:
        """Keep `leader` in step with the lock, for ever; afterwards nobody is asked any more."""
        try:
            async for item in self._backend.watch(keys.LOCKS):
                if isinstance(item, Snapshot):
                    entry = item.entries.get(keys.LEADER_LOCK)
                    self._learn(entry.value if entry is not None else None)
                    continue
                if keys.LEADER_LOCK in item.deletes:
                    self._learn(None)
                for put in item.puts:
                    if put.key == keys.LEADER_LOCK:
                        self._learn(put.value)
        finally:
            self._ended = True
            self._known.set()

    async def create_endpoint(self, wanted: WantedEndpoint) -> Granted:
        """As `MasterApi.create_endpoint`."""
        reply = await self._ask(
            lambda url: self._client.create_endpoint(wanted.request, base_url=url)
        )
        return Granted(record_of(reply.endpoint), reply.revisions)

    async def delete_endpoint(
        self, tenant: TenantName, network: NetworkName, endpoint_id: str
    ) -> None:
        """As `MasterApi.delete_endpoint`."""
        request = DeleteEndpointRequest(
            tenant_name=tenant, network_name=network, endpoint_id=endpoint_id
        )
        try:
            await self._ask(lambda url: self._client.delete_endpoint(request, base_url=url))
        except NotFound:
            log.info("endpoint was gone already", extra=fields(endpoint=endpoint_id))

    def _learn(self, value: bytes | None) -> None:
        leader = value.decode("utf-8", "replace") if value else None
        if leader != self._leader:
            log.info("netmaster leader", extra=fields(master=leader or "none"))
            self._unserved_since = None if leader else time.monotonic()
        self._leader = leader
        if leader is None:
            self._known.clear()
        else:
            self._known.set()

    async def _ask(self, call: Callable[[str], Awaitable[_T]]) -> _T:
        give_up_at = time.monotonic() + self._wait()
        while True:
            leader = await self._leading(give_up_at)
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await call(f"http://{leader}")
            except TimeoutError as exc:
                self._unserved()
                silent = f"netmaster {leader} does not answer"
                raise MasterUnavailable(silent, outcome_unknown=True) from exc
            except (MasterUnavailable, NotLeader) as exc:
                self._unserved()
                if time.monotonic() >= give_up_at:
                    raise MasterUnavailable(f"netmaster {leader}: {exc}") from exc
            except ContivError:
                self._unserved_since = None
                raise
            else:
                self._unserved_since = None
                return answer
            await asyncio.sleep(RETRY)  # the next is learnt from the store meanwhile

    def _wait(self) -> float:
        """Return how long it is worth waiting for a leader that serves."""
        if self._unserved_since is None:
            return ELECTION
        return max(ONE_TRY, self._unserved_since + ELECTION - time.monotonic())

    def _unserved(self) -> None:
        if self._unserved_since is None:
            self._unserved_since = time.monotonic()

    async def _leading(self, give_up_at: float) -> str:
        try:
            async with asyncio.timeout(give_up_at - time.monotonic()):
                while self._leader is None and not self._ended:
                    await self._known.wait()
        except TimeoutError as exc:
            self._unserved()
            raise MasterUnavailable(
                "no netmaster leads: start one, or wait for the election"
            ) from exc
        if self._leader is None or self._ended:
            raise MasterUnavailable("the agent stops")
        return self._leader


def record_of(reply: EndpointConfig) -> EndpointRecord:
    """Return netmaster's answer as the record it stored."""
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
