"""Validates a CNI call: the body that `contivk8s` posts, as a `PodRequest`.

In comes JSON with the original's fields (docs/original/cni-k8s.md §2) and beside them the container
id, the raw CNI_ARGS and the network configuration the plugin read from its stdin; out goes a
`PodRequest` for the `PodHandler` (`netplugin.pods.handler`), or `BadCall` with the code of the CNI
specification. Pure: whether the namespace and the network exist is checked later.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contivk8s.main import DEFAULT_VERSION, SUPPORTED, pod_arguments
from core.errors import Invalid
from core.ids import DEFAULT_NETWORK, DEFAULT_TENANT, GroupName, NetworkName, TenantName

INCOMPATIBLE_VERSION: Final = 1
INVALID_ENVIRONMENT: Final = 4
DECODING_FAILURE: Final = 6
INVALID_CONFIG: Final = 7

_CONTAINER_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,255}")
_IFNAME: Final = re.compile(r"[^\s/:]{1,15}")


class BadCall(Invalid):
    """An invalid call; `code` is the CNI specification's, `version` the caller's."""

    def __init__(self, code: int, message: str, *, version: str = SUPPORTED[-1]) -> None:
        super().__init__(message)
        self.code = code
        self.version = version


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """One ADD or DEL of a pod's interface; `netns` is "" where a DEL names no namespace."""

    container_id: str
    netns: str
    ifname: str
    pod_name: str
    namespace: str
    tenant: TenantName
    network: NetworkName
    group: GroupName | None
    cni_version: str


def parse(body: bytes, *, adding: bool) -> PodRequest:
    """Return the request in a body. Raises BadCall.

    A DEL is validated less strictly than an ADD.
    """
    # A DEL must succeed for everything that an ADD may have left, with as little as a runtime still
    # knows: the CNI specification allows a DEL without CNI_NETNS. What the checks of an ADD refuse
    # was never created.
    fields = _object(body, "request")
    config = _object(fields.get("netconf", "").encode(), "network configuration")
    version = _version(config)
    try:
        return _pod_request(fields, config, version, adding=adding)
    except BadCall as exc:
        exc.version = version
        raise


def _pod_request(
    fields: Mapping[str, str], config: Mapping[str, Any], version: str, *, adding: bool
) -> PodRequest:
    pod = _pod_arguments(fields, strict=adding)
    container_id = pod["K8S_POD_INFRA_CONTAINER_ID"] or fields.get("CNI_CONTAINERID", "")
    ifname = fields.get("CNI_IFNAME", "")
    netns = fields.get("CNI_NETNS", "")
    if not _CONTAINER_ID.fullmatch(container_id):
        raise BadCall(INVALID_ENVIRONMENT, f"invalid container id {container_id[:300]!r}")
    if not _IFNAME.fullmatch(ifname) or ifname in {".", ".."} or len(ifname.encode()) > 15:
        raise BadCall(INVALID_ENVIRONMENT, f"invalid interface name CNI_IFNAME={ifname[:300]!r}")
    if (adding or netns) and (not netns.startswith("/") or "\0" in netns):
        raise BadCall(INVALID_ENVIRONMENT, f"CNI_NETNS={netns[:300]!r} is not an absolute path")
    tenant, network, group = _placement(config.get("contiv"))
    return PodRequest(
        container_id=container_id,
        netns=netns,
        ifname=ifname,
        pod_name=pod["K8S_POD_NAME"],
        namespace=pod["K8S_POD_NAMESPACE"],
        tenant=tenant,
        network=network,
        group=group,
        cni_version=version,
    )


def _object(text: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object, {} for an empty text. All members of a request must be strings."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as exc:
        raise BadCall(DECODING_FAILURE, f"{what} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise BadCall(DECODING_FAILURE, f"{what} is not a JSON object")
    if what == "request":
        wrong = [name for name, member in value.items() if not isinstance(member, str)]
        if wrong:
            raise BadCall(DECODING_FAILURE, f"{what}: {wrong[0]} is not a string")
    return value


def _version(config: Mapping[str, Any]) -> str:
    version = config.get("cniVersion", DEFAULT_VERSION)
    if isinstance(version, str) and version in SUPPORTED:
        return version
    raise BadCall(
        INCOMPATIBLE_VERSION,
        f"incompatible CNI versions: config is {version!r}, we speak {', '.join(SUPPORTED)}",
    )


def _pod_arguments(fields: Mapping[str, str], *, strict: bool) -> dict[str, str]:
    """Return the Kubernetes arguments; the plugin's own fields win over the raw CNI_ARGS."""
    try:
        arguments = pod_arguments(fields.get("CNI_ARGS", ""))
    except ValueError as exc:
        if strict:
            raise BadCall(INVALID_ENVIRONMENT, str(exc)) from exc
        arguments = {}
    return {
        name: fields.get(name) or arguments.get(name, "")
        for name in ("K8S_POD_NAME", "K8S_POD_NAMESPACE", "K8S_POD_INFRA_CONTAINER_ID")
    }


def _placement(contiv: Any) -> tuple[TenantName, NetworkName, GroupName | None]:
    """Return tenant, network and group of the `contiv` object in the network configuration."""
    if contiv is None:
        return DEFAULT_TENANT, DEFAULT_NETWORK, None
    if not isinstance(contiv, dict):
        raise BadCall(INVALID_CONFIG, '"contiv" in the network configuration is not an object')
    asked = {name: contiv.get(name) for name in ("tenant", "network", "group")}
    # null means absent; other empty values (0, false, []) are type errors.
    named = {name: "" if value is None else value for name, value in asked.items()}
    wrong = [name for name, value in named.items() if not isinstance(value, str)]
    if wrong:
        raise BadCall(
            INVALID_CONFIG, f'"contiv": "{wrong[0]}" in the network configuration is not a string'
        )
    return (
        TenantName(named["tenant"] or DEFAULT_TENANT),
        NetworkName(named["network"] or DEFAULT_NETWORK),
        GroupName(named["group"]) if named["group"] else None,
    )
