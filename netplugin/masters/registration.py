"""Registers this host in the store: the host record, and the agent's services under leases.

The host record outlives the agent (ADR 12): peers keep their tunnel to a host whose agent is
down. The service registrations are the original's (docs/original/netplugin-agent.md §4) with the
ports in use; they expire with the agent. Next: `objdb.registration`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from core import keys
from core.tasks import Supervisor
from daemons.listen_address import ANY_ADDRESS
from netplugin.settings import Settings
from objdb.api import Backend
from objdb.registration import TTL, Registration
from objdb.shared_lease import SharedLease
from state import codec, schema
from state.records import HostRecord, ServiceInstance

ANY_HOST: Final = ("", ANY_ADDRESS)


def host_record(
    settings: Settings, uplink_macs: Iterable[str], version: str, host_id: str
) -> HostRecord:
    """Return the record of this host for the cluster; `netplugin.masters.label_claim` writes it."""
    return HostRecord(
        label=settings.host,
        control_ip=str(settings.ctrl_ip),
        vtep_ip=str(settings.vtep_ip),
        vxlan_port=settings.vxlan_port,
        uplink_macs=tuple(uplink_macs),
        version=version,
        host_id=host_id,
        schema=schema.VERSION,
        answers_probes=True,
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


def register(
    backend: Backend,
    lease: SharedLease,
    services: list[ServiceInstance],
    supervisor: Supervisor,
) -> list[Registration]:
    """Register services and keep them registered for as long as the supervisor runs."""
    registrations = []
    for instance in services:
        key = keys.service(instance.service, instance.address, instance.port)
        registration = Registration(backend, key, codec.encode(instance), lease=lease)
        supervisor.supervise(f"register {key}", registration.run())
        registrations.append(registration)
    return registrations
