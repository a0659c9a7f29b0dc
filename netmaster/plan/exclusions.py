"""What networks and groups exclude: whether it can be, and who has addresses of it. Pure.

`netmaster.plan.objects.network` and `group` take it over; `netmaster.ipam.ranges` passes over it
when an address is chosen. An address that is held when it is excluded stays with its holder.
"""

from collections.abc import Collection, Iterator
from typing import Final

from core.addresses import IPV4_BITS, Subnet, ipv4, ipv6, parse_span
from core.errors import Invalid
from core.ids import EndpointKey, GroupKey, NetworkId
from netmaster.ipam.ranges import excluded
from netmaster.view import View
from state.records import GrantOwner, GrantRecord, NetworkRecord

MOST_RANGES: Final = 64
_LONGEST: Final = 2 * len("2001:db8:1111:2222:3333:4444:5555:6666") + 1


def checked(texts: Collection[str], four: Subnet | None, six: Subnet | None) -> tuple[str, ...]:
    """Return the ranges of a network's or a group's `exclude`.

    Raises Invalid for text that is none, or that is not in the network's subnet of its family.
    """
    if len(texts) > MOST_RANGES:
        raise Invalid(f"exclude: {len(texts)} ranges, at most {MOST_RANGES} are allowed")
    for text in texts:
        if len(text) > _LONGEST:
            raise Invalid(f"exclude: {text[:_LONGEST]!r}… is longer than any range")
        try:
            first, last, bits = parse_span(text)
        except ValueError as exc:
            raise Invalid(
                f"exclude: {text!r} is no address, range or block, as 10.1.1.1, "
                f"10.1.1.1-10.1.1.9 and 10.1.1.0/28 are: {exc}"
            ) from exc
        within = four if bits == IPV4_BITS else six
        if within is None:
            family = "IPv4" if bits == IPV4_BITS else "IPv6"
            raise Invalid(f"exclude: {text} is not in the network, which has no subnet of {family}")
        if first not in within or last not in within:
            raise Invalid(f"exclude: {text} is not in subnet {within} of the network")
    return tuple(texts)


def of_network(texts: Collection[str], network: NetworkRecord) -> tuple[str, ...]:
    """As `checked`, against the subnets of a network that there is."""
    return checked(texts, network.v4, network.v6)


def held(view: View, nid: NetworkId) -> Iterator[tuple[str, GrantRecord]]:
    """Yield the addresses of a network that are held although they are excluded, and by whom.

    Gateways are not among them: they are usual there. What a group excludes counts for its own
    endpoints.
    """
    network = view.networks.get(nid)
    if network is None:
        return
    for address, grant in view.addresses[nid].grants.items():
        if grant.owner is GrantOwner.GATEWAY:
            continue
        ranges = excluded(network.exclude + _of_group(view, grant))
        if ipv6(address) in ranges.v6 if ":" in address else ipv4(address) in ranges.v4:
            yield address, grant


def _of_group(view: View, grant: GrantRecord) -> tuple[str, ...]:
    endpoint = view.endpoints.get(EndpointKey(grant.owner_id))
    group = view.groups.get(GroupKey(endpoint.group_key)) if endpoint else None
    return group.exclude if group else ()
