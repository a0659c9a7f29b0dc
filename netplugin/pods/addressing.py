"""The addresses, gateways and CNI result of a pod's interface, from its records.

`netplugin.pods.add` configures the interface by them, `netplugin.pods.check` compares it with them.
"""

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from netplugin.cni.results import PodResult
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.world.bridges import port_names
from state.records import EndpointRecord, NetworkRecord


def addresses_of(
    record: EndpointRecord, network: NetworkRecord
) -> tuple[IPv4Interface | None, IPv6Interface | None]:
    """Return a pod's addresses with the prefix lengths of its network, one at least."""
    four, six = record.ip_address, record.ipv6_address
    return (
        IPv4Interface((four, network.subnet_len)) if four else None,
        IPv6Interface((six, network.ipv6_subnet_len)) if six else None,
    )


def gateways_of(
    record: EndpointRecord, network: NetworkRecord
) -> tuple[IPv4Address | None, IPv6Address | None]:
    """Return a network's gateways; the IPv6 one only where the pod has an IPv6 address."""
    gateway6 = network.ipv6_gateway if record.ipv6_address else ""
    return (
        IPv4Address(network.gateway) if network.gateway else None,
        IPv6Address(gateway6) if gateway6 else None,
    )


def result_of(
    entry: JournalEntry, record: EndpointRecord, network: NetworkRecord, mtu: int
) -> PodResult:
    """Return what an ADD answers for an endpoint."""
    ipv4, ipv6 = addresses_of(record, network)
    gateway, gateway6 = gateways_of(record, network)
    return PodResult(
        endpoint_id=record.endpoint_id,
        mac=record.mac_address,
        ipv4=ipv4,
        ipv6=ipv6,
        gateway=gateway,
        gateway6=gateway6,
        mtu=mtu,
        host_ifname=port_names.switch_name(entry.port),
        default_route=entry.spec.default_route,
        ipv6_first=network.ipv6_first,
    )
