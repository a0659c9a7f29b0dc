"""Services of Kubernetes as this host needs them, from the objects of its API server. Pure.

`netplugin.kube.feed` passes on the server's objects of services and of their endpoints, in any
order; out come `KubeService`s. The targets of a port are those that the endpoints have for the port
of that name: a service may give its target port by name. Services are keyed by namespace and name.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.errors import Invalid

SERVICES: Final = "services"
ENDPOINTS: Final = "endpoints"

KubeObject = Mapping[str, Any]
_Ip = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePort:
    """A port of a service and its targets, addresses and ports. A `node_port` of 0 means none."""

    protocol: str
    port: int
    node_port: int = 0
    targets: frozenset[tuple[IPv4Address, int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeService:
    """A service; a headless one has no address of its own."""

    namespace: str
    name: str
    address: IPv4Address | None
    address6: IPv6Address | None = None
    ports: tuple[KubePort, ...] = ()

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"


class _Part(BaseModel):
    """A part of an object; null stands for an absent field."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: one for name, one in value.items() if one is not None}


class _Meta(_Part):
    name: str
    namespace: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Port(_Part):
    name: str = ""
    port: int = Field(ge=1, le=65535)
    protocol: str = "TCP"
    node_port: int = Field(0, alias="nodePort", ge=0, le=65535)


class _Spec(_Part):
    address: _Ip | Literal["", "None"] = Field("", alias="clusterIP")
    addresses: tuple[_Ip | Literal["None"], ...] = Field((), alias="clusterIPs")
    ports: tuple[_Port, ...] = ()


class _Service(_Part):
    metadata: _Meta
    spec: _Spec


class _Address(_Part):
    ip: _Ip


class _Subset(_Part):
    addresses: tuple[_Address, ...] = ()
    ports: tuple[_Port, ...] = ()


class _Endpoints(_Part):
    metadata: _Meta
    subsets: tuple[_Subset, ...] = ()


class KubeServices:
    """All services; each change returns the keys of those it altered."""

    def __init__(self) -> None:
        self.services: dict[str, KubeService] = {}
        """By `<namespace>/<name>`."""
        self._services: dict[str, _Service] = {}
        self._endpoints: dict[str, _Endpoints] = {}

    def put(self, resource: str, obj: KubeObject) -> set[str]:
        """Add or replace an object. Raises Invalid, changing nothing, if it cannot be read."""
        try:
            if resource == SERVICES:
                service = _Service.model_validate(obj)
                self._services[service.metadata.key] = service
                return self._derive(service.metadata.key)
            endpoints = _Endpoints.model_validate(obj)
        except ValidationError as exc:
            raise Invalid(f"{resource} {key_of(obj)} of Kubernetes: {exc}") from exc
        self._endpoints[endpoints.metadata.key] = endpoints
        return self._derive(endpoints.metadata.key)

    def retain(self, resource: str, keys: Container[str]) -> set[str]:
        """Remove the objects of a resource whose keys are not among these."""
        held = self._services if resource == SERVICES else self._endpoints
        return set().union(*(self.remove(resource, key) for key in tuple(held) if key not in keys))

    def remove(self, resource: str, key: str) -> set[str]:
        """Remove an object."""
        held: dict[str, Any] = self._services if resource == SERVICES else self._endpoints
        held.pop(key, None)
        return self._derive(key)

    def _derive(self, key: str) -> set[str]:
        # Services and endpoints arrive by two watches that know nothing of each other. Endpoints
        # without a service are kept, because the service may follow.
        before = self.services.pop(key, None)
        service = self._services.get(key)
        if service is not None:
            endpoints = self._endpoints.get(key)
            subsets = endpoints.subsets if endpoints is not None else ()
            self.services[key] = _service(service, subsets)
        return {key} if self.services.get(key) != before else set()


def key_of(obj: KubeObject) -> str:
    """Return the key of an object, even if the object is invalid otherwise."""
    meta = obj.get("metadata")
    about = meta if isinstance(meta, dict) else {}
    return f"{about.get('namespace')}/{about.get('name')}"


def _service(service: _Service, subsets: Iterable[_Subset]) -> KubeService:
    spec = service.spec
    addresses = [one for one in (spec.address, *spec.addresses) if not isinstance(one, str)]
    return KubeService(
        namespace=service.metadata.namespace,
        name=service.metadata.name,
        address=next((one for one in addresses if isinstance(one, IPv4Address)), None),
        address6=next((one for one in addresses if isinstance(one, IPv6Address)), None),
        ports=tuple(
            KubePort(
                protocol=port.protocol,
                port=port.port,
                node_port=port.node_port,
                targets=frozenset(_targets(port, subsets)),
            )
            for port in spec.ports
        ),
    )


def _targets(port: _Port, subsets: Iterable[_Subset]) -> Iterator[tuple[IPv4Address, int]]:
    """Yield the targets of a port: the ready addresses, at the endpoints' port of its name."""
    for subset in subsets:
        for target in subset.ports:
            if target.name == port.name:
                for one in subset.addresses:
                    if isinstance(one.ip, IPv4Address):
                        yield one.ip, target.port
