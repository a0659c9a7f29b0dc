"""The rules of host ports in iptables. Pure.

In come the pods that have host ports (`netplugin.pods.host_port_mappings.port_mappings`) and what
this host is; out come chains for `netplugin.kernel.firewall.iptables_chains`, and the rules that
lead to them.

A connection to a port of the host is translated to the pod's address and port, from wherever it
comes. From outside it keeps its source: policies judge by it, and the pod's answer returns here,
since its host knows the connection (`ofnet.pipelines.features.host_forwarding`). From the host
itself it gets an address of this host as source: an answer to a loopback address would go nowhere.
From pods it gets one that stands for them (`netplugin.bridges.host.host_access.returned`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.ids import EndpointKey
from netplugin.bridges.services.stale_datagrams import Ways
from netplugin.cni.port_mappings import PortMapping
from netplugin.kernel.firewall.iptables import Chain, IptablesRule
from netplugin.world.bridges import port_names
from netplugin.world.bridges.management_ends import ManagementEnds

Address = IPv4Address | IPv6Address

PREFIX: Final = "CONTIVPORT-"
"""What the names of these chains begin with."""
PORTS: Final = f"{PREFIX}DNAT"
SOURCES: Final = f"{PREFIX}SNAT"
TABLE: Final = "nat"
TABLES: Final = (TABLE,)

_MARK: Final = "contiv-ports"
_LOOPBACK: Final = "127.0.0.0/8"
_LINKS: Final = port_names.HOST_LINKS
_TO_HOST: Final = ("-m", "addrtype", "--dst-type", "LOCAL")
_HERE: Final = "-m addrtype --src-type LOCAL"


def _chain(table: str, name: str, version: int) -> Chain:
    return Chain(table=table, name=name, version=version, mark=_MARK)


_RAW: Final = _chain("raw", "PREROUTING", 4)
_FROM: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "PREROUTING": (PORTS, _TO_HOST),
    "OUTPUT": (PORTS, _TO_HOST),
    "POSTROUTING": (SOURCES, ()),
}
"""Which chain a chain of the kernel leads to, and for which packets."""

CHAINS: Final = (_RAW, *(_chain(TABLE, name, version) for version in (4, 6) for name in _FROM))
"""The chains that hold these rules beside others'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedPod:
    """A pod of this host with the addresses that the host reaches it by, and its host ports."""

    key: EndpointKey
    addresses: tuple[Address, ...]
    mappings: tuple[PortMapping, ...]


def chains(version: int, pods: Iterable[MappedPod], address: IPv4Address) -> dict[str, list[str]]:
    """Return the chains of a family, {} if no host port needs them.

    `address` is the one under which this host connects to pods.
    """
    ports = [line for pod in pods for line in translations(version, pod).values()]
    if not ports:
        return {}
    return {PORTS: ports, SOURCES: list(_sources(version, address))}


def refused(
    mapping: PortMapping,
    addresses: Iterable[Address],
    known: ManagementEnds,
    closed: ManagementEnds,
) -> bool:
    """Tell whether a host port of a pod with these addresses is the management's, or leads to it.

    `known` is all of the management, `closed` what pods must not reach.
    """
    return known.has_port(mapping.protocol, mapping.host_port) or any(
        closed.cover(one, mapping.protocol, mapping.container_port) for one in addresses
    )


def translations(version: int, pod: MappedPod) -> dict[PortMapping, str]:
    """Return the rule of each host port of a pod, in a family."""
    return {
        mapping: f"{_meant(mapping, version)} -j DNAT --to-destination {_end(address, mapping)}"
        for mapping in pod.mappings
        for address in pod.addresses
        if address.version == version and any(one.version == version for one in mapping.blocks)
    }


def ways(pods: Iterable[MappedPod]) -> Ways:
    """Return where the chains lead datagrams."""
    made = Ways()
    for pod in pods:
        for mapping in pod.mappings:
            for block in mapping.blocks if mapping.protocol == "udp" else ():
                of_family = [one for one in pod.addresses if one.version == block.version]
                where = None if block.prefixlen == 0 else block.network_address
                ends = ((one, mapping.container_port) for one in of_family)
                made.lead(where, mapping.host_port, ends)
    return made


def hooks(version: int) -> list[IptablesRule]:
    """Return the rules that lead to the chains of a family, and guard what these open.

    The host's own connections from loopback addresses leave by its ports for pods, which therefore
    route such addresses. The kernel would take pods' packets to them too, and from them.
    """
    leading = [
        IptablesRule(chain=_chain(TABLE, name, version), match=match, target=("-j", target))
        for name, (target, match) in _FROM.items()
    ]
    if version == 6:
        return leading
    guards = [
        IptablesRule(chain=_RAW, match=(end, _LOOPBACK, "!", "-i", "lo"), target=("-j", "DROP"))
        for end in ("-d", "-s")
    ]
    return [*guards, *leading]


def missing(pod: MappedPod, found: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Yield what is wrong with the host ports of a pod, by the rules found for each family."""
    for version, lines in found.items():
        for mapping, line in translations(version, pod).items():
            if line not in lines:
                yield f"host port {mapping} does not lead to the pod by IPv{version}"


def _sources(version: int, address: IPv4Address) -> Iterator[str]:
    """Yield the rules that give connections of the host an address that it is known by."""
    # For IPv6 the kernel chooses one, as for the host's other connections to pods.
    source = f"SNAT --to-source {address}" if version == 4 else "MASQUERADE"
    for link in _LINKS:
        yield f"-o {link} -m conntrack --ctstate DNAT {_HERE} -j {source}"


def _meant(mapping: PortMapping, version: int) -> str:
    """Return the match of packets to a host port, as iptables prints it."""
    (block,) = (one for one in mapping.blocks if one.version == version)
    where = f"-d {block} " if block.prefixlen else ""
    return f"{where}-p {mapping.protocol} -m {mapping.protocol} --dport {mapping.host_port}"


def _end(address: Address, mapping: PortMapping) -> str:
    shown = f"[{address}]" if address.version == 6 else str(address)
    return f"{shown}:{mapping.container_port}"
