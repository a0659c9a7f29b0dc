"""Says in the store that this agent is here: the host record, and its services under leases.

The host record outlives the agent (ADR 12): peers keep their tunnel to a host whose agent is
down. The registrations are the original's (docs/original/netplugin-agent.md §4) with the ports in
use; they end with the agent. Next: `objdb.registration`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from core import keys
from core.errors import StoreUnavailable
from core.logs import fields
from core.tasks import Supervisor, backoff
from netplugin.settings import Settings
from objdb.api import Backend, Change, Put
from objdb.registration import TTL, Registration
from state import codec
from state.records import HostRecord, ServiceInstance

log = logging.getLogger(__name__)

ANY_HOST: Final = ("", "0.0.0.0")
LOOK_EVERY: Final = 2.0
"""Seconds between looks for the host record."""
_RETRY: Final = 2.0


def host_record(settings: Settings, uplink_macs: Iterable[str], version: str) -> HostRecord:
    """Return what the cluster should know of this host."""
    return HostRecord(
        label=settings.host,
        control_ip=str(settings.ctrl_ip),
        vtep_ip=str(settings.vtep_ip),
        vxlan_port=settings.vxlan_port,
        uplink_macs=tuple(uplink_macs),
        version=version,
    )


def instances(settings: Settings, rpc_ports: Sequence[int], version: str) -> list[ServiceInstance]:
    """Return this agent's services: its RPC ends (vxlan, vlan) and its tunnel end."""
    control, vtep = str(settings.ctrl_ip), str(settings.vtep_ip)
    ends = [
        *((keys.SERVICE_NETPLUGIN, control, port) for port in rpc_ports),
        (keys.SERVICE_VTEP, vtep, settings.vxlan_port),
    ]
    return [
        ServiceInstance(
            service=service,
            address=address,
            port=port,
            hostname=settings.host,
            version=version,
            ttl=int(TTL),
        )
        for service, address, port in ends
    ]


def rest_instance(settings: Settings, port: int, version: str) -> ServiceInstance:
    """Return the service by which masters find this agent's REST routes, on the port in use."""
    host = settings.rest.host
    return ServiceInstance(
        service=keys.SERVICE_AGENT_REST,
        address=str(settings.ctrl_ip) if host in ANY_HOST else host,
        port=port,
        hostname=settings.host,
        version=version,
        ttl=int(TTL),
    )


async def put_host_record(backend: Backend, record: HostRecord) -> None:
    """Write the host record, for as long as it takes the store to be there."""
    put = Put(keys.host(record.label), codec.encode(record))
    for pause in backoff(limit=_RETRY):
        try:
            await backend.commit([Change((), (put,))])
        except StoreUnavailable as exc:
            log.warning("host record not written", extra=fields(host=record.label, error=exc))
            await asyncio.sleep(pause)
        else:
            return


async def keep_host_record(
    backend: Backend, record: HostRecord, is_known: Callable[[], bool]
) -> None:
    """Write the host record again, for ever, whenever the store no longer has it.

    A host that was given up while it was out of reach is there again when it is back.
    """
    while True:
        await asyncio.sleep(LOOK_EVERY)
        if not is_known():
            log.warning("host record was gone, written again", extra=fields(host=record.label))
            await put_host_record(backend, record)


def register(
    backend: Backend, services: list[ServiceInstance], supervisor: Supervisor
) -> list[Registration]:
    """Register services and keep them registered for as long as the supervisor runs."""
    registrations = []
    for instance in services:
        key = keys.service(instance.service, instance.address, instance.port)
        registration = Registration(backend, key, codec.encode(instance))
        supervisor.supervise(f"register {key}", registration.run())
        registrations.append(registration)
    return registrations
