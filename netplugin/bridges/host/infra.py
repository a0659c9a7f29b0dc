"""Interfaces of the host on infra networks: one for each network, with the network's name.

For every network of type `infra` the agent requests an endpoint of its host from netmaster, makes
an interface of the host for it (`netplugin.bridges.host.host_ports`) and sets it on the World.
Through the interface named `contivh1` the host reaches the pods of its tenant at their own
addresses: it has a route to each vxlan network of the tenant, and one to the services of
Kubernetes.
"""

import logging
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface
from typing import Final

from core.errors import ContivError, Invalid
from core.ids import EndpointKey, HostLabel, NetworkId, endpoint_key, network_name
from core.logs import fields
from netplugin.bridges.host.host_ports import HostInterface, InterfaceContext
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.masters.master_api import MasterApi, WantedEndpoint
from netplugin.ovsdb import PortRow
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.bridges.networks import BRIDGE_OF
from state.records import Encap, EndpointRecord, NetworkRecord, NetworkType

log = logging.getLogger(__name__)

GATEWAY_NAME: Final = "contivh1"
"""The infra network through which a host reaches its tenant's pods."""


class Infra:
    """The host's interfaces on infra networks. One per agent."""

    def __init__(
        self,
        context: InterfaceContext,
        *,
        host: HostLabel,
        master: MasterApi,
        services: IPv4Network | None,
    ) -> None:
        self._context = context
        self._ovsdb = context.ovsdb
        self._world = context.world
        self._host = host
        self._master = master
        self._services = services

    def place(self) -> None:
        """Set the interfaces that exist already on the World: a restart must change no flow."""
        for network in self._networks():
            record, row = self._record(network), self._rows().get(self._key(network))
            if record is not None and row is not None and row.ofport is not None and row.ofport > 0:
                port = LocalPort(record=record, ofport=row.ofport)
                self._world.endpoints.put_port(record.key, port)

    async def run(self) -> None:
        """Reconcile the interfaces, for ever."""
        await ReconcileLoop(
            name="infra networks",
            converge=self.converge,
            observe=self._observe,
            triggers=(
                self._ovsdb.changed,
                self._context.records.records_changed,
                self._context.underlay.changed,
            ),
            interval=self._context.interval,
            anew=(self._context.watches.routes.lost,),
        ).run()

    def _observe(self) -> object:
        return self._inputs(), self._rows()

    def _inputs(self) -> object:
        """Return everything that determines the interfaces, except their ports."""
        taking = self._world.underlay.findings(self._networks())
        return taking, [
            (one, self._record(one), list(self._routed(one))) for one in self._networks()
        ]

    async def converge(self) -> object:
        """Create, correct and remove interfaces, once; return what `observe` then returns.

        One that fails stops no other; raises the last ContivError.
        """
        await self._context.underlay.settle()
        failure: ContivError | None = None
        inputs, made = self._inputs(), {}
        routable = self._world.underlay.routable(self._networks())
        for network in self._networks():
            try:
                if network not in routable:
                    await self._take_off(network)
                    continue
                made[self._key(network)] = await self._ensure(network)
            except ContivError as exc:
                about = fields(network=network.id, error=exc)
                log.debug("infra network not configured", extra=about)
                failure = exc
        for key, row in self._obsolete().items():
            await self._remove(key, row)
        if failure is not None:
            raise failure
        return inputs, made

    async def _take_off(self, network: NetworkRecord) -> None:
        """Remove the interface on a network that takes what this host needs, not its endpoint.

        `netplugin.bridges.host.host_access` names the network as a fault of the host.
        """
        row = self._rows().get(self._key(network))
        if row is not None:
            self._world.endpoints.remove_port(self._key(network))
            await self._ovsdb.delete_port(row.bridge, row.name)
            log.warning(
                "host interface removed, the underlay needs its addresses",
                extra=fields(port=row.name),
            )

    def _obsolete(self) -> dict[EndpointKey, PortRow]:
        """Return the ports of networks that no longer exist; none before the World is complete."""
        wanted = {self._key(network) for network in self._networks()}
        rows = self._rows().items() if self._world.complete else ()
        return {key: row for key, row in rows if key not in wanted}

    def _networks(self) -> list[NetworkRecord]:
        return [one for one in self._world.networks.all() if one.type is NetworkType.INFRA]

    def _key(self, network: NetworkRecord) -> EndpointKey:
        return endpoint_key(network.id, self._host)

    def _record(self, network: NetworkRecord) -> EndpointRecord | None:
        return self._world.endpoint_records.get(self._key(network))

    def _rows(self) -> dict[EndpointKey, PortRow]:
        """Return the ports of infra networks, by their endpoints."""
        internal = [row for row in self._ovsdb.ports().values() if row.type == "internal"]
        owned = [
            (EndpointKey(row.external_ids.get(port_names.ENDPOINT_ID, "")), row) for row in internal
        ]
        return {
            key: row
            for key, row in owned
            if key.startswith(f"{row.name}.") and key.endswith(f"-{self._host}")
        }

    async def _ensure(self, network: NetworkRecord) -> PortRow:
        if len(network.name) > port_names.MAX_NAME:
            raise Invalid(f"infra network {network.id}: no interface can have such a long name")
        record = self._record(network) or await self._request(network)
        if IPv4Address(record.ip_address) not in _subnet(network):
            # The record is of an earlier network of this name, which was deleted and created anew.
            await self._master.delete_endpoint(network.tenant, network.name, self._host)
            record = await self._request(network)
        row = await self._context.host_ports.ensure(lambda: self._interface(network, record))
        self._world.endpoints.put_port(record.key, LocalPort(record=record, ofport=row.ofport or 0))
        return row

    async def _request(self, network: NetworkRecord) -> EndpointRecord:
        wanted = WantedEndpoint(
            host=self._host,
            tenant=network.tenant,
            network=network.name,
            group=None,
            endpoint_id=self._host,
            common_name="",
        )
        return (await self._master.create_endpoint(wanted)).record

    def _interface(self, network: NetworkRecord, record: EndpointRecord) -> HostInterface:
        address = IPv4Interface((record.ip_address, network.subnet_len))
        addresses: list[IPv4Interface | IPv6Interface] = [address]
        if record.ipv6_address:
            addresses.append(IPv6Interface((record.ipv6_address, network.ipv6_subnet_len)))
        return HostInterface(
            bridge=BRIDGE_OF[network.encap],
            name=network.name,
            owner=record.key,
            tag=network.pkt_tag,
            ofport=self._ofport(self._rows().get(record.key)),
            mac=record.mac_address,
            # the host's own pods, which it reaches by its port among them, may ask here
            loose=True,
            addresses=addresses,
            routes=[
                HostRoute(subnet=subnet, source=address.ip)
                for subnet in (address.network, *self._routed(network))
            ],
        )

    def _ofport(self, row: PortRow | None) -> int:
        if row is None or row.ofport is None:
            return port_names.next_infra_ofport(self._ovsdb.numbers())
        return row.ofport

    def _routed(self, network: NetworkRecord) -> Iterator[IPv4Network]:
        """Yield the subnets routed through an infra network, besides its own."""
        if network.name != GATEWAY_NAME:
            return
        if self._services is not None:
            yield self._services
        for other in self._world.underlay.routable(self._world.networks.all()):
            reached = other.encap is Encap.VXLAN and other.type is not NetworkType.INFRA
            if reached and other.tenant == network.tenant and other.subnet:
                yield _subnet(other)

    async def _remove(self, key: EndpointKey, row: PortRow) -> None:
        # The port goes last: if the agent dies in between, the port is what shows the next one that
        # there is still an endpoint to release.
        self._world.endpoints.remove_port(key)
        nid = NetworkId(key.removesuffix(f"-{self._host}"))
        tenant = self._world.endpoints.tenant_of(nid)
        await self._master.delete_endpoint(tenant, network_name(nid, tenant), self._host)
        await self._ovsdb.delete_port(row.bridge, row.name)
        log.info("host interface removed", extra=fields(port=row.name))


def _subnet(network: NetworkRecord) -> IPv4Network:
    return IPv4Network((network.subnet, network.subnet_len))
