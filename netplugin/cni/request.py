"""Validates a CNI call: the body that `contivk8s` posts, as a request for the `CniHandlers`.

In comes JSON with the original's fields (docs/original/cni-k8s.md §2) and beside them the container
id, the raw CNI_ARGS and the network configuration the plugin read from its stdin; out goes a
`PodRequest` for ADD, DEL and CHECK, or a `GcRequest`, or `BadCall` with the code of the CNI
specification. `netplugin.cni.config_names` finds the members of the configuration,
`netplugin.cni.net_config` and `netplugin.cni.port_mappings` read the configuration,
`netplugin.pods.handler` carries the requests out. Pure: whether the namespace and the network exist
is checked later.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from contivk8s.main import SINCE, SUPPORTED, pod_arguments
from core.ids import GroupName
from core.outside_json import read_json
from netplugin.cni import net_config
from netplugin.cni.config_names import NetConfig, declared
from netplugin.cni.errors import (
    DECODING_FAILURE,
    INCOMPATIBLE_VERSION,
    INVALID_ENVIRONMENT,
    BadCall,
)
from netplugin.cni.interface_spec import FIRST_INTERFACE, InterfaceSpec, endpoint_id
from netplugin.cni.port_mappings import asked_mappings

_CONTAINER_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,255}")
_POD_ARGUMENTS: Final = (
    "K8S_POD_NAME",
    "K8S_POD_NAMESPACE",
    "K8S_POD_INFRA_CONTAINER_ID",
    "K8S_POD_UID",
)
_TRUE: Final = frozenset({"1", "true"})
_IFNAME: Final = re.compile(r"[^\s/:]{1,15}")


class Verb(StrEnum):
    """The calls about one interface of a pod."""

    ADD = "ADD"
    DEL = "DEL"
    CHECK = "CHECK"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """One call about a pod's interface.

    `ipv4` and `ipv6` are asked for, None where any will do; a DEL has none.
    """

    spec: InterfaceSpec
    pod_name: str
    namespace: str
    cni_version: str
    pod_uid: str = ""
    """The UID of the pod in Kubernetes, "" where the runtime does not send it."""

    ipv4: IPv4Address | None = None
    ipv6: IPv6Address | None = None
    dns: Mapping[str, Any] = field(default_factory=dict, hash=False)
    previous: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The result of the ADD, for a CHECK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRequest:
    """One GC: the interfaces to keep, of those that were added by configurations of a name."""

    network_name: str
    keep: frozenset[tuple[str, str]]
    """Container id (CNI_CONTAINERID) and interface name of each."""


def parse(body: bytes, verb: Verb) -> PodRequest:
    """Return the request in a body. Raises BadCall.

    A DEL is validated less strictly than an ADD.
    """
    # A DEL must succeed for everything that an ADD may have left, with as little as a runtime still
    # knows: the CNI specification allows a DEL without CNI_NETNS. What the checks of an ADD refuse
    # was never created.
    fields, config, version = _call(body, verb)
    try:
        request = _pod_request(fields, config, version, strict=verb is not Verb.DEL)
        if verb is Verb.DEL:
            return request
        if verb is Verb.ADD:
            net_config.refuse_chained(config)
        arguments = _arguments(fields, strict=True)
        _refuse_unhonoured(arguments)
        ipv4, ipv6 = net_config.asked_addresses(config, arguments)
        return replace(
            request,
            spec=replace(
                request.spec,
                mac=net_config.asked_mac(config, arguments),
                limit=net_config.asked_limit(config),
                mappings=asked_mappings(config),
                receive_limit=net_config.asked_receive_limit(config),
            ),
            ipv4=ipv4,
            ipv6=ipv6,
            dns=net_config.dns_of(config),
            previous=net_config.previous_result(config) if verb is Verb.CHECK else {},
        )
    except BadCall as exc:
        exc.version = version
        raise


def parse_gc(body: bytes) -> tuple[GcRequest, str]:
    """Return the request in the body of a GC, and the version to answer in. Raises BadCall."""
    _, config, version = _call(body, "GC")
    try:
        name, keep = net_config.name_of(config), net_config.valid_attachments(config)
        return GcRequest(network_name=name, keep=keep), version
    except BadCall as exc:
        exc.version = version
        raise


def parse_status(body: bytes) -> str:
    """Return the version in which a STATUS is to be answered. Raises BadCall."""
    return _call(body, "STATUS")[2]


def _call(body: bytes, verb: str) -> tuple[Mapping[str, str], NetConfig, str]:
    """Return the fields of a body, the network configuration in it, and its version."""
    fields = _object(body, "request")
    config = declared(_object(fields.get("netconf", ""), "network configuration"))
    version = net_config.version_of(config)
    since = SINCE.get(verb, SUPPORTED[0])
    if SUPPORTED.index(version) < SUPPORTED.index(since):
        refused = f"config version {version} does not allow {verb}, which needs {since}"
        raise BadCall(INCOMPATIBLE_VERSION, refused, version=version)
    return fields, config, version


def _pod_request(
    fields: Mapping[str, str], config: NetConfig, version: str, *, strict: bool
) -> PodRequest:
    pod = _pod_arguments(fields, strict=strict)
    attachment_id = fields.get("CNI_CONTAINERID", "")
    container_id = pod["K8S_POD_INFRA_CONTAINER_ID"] or attachment_id
    ifname = fields.get("CNI_IFNAME", "")
    netns = fields.get("CNI_NETNS", "")
    if not _CONTAINER_ID.fullmatch(container_id):
        raise BadCall(INVALID_ENVIRONMENT, f"invalid container id {container_id[:300]!r}")
    if not _IFNAME.fullmatch(ifname) or ifname in {".", ".."} or len(ifname.encode()) > 15:
        raise BadCall(INVALID_ENVIRONMENT, f"invalid interface name CNI_IFNAME={ifname[:300]!r}")
    if (strict or netns) and (not netns.startswith("/") or "\0" in netns):
        raise BadCall(INVALID_ENVIRONMENT, f"CNI_NETNS={netns[:300]!r} is not an absolute path")
    place = net_config.place_of(config)
    first = ifname == FIRST_INTERFACE
    spec = InterfaceSpec(
        container_id=container_id,
        endpoint=endpoint_id(container_id, ifname),
        netns=netns,
        ifname=ifname,
        tenant=place.tenant,
        network=place.network,
        group=place.group or GroupName(""),
        default_route=first if place.default_route is None else place.default_route,
        network_name=net_config.name_of(config),
        attachment_id=attachment_id or container_id,
    )
    return PodRequest(
        spec=spec,
        pod_name=pod["K8S_POD_NAME"],
        namespace=pod["K8S_POD_NAMESPACE"],
        cni_version=version,
        pod_uid=pod["K8S_POD_UID"],
    )


def _object(text: bytes | str, what: str) -> dict[str, Any]:
    """Return a JSON object, {} for an empty text. All members of a request must be strings."""
    try:
        value = read_json(text) if text.strip() else {}
    except ValueError as exc:
        raise BadCall(DECODING_FAILURE, f"{what} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise BadCall(DECODING_FAILURE, f"{what} is not a JSON object")
    if what == "request":
        wrong = [name for name, member in value.items() if not isinstance(member, str)]
        if wrong:
            raise BadCall(DECODING_FAILURE, f"{what}: {wrong[0]} is not a string")
    return value


def _arguments(fields: Mapping[str, str], *, strict: bool) -> dict[str, str]:
    try:
        return pod_arguments(fields.get("CNI_ARGS", ""))
    except ValueError as exc:
        if strict:
            raise BadCall(INVALID_ENVIRONMENT, str(exc)) from exc
        return {}


def _refuse_unhonoured(arguments: Mapping[str, str]) -> None:
    """Raise BadCall for what is asked of the network in vain, unless it is to be ignored."""
    if arguments.get("GATEWAY") and arguments.get("IgnoreUnknown", "").lower() not in _TRUE:
        raise BadCall(
            INVALID_ENVIRONMENT,
            "GATEWAY of CNI_ARGS cannot be granted: a pod has the gateway of its network; leave it "
            "out, or set IgnoreUnknown=1",
        )


def _pod_arguments(fields: Mapping[str, str], *, strict: bool) -> dict[str, str]:
    """Return the Kubernetes arguments; the plugin's own fields win over the raw CNI_ARGS."""
    arguments = _arguments(fields, strict=strict)
    return {name: fields.get(name) or arguments.get(name, "") for name in _POD_ARGUMENTS}
