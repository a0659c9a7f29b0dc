"""Objects of the Kubernetes API, as far as this agent reads them. Pure.

`netplugin.kube.feed` passes on the server's JSON; the models here check it and are read by
`netplugin.world.kubernetes.kube_services`. A field that the server leaves out or sends as null has
its default. Any other field is ignored, so that newer servers are understood.
"""

from collections.abc import Mapping
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from core.errors import Invalid

KubeObject = Mapping[str, Any]
Ip = IPv4Address | IPv6Address
Block = IPv4Network | IPv6Network

AFFINITY_SECONDS: Final = 10800
"""The API's default of `sessionAffinityConfig.clientIP.timeoutSeconds`: three hours."""

_LONGEST_AFFINITY: Final = 86400
"""The API's limit of it."""

SERVICE_LABEL: Final = "kubernetes.io/service-name"
LEFT_ALONE: Final = ("service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless")
"""Labels of services that another proxy serves, or none; whatever their values are."""
_HOSTNAME: Final = "kubernetes.io/hostname"


class Part(BaseModel):
    """A part of an object; null stands for an absent field."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: one for name, one in value.items() if one is not None}


def exactly_one(**given: object) -> None:
    """Raise ValueError unless one of some alternatives is there, and only one."""
    if sum(one is not None for one in given.values()) != 1:
        *others, last = given
        raise ValueError(f"exactly one of {', '.join(others)} and {last} must be given")


class Meta(Part):
    """The names of an object within a namespace."""

    name: str
    namespace: str
    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"


class Port(Part):
    """A port of a service, or the port at which a part of its endpoints serve it."""

    name: str = ""
    port: int = Field(ge=1, le=65535)
    protocol: str = "TCP"
    node_port: int = Field(0, alias="nodePort", ge=0, le=65535)


def read_address(value: object) -> Ip:
    """Return an address as Kubernetes' own programs read it. Raises ValueError."""
    # Objects from before Go 1.17 may have leading zeros, which Kubernetes reads as decimal
    # (`ParseIPSloppy` of k8s.io/utils/net) and Python refuses. pydantic would take numbers as well.
    if not isinstance(value, str) or "%" in value:
        raise ValueError("not an address")
    return ip_address(without_leading_zeros(value))


def without_leading_zeros(text: str) -> str:
    """Return the text of an address or network with IPv4 numbers as Python accepts them."""
    address, slash, length = text.partition("/")
    numbers = address.split(".")
    if len(numbers) == 4 and all(one.isascii() and one.isdigit() for one in numbers):
        address = ".".join(one.lstrip("0") or "0" for one in numbers)
    return f"{address}{slash}{length}"


ReadIp = Annotated[Ip, BeforeValidator(read_address)]


def _empty_is_none(value: object) -> object:
    return None if isinstance(value, str) and value in {"", "None"} else value


def _block(value: object) -> Block:
    """Return a range of addresses as kube-proxy reads it: with blanks around, and host bits."""
    if not isinstance(value, str):
        raise ValueError("not a network")  # noqa: TRY004 - what pydantic expects
    return ip_network(without_leading_zeros(value.strip()), strict=False)


class _ClientIp(Part):
    seconds: int = Field(AFFINITY_SECONDS, alias="timeoutSeconds", ge=0, le=_LONGEST_AFFINITY)


class _Affinity(Part):
    client_ip: _ClientIp = Field(_ClientIp(), alias="clientIP")


class ServiceSpec(Part):
    """`spec` of a service."""

    type: str = "ClusterIP"
    cluster_ip: ReadIp | Literal["", "None"] = Field("", alias="clusterIP")
    cluster_ips: tuple[ReadIp | Literal["", "None"], ...] = Field((), alias="clusterIPs")
    external_ips: tuple[ReadIp, ...] = Field((), alias="externalIPs")
    external_name: str = Field("", alias="externalName")
    external_policy: str = Field("", alias="externalTrafficPolicy")
    internal_policy: str = Field("", alias="internalTrafficPolicy")
    health_check_node_port: int = Field(0, alias="healthCheckNodePort", ge=0, le=65535)
    affinity: str = Field("None", alias="sessionAffinity")
    affinity_config: _Affinity = Field(_Affinity(), alias="sessionAffinityConfig")
    source_ranges: tuple[Annotated[Block, BeforeValidator(_block)], ...] = Field(
        (), alias="loadBalancerSourceRanges"
    )
    publish_not_ready: bool = Field(default=False, alias="publishNotReadyAddresses")
    ports: tuple[Port, ...] = ()


