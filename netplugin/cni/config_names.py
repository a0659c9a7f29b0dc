"""The members of a network configuration that the agent reads, found as Go's decoder finds them.

In comes the JSON object that a runtime gives; out goes a `NetConfig`: the declared members alone,
by their declared names. `netplugin.cni.request` makes it, `net_config`, `port_mappings` and
`previous_result` read it: what is not declared here is in none of them. Pure.
"""

# Runtimes are written in Go, and so are the plugins that they are tested with: a member of JSON is
# found by its name in any case. containerd relies on that: it writes `HostPort` for `hostPort`. The
# last one counts where a member is there twice, and null is no value. libcni sorts members by
# their bytes, capitals first, so that the exact name comes last.

from collections.abc import Mapping
from typing import Any, Final, NewType, TypeAlias

from contivk8s.main import folded

NetConfig = NewType("NetConfig", Mapping[str, Any])
"""The declared members of a configuration; their values are as they came."""

Shape: TypeAlias = "Mapping[str, Shape] | tuple[Shape] | None"
"""An object's members, a list of one shape, or any value (None)."""

_ATTACHMENTS: Final[Shape] = ({"containerID": None, "ifname": None},)
_SHAPE: Final[Mapping[str, Shape]] = {
    "cniVersion": None,
    "name": None,
    "contiv": {
        "tenant": None,
        "network": None,
        "group": None,
        "defaultRoute": None,
    },
    "dns": {"nameservers": None, "domain": None, "search": None, "options": None},
    "runtimeConfig": {
        "ips": None,
        "mac": None,
        "bandwidth": {
            "ingressRate": None,
            "ingressBurst": None,
            "egressRate": None,
            "egressBurst": None,
        },
        "portMappings": (
            {"hostPort": None, "containerPort": None, "protocol": None, "hostIP": None},
        ),
        "dns": {"servers": None, "searches": None, "options": None},
    },
    "args": {"cni": {"ips": None, "mac": None}},
    "prevResult": {
        "interfaces": ({"name": None, "mac": None, "sandbox": None},),
        "ips": ({"interface": None, "address": None},),
        "routes": ({"dst": None, "gw": None},),
    },
    "cni.dev/valid-attachments": _ATTACHMENTS,
    "cni.dev/attachments": _ATTACHMENTS,
}


def declared(config: Mapping[str, Any]) -> NetConfig:
    """Return the declared members of a configuration."""
    return NetConfig(_members(config, _SHAPE))


def _shaped(value: Any, shape: Shape) -> Any:
    """Return a value with declared names; what is not of the shape stays, for parsers to refuse."""
    if isinstance(shape, tuple) and isinstance(value, list):
        return [_shaped(one, shape[0]) for one in value]
    if isinstance(shape, Mapping) and isinstance(value, dict):
        return _members(value, shape)
    return value


def _members(value: Mapping[str, Any], shape: Mapping[str, Shape]) -> dict[str, Any]:
    names = {folded(name): name for name in shape}
    found: dict[str, Any] = {}
    for name, member in value.items():
        own = names.get(folded(name))
        if own is not None and (member is not None or own not in found):
            found[own] = _shaped(member, shape[own])
    return found
