"""CNI results and error objects of each protocol version (pure).

In come a `PodResult` or an error of `core.errors`; out goes the text that `contivk8s` prints, and
the fields of the original's reply around it (`netplugin.cni.server` sends both). Versions 0.3.1 and
0.4.0 have "version": "4" with each address, and 1.1.0 has the MTU of each interface.
"""

import json
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from core import errors
from netplugin.cni.errors import (
    CONFLICT,
    EXHAUSTED,
    FAILED,
    INVALID_CONFIG,
    IO_FAILURE,
    TRY_AGAIN_LATER,
    BadCall,
    InterfaceDiffers,
    NotReady,
)
from netplugin.cni.request import PodRequest

_CODES: Final[tuple[tuple[type[errors.ContivError], int], ...]] = (
    (errors.StoreUnavailable, TRY_AGAIN_LATER),
    (errors.SwitchUnavailable, TRY_AGAIN_LATER),
    (errors.MasterUnavailable, TRY_AGAIN_LATER),
    (errors.OrchestratorUnavailable, TRY_AGAIN_LATER),
    (errors.NotLeader, TRY_AGAIN_LATER),
    (errors.FenceLost, TRY_AGAIN_LATER),
    (errors.SwitchRefused, IO_FAILURE),
    (errors.HostError, IO_FAILURE),
    (errors.Invalid, INVALID_CONFIG),
    (errors.NotFound, INVALID_CONFIG),
    (errors.Conflict, CONFLICT),
    (errors.Exhausted, EXHAUSTED),
    (errors.QuotaExceeded, EXHAUSTED),
)
_PHASES: Final = {
    "DEL": "Error deleting EP",
    "CHECK": "Error checking EP",
    "GC": "Error collecting EPs",
    "STATUS": "Not ready",
}
_WITH_FAMILY: Final = ("0.3.1", "0.4.0")
_WITHOUT_MTU: Final = ("0.3.1", "0.4.0", "1.0.0")
Interface = IPv4Interface | IPv6Interface

_CONTAINER: Final = 1
"""Index of the container's interface in a result's list of interfaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResult:
    """The result of an ADD: addresses with prefix length, the host's end of the veth by name.

    `default_route` says that the pod's default routes go by the gateways.
    """

    endpoint_id: str
    mac: str
    ipv4: IPv4Interface | None
    ipv6: IPv6Interface | None
    gateway: IPv4Address | None
    gateway6: IPv6Address | None
    mtu: int
    host_ifname: str
    default_route: bool = True
    own_routes: bool = True
    """Whether the interface has the routes that its ADD made; CHECK compares them."""
    ipv6_first: bool = False
    """Whether the address of IPv6 is told before that of IPv4: it is the network's choice."""

    @property
    def told(self) -> list[tuple[Interface, IPv4Address | IPv6Address | None]]:
        """The addresses, each with its gateway, in the order in which a runtime is told them."""
        pairs = ((self.ipv4, self.gateway), (self.ipv6, self.gateway6))
        found = [(address, gateway) for address, gateway in pairs if address is not None]
        return found[::-1] if self.ipv6_first else found


def added(result: PodResult, request: PodRequest) -> dict[str, Any]:
    """Return the reply to a successful ADD."""
    own = str(result.ipv4 or "")
    reply: dict[str, Any] = {"endpointid": result.endpoint_id, "ipaddress": own}
    if result.ipv6 is not None:
        reply["ipv6address"] = str(result.ipv6)
    reply["cni"] = json.dumps(_cni_result(result, request), indent=4)
    return reply


def deleted(request: PodRequest) -> dict[str, Any]:
    """Return the reply to a successful DEL; a runtime expects no output."""
    return {"endpointid": request.spec.container_id, "cni": ""}


def done() -> dict[str, Any]:
    """Return the reply to a CHECK, GC or STATUS that found nothing wrong: no output."""
    return {"cni": ""}


def failed(error: errors.ContivError, version: str, verb: str) -> dict[str, Any]:
    """Return the reply to a failed call."""
    return _failure(_phase(error, verb), f"Err: {error}", code(error), version)


def crashed(version: str) -> dict[str, Any]:
    """Return the reply after an unexpected exception; the agent's log has the details."""
    return _failure("Unexpected failure in the agent", "see the agent's log", FAILED, version)


def code(error: errors.ContivError) -> int:
    """Return the CNI error code: the specification's below 100, Contiv's from 100 on."""
    if isinstance(error, BadCall | InterfaceDiffers | NotReady):
        return error.code
    return next((number for kind, number in _CODES if isinstance(error, kind)), FAILED)


def _failure(message: str, details: str, number: int, version: str) -> dict[str, Any]:
    error = {
        "cniVersion": version,
        "code": number,
        "msg": f"Contiv:{message}",
        "details": details,
    }
    text = json.dumps(error, separators=(",", ":"))
    return {"result": 1, "errmsg": message, "errinfo": details, "cni": text}


def _phase(error: errors.ContivError, verb: str) -> str:
    """Return the original's text for the phase that failed; it has none for the newer verbs."""
    if isinstance(error, BadCall):
        return "Error parsing request"
    if verb != "ADD":
        return _PHASES[verb]
    if isinstance(error, errors.OrchestratorUnavailable):
        return "Error getting labels"
    if isinstance(error, errors.HostError):
        return "Error setting interface attributes"
    return "Error creating EP"


def _cni_result(result: PodResult, request: PodRequest) -> dict[str, Any]:
    mtu = {} if request.cni_version in _WITHOUT_MTU else {"mtu": result.mtu}
    return {
        "cniVersion": request.cni_version,
        "interfaces": [
            {"name": result.host_ifname, **mtu},
            {"name": request.spec.ifname, "mac": result.mac, "sandbox": request.spec.netns, **mtu},
        ],
        "ips": [_ip(address, gateway, request.cni_version) for address, gateway in result.told],
        "routes": routes_of(result),
        "dns": dict(request.dns),
    }


def routes_of(result: PodResult) -> list[dict[str, str]]:
    """Return the routes that an ADD tells of."""
    if not result.default_route:
        return []
    return [_default_route(gateway) for _, gateway in result.told if gateway is not None]


def _ip(
    address: Interface,
    gateway: IPv4Address | IPv6Address | None,
    version: str,
) -> dict[str, Any]:
    ip: dict[str, Any] = {"version": str(address.version)} if version in _WITH_FAMILY else {}
    ip |= {"interface": _CONTAINER, "address": str(address)}
    if gateway is not None:
        ip["gateway"] = str(gateway)
    return ip


def _default_route(gateway: IPv4Address | IPv6Address) -> dict[str, str]:
    return {"dst": "0.0.0.0/0" if gateway.version == 4 else "::/0", "gw": str(gateway)}
