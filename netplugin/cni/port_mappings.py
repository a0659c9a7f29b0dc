"""Host ports of a pod: `runtimeConfig.portMappings` of a network configuration (pure).

In comes the configuration (`netplugin.cni.config_names`); out come the mappings that the capability
`portMappings` asks for, in the form that the plugin `portmap` of the CNI project reads, or BadCall.
They are kept in the journal (`netplugin.pods.registry.journal`);
`netplugin.pods.host_port_mappings.port_mappings` makes their rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import combinations
from typing import Any, Final

from netplugin.cni.config_names import NetConfig
from netplugin.cni.errors import INVALID_CONFIG, BadCall

PROTOCOLS: Final = ("tcp", "udp", "sctp")

_MOST: Final = 65535
_EVERY4, _EVERY6 = IPv4Network("0.0.0.0/0"), IPv6Network("::/0")
_WHERE: Final = "runtimeConfig.portMappings"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    """A port of the host that leads to one of a pod.

    `host_ip` is the one address of the host it is for; "" stands for all, an unspecified address
    for all of its family.
    """

    protocol: str
    host_port: int
    container_port: int
    host_ip: str = ""

    def __str__(self) -> str:
        where = f" of {self.host_ip}" if self.host_ip else ""
        return f"{self.protocol} {self.host_port}{where}"

    @property
    def blocks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The addresses of the host that the mapping is for."""
        if not self.host_ip:
            return (_EVERY4, _EVERY6)
        address = ip_address(self.host_ip)
        if address.is_unspecified:
            return (_EVERY4 if address.version == 4 else _EVERY6,)
        return (ip_network(address),)

    def collides(self, other: "PortMapping") -> bool:
        """Tell whether a packet could be meant for either of two mappings."""
        same = (self.protocol, self.host_port) == (other.protocol, other.host_port)
        return same and any(
            one.version == two.version and one.overlaps(two)
            for one in self.blocks
            for two in other.blocks
        )


def asked_mappings(config: NetConfig) -> tuple[PortMapping, ...]:
    """Return the host ports that a configuration asks for, in a stable order. Raises BadCall."""
    runtime = config.get("runtimeConfig")
    asked = runtime.get("portMappings") if isinstance(runtime, dict) else None
    if asked is None:
        return ()
    if not isinstance(asked, list) or any(not isinstance(one, dict) for one in asked):
        raise _wrong("is not a list of objects")
    found = sorted({_mapping(one) for one in asked}, key=str)
    for one, other in combinations(found, 2):
        if one.collides(other):
            raise _wrong(f"asks for {one} and {other}: name each port of the host once")
    return tuple(found)


def mapping_of(value: object) -> PortMapping:
    """Return the mapping that a journal has. Raises ValueError for anything else."""
    try:
        mapping = PortMapping(**value)  # type: ignore[arg-type] # what is wrong raises
        ports = mapping.host_port, mapping.container_port
        if mapping.protocol not in PROTOCOLS or not all(map(_is_port, ports)) or not mapping.blocks:
            raise ValueError("not a port mapping")  # noqa: TRY301 - one refusal for all
    except (TypeError, ValueError) as exc:
        raise ValueError(f"not a port mapping: {value!r}") from exc
    return mapping


def _mapping(asked: Mapping[str, Any]) -> PortMapping:
    for name in ("hostPort", "containerPort"):
        if not _is_port(asked.get(name)):
            raise _wrong(f"has {name} {asked.get(name)!r}, not a number from 1 to {_MOST}")
    protocol = asked.get("protocol") or PROTOCOLS[0]
    if not isinstance(protocol, str) or protocol.lower() not in PROTOCOLS:
        raise _wrong(f"has protocol {protocol!r}, not one of {', '.join(PROTOCOLS)}")
    host_ip = asked.get("hostIP") or ""
    try:
        if not isinstance(host_ip, str):
            raise ValueError("not a string")  # noqa: TRY004, TRY301 - one refusal for both
        host_ip = str(ip_address(host_ip)) if host_ip else ""
    except ValueError as exc:
        raise _wrong(f"has hostIP {host_ip!r}, not an address") from exc
    return PortMapping(
        protocol=protocol.lower(),
        host_port=asked["hostPort"],
        container_port=asked["containerPort"],
        host_ip=host_ip,
    )


def _is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST


def _wrong(what: str) -> BadCall:
    return BadCall(INVALID_CONFIG, f"{_WHERE} in the network configuration {what}")
