"""Which hosts there are, and which of their agents are registered: one read of the store.

Agents write their host's record, which stays, and register services under leases, which end with
the agent. Both are read here alone. What agents have applied is for `netmaster.host_progress`.

An agent may be compromised, and the store lets it write its own record and registrations at its
own addresses (`netmaster.commands.store_acl`). So a registration counts if it says what its key
says, and names a host whose own record has that address. What does not count is a fault of the host
at whose address it is, and changes nothing for others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from core import keys
from core.errors import Invalid
from core.ids import HostLabel
from objdb.api import Backend, Entry
from ofnet.rpc.control import Node
from state import codec
from state.records import HostRecord, ServiceInstance

AGENT_SERVICES: Final = (keys.SERVICE_NETPLUGIN, keys.SERVICE_VTEP, keys.SERVICE_AGENT_REST)
MOST_OF_ADDRESS: Final = 32
"""Registrations at one address that are read, of each service; an agent has one or two."""
LONGEST: Final = 65536
"""Bytes of a record or registration that are read."""
_LONGEST_LABEL: Final = 253
_PREFIXES: Final = {service: keys.services(service) for service in AGENT_SERVICES}


@dataclass(frozen=True, slots=True)
class HostInventory:
    """The stored records of hosts, undecoded, and the services each host's agent registered.

    `faults` has what the agents of hosts have registered wrongly; `stray` is what no host with a
    record can be blamed for.
    """

    records: Mapping[HostLabel, Entry]
    services: Mapping[HostLabel, list[ServiceInstance]]
    faults: Mapping[HostLabel, Sequence[str]] = field(default_factory=dict)
    stray: Sequence[str] = ()

    @property
    def absent(self) -> dict[HostLabel, int]:
        """Return the hosts with a record and without an agent, with the record's revision.

        One that has registered something unreadable has an agent.
        """
        return {
            one: entry.rev for one, entry in self.records.items() if not self.has_registered(one)
        }

    @property
    def known(self) -> frozenset[HostLabel]:
        """Return the hosts that have a record or an agent."""
        return frozenset(self.services).union(self.records)

    def has_registered(self, label: HostLabel) -> bool:
        """Return whether a host's agent has registered anything, be it wrong."""
        return label in self.services or label in self.faults

    def record(self, label: HostLabel) -> HostRecord:
        """Return the record of a host that has one. Raises Invalid if it cannot be read."""
        return _decoded(self.records[label])

    def new_name(self, label: HostLabel) -> HostLabel | None:
        """Return the label that a host's agent is registered under now; None if it has no other.

        Both records have the id of the machine. One that cannot be read proves nothing.
        """
        own = self._id(label)
        others = (one for one in self.services if one != label)
        return next((one for one in others if own and self._id(one) == own), None)

    def _id(self, label: HostLabel) -> str:
        try:
            return self.record(label).host_id
        except (KeyError, Invalid):
            return ""

    def revision(self, label: HostLabel) -> int | None:
        """Return the revision of a host's record, None if it has none."""
        entry = self.records.get(label)
        return entry.rev if entry else None

    def agent_nodes(self, label: HostLabel) -> list[Node]:
        """Return the addresses at which a host's agent accepts calls of masters."""
        return [
            Node(one.address, one.port)
            for one in self.services.get(label, ())
            if one.service == keys.SERVICE_NETPLUGIN
        ]


async def read(backend: Backend) -> HostInventory:
    """Return the hosts as of now, ordered by label. Raises StoreUnavailable."""
    # Records first, registrations second. In the other order an agent that starts between the two
    # reads would look absent, and under the revision of the record it has just written.
    hosts = await backend.snapshot(keys.HOSTS)
    found = await backend.snapshot(keys.SERVICES)
    records = {
        HostLabel(keys.after(keys.HOSTS, key)): entry
        for key, entry in sorted(hosts.entries.items())
    }
    return _inventory(records, found.entries)


def readable_records(entries: Iterable[Entry]) -> Iterator[HostRecord]:
    """Return those of hosts' records that can be read."""
    for entry in entries:
        try:
            yield _decoded(entry)
        except Invalid:
            continue  # `/hosts` says which


