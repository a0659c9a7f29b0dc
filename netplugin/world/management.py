"""The addresses and ports of the cluster's management, which pods must not reach. Pure.

`netplugin.world.graph` feeds it the records of hosts; `netplugin.bridges.guards.pod_guard` sets
what it finds on this host, in the store's registry and on the command line. Every source has a name
and is replaced as a whole. The union is set on the state of both bridges, for
`ofnet.pipelines.features.pod_guard`; `closed` and `known` are for what has rules in the host's
kernel: `netplugin.bridges.guards.host_guard`, `netplugin.bridges.services.service_access` and
`netplugin.pods.host_port_mappings.port_mappings`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_network

from core.ids import EndpointKey, HostLabel
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.conversion import of_host
from netplugin.world.bridges.management_ends import NOTHING, PROTOCOLS, ManagementEnds, Network
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow
from ofnet.world import Bridge, ManagementPort, tunnel_source4
from state.records import HostRecord
from state.underlay import MOST_ADDRESSES, usable


def management_ports(numbers: Iterable[int]) -> frozenset[ManagementPort]:
    """Return ports by their numbers, each for both protocols; 0 is no port."""
    return frozenset(
        ManagementPort(protocol, number)
        for number in numbers
        if number
        for protocol in PROTOCOLS.values()
    )


def further6(addresses: Sequence[str]) -> list[str]:
    """Return those of a machine's further addresses at which its daemons may listen by IPv6."""
    return [text for text in addresses[:MOST_ADDRESSES] if ":" in text]


class Management:
    """What is known of the cluster's management.

    Nothing is set on the bridges before `close`.
    """

    def __init__(self, bridges: Mapping[Bridge, BridgeState]) -> None:
        self._bridges = tuple(bridges.values())
        self._closed = False
        self._open: frozenset[ManagementPort] = frozenset()
        self._addresses: dict[str, frozenset[Network]] = {}
        self._ports: dict[str, frozenset[ManagementPort]] = {}
        # How many sources name an address: a thousand hosts must not cost a union each time.
        self._count: Counter[Network] = Counter()
        self._observers: list[Callable[[], None]] = []
        self._known: ManagementEnds | None = None

    def observe(self, notify: Callable[[], None]) -> None:
        """Call `notify` at each change."""
        self._observers.append(notify)

    @property
    def known(self) -> ManagementEnds:
        """All addresses and ports, whether pods may reach them or not."""
        if self._known is None:
            ports = frozenset[ManagementPort]().union(*self._ports.values())
            self._known = ManagementEnds(frozenset(self._count), ports)
        return self._known

    @property
    def closed(self) -> ManagementEnds:
        """What pods must not reach; nothing before `close`."""
        known = self.known
        return (
            ManagementEnds(known.addresses, known.ports - self._open) if self._closed else NOTHING
        )

    def close(self, but: frozenset[ManagementPort]) -> None:
        """Close the ports known, now and later, to pods, `but` those that the site opens."""
        self._closed, self._open = True, but
        self._note_change()
        for address in self._count:
            self._set_address(address, address)
        self._set_ports()

    def put_host(self, record: HostRecord) -> None:
        """Add or replace the addresses of a host."""
        six = further6(record.addresses)
        ends = [one for text in record.vtep_ips if (one := usable(text)) is not None]
        # under which a host whose tunnels are of IPv6 is reached by IPv4
        stands = [str(tunnel_source4(one)) for one in ends[:1]]
        addresses = (record.control_ip, *record.vtep_ips, *stands, *six)
        self.set_addresses(f"host {record.label}", addresses)

    def remove_host(self, label: HostLabel) -> None:
        """Remove the addresses of a host."""
        self.set_addresses(f"host {label}", ())

    def update_endpoint(self, old: EndpointRow | None, new: EndpointRow | None) -> None:
        """Follow an endpoint: that of a host, on an infra network, has a host's address."""
        if new is not None and of_host(new.record):
            one = new.record
            self.set_addresses(_endpoint(one.key), (one.ip_address, one.ipv6_address))
        elif old is not None and of_host(old.record):
            self.set_addresses(_endpoint(old.record.key), ())

    def set_addresses(self, source: str, addresses: Iterable[str]) -> None:
        """Replace the addresses of a source; text that is no address or network is passed over."""
        before = self._addresses.pop(source, frozenset())
        wanted = frozenset(
            one for text in addresses if text and (one := _network(text)) is not None
        )
        if wanted != before:
            self._note_change()
        if wanted:
            self._addresses[source] = wanted
        for address in wanted - before:
            self._count[address] += 1
            self._set_address(address, address)
        for address in before - wanted:
            self._count[address] -= 1
            if not self._count[address]:
                del self._count[address]
                self._set_address(address, None)

    def set_ports(self, source: str, ports: frozenset[ManagementPort]) -> None:
        """Replace the ports of a source."""
        if self._ports.get(source) != ports:
            self._note_change()
        self._ports[source] = ports
        self._set_ports()

    def _note_change(self) -> None:
        self._known = None
        for notify in self._observers:
            notify()

    def _set_address(self, address: Network, value: Network | None) -> None:
        for bridge in self._bridges if self._closed else ():
            bridge.set_management(str(address), value)

    def _set_ports(self) -> None:
        ports = frozenset[ManagementPort]().union(*self._ports.values()) - self._open
        for bridge in self._bridges if self._closed else ():
            bridge.set_management_ports({f"{one.protocol}/{one.port}": one for one in ports})


def _endpoint(key: EndpointKey) -> str:
    return f"endpoint {key}"


def _network(text: str) -> Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
