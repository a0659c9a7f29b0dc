"""Registers this host in the store: the host record, and the agent's services under leases.

The host record outlives the agent (ADR 12): peers keep their tunnel to a host whose agent is
down. The service registrations are the original's (docs/original/netplugin-agent.md §4) with the
ports in use; they expire with the agent. Next: `objdb.registration`.
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
CHECK_EVERY: Final = 2.0
"""Seconds between checks that the host record exists."""
_RETRY: Final = 2.0


def host_record(settings: Settings, uplink_macs: Iterable[str], version: str) -> HostRecord:
    """Return the record of this host for the cluster."""
    return HostRecord(
        label=settings.host,
        control_ip=str(settings.ctrl_ip),
        vtep_ip=str(settings.vtep_ip),
        vxlan_port=settings.vxlan_port,
        uplink_macs=tuple(uplink_macs),
        version=version,
    )


def instances(settings: Settings, rpc_ports: Sequence[int], version: str) -> list[ServiceInstance]:
    """Return this agent's services: its RPC servers (vxlan, vlan) and its tunnel endpoint."""
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
    """Return the service of this agent's REST routes, on the port in use."""
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
    """Write the host record; retry until the store is reachable."""
    put = Put(keys.host(record.label), codec.encode(record))
    for pause in backoff(limit=_RETRY):
        try:
            await backend.commit([Change((), (put,))])
        except StoreUnavailable as exc:
            log.warning(
                "host record not written, retrying", extra=fields(host=record.label, error=exc)
            )
            await asyncio.sleep(pause)
        else:
            return


async def keep_host_record(
    backend: Backend,
    record: HostRecord,
    is_known: Callable[[], bool],
    *,
    interval: float = CHECK_EVERY,
) -> None:
    """Write the host record again, for ever, whenever the store no longer has it.

    An operator may remove a host that is unreachable; it returns when it is reachable again.
    """
    while True:
        await asyncio.sleep(interval)
        if not is_known():
            log.warning(
                "host record missing in the store, recreated", extra=fields(host=record.label)
            )
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
