"""Which addresses networks, services and settings must not take. Pure (ADR 32).

Refused are networks and private subnets that hold an address of the underlay (`state.underlay`), or
each other, and networks of several tenants in one address space. What was accepted before a host
registered, or by an earlier release, is found again by `faults`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from contivmodel.objects import Global
from core import ids
from core.addresses import (
    HOSTS_OWN6,
    TUNNEL_SOURCES4,
    Subnet,
    ipv4,
    ipv6,
    parse_range,
    subnet4,
    subnet6,
    tunnel_source4,
)
from core.errors import Conflict, Invalid
from core.ids import HostLabel, NetworkId
from netmaster.ipam.claims import Claim
from netmaster.ipam.ranges import NOTHING, Ranges
from netmaster.view import View
from state.records import DEFAULT_PRIVATE_SUBNET, Encap, NetworkRecord, NetworkType
from state.underlay import (
    Address,
    AddressKind,
    NetworkRange,
    Underlay,
    UnderlayAddress,
    UnderlayFinding,
    overlaps,
    usable,
)

ROUTING: Final = "routing"
NO_HOSTS: Final = (
    subnet4(0, 8),
    subnet4(127 << 24, 8),
    subnet4(ipv4("169.254.0.0"), 16),
    subnet4(224 << 24, 4),
    subnet4(ipv4("255.255.255.255"), 32),
    subnet6(ipv6("fe80::"), 10),
)
"""`This network`, loopback, link-local, multicast, broadcast: no endpoint can have an address here.

