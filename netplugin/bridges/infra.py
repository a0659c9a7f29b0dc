"""Interfaces of the host on infra networks: one each, named like the network.

For every network of type `infra` the agent asks netmaster for an endpoint of its host, makes an
interface of the host for it (`netplugin.bridges.host_ports`) and tells the World. By the one named
`contivh1` the host reaches the pods of its tenant under their own addresses: it has a route to each
vxlan network of the tenant, and one to the services of Kubernetes. When the network goes, the
endpoint is released first and the port taken away then, so that whoever dies in between leaves
something to begin again with.
"""

import logging
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface
from typing import Final

from core.errors import ContivError, Invalid
from core.ids import EndpointKey, HostLabel, NetworkId, endpoint_key, split_network_id
from core.logs import fields
from netplugin.bridges.host_ports import HostInterface, HostPorts
from netplugin.bridges.reconcile_loop import ReconcileLoop, keep
from netplugin.bridges.reconciler import Reconciler
from netplugin.kernel.host_links import HostRoute
from netplugin.masters.client import MasterApi, WantedEndpoint
from netplugin.ovsdb import Ovsdb, PortRow
from netplugin.world import port_names
from netplugin.world.builder import WorldBuilder
from netplugin.world.conversion import LocalPort
from netplugin.world.networks import BRIDGE_OF
from state.records import Encap, EndpointRecord, NetworkRecord, NetworkType

log = logging.getLogger(__name__)

GATEWAY_NAME: Final = "contivh1"
"""The infra network by which a host reaches its tenant's pods."""


class Infra:
    """The host's interfaces on infra networks. One per agent."""

    def __init__(
        self,
        *,
        host: HostLabel,
        master: MasterApi,
        ovsdb: Ovsdb,
        host_ports: HostPorts,
        world: WorldBuilder,
        reconciler: Reconciler,
        services: IPv4Network | None,
        interval: float,
    ) -> None:
        self._host = host
        self._master = master
        self._ovsdb = ovsdb
        self._host_ports = host_ports
        self._world = world
        self._reconciler = reconciler
        self._services = services
        self._interval = interval

    def place(self) -> None:
        """Tell the World of the interfaces that are there: a restart is to change no flow."""
        for network in self._networks():
            record, row = self._record(network), self._rows().get(self._key(network))
            if record is not None and row is not None and row.ofport is not None and row.ofport > 0:
                port = LocalPort(record=record, ofport=row.ofport)
                self._world.endpoints.put_port(record.key, port)

    async def run(self) -> None:
        """Keep them, for ever; links and routes are looked at on the interval."""
        await keep(
            ReconcileLoop(
                name="infra networks",
                converge=self.converge,
                facts=self._facts,
                news=(self._ovsdb.changed, self._reconciler.learnt),
                interval=self._interval,
            )
        )

    def _facts(self) -> object:
        return self._wanted(), self._rows()

    def _wanted(self) -> object:
        """Return all that interfaces are made of, but for what their ports are now."""
        return [(one, self._record(one), list(self._routed(one))) for one in self._networks()]

    async def converge(self) -> object:
        """Make them as they should be, once, and return how it is then.

        One that cannot be made stops no other; raises the last ContivError.
        """
        failure: ContivError | None = None
        wanted, made = self._wanted(), {}
        for network in self._networks():
            try:
                made[self._key(network)] = await self._ensure(network)
            except ContivError as exc:
                log.debug("infra network", extra=fields(network=network.id, error=exc))
                failure = exc
        for key, row in self._gone().items():
            await self._remove(key, row)
        if failure is not None:
            raise failure
        return wanted, made

    def _gone(self) -> dict[EndpointKey, PortRow]:
        """Return the ports of networks that are gone, once absence means that."""
        wanted = {self._key(network) for network in self._networks()}
        rows = self._rows().items() if self._world.complete else ()
        return {key: row for key, row in rows if key not in wanted}

    def _networks(self) -> list[NetworkRecord]:
        return [one for one in self._world.networks.all() if one.type is NetworkType.INFRA]

    def _key(self, network: NetworkRecord) -> EndpointKey:
        return endpoint_key(network.id, self._host)

    def _record(self, network: NetworkRecord) -> EndpointRecord | None:
        return self._world.endpoints.get(self._key(network))

    def _rows(self) -> dict[EndpointKey, PortRow]:
        """Return the ports of infra networks, by their endpoints."""
        rows = self._ovsdb.ports().values()
        owned = {EndpointKey(row.external_ids.get(port_names.ENDPOINT_ID, "")): row for row in rows}
        return {
            key: row
            for key, row in owned.items()
            if row.type == "internal"
            and key.startswith(f"{row.name}.")
            and key.endswith(f"-{self._host}")
        }

    async def _ensure(self, network: NetworkRecord) -> PortRow:
        if len(network.name) > port_names.MAX_NAME:
            raise Invalid(f"infra network {network.id}: no interface can have such a long name")
        record = self._record(network) or await self._ask(network)
        if IPv4Address(record.ip_address) not in _subnet(network):
            # of a network of that name before this one
            await self._master.delete_endpoint(network.tenant, network.name, self._host)
            record = await self._ask(network)
        row = await self._host_ports.ensure(self._interface(network, record))
        self._world.endpoints.put_port(record.key, LocalPort(record=record, ofport=row.ofport or 0))
        return row

    async def _ask(self, network: NetworkRecord) -> EndpointRecord:
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
        """Yield the subnets that the host reaches by an infra network, beside its own."""
        if network.name != GATEWAY_NAME:
            return
        if self._services is not None:
            yield self._services
        for other in self._world.networks.all():
            reached = other.encap is Encap.VXLAN and other.type is not NetworkType.INFRA
            if reached and other.tenant == network.tenant:
                yield _subnet(other)

    async def _remove(self, key: EndpointKey, row: PortRow) -> None:
        self._world.endpoints.remove_port(key)
        name, tenant = split_network_id(NetworkId(key.removesuffix(f"-{self._host}")))
        await self._master.delete_endpoint(tenant, name, self._host)
        await self._ovsdb.delete_port(row.bridge, row.name)
        log.info("host interface removed", extra=fields(port=row.name))


def _subnet(network: NetworkRecord) -> IPv4Network:
    return IPv4Network((network.subnet, network.subnet_len))
