"""The IPAM driver: subnets and addresses of docker networks.

In come calls of `netplugin.libnetwork.calls`; out go requests to netmaster, which grants addresses,
and the members of the replies. A pool's id has all that a later call needs, so nothing is stored:
`net[:group].tenant|subnet`, and `|range` for a part of the subnet (docs/original/docker-plugin.md
§3). `netplugin.libnetwork.endpoints` makes endpoints with the addresses.

In a swarm the manager that leads chooses all addresses, and asks for those of every service and
task. Each node asks again for what it was told to use, and releases it with its endpoint; nothing
is asked of netmaster then, for the addresses are the manager's until it releases them. The node's
pools have ids of their own, `node|subnet`.
"""

from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final

from contivmodel.rpc import AllocAddressRequest, ReleaseAddressRequest
from core.errors import Invalid, NotFound
from core.ids import NetworkId, group_key
from netplugin.libnetwork.calls import (
    LOCAL_SPACE,
    TAG,
    BadBody,
    PoolCall,
    ReleaseAddress,
    RequestAddress,
    RequestPool,
    address_of,
    read,
)
from netplugin.masters.master_api import MasterApi
from netplugin.world.builder import WorldBuilder
from state.docker_networks import DockerPlace, of_options
from state.records import NetworkRecord, NetworkType

_BETWEEN = "|"
_NODE = "node"
"""The first word of the id of a pool that a node of a swarm has."""

_NAME_ONE: Final = "name one with --subnet, or a network with --ipam-opt network="

_Address = tuple[NetworkId | None, str]
"""A network, None where a pool alone names it, and an address of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolId:
    """A subnet, and whose it is; `alloc_id` is netmaster's name of network and group, "" for none.

    `part` is the range in the subnet that addresses are of, "" for the whole. `of_node`: a node of
    a swarm has it, whose addresses a manager has chosen.
    """

    alloc_id: str
    subnet: str
    part: str = ""
    of_node: bool = False

    def __str__(self) -> str:
        owner = _NODE if self.of_node else self.alloc_id
        words = [word for word in (owner, self.subnet) if word]
        return _BETWEEN.join([*words, self.part] if self.part else words)

    @property
    def length(self) -> str:
        """The prefix length of the subnet."""
        return self.subnet.partition("/")[2]

    @property
    def network(self) -> NetworkId | None:
        """The id of the network, None where the pool alone names it."""
        if not self.alloc_id:
            return None
        name, _, group = self.alloc_id.partition(":")
        return NetworkId(f"{name}.{group.partition('.')[2]}" if group else name)


def alloc_id(place: DockerPlace) -> str:
    """Return netmaster's name of a network, or of a group in it, in requests for addresses."""
    of_group = f":{place.group}" if place.group else ""
    return f"{place.network}{of_group}.{place.tenant}"


def parse_id(text: str) -> PoolId:
    """Return the pool that an id names. Raises BadBody for an id that is not ours."""
    words = text.split(_BETWEEN)
    owner = "" if "/" in words[0] else words.pop(0)
    if not 1 <= len(words) <= 2:
        raise BadBody(f"pool {text!r} is none of this driver")
    for word in words:
        _check_subnet(word, text)
    of_node = owner == _NODE  # names of networks come with a tenant, behind a dot
    return PoolId(
        alloc_id="" if of_node else owner,
        subnet=words[0],
        part=words[1] if len(words) == 2 else "",
        of_node=of_node,
    )


