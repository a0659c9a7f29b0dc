"""Compares the prevResult of a CHECK with what Contiv's ADD answered (pure).

Other plugins of a chain may have added interfaces, addresses and routes of their own, and those of
other interfaces are theirs: what is compared is the interface that the CHECK names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_interface
from typing import Any

from netplugin.cni.errors import INVALID_CONFIG, BadCall
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult, routes_of


def differences(request: PodRequest, result: PodResult) -> Iterator[str]:
    """Yield what prevResult says otherwise than an endpoint. Raises BadCall if it is no result."""
    at, interface = _interface(request)
    if interface is None:
        yield f"prevResult has no interface {request.spec.ifname} in {request.spec.netns}"
        return
    mac = str(interface.get("mac") or result.mac)
    if mac.lower() != result.mac.lower():
        yield f"prevResult has MAC address {mac}, the endpoint {result.mac}"
    told = {
        _address_of(one) for one in _objects(request.previous, "ips") if one.get("interface") == at
    }
    wanted = {one for one in (result.ipv4, result.ipv6) if one is not None}
    for address in sorted(map(str, wanted - told)):
        yield f"prevResult lacks the address {address} of {request.spec.ifname}"
    for address in sorted(map(str, told - wanted)):
        yield f"prevResult has the address {address}, which the endpoint has not"


def kept_routes(request: PodRequest, result: PodResult) -> PodResult:
    """Return a result without the routes that prevResult lacks.

    A later plugin of the chain may move, replace and remove routes (CNI specification, CHECK), and
    says so in its result: those are its own from then on.
    """
    told = {(str(one.get("dst")), one.get("gw")) for one in _objects(request.previous, "routes")}
    wanted = {(str(one["dst"]), one["gw"]) for one in routes_of(result)}
    return result if wanted <= told else replace(result, default_route=False, own_routes=False)


def _address_of(member: Mapping[str, Any]) -> object:
    """Return the address of a member of `ips`. Raises BadCall."""
    text = member.get("address")
    try:
        if not isinstance(text, str):
            raise ValueError("not a string")  # noqa: TRY004, TRY301 - one refusal for both
        return ip_interface(text)
    except ValueError as exc:
        raise BadCall(INVALID_CONFIG, f"prevResult: {text!r} is not an address") from exc


def _interface(request: PodRequest) -> tuple[int, Mapping[str, Any] | None]:
    """Return the pod's interface that a request names, with its index."""
    for at, one in enumerate(_objects(request.previous, "interfaces")):
        if one.get("name") == request.spec.ifname and one.get("sandbox"):
            return at, one
    return -1, None


def _objects(result: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = result.get(name)
    if listed is None:
        return []
    if not isinstance(listed, list) or any(not isinstance(one, dict) for one in listed):
        raise BadCall(INVALID_CONFIG, f"prevResult: {name} is not a list of objects")
    return listed
