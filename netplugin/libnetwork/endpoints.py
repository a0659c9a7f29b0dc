"""The network driver: endpoints of containers, by the same path as CNI's pods.

In come calls of `netplugin.libnetwork.calls`; out go ADDs and DELs of `netplugin.pods.handler`,
with the pod's end of the link handed over to the engine, and the members of the replies.

CreateEndpoint does all the work and may refuse: what it leaves undone it undoes. Join tells the
engine the name of the link and the gateways. Leave, DeleteEndpoint of an endpoint that is not
there, and all that is only told never fail: the engine would keep what it cannot end.
"""

import logging
from ipaddress import IPv4Interface, IPv6Interface

from core.errors import ContivError, NotFound
from core.ids import GroupName, NetworkName, TenantName, network_id
from core.logs import fields
from netplugin.cni.interface_spec import FIRST_INTERFACE, Delivery, InterfaceSpec
from netplugin.cni.request import PodRequest
from netplugin.libnetwork.calls import (
    CreateEndpoint,
    CreateNetwork,
    EndpointCall,
    Join,
    NetworkCall,
    read,
)
from netplugin.libnetwork.networks import NetworkNames
from netplugin.libnetwork.pools import IpamDriver, PoolId, alloc_id
from netplugin.pods.handler import Pods
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from state.docker_networks import DockerPlace

log = logging.getLogger(__name__)

Reply = dict[str, object]


class NetworkDriver:
    """Serves the calls of `NetworkDriver`. One per agent."""

    def __init__(
        self, pods: Pods, networks: NetworkNames, ipam: IpamDriver, world: WorldBuilder
    ) -> None:
        self._pods = pods
        self._networks = networks
        self._ipam = ipam
        self._world = world

    async def create_network(self, body: bytes) -> Reply:
        """Keep which of our networks the new one stands for; it exists already, in the store."""
        # netmaster creates docker's network before its own is in the store, so that what is not
        # known here yet cannot be refused. CreateEndpoint refuses it.
        call = read(CreateNetwork, body)
        auxiliary = call.auxiliary
        place = await self._networks.created(call.network_id, call.generic, auxiliary)
        log.info("docker network created", extra=fields(network=call.network_id, place=place or ""))
        return {}

    async def delete_network(self, body: bytes) -> Reply:
        """Forget a network of docker; ours stays."""
        call = read(NetworkCall, body)
        await self._networks.removed(call.network_id)
        return {}

    async def create_endpoint(self, body: bytes) -> Reply:
        """Create an endpoint with the addresses that docker has chosen, and its link."""
        call = read(CreateEndpoint, body)
        ipv4, ipv6, mac = call.ipv4, call.ipv6, call.mac
        place = await self._networks.place_of(call.network_id)
        result = await self._pods.add(_request(call.endpoint_id, place, ipv4, ipv6, mac))
        addresses = [str(one.ip) for one in (result.ipv4, result.ipv6) if one is not None]
        self._ipam.taken_over(network_id(place.network, place.tenant), *addresses)
        # The engine takes only what it has not chosen itself.
        reply = {
            "Address": "" if ipv4 else str(result.ipv4 or ""),
            "AddressIPv6": "" if ipv6 or result.ipv6 is None else str(result.ipv6),
            "MacAddress": "" if mac else result.mac,
        }
        return {"Interface": reply}

    async def endpoint_oper_info(self, body: bytes) -> Reply:
        """Return nothing: docker knows all that there is to show."""
        read(EndpointCall, body)
        return {"Value": None}

    async def join(self, body: bytes) -> Reply:
        """Name the link that the engine is to move into the container, and the gateways."""
        call = read(Join, body)
        entry = await self._pods.join(call.endpoint_id, call.sandbox)
        network = self._world.networks.named(entry.spec.network, entry.spec.tenant)
        if network is None:
            raise NotFound(f"network {entry.spec.network} of tenant {entry.spec.tenant} is gone")
        return {
            "InterfaceName": {
                "SrcName": port_names.container_name(entry.port),
                "DstName": "",
                "DstPrefix": "eth",
            },
            # Without a gateway docker's own bridge (docker_gwbridge) leads outside.
            "Gateway": network.gateway,
            "GatewayIPv6": network.ipv6_gateway if entry.ipv6_address else "",
            "StaticRoutes": None,
            "DisableGatewayService": False,
        }

    async def leave(self, body: bytes) -> Reply:
        """Do nothing: the engine moves the link back by itself, and DeleteEndpoint follows."""
        read(EndpointCall, body)
        return {}

    async def delete_endpoint(self, body: bytes) -> Reply:
        """Remove an endpoint; one that is not there is a success."""
        call = read(EndpointCall, body)
        if entry := self._pods.find(call.endpoint_id):
            addresses = filter(None, (entry.ip_address, entry.ipv6_address))
            self._ipam.given_back(entry.spec.network_id, *addresses)
        nowhere = DockerPlace(TenantName(""), NetworkName(""))
        await self._pods.delete(_request(call.endpoint_id, nowhere))
        return {}

    async def told(self, body: bytes) -> Reply:
        """Accept what needs nothing to be done."""
        del body
        return {}

    async def keep_auxiliary(self, place: DockerPlace, addresses: tuple[str, ...]) -> None:
        """Keep the addresses of a docker network reserved that others than containers have."""
        # A reservation without an endpoint ends in time; while the network is there it is renewed.
        network = self._world.networks.named(place.network, place.tenant)
        if network is None:
            return
        for address in addresses:
            of6 = ":" in address
            base, length = (
                (network.ipv6_subnet, network.ipv6_subnet_len)
                if of6
                else (network.subnet, network.subnet_len)
            )
            pool = PoolId(alloc_id=alloc_id(place), subnet=f"{base}/{length}")
            try:
                await self._ipam.reserve(pool, address)
            except ContivError as exc:
                about = fields(network=place.name, address=address, error=exc)
                log.warning("auxiliary address not reserved", extra=about)


def _request(
    endpoint_id: str,
    place: DockerPlace,
    ipv4: IPv4Interface | None = None,
    ipv6: IPv6Interface | None = None,
    mac: str = "",
) -> PodRequest:
    spec = InterfaceSpec(
        container_id=endpoint_id,
        endpoint=endpoint_id,
        netns="",
        ifname=FIRST_INTERFACE,
        tenant=place.tenant,
        network=place.network,
        group=place.group or GroupName(""),
        mac=mac,
        default_route=False,
        delivery=Delivery.HANDED_OVER,
    )
    return PodRequest(
        spec=spec,
        pod_name="",
        namespace="",
        cni_version="",
        ipv4=None if ipv4 is None else ipv4.ip,
        ipv6=None if ipv6 is None else ipv6.ip,
    )