class IpamDriver:
    """Serves the calls of `IpamDriver`. One per agent; `in_swarm` says that docker is a swarm."""

    # An address is reserved until its endpoint takes it over, and docker releases it when the
    # endpoint is gone. By then it may be reserved for a container of another host: so only what
    # this agent has reserved, and no endpoint has taken over, is released here. It may also be
    # reserved for another container of this host, and a release does not say for whom: docker
    # releases what it was given once each time, so the last of the releases it owes is the one that
    # counts. What an agent forgets by its end, and what an engine that dies never releases,
    # netmaster reclaims in time. In a swarm one manager asks for all, and another one may release;
    # netmaster keeps what an endpoint has reserved until then.

    def __init__(self, master: MasterApi, world: WorldBuilder, *, in_swarm: bool) -> None:
        self._master = master
        self._world = world
        self._in_swarm = in_swarm
        self._reserved: set[_Address] = set()
        self._owed: Counter[_Address] = Counter()

    async def request_pool(self, body: bytes) -> dict[str, object]:
        """Return a network's subnet and its id."""
        call = read(RequestPool, body)
        if self._in_swarm and call.space == LOCAL_SPACE:
            _check_subnet(call.pool, call.pool)
            pool = PoolId(alloc_id="", subnet=call.pool, of_node=True)
            return {"PoolID": str(pool), "Pool": call.pool, "Data": None}
        place = self._place(call)
        network = None if place is None else self._network(place)
        subnet = self._subnet(call, network)
        if call.part:
            _check_subnet(call.part, call.part)
            if not _contains(subnet, call.part):
                raise Invalid(f"range {call.part} is not in subnet {subnet}")
        if place is None and not self._in_swarm:
            place = self._place_of_subnet(subnet)
        pool = PoolId(alloc_id=alloc_id(place) if place else "", subnet=subnet, part=call.part)
        return {"PoolID": str(pool), "Pool": subnet, "Data": None}

    async def release_pool(self, body: bytes) -> dict[str, object]:
        """Nothing is kept of a pool."""
        read(PoolCall, body)
        return {}

    async def request_address(self, body: bytes) -> dict[str, object]:
        """Reserve an address; one of a gateway is the network's own."""
        call = read(RequestAddress, body)
        pool, address = parse_id(call.pool_id), address_of(call.address)
        if call.of_gateway:
            return {"Address": self._gateway(pool, address), "Data": None}
        if pool.of_node:
            if not address:
                raise BadBody(f"pool {pool}: a manager of the swarm chooses the addresses")
            return {"Address": f"{address}/{pool.length}", "Data": None}
        given = await self.reserve(pool, address)
        if not self._in_swarm:
            self._owed[pool.network, address_of(given)] += 1
        return {"Address": given, "Data": None}

    async def release_address(self, body: bytes) -> dict[str, object]:
        """Release an address that is reserved and no endpoint's; any other stays."""
        call = read(ReleaseAddress, body)
        if not call.pool_id:
            return {}
        pool, address = parse_id(call.pool_id), address_of(call.address)
        if pool.of_node:
            return {}
        if (self._ends(pool, address) or self._in_swarm) and address:
            await self._master.release_address(
                ReleaseAddressRequest(
                    network_id=pool.alloc_id, ipv4_address=address, address_pool=pool.subnet
                )
            )
        return {}

    async def reserve(self, pool: PoolId, address: str) -> str:
        """Reserve an address, "" for any; return it with its prefix length."""
        given = await self._master.reserve_address(
            AllocAddressRequest(
                network_id=pool.alloc_id,
                address_pool=pool.subnet,
                preferred=address,
                range=pool.part,
            )
        )
        self._reserved.add((pool.network, address_of(given)))
        return given

    def taken_over(self, network: NetworkId, *addresses: str) -> None:
        """Note that an endpoint has the addresses: they are released with it."""
        self._reserved -= {(network, address) for address in addresses}

    def given_back(self, network: NetworkId, *addresses: str) -> None:
        """Note that an endpoint ends, before netmaster knows: docker releases its addresses next.

        That matters for an endpoint of the agent before, which took what docker owes with it. A
        node of a swarm is owed nothing: a manager releases.
        """
        for address in () if self._in_swarm else addresses:
            self._owed[network, address] = max(self._owed[network, address], 1)

    def _ends(self, pool: PoolId, address: str) -> bool:
        """Take a release; return whether it ends a reservation."""
        this = pool.network, address
        if self._owed[this] > 1:
            self._owed[this] -= 1
            return False
        del self._owed[this]
        held = this in self._reserved
        self._reserved.discard(this)
        return held

    def _place(self, call: RequestPool) -> DockerPlace | None:
        """Return what the options name, None where they name nothing. Raises NotFound."""
        if tag := call.options.get(TAG):
            return tagged(self._world, tag)
        return of_options(call.options)

    def _network(self, place: DockerPlace) -> NetworkRecord | None:
        # netmaster creates docker's network before its own record, so it may not be known yet.
        return self._world.networks.named(place.network, place.tenant)

    def _subnet(self, call: RequestPool, network: NetworkRecord | None) -> str:
        """Return the subnet that is asked for, or that of the network. Raises Invalid."""
        own = "" if network is None else _subnet_of(network, v6=call.v6)
        if not call.pool:
            if own:
                return own
            if call.v6:
                raise Invalid(f"no IPv6 subnet: {_NAME_ONE}")
            raise Invalid(f"no subnet: {_NAME_ONE}; a network of IPv6 alone needs docker 28")
        _check_subnet(call.pool, call.pool)
        if network and own and ip_network(call.pool, strict=False) != ip_network(own):
            raise Invalid(f"network {network.id} has subnet {own}, not {call.pool}")
        return call.pool

    def _place_of_subnet(self, subnet: str) -> DockerPlace:
        """Return the one network that has a subnet. Raises NotFound, Invalid."""
        found = with_subnet(self._world, subnet)
        if not found:
            raise NotFound(f"no network has subnet {subnet}: create it with netctl net create")
        if len(found) > 1:
            names = ", ".join(sorted(network.id for network in found))
            raise Invalid(
                f"networks {names} have subnet {subnet}: choose one with --ipam-opt network= "
                "and --ipam-opt tenant="
            )
        return DockerPlace(found[0].tenant, found[0].name)

    def _gateway(self, pool: PoolId, address: str) -> str:
        """Return the address of a gateway. Raises Invalid for one that is not the network's."""
        network = None if pool.network is None else self._world.networks.get(pool.network)
        own = "" if network is None else _gateway_of(network, v6=":" in pool.subnet)
        if not own and address == pool.subnet.partition("/")[0]:
            return pool.subnet  # a manager of a swarm asks again for what stands for no gateway
        if address and own and address_of(own) != address:
            raise Invalid(f"network {pool.network} has gateway {own}, not {address}")
        if address and network is not None and not own:
            raise Invalid(f"network {pool.network} has no gateway: leave --gateway out")
        # Without any gateway the subnet's own address stands for it, which nobody ever has.
        chosen = address or (address_of(own) if own else "")
        return f"{chosen}/{pool.length}" if chosen else pool.subnet


