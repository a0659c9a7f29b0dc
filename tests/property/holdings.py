"""A model of who holds which address, and the checker that compares it with a store.

The model is as plain as can be: sets and linear searches. The checker reads the store's bytes
itself and trusts no index of the code under test.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from core import keys


@dataclass(frozen=True)
class ModelNetwork:
    """A network of the model: subnets, gateways, and the pools its groups would have."""

    name: str
    subnet: IPv4Network
    gateways: tuple[str, ...]
    first: IPv4Address
    last: IPv4Address
    pools: Mapping[str, tuple[IPv4Address, IPv4Address]] = field(default_factory=dict)
    subnet6: IPv6Network | None = None


Holder = tuple[str, str]
"""(kind, id): `gateway`, `reservation` or `endpoint`."""


class Holdings:
    """Who holds what, by network and address."""

    def __init__(self, sites: Mapping[str, ModelNetwork]) -> None:
        self.sites = sites
        self.held: dict[str, dict[str, Holder]] = {
            name: dict.fromkeys(site.gateways, ("gateway", f"{name}.default"))
            for name, site in sites.items()
        }
        self.endpoints: dict[tuple[str, str], tuple[str, str, str]] = {}
        """(network, container) -> IPv4, IPv6, group."""
        self.groups: dict[str, set[str]] = {name: set() for name in sites}
        self.cursor6 = {n: int(site.subnet6[0]) for n, site in sites.items() if site.subnet6}
        self.order6: dict[str, list[str]] = {name: [] for name in sites}

    def pool(self, network: str, group: str) -> list[str]:
        """Return every IPv4 address a group could get; "" and groups without a pool share."""
        site = self.sites[network]
        pools = {name: site.pools[name] for name in self.groups[network] if name in site.pools}
        bounds = pools.pop(group, None)
        low, high = bounds or (site.first, site.last)
        return [
            str(address)
            for address in map(IPv4Address, range(int(low), int(high) + 1))
            if bounds or not any(first <= address <= last for first, last in pools.values())
        ]

    def lowest(self, network: str, group: str) -> str | None:
        """Return the IPv4 address that comes next."""
        held = self.held[network]
        return next((ip for ip in self.pool(network, group) if ip not in held), None)

    def following6(self, network: str) -> str | None:
        """Return the IPv6 address that comes next."""
        subnet = self.sites[network].subnet6
        assert subnet is not None
        numbers = [int(address) for address in subnet][1:]
        cursor = self.cursor6[network]
        round_trip = [n for n in numbers if n > cursor] + [n for n in numbers if n <= cursor]
        texts = (str(IPv6Address(number)) for number in round_trip)
        return next((ip for ip in texts if ip not in self.held[network]), None)

    def hold(self, network: str, ip: str, holder: Holder) -> None:
        """Note a grant."""
        known = ip in self.held[network]
        if ":" in ip and not known and ip == self.following6(network):
            self.cursor6[network] = int(IPv6Address(ip))
        self.held[network][ip] = holder
        if ":" in ip:
            self.order6[network] = [other for other in self.order6[network] if other != ip] + [ip]

    def free(self, network: str, ip: str) -> None:
        """Note a release."""
        del self.held[network][ip]
        if ":" in ip:
            self.order6[network].remove(ip)

    def new_leader(self) -> None:
        """Forget what is forgotten between two leaders: IPv6 goes on behind the newest grant."""
        for network, order in self.order6.items():
            if network in self.cursor6:
                subnet = self.sites[network].subnet6
                assert subnet is not None
                self.cursor6[network] = int(ip_address(order[-1])) if order else int(subnet[1])

    def count(self, network: str) -> int:
        """Return how many addresses endpoints and reservations hold."""
        return sum(kind != "gateway" for kind, _ in self.held[network].values())


def grants_in(store: Mapping[str, bytes]) -> dict[str, dict[str, Holder]]:
    """Return the grants a store holds, by network and address."""
    found: dict[str, dict[str, Holder]] = {}
    for key, value in store.items():
        if key.startswith(keys.GRANTS):
            nid, address = keys.parse_grant(key)
            grant = json.loads(value)
            holders = found.setdefault(nid.partition(".")[0], {})
            holders[address] = (grant["owner"], grant["ownerID"])
    return found


def violations(store: Mapping[str, bytes]) -> list[str]:
    """Return what is wrong with a store in itself: addresses held twice or by an unknown owner."""
    records = [json.loads(v) for k, v in store.items() if k.startswith(keys.ENDPOINTS)]
    claims = [
        (record["netID"].partition(".")[0], ip, record["id"])
        for record in records
        for ip in (record["ipAddress"], record["ipv6Address"])
        if ip
    ]
    counts = Counter((network, ip) for network, ip, _ in claims)
    wrong = [f"{ip} on {network} is held {n} times" for (network, ip), n in counts.items() if n > 1]
    grants = grants_in(store)
    wrong += [
        f"{owner} uses {ip} on {network} without holding it"
        for network, ip, owner in claims
        if grants.get(network, {}).get(ip) != ("endpoint", owner)
    ]
    claimed = set(claims)
    wrong += [
        f"{owner} holds {ip} on {network} without using it"
        for network, holders in grants.items()
        for ip, (kind, owner) in holders.items()
        if kind == "endpoint" and (network, ip, owner) not in claimed
    ]
    return wrong


def differences(store: Mapping[str, bytes], model: Holdings) -> list[str]:
    """Return where a store and the model disagree: what was acknowledged and is not there, ..."""
    grants = grants_in(store)
    return [
        f"{ip} on {network}: the store says {has}, acknowledged was {said}"
        for network, holders in model.held.items()
        for ip in sorted(holders.keys() | grants.get(network, {}).keys())
        if (has := _known(grants.get(network, {}).get(ip))) != (said := _known(holders.get(ip)))
    ]


def _known(holder: Holder | None) -> Holder | None:
    # a reservation has no owner to check
    return ("reservation", "") if holder and holder[0] == "reservation" else holder
