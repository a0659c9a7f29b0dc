"""The names of Kubernetes' services, as its DNS specification 1.1.0 has them. Pure: no I/O.

In come services (`netplugin.world.kubernetes.kube_services`); out come the records of a name below
the zone of the cluster, or of an address. `netplugin.world.dns.dns_records` asks first here; it
knows which endpoints a tenant sees. Besides those of the specification, services with an address of
their own have the relative names that the original knows: `web`, `web.shop` and `web.shop.svc`,
unless such a name means something else (`netplugin.world.dns.bare_names`). A pod of Kubernetes
finds the bare name in its own namespace alone, as by the search list of its resolver.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from netplugin.world.dns.bare_names import is_free
from netplugin.world.kubernetes.kube_services import KubeService, KubeTarget

Address = IPv4Address | IPv6Address

CLUSTER_DOMAIN: Final = "cluster.local"
"""The zone of a cluster that names none: kubelet's default."""

SPECIFICATION: Final = "1.1.0"


@dataclass(frozen=True, slots=True)
class Server:
    """A record SRV: the name of a host and the port there.

    `member` is the endpoint of which the name is, None for that of the service.
    """

    host: str
    port: int
    member: KubeTarget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRecords:
    """The records of one name. A name may exist without any, as `svc.cluster.local` does.

    `members` are the endpoints of a headless service that have the name; `pointers` are the names
    of an address, each with its endpoint if it is one's; `alias` is a name, of the cluster or
    outside, for which the name stands.
    """

    addresses: tuple[Address, ...] = ()
    members: tuple[KubeTarget, ...] = ()
    servers: tuple[Server, ...] = ()
    pointers: tuple[tuple[str, KubeTarget | None], ...] = ()
    alias: str = ""
    text: str = ""


EXISTS: Final = NameRecords()


class KubeNames:
    """The names of all services; names come and go in lower case, without a final dot."""

    def __init__(self, zone: str = CLUSTER_DOMAIN) -> None:
        self.zone = zone.lower().strip(".")
        self.services: dict[str, KubeService] = {}
        """By `<namespace>/<name>`."""
        self._names: dict[str, dict[str, NameRecords]] = {}

    def put(self, service: KubeService) -> None:
        """Add or replace a service."""
        self.remove(service.key)
        self.services[service.key] = service
        for name, records in self._records(service).items():
            self._names.setdefault(name, {})[service.key] = records

    def remove(self, key: str) -> None:
        """Remove a service."""
        gone = self.services.pop(key, None)
        for name in self._records(gone) if gone is not None else ():
            del self._names[name][key]
            if not self._names[name]:
                del self._names[name]

    def covers(self, name: str) -> bool:
        """Return whether a name is the zone's, whether it exists or not."""
        return name == self.zone or name.endswith(f".{self.zone}")

    def lookup(self, name: str, namespace: str = "") -> NameRecords | None:
        """Return the records of a name; None if it does not exist.

        `namespace` is that of the pod that asks, "" for an asker outside of Kubernetes.
        """
        holders = self._names.get(name)
        if holders is not None and namespace and "." not in name:
            return holders.get(f"{namespace}/{name}")
        if holders is not None:
            # A relative name may be that of services in several namespaces, and one address that of
            # several services, or of endpoints that somebody lists: a service's own comes first.
            return holders[min(holders, key=lambda key: (_is_listed(holders[key]), *_rank(key)))]
        if not self.services:
            return None  # a cluster without Kubernetes has no such zone
        if name == self.zone or name in {f"svc.{self.zone}", f"pod.{self.zone}"}:
            return EXISTS
        if name == f"dns-version.{self.zone}":
            return NameRecords(text=SPECIFICATION)
        return self._pod(name)

    def _pod(self, name: str) -> NameRecords | None:
        """Return the records of `<address with dashes>.<namespace>.pod.<zone>`."""
        first, _, rest = name.removesuffix(f".pod.{self.zone}").partition(".")
        if not name.endswith(f".pod.{self.zone}") or "." in rest:
            return None
        if not rest:
            return EXISTS  # a namespace: which ones there are is not known here
        for text in (first.replace("-", "."), first.replace("-", ":")):
            try:
                return NameRecords(addresses=(ip_address(text),))
            except ValueError:
                continue
        return None

    def _records(self, service: KubeService) -> Mapping[str, NameRecords]:
        """Return all names of a service, with those above them up to the zone's."""
        own = f"{service.name}.{service.namespace}.svc.{self.zone}".lower()
        found: dict[str, NameRecords] = {}
        if service.external_name:
            found[own] = NameRecords(alias=service.external_name.rstrip(".").lower())
        elif service.headless:
            found |= _headless(own, service)
        else:
            found |= _with_address(own, service)
            if service.addresses:
                relative = f"{service.name}.{service.namespace}".lower()
                for name in (service.name.lower(), relative, f"{relative}.svc"):
                    if is_free(name, self.zone):
                        found[name] = found[own]
        for name in list(found):
            for above in self._above(name):
                found.setdefault(above, EXISTS)
        return found

    def _above(self, name: str) -> Iterator[str]:
        if not self.covers(name):
            return
        above = name.partition(".")[2]
        while above != f"svc.{self.zone}":
            yield above
            above = above.partition(".")[2]


def _with_address(own: str, service: KubeService) -> dict[str, NameRecords]:
    found = {own: NameRecords(addresses=service.addresses)}
    for port in service.ports:
        if port.name:
            name = f"_{port.name}._{port.protocol}.{own}".lower()
            found[name] = NameRecords(servers=(Server(own, port.port),))
    for address in service.addresses:
        found[address.reverse_pointer] = NameRecords(pointers=((own, None),))
    return found


def _headless(own: str, service: KubeService) -> dict[str, NameRecords]:
    members = tuple(sorted(service.members, key=lambda one: (one.address.version, one.address)))
    found = {own: NameRecords(members=members)}
    by_name: dict[str, list[KubeTarget]] = {}
    for member in members:
        by_name.setdefault(f"{_hostname(member)}.{own}", []).append(member)
        reverse = NameRecords(pointers=((f"{_hostname(member)}.{own}", member),))
        found[member.address.reverse_pointer] = reverse
    found |= {name: NameRecords(members=tuple(held)) for name, held in by_name.items()}
    for port in service.ports:
        if port.name:
            targets = sorted(port.targets, key=lambda one: (one.address.version, one.address))
            servers = (Server(f"{_hostname(one)}.{own}", one.port, one) for one in targets)
            name = f"_{port.name}._{port.protocol}.{own}".lower()
            found[name] = NameRecords(servers=tuple(servers))
    return found


def _hostname(member: KubeTarget) -> str:
    """Return the name of an endpoint below that of its service: its address, if it has none."""
    return member.hostname.lower() or str(member.address).replace(".", "-").replace(":", "-")


def _is_listed(records: NameRecords) -> bool:
    """Return whether a name is that of an address which is an endpoint's, not a service's own."""
    return any(member is not None for _, member in records.pointers)


def _rank(key: str) -> tuple[bool, str]:
    """Of services of one name in several namespaces, that of `default` comes first."""
    return not key.startswith("default/"), key
