"""The network configuration of a CNI call: what the plugin reads from its standard input (pure).

In comes what `netplugin.cni.config_names` finds of the JSON object, whose form is the CNI
specification's; out go the parts that a call needs, or BadCall with the specification's code.
`runtimeConfig` has what a runtime passes for the capabilities that the configuration declares,
`contiv` is the project's own (docs/cni.md).
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Any, Final, NamedTuple

from contivk8s.main import DEFAULT_VERSION, SUPPORTED
from core.ids import DEFAULT_NETWORK, DEFAULT_TENANT, GroupName, NetworkName, TenantName
from netplugin.cni.config_names import NetConfig
from netplugin.cni.errors import (
    INCOMPATIBLE_VERSION,
    INVALID_CONFIG,
    INVALID_ENVIRONMENT,
    BadCall,
)

_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MULTICAST: Final = 0x01
_ARGUMENTS: Final = "CNI_ARGS"
_IN_CONFIG: Final = " in the network configuration"
_SHOWN: Final = 80
_MOST_BITS: Final = (2**32 - 1) * 1000
"""What Open vSwitch can be told, in bits."""
_NO_BURST: Final = frozenset({2**31 - 1, 2**32 - 1, (2**32 - 1) * 8 - 1, (2**32 - 1) * 8})
"""What dockershim, containerd and CRI-O write for a burst: an annotation of a pod has none."""
_DNS_LISTS: Final = ("nameservers", "search", "options")
_RUNTIME_DNS: Final = {"nameservers": "servers", "search": "searches", "options": "options"}
"""The members of `runtimeConfig.dns` by those of `dns`."""
_ATTACHMENTS: Final = ("cni.dev/valid-attachments", "cni.dev/attachments")
"""The key of libcni and of later texts of the specification, and that of its text 1.1.0."""
_NO_ARGUMENTS: Final[Mapping[str, str]] = {}


class ContivPlace(NamedTuple):
    """Where a configuration puts an interface: the `contiv` object.

    `default_route` is None where it does not say whether the interface has the default routes.
    """

    tenant: TenantName
    network: NetworkName
    group: GroupName | None
    default_route: bool | None


class BandwidthLimit(NamedTuple):
    """What a pod may send or receive: kbit/s, beyond bursts of kbit; a rate of 0 is no limit."""

    rate: int
    burst: int


NO_LIMIT: Final = BandwidthLimit(0, 0)


def version_of(config: NetConfig) -> str:
    """Return the protocol version of a configuration. Raises BadCall."""
    version = config.get("cniVersion")
    if version is None:
        return DEFAULT_VERSION
    if isinstance(version, str) and version in SUPPORTED:
        return version
    raise BadCall(
        INCOMPATIBLE_VERSION,
        f"incompatible CNI versions: config is {version!r}, we speak {', '.join(SUPPORTED)}",
    )


def name_of(config: NetConfig) -> str:
    """Return the name of the network, "" for a configuration without one. Raises BadCall."""
    return _text(config, "name", "")


def place_of(config: NetConfig) -> ContivPlace:
    """Return where a configuration puts an interface. Raises BadCall."""
    contiv = _object(config, "contiv", "")
    group = _text(contiv, "group", "contiv")
    default_route = contiv.get("defaultRoute")
    if default_route is not None and not isinstance(default_route, bool):
        raise _wrong("contiv.defaultRoute", "true or false")
    return ContivPlace(
        tenant=TenantName(_text(contiv, "tenant", "contiv") or DEFAULT_TENANT),
        network=NetworkName(_text(contiv, "network", "contiv") or DEFAULT_NETWORK),
        group=GroupName(group) if group else None,
        default_route=default_route,
    )


def asked_addresses(
    config: NetConfig, arguments: Mapping[str, str] = _NO_ARGUMENTS
) -> tuple[IPv4Address | None, IPv6Address | None]:
    """Return the addresses asked for. Raises BadCall.

    They are in `runtimeConfig.ips`, else in `args.cni.ips`, and in `IP` of CNI_ARGS, separated by
    commas, for a family that those do not name: nerdctl asks for the address of IPv4 by the latter
    and for that of IPv6 by the former. A prefix length is read and not used: an address has that
    of its network.
    """
    asked, where = _asked(config, "ips")
    if asked is not None and not isinstance(asked, list):
        raise _not(where, "a list of addresses")
    found = _addresses(asked or [], where)
    argument = [one.strip() for one in arguments.get("IP", "").split(",")]
    if argument != [""]:
        found = _addresses(argument, _argument("IP")) | found
    ipv4, ipv6 = found.get(4), found.get(6)
    return (
        ipv4 if isinstance(ipv4, IPv4Address) else None,
        ipv6 if isinstance(ipv6, IPv6Address) else None,
    )


def asked_mac(config: NetConfig, arguments: Mapping[str, str] = _NO_ARGUMENTS) -> str:
    """Return the MAC address asked for, "" for none.

    It is `runtimeConfig.mac`, else `args.cni.mac`, else `MAC` of CNI_ARGS. Raises BadCall for one
    that no interface can have.
    """
    asked, where = _asked(config, "mac")
    if asked is None:
        asked, where = arguments.get("MAC"), _argument("MAC")
    if asked is None or asked == "":
        return ""
    mac = asked.lower() if isinstance(asked, str) else ""
    if (
        not _MAC.fullmatch(mac)
        or int(mac[:2], 16) & _MULTICAST
        or not int(mac.replace(":", ""), 16)
    ):
        raise _not(where, f"a unicast MAC address: {str(asked)[:_SHOWN]!r}")
    return mac


def dns_of(config: NetConfig) -> dict[str, Any]:
    """Return the `dns` object of a result: the configuration's, and what a runtime has instead.

    Raises BadCall.
    """
    given = _object(config, "dns", "")
    runtime = _object(_object(config, "runtimeConfig", ""), "dns", "runtimeConfig")
    dns: dict[str, Any] = {}
    for name in _DNS_LISTS:
        if (value := _texts(given, name, "dns")) is not None:
            dns[name] = value
        if value := _texts(runtime, _RUNTIME_DNS[name], "runtimeConfig.dns"):
            dns[name] = value
    domain = _text(given, "domain", "dns")
    return dns | ({"domain": domain} if domain else {})


def asked_limit(config: NetConfig) -> BandwidthLimit:
    """Return the limit of `runtimeConfig.bandwidth` on what a pod sends. Raises BadCall."""
    return _rate_limit(config, "egress")


def asked_receive_limit(config: NetConfig) -> BandwidthLimit:
    """Return the limit of `runtimeConfig.bandwidth` on what a pod receives. Raises BadCall."""
    return _rate_limit(config, "ingress")


def _rate_limit(config: NetConfig, direction: str) -> BandwidthLimit:
    asked = _object(_object(config, "runtimeConfig", ""), "bandwidth", "runtimeConfig")
    rate, burst = _bits(asked, f"{direction}Rate"), _bits(asked, f"{direction}Burst")
    if not rate:
        return NO_LIMIT
    # Those that were written for want of a burst would be half a gigabyte and more, which a pod
    # could send before its limit is felt: they mean the usual burst, as no burst does.
    return BandwidthLimit(max(rate // 1000, 1), 0 if burst in _NO_BURST else burst // 1000)


def refuse_chained(config: NetConfig) -> None:
    """Raise BadCall for an ADD that another plugin of its list has come before."""
    # The result of a plugin must have all that the ones before it made (CNI specification,
    # "Plugin composition"). What they made is on an interface, with addresses, that Contiv neither
    # chose nor knows: to pass it on as if it were a pod's network would hide a wrong list.
    if config.get("prevResult") is not None:
        raise BadCall(
            INVALID_CONFIG,
            "prevResult in the network configuration of an ADD: contivk8s makes the interface, "
            "name it first in the list of plugins",
        )


def previous_result(config: NetConfig) -> Mapping[str, Any]:
    """Return the result of the ADD that a CHECK is about. Raises BadCall if there is none."""
    if config.get("prevResult") is None:
        raise BadCall(INVALID_CONFIG, "CHECK without prevResult in the network configuration")
    return _object(config, "prevResult", "")


def valid_attachments(config: NetConfig) -> frozenset[tuple[str, str]]:
    """Return the container ids and interface names that a GC is to keep. Raises BadCall."""
    # A list that is missing must not be read as an empty one: that would release every pod. null
    # is an empty list of Go's: what a runtime sends for a network without pods. Runtimes send one
    # key or both; what either of them names is in use.
    given = [name for name in _ATTACHMENTS if name in config]
    if not given:
        raise _wrong(_ATTACHMENTS[0], "a list of attachments, which GC needs")
    return frozenset(one for name in given for one in _attachments(config, name))


def _attachments(config: NetConfig, name: str) -> Iterator[tuple[str, str]]:
    listed = config[name]
    if listed is None:
        return
    if not isinstance(listed, list):
        raise _wrong(name, "a list of attachments, which GC needs")
    for one in listed:
        members = one if isinstance(one, dict) else {}
        container, ifname = members.get("containerID"), members.get("ifname")
        if not isinstance(container, str) or not isinstance(ifname, str):
            raise _wrong(name, "a list of objects with containerID and ifname")
        yield container, ifname


def _addresses(texts: list[Any], where: str) -> dict[int, IPv4Address | IPv6Address]:
    """Return the address of each family, by its version. Raises BadCall for two of a family."""
    found: dict[int, IPv4Address | IPv6Address] = {}
    for text in texts:
        try:
            if not isinstance(text, str) or "%" in text:
                raise ValueError("not an address")  # noqa: TRY301 - one refusal for both
            address = ip_interface(text).ip
        except ValueError as exc:
            raise _not(where, f"a list of addresses: {str(text)[:_SHOWN]!r}") from exc
        if found.setdefault(address.version, address) != address:
            raise BadCall(
                _code(where),
                f"{where} asks for two IPv{address.version} addresses; an interface has one",
            )
    return found


def _asked(config: NetConfig, name: str) -> tuple[Any, str]:
    """Return what a runtime asks for, and where it does so."""
    # Multus passes both; what a runtime passes for a declared capability is the newer convention.
    runtime = _object(config, "runtimeConfig", "")
    if runtime.get(name) is not None:
        return runtime[name], f"runtimeConfig.{name}{_IN_CONFIG}"
    cni = _object(_object(config, "args", ""), "cni", "args")
    return cni.get(name), f"args.cni.{name}{_IN_CONFIG}"


def _argument(name: str) -> str:
    return f"{name} of {_ARGUMENTS}"


def _object(config: Mapping[str, Any], name: str, within: str) -> Mapping[str, Any]:
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(_path(within, name), "an object")
    return value


def _text(config: Mapping[str, Any], name: str, within: str) -> str:
    # null means absent; other empty values (0, false, []) are type errors.
    value = config.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(_path(within, name), "a string")
    return value


def _texts(config: Mapping[str, Any], name: str, within: str) -> list[str] | None:
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or any(not isinstance(one, str) for one in value):
        raise _wrong(_path(within, name), "a list of strings")
    return value


def _bits(bandwidth: Mapping[str, Any], name: str) -> int:
    value = bandwidth.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_BITS:
        raise _wrong(f"runtimeConfig.bandwidth.{name}", f"a number of bits up to {_MOST_BITS}")
    return value


def _path(within: str, name: str) -> str:
    return f"{within}.{name}" if within else name


def _wrong(path: str, kind: str) -> BadCall:
    return _not(f"{path}{_IN_CONFIG}", kind)


def _not(where: str, kind: str) -> BadCall:
    return BadCall(_code(where), f"{where} is not {kind}")


def _code(where: str) -> int:
    return INVALID_ENVIRONMENT if where.endswith(_ARGUMENTS) else INVALID_CONFIG