def _inventory(records: Mapping[HostLabel, Entry], found: Mapping[str, Entry]) -> HostInventory:
    places = _Places({one.label: one for one in readable_records(records.values())})
    services: dict[HostLabel, list[ServiceInstance]] = {}
    doubtful: dict[HostLabel, list[ServiceInstance]] = {}
    faults: dict[HostLabel, list[str]] = {}
    stray: list[str] = []
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for key, service in _agents_keys(found):
        address = _address_of(key, service)
        counted[service, address] += 1
        if (beyond := counted[service, address] - MOST_OF_ADDRESS) > 0:
            fault = f"more than {MOST_OF_ADDRESS} registrations of {service} at {address}"
            if beyond > 1:
                continue
        else:
            try:
                instance = _registration(found[key], service, address)
                counts = services if places.confirm(instance) else doubtful
            except Invalid as exc:
                fault = str(exc)
            else:
                counts.setdefault(HostLabel(instance.hostname), []).append(instance)
                continue
        blamed = places.hosts_at(address)
        for label in blamed:
            faults.setdefault(label, []).append(fault)
        if not blamed:
            stray.append(fault)
    for label, each in doubtful.items():
        services.setdefault(label, []).extend(each)  # after what the host's record confirms
    return HostInventory(records, services, faults, stray)


def _agents_keys(found: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    for key in sorted(found):
        for service, prefix in _PREFIXES.items():
            if key.startswith(prefix):
                yield key, service


def _address_of(key: str, service: str) -> str:
    """Return the address in a registration's key: rights in the store are by it."""
    return keys.after(_PREFIXES[service], key).rpartition(":")[0]


def _registration(entry: Entry, service: str, address: str) -> ServiceInstance:
    """Return what an agent has registered. Raises Invalid unless it says what its key says."""
    if len(entry.value) > LONGEST:
        raise Invalid(f"registration {entry.key[:_LONGEST_LABEL]}: longer than {LONGEST} bytes")
    instance = codec.decode_service(entry.key, entry.value)
    own = keys.service(instance.service, instance.address, instance.port)
    if (instance.service, instance.address, own) != (service, address, entry.key):
        raise Invalid(f"registration {entry.key}: it is of {own[:_LONGEST_LABEL]}")
    label = instance.hostname
    if not 0 < len(label) <= _LONGEST_LABEL or not label.isprintable() or "/" in label:
        raise Invalid(f"registration {entry.key}: Hostname is no host's label")
    return instance


class _Places:
    """Which host has which address, as the hosts' own records say."""

    def __init__(self, records: Mapping[HostLabel, HostRecord]) -> None:
        self._own = {label: _addresses(record) for label, record in records.items()}
        self._older = {label for label, record in records.items() if not record.addresses}
        self._hosts: dict[str, list[HostLabel]] = defaultdict(list)
        for label, own in self._own.items():
            for address in own:
                self._hosts[address].append(label)

    def hosts_at(self, address: str) -> Sequence[HostLabel]:
        return self._hosts.get(_canonical(address), ())

    def confirm(self, instance: ServiceInstance) -> bool:
        """Return whether the record of the host that a registration names has its address.

        Raises Invalid for a registration at the address of another host.
        """
        label, address = HostLabel(instance.hostname), _canonical(instance.address)
        if address in self._own.get(label, ()):
            return True
        # Agents of an older release do not tell all of their addresses, one whose host was removed
        # has no record for a moment, and `--rest-address` may be a name. None of these is at the
        # address of another host.
        unknown = label not in self._own or label in self._older or not _is_address(address)
        if unknown and not self.hosts_at(address):
            return False
        raise Invalid(
            f"registration of {instance.service} at {instance.address}:{instance.port} in the name "
            f"of host {label}, whose record does not have that address"
        )


def _addresses(record: HostRecord) -> frozenset[str]:
    named = (record.control_ip, *record.vtep_ips, *record.addresses)
    return frozenset(_canonical(one) for one in named if one)


def _canonical(address: str) -> str:
    try:
        return str(ip_address(address.strip("[]")))
    except ValueError:
        return address


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _decoded(entry: Entry) -> HostRecord:
    if len(entry.value) > LONGEST:
        raise Invalid(f"record {entry.key}: longer than {LONGEST} bytes")
    return codec.decode_host(entry.key, entry.value)
