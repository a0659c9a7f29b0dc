"""The requests and answers of `netcontiv` (pure).

In comes the body that it posts, out goes a `PodRequest`; in comes the result or an error, out goes
the JSON that Mesos reads, of CNI 0.2 (docs/original/mesos-plugin.md). The rules for ids, names and
paths are those of CNI calls (`netplugin.cni.request`).
"""

import json
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from core.outside_json import read_json
from netplugin.cni.errors import DECODING_FAILURE, BadCall
from netplugin.cni.request import PodRequest, Verb, parse
from netplugin.cni.results import PodResult

ERROR_VERSION: Final = "0.2"
RESULT_VERSION: Final = "0.2.0"
UNSUPPORTED: Final = 2
"""The code of all errors: an unsupported field."""

_NAME: Final = "mesos"
"""The name of the network configuration, by which the GC of another runtime keeps its hands off."""
_PLACE: Final = {
    "tenant": "io.contiv.tenant",
    "network": "io.contiv.network",
    "group": "io.contiv.net-group",
}


def read_request(body: bytes, verb: Verb) -> PodRequest:
    """Return what a body asks for. Raises BadCall.

    Labels that are absent or empty mean tenant `default`, network `default-net` and no group.
    """
    fields = _object(body)
    labels = fields.get("labels") or {}
    if not isinstance(labels, dict):
        raise BadCall(DECODING_FAILURE, "labels are not a JSON object")
    place = {name: labels[label] for name, label in _PLACE.items() if labels.get(label)}
    call = {
        "CNI_CONTAINERID": fields.get("cni_containerid") or "",
        "CNI_IFNAME": fields.get("cni_ifname") or "",
        "CNI_NETNS": fields.get("cni_netns") or "",
        "netconf": json.dumps({"name": _NAME, "contiv": place}),
    }
    return parse(json.dumps(call).encode(), verb)


def added(result: PodResult) -> dict[str, Any]:
    """Return the answer to an ADD; it has no member of a family without an address."""
    answer: dict[str, Any] = {"cniVersion": RESULT_VERSION}
    if result.ipv4 is not None:
        answer["ip4"] = _address(result.ipv4, result.gateway)
    if result.ipv6 is not None:
        answer["ip6"] = _address(result.ipv6, result.gateway6)
    return {**answer, "dns": {}}


def failed(said: str) -> dict[str, Any]:
    """Return the answer to a call that failed."""
    return {"cniVersion": ERROR_VERSION, "code": UNSUPPORTED, "msg": f"Contiv: {said}"}


def _address(
    address: IPv4Interface | IPv6Interface, gateway: IPv4Address | IPv6Address | None
) -> dict[str, str]:
    return {"ip": str(address), **({} if gateway is None else {"gateway": str(gateway)})}


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = read_json(body)
    except (ValueError, RecursionError) as exc:
        raise BadCall(DECODING_FAILURE, f"failed to parse JSON req: {exc}") from exc
    if not isinstance(value, dict):
        raise BadCall(DECODING_FAILURE, "failed to parse JSON req: not an object")
    return value