def tagged(world: WorldBuilder, tag: str) -> DockerPlace:
    """Return the group with a tag, else the network with it. Raises NotFound."""
    for group in world.endpoints.groups():
        if group.group_tag == tag:
            return DockerPlace(group.tenant, group.network, group.name)
    for network in world.networks.all():
        if network.network_tag == tag:
            return DockerPlace(network.tenant, network.name)
    raise NotFound(f"failed to lookup tag {tag}: no group and no network has it")


def with_subnet(world: WorldBuilder, subnet: str) -> list[NetworkRecord]:
    """Return the networks for containers that have a subnet; those of tenants may overlap."""
    return [
        network
        for network in world.networks.all()
        if network.type is NetworkType.DATA and _has(network, subnet)
    ]


def known(world: WorldBuilder, place: DockerPlace) -> bool:
    """Return whether the store has a network, and the group if one is named."""
    network = world.networks.named(place.network, place.tenant)
    if network is None or not place.group:
        return network is not None
    group = world.endpoints.group(group_key(place.group, place.tenant))
    return group is not None and group.network == place.network


def _subnet_of(network: NetworkRecord, *, v6: bool) -> str:
    return str((network.v6 if v6 else network.v4) or "")


def _gateway_of(network: NetworkRecord, *, v6: bool) -> str:
    return network.ipv6_gateway if v6 else network.gateway


def _has(network: NetworkRecord, subnet: str) -> bool:
    own = _subnet_of(network, v6=":" in subnet)
    return bool(own) and ip_network(subnet, strict=False) == ip_network(own)


def _contains(subnet: str, part: str) -> bool:
    whole, inner = ip_network(subnet, strict=False), ip_network(part, strict=False)
    same = whole.version == inner.version
    return same and int(whole[0]) <= int(inner[0]) and int(inner[-1]) <= int(whole[-1])


def _check_subnet(text: str, of: str) -> None:
    address, _, length = text.partition("/")
    try:
        ip_network(f"{address}/{length}", strict=False)  # without a length it is none
    except ValueError as exc:
        raise BadBody(f"{of[:256]!r} is not a pool: {text[:64]!r} is not a subnet") from exc