class Ingress(Part):
    """One address of a load balancer. In mode Proxy packets for it must go by the balancer."""

    ip: Annotated[ReadIp | None, BeforeValidator(_empty_is_none)] = None
    mode: str = Field("VIP", alias="ipMode")


class _LoadBalancer(Part):
    ingress: tuple[Ingress, ...] = ()


class _ServiceStatus(Part):
    load_balancer: _LoadBalancer = Field(_LoadBalancer(), alias="loadBalancer")


class ServiceObject(Part):
    """A service (v1)."""

    metadata: Meta
    spec: ServiceSpec
    status: _ServiceStatus = _ServiceStatus()


class _Reference(Part):
    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def pod(self) -> str:
        """`<namespace>/<name>` if the reference is to a pod, else ""."""
        return f"{self.namespace}/{self.name}" if self.kind == "Pod" else ""


class Address(Part):
    """One address of an Endpoints object."""

    ip: ReadIp
    hostname: str = ""
    node: str = Field("", alias="nodeName")
    target: _Reference = Field(_Reference(), alias="targetRef")


class Subset(Part):
    """Addresses that all serve the same ports."""

    addresses: tuple[Address, ...] = ()
    ports: tuple[Port, ...] = ()


class EndpointsObject(Part):
    """The endpoints of the service of the same name (v1)."""

    metadata: Meta
    subsets: tuple[Subset, ...] = ()


class _Conditions(Part):
    ready: bool = True
    serving: bool | None = None
    terminating: bool = False


class _Named(Part):
    name: str


class _Hints(Part):
    """The nodes, or zones, whose clients shall have an endpoint; () where the server names none."""

    nodes: tuple[_Named, ...] = Field((), alias="forNodes")
    zones: tuple[_Named, ...] = Field((), alias="forZones")


class SliceEndpoint(Part):
    """One endpoint of a slice. Its addresses are of one family and stand for one another."""

    addresses: tuple[str, ...] = ()
    conditions: _Conditions = _Conditions()
    hostname: str = ""
    node_name: str = Field("", alias="nodeName")
    topology: dict[str, str] = Field(default_factory=dict)
    target: _Reference = Field(_Reference(), alias="targetRef")
    hints: _Hints = _Hints()

    @property
    def node(self) -> str:
        """The node's name; v1beta1 has it as a topology label."""
        return self.node_name or self.topology.get(_HOSTNAME, "")

    @property
    def ready(self) -> bool:
        """True if it takes new connections; unknown counts as ready (API reference)."""
        return self.conditions.ready

    @property
    def draining(self) -> bool:
        """True if it terminates and still serves; an old server says ready instead of serving."""
        known = self.conditions
        serving = known.ready if known.serving is None else known.serving
        return known.terminating and serving


class SlicePort(Part):
    """A port of a slice; one without a number stands for all ports, and serves none by name."""

    name: str = ""
    port: int | None = Field(None, ge=1, le=65535)
    protocol: str = "TCP"


class SliceObject(Part):
    """Some endpoints of a service (discovery.k8s.io/v1 and v1beta1)."""

    metadata: Meta
    family: str = Field("IPv4", alias="addressType")
    endpoints: tuple[SliceEndpoint, ...] = ()
    ports: tuple[SlicePort, ...] = ()

    @property
    def service(self) -> str:
        """`<namespace>/<name>` of the service, "" if the slice belongs to none."""
        name = self.metadata.labels.get(SERVICE_LABEL, "")
        return f"{self.metadata.namespace}/{name}" if name else ""


Model = TypeVar("Model", bound=Part)


def parse(model: type[Model], resource: str, received: KubeObject) -> Model:
    """Return an object of a resource. Raises Invalid if it cannot be read."""
    try:
        return model.model_validate(received)
    except (ValidationError, RecursionError) as exc:
        raise Invalid(f"{resource} {key_of(received)} of Kubernetes: {exc}") from exc


def key_of(received: KubeObject) -> str:
    """Return the key of an object, even if the object is invalid otherwise.

    It is `<namespace>/<name>`, or the name alone for what is in no namespace.
    """
    meta = received.get("metadata")
    about = meta if isinstance(meta, dict) else {}
    namespace, name = about.get("namespace"), about.get("name")
    return f"{namespace}/{name}" if namespace is not None else f"{name}"
