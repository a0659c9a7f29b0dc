"""Translates single records into the values of `ofnet.world` (pure).

Used by the modules that `netplugin.world.builder` names. A record is checked (`check_...`) before
anything is changed and Invalid raised if a field cannot be read; a checked record can always be
translated.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    summarize_address_range,
)
from typing import Final, NamedTuple

from core.errors import Invalid
from core.ids import split_network_id
from netplugin.world.bridges import port_names
from ofnet.bgp.peering import Peering, router_id
from ofnet.world import LocalEndpoint, Network, RemoteEndpoint
from state.records import (
    BgpRecord,
    Encap,
    EndpointRecord,
    GlobalRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    ServiceRecord,
)

PROTOCOLS: Final = {"TCP": 6, "UDP": 17}
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")


@lru_cache(maxsize=1024)
def address4(text: str) -> IPv4Address:
    """Return an address from its text. Raises ValueError."""
    # A record's address is read several times in a row, and records come by the ten thousand.
    return IPv4Address(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPort:
    """The OVS port of a local endpoint: record, ofport, number (`bridges.port_names`).

    The host's own interfaces have no number: they need no address on the private network. `rate`
    and `burst` are the limit that flows have to keep (`ofnet.world.LocalEndpoint`).
    """

    record: EndpointRecord
    ofport: int
    number: int | None = None
    rate: int = 0
    burst: int = 0


def check_network(record: NetworkRecord) -> None:
    """Raise Invalid unless `network_of` can read the record."""
    with _reading(record.id):
        IPv4Address(record.gateway or 0)
        IPv6Address(record.ipv6_gateway or 0)
        _granted(record)


def check_endpoint(record: EndpointRecord) -> None:
    """Raise Invalid unless `local_of` and `remote_of` can read the record, if it has addresses."""
    with _reading(record.key):
        split_network_id(record.network)
        if record.ip_address:
            address4(record.ip_address)
        if record.ipv6_address:
            IPv6Address(record.ipv6_address)
        if record.mac_address and not _MAC.fullmatch(record.mac_address):
            raise ValueError(f"{record.mac_address!r} is not a MAC address")


def check_host(record: HostRecord) -> None:
    """Raise Invalid unless the record's addresses can be read."""
    with _reading(f"host {record.label}"):
        for text in record.vtep_ips:
            ip_address(text)


def peering_of(record: BgpRecord) -> Peering:
    """Return the BGP peering of a host. Raises Invalid for values that no session can have."""
    with _reading(f"BGP of host {record.hostname}"):
        by_ipv6 = bool(record.neighbor_ipv6)
        if by_ipv6 and record.neighbor:
            raise ValueError("one session is possible, with neighbor or with neighborIpv6")
        router6 = IPv6Interface(record.router_ipv6) if record.router_ipv6 else None
        ipv4 = record.router_ip or router6 is None
        router = IPv4Interface(record.router_ip) if ipv4 else None
        return Peering(
            router=router,
            router6=router6,
            asn=int(record.as_number),
            peer=IPv6Address(record.neighbor_ipv6) if by_ipv6 else IPv4Address(record.neighbor),
            peer_asn=int(record.neighbor_as),
            link_local=port_names.router_link_local(router_id(router, router6)),
        )


def private_subnet(record: GlobalRecord) -> IPv4Network | None:
    """Return the private network between a host and its pods; None in older stores.

    Raises Invalid unless it is a /16: a port's number fills its two low bytes.
    """
    if not record.pvt_subnet:
        return None
    with _reading("the cluster's settings"):
        subnet = IPv4Network(record.pvt_subnet, strict=False)
        if subnet.prefixlen != 16:
            raise ValueError(f"private subnet {subnet} must be a /16")
    return subnet


class MappedPort(NamedTuple):
    """A port of a service, TCP (6) or UDP (17), and the port of its providers."""

    protocol: int
    port: int
    provider_port: int


def ports_of(record: ServiceRecord) -> tuple[MappedPort, ...]:
    """Return the ports of a service, each `<port>:<provider's port>:<protocol>`.

    Raises Invalid if they or its address cannot be read.
    """
    with _reading(f"service {record.key}"):
        ip_address(record.ip_address)
        return tuple(_service_port(text) for text in record.ports)


def _service_port(text: str) -> MappedPort:
    port, provider_port, protocol = text.split(":")
    numbers = (int(port), int(provider_port))
    if protocol.upper() not in PROTOCOLS or not all(0 < number < 65536 for number in numbers):
        raise ValueError(f"{text!r} is not a port of a service")
    return MappedPort(PROTOCOLS[protocol.upper()], *numbers)


def addressed(record: EndpointRecord) -> bool:
    """Return whether an endpoint has the addresses that packets to it need."""
    return bool((record.ip_address or record.ipv6_address) and record.mac_address)


def network_of(record: NetworkRecord, vrf: int) -> Network:
    """Return the network of a record, in the VRF of its tenant on this host."""
    return Network(
        id=record.id,
        vrf=vrf,
        vlan=record.pkt_tag,
        vni=record.ext_pkt_tag,
        gateway=IPv4Address(record.gateway) if record.gateway else None,
        gateway6=IPv6Address(record.ipv6_gateway) if record.ipv6_gateway else None,
        granted=_granted(record),
    )


def _granted(record: NetworkRecord) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return what netmaster grants addresses from: the range, or the whole subnet."""
    out: list[IPv4Network | IPv6Network] = []
    if record.subnet:
        subnet = IPv4Network((record.subnet, record.subnet_len), strict=False)
        last = IPv4Address(record.last)
        if record.bounded or last != subnet.broadcast_address:
            out += summarize_address_range(IPv4Address(record.first), last)
        else:
            out.append(subnet)
    if record.ipv6_subnet:
        out.append(IPv6Network((record.ipv6_subnet, record.ipv6_subnet_len), strict=False))
    return tuple(out)


def local_of(
    port: LocalPort, group: GroupRecord | None, private: IPv4Network | None
) -> LocalEndpoint:
    """Return the endpoint behind a port of this host; its DSCP and VLAN are its group's.

    Its private address follows from the number of its port.
    """
    record = port.record
    nat_ip = None
    if private is not None and port.number is not None:
        nat_ip = port_names.private_address(private, port.number).ip
    return LocalEndpoint(
        key=record.key,
        network=record.network,
        ofport=port.ofport,
        mac=record.mac_address,
        ip=address4(record.ip_address) if record.ip_address else None,
        ip6=IPv6Address(record.ipv6_address) if record.ipv6_address else None,
        group_id=record.group_id,
        dscp=group.dscp if group is not None else 0,
        group_vlan=group.pkt_tag if group is not None and group.encap is Encap.VLAN else 0,
        rate=port.rate,
        burst=port.burst,
        nat_ip=nat_ip,
        of_host=port.number is None and of_host(record),
    )


def remote_of(record: EndpointRecord) -> RemoteEndpoint:
    """Return the endpoint of a record of another host."""
    return RemoteEndpoint(
        key=record.key,
        network=record.network,
        host=record.homing_host,
        mac=record.mac_address,
        ip=address4(record.ip_address) if record.ip_address else None,
        ip6=IPv6Address(record.ipv6_address) if record.ipv6_address else None,
        group_id=record.group_id,
        of_host=of_host(record),
    )


def of_host(record: EndpointRecord) -> bool:
    """Return whether an endpoint is its host's own (`netplugin.bridges.host.infra`)."""
    return bool(record.homing_host) and record.endpoint_id == record.homing_host


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as exc:
        raise Invalid(f"record of {name}: {exc}") from exc