The original takes any other subnet of IPv6, and its own tests use some that no host can use."""


def check_usable(claim: Claim) -> None:
    """Refuse subnets that no host can use. Raises Invalid."""
    for subnet in claim.subnets:
        if any(_overlap(subnet, block) for block in NO_HOSTS):
            raise Invalid(f"subnet {subnet} has no addresses that endpoints could use")


def check_network(view: View, network: NetworkRecord, claim: Claim) -> None:
    """Refuse a new network that takes addresses of others than its endpoints. Raises Conflict."""
    private = private_subnet(view)
    subnet = network.v4
    if private is not None and subnet is not None and subnet.overlaps(private):
        raise Conflict(
            f"subnet {subnet} overlaps {private}, the private subnet of all hosts (pvtSubnet)"
        )
    for wanted, own in ((subnet, TUNNEL_SOURCES4), (claim.v6, HOSTS_OWN6)):
        if wanted and wanted.overlaps(own):
            raise Conflict(f"subnet {wanted} overlaps {own}, which hosts use themselves")
    _refuse(overlaps([network], view.underlay.all))
    _refuse(overlaps([network], _on_infra_networks(view, but=network.id)))
    routed = network.encap is Encap.VLAN and _mode(view) == ROUTING
    if routed and view.claims.of_other_tenants(network.tenant, network.v4, network.v6):
        # Whose it is, is nothing that a tenant's operator may learn.
        raise Conflict(
            f"subnet {' or '.join(map(str, network.subnets))} overlaps a network of another "
            "tenant: routed vlan networks of all tenants have one address space"
        )


def check_settings(view: View, before: Global | None, settings: Global) -> None:
    """Refuse a private subnet, or a forwarding mode, that does not fit what there is.

    Raises Conflict or Invalid. Settings that do not change are not looked at.
    """
    if before is None or settings.pvt_subnet != (before.pvt_subnet or DEFAULT_PRIVATE_SUBNET):
        _check_private(view, parse_range(settings.pvt_subnet).subnet)
    changed = before is None or before.fwd_mode != settings.fwd_mode
    if changed and settings.fwd_mode == ROUTING:
        shared = next(_shared(view), None)
        if shared is not None:
            raise Conflict(f"Unable to update forwarding mode: {shared.text}")


def reserved(view: View, network: NetworkRecord) -> Ranges:
    """Return the addresses of both families that endpoints of a network are not given.

    They are of a host that registered later than the network.
    """
    if not view.underlay.all.taken_by(network):  # of nearly every network, and each endpoint asks
        return NOTHING
    found = overlaps([network], view.underlay.all, _given(view, network))
    return Ranges((address, address) for address in (int(one.taken.address) for one in found))


class NetworkFault(NamedTuple):
    """A network that would be refused, why, and the host whose address it takes, if any."""

    network: NetworkId
    text: str
    host: HostLabel | None = None


def network_faults(view: View) -> Iterator[NetworkFault]:
    """Yield what is wrong with the networks that there are."""
    given = {nid: held for one in _infra(view) for nid, held in _given(view, one).items()}
    for finding in overlaps(view.networks.values(), view.underlay.all, given):
        yield NetworkFault(finding.network, str(finding), finding.taken.host)
    private = private_subnet(view)
    for network in view.networks.values():
        subnet = network.v4
        if private is not None and subnet is not None and subnet.overlaps(private):
            text = f"subnet {subnet} of network {network.id} overlaps {private}"
            yield NetworkFault(network.id, f"{text}, the private subnet of all hosts (pvtSubnet)")
    if _mode(view) == ROUTING:
        yield from _shared(view)


def faults(view: View) -> Mapping[HostLabel | None, list[str]]:
    """Return what is wrong with the addresses of hosts, by host; of masters and all under None."""
    found: defaultdict[HostLabel | None, list[str]] = defaultdict(list)
    for fault in network_faults(view):
        remedy = "; delete that network, or give the machine another address" if fault.host else ""
        found[fault.host].append(f"{fault.text}{remedy}")
    for label, texts in view.underlay.faults.items():
        found[label] += texts
    for one, others in _shared_tunnels(view):
        same = all(other.address == one.address for other in others)
        named = " and ".join(sorted(f"host {other.host}" for other in others))
        shared = "is that" if same else "is made the same address of IPv4 as that"
        text = f"its tunnel address {one.address} {shared} of {named} as well"
        found[one.host].append(f"{text}; start the agent of one of them with its own --vtep-ip")
    private = private_subnet(view)
    for one in _within(view.underlay.all, private) if private is not None else ():
        found[one.host].append(f"the private subnet {private} holds {one}; change pvtSubnet")
    return {host: texts for host, texts in found.items() if texts}


def private_subnet(view: View) -> Subnet | None:
    """Return the private subnet of pods on each host; None for text that is none."""
    settings = view.global_record
    text = settings.pvt_subnet if settings is not None else ""
    try:
        return parse_range(text or DEFAULT_PRIVATE_SUBNET).subnet
    except ValueError:
        return None


def _shared_tunnels(view: View) -> Iterator[tuple[UnderlayAddress, list[UnderlayAddress]]]:
    """Yield tunnel addresses that several hosts have, for each of these with the others.

    So are two of IPv6 from which the same address of IPv4 is made (`core.addresses`).
    """
    holders: defaultdict[int, list[UnderlayAddress]] = defaultdict(list)
    for one in view.underlay.all.of_kind(AddressKind.TUNNEL):
        number = int(one.address)
        holders[number if one.address.version == 4 else tunnel_source4(number)].append(one)
    for members in holders.values():
        for one in members if len(members) > 1 else ():
            yield one, [other for other in members if other.host not in (one.host, None)]


def _check_private(view: View, private: Subnet) -> None:
    if any(_overlap(private, block) for block in NO_HOSTS):
        raise Invalid(f"private subnet {private} has no addresses that endpoints could use")
    if private.overlaps(TUNNEL_SOURCES4):
        raise Conflict(
            f"private subnet {private} overlaps {TUNNEL_SOURCES4}, which hosts use themselves"
        )
    for one in _within(view.underlay.all, private):
        raise Conflict(f"private subnet {private} holds {one}")
    for network in view.networks.values():
        if network.v4 is not None and network.v4.overlaps(private):
            raise Conflict(f"private subnet {private} overlaps network {network.id}")


def _refuse(findings: tuple[UnderlayFinding, ...]) -> None:
    if findings:
        first, *more = findings
        also = f", and {len(more)} more addresses of hosts or masters" if more else ""
        raise Conflict(f"{first.part} holds {first.taken}{also}")


def _within(underlay: Underlay, subnet: Subnet) -> Iterator[UnderlayAddress]:
    return underlay.within(NetworkRange("", subnet.bits, subnet.base, subnet.last))


def _infra(view: View) -> Iterator[NetworkRecord]:
    return (one for one in view.networks.values() if one.type is NetworkType.INFRA)


def _given(view: View, network: NetworkRecord) -> dict[NetworkId, set[Address]]:
    """Return the addresses that an infra network gave to hosts; a host registers those, too."""
    if network.type is not NetworkType.INFRA:
        return {}
    return {network.id: {one.address for one in _hosts_of(view, network)}}


def _on_infra_networks(view: View, but: NetworkId) -> list[UnderlayAddress]:
    """Return the addresses that hosts have on infra networks, with one exception."""
    return [one for net in _infra(view) if net.id != but for one in _hosts_of(view, net)]


def _hosts_of(view: View, network: NetworkRecord) -> Iterator[UnderlayAddress]:
    for key in view.network_endpoints.get(network.id, ()):
        endpoint = view.endpoints[key]
        for text in (endpoint.ip_address, endpoint.ipv6_address):
            address = usable(text)
            if address is not None:
                label = endpoint.homing_host
                yield UnderlayAddress(address, AddressKind.FURTHER, f"host {label}", label)


def _mode(view: View) -> str:
    return view.global_record.fwd_mode if view.global_record is not None else ""


def _overlap(one: Subnet, other: Subnet) -> bool:
    return one.bits == other.bits and one.overlaps(other)


def _shared(view: View) -> Iterator[NetworkFault]:
    """Yield vlan networks of two tenants that have addresses in common, each pair once."""
    for network in view.networks.values():
        if network.encap is not Encap.VLAN:
            continue
        own = ids.object_key(network.tenant, network.name)
        others = view.claims.of_other_tenants(network.tenant, network.v4, network.v6)
        for other in sorted(others):
            if other < own:
                yield NetworkFault(
                    network.id,
                    f"network {network.id} overlaps network {other} of another tenant: routed "
                    "vlan networks of all tenants have one address space",
                )
