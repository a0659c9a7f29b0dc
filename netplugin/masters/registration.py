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
from netplugin.settings import AgentSettings
from objdb.api import Backend
from objdb.registration import TTL, Registration
from objdb.shared_lease import SharedLease
from state import codec, schema
from state.records import HostRecord, ServiceInstance

ANY_HOST: Final = ("", ANY_ADDRESS, "::")


def host_record(
    settings: AgentSettings, uplink_macs: Iterable[str], version: str, host_id: str
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
        vtep_ip6=str(settings.vtep_ip6 or ""),
    )


def instances(
    settings: AgentSettings, rpc_ports: Sequence[int], version: str
) -> list[ServiceInstance]:
    """Return this agent's services: its RPC servers (vxlan, vlan) and its tunnel endpoints."""
    control = str(settings.ctrl_ip)
    ends = [
        *((keys.SERVICE_NETPLUGIN, control, port) for port in rpc_ports),
        *((keys.SERVICE_VTEP, str(vtep), settings.vxlan_port) for vtep in settings.vtep_ips),
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


def rest_instance(settings: AgentSettings, port: int, version: str) -> ServiceInstance:
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


class AgentRegistrations:
    """The services of one agent in the store, under one lease."""

    def __init__(self, backend: Backend, supervisor: Supervisor) -> None:
        self.lease: Final = SharedLease(backend, TTL)
        self._backend = backend
        self._supervisor = supervisor
        self._all: list[Registration] = []

    def register(self, services: Iterable[ServiceInstance]) -> None:
        """Register services and keep them registered for as long as the supervisor runs."""
        for instance in services:
            key = keys.service(instance.service, instance.address, instance.port)
            one = Registration(self._backend, key, codec.encode(instance), lease=self.lease)
            self._supervisor.supervise(f"register {key}", one.run())
            self._all.append(one)

    def states(self) -> dict[str, int]:
        """Return how many services are registered now, and how many should be."""
        held = sum(1 for one in self._all if one.registered)
        return {"registered": held, "all": len(self._all)}
