"""The bodies of libnetwork's calls, read and validated (pure).

In comes a body of the engine (docs/original/docker-plugin.md §2, §3), out goes a call of the type
asked for, or BadBody, which names the member that is wrong. `netplugin.libnetwork.endpoints` and
`netplugin.libnetwork.pools` carry the calls out.

The engine is Go: a member that is null or missing has its zero value, and names that are not known
are ignored. Ids, by which state is kept, must be there. An engine that lost its connection to a
driver sends the request again without its body; taking that for a request of zero values would
carry out another one.
"""

import re
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from core.errors import Invalid

GENERIC_OPTIONS: Final = "com.docker.network.generic"
"""The member of a network's options that has those of `docker network create -o`."""
LOCAL_SPACE: Final = "contivLocal"
GLOBAL_SPACE: Final = "contivGlobal"
"""Names of our address spaces: of one engine's networks, and of those that engines share."""
ADDRESS_TYPE: Final = "RequestAddressType"
GATEWAY: Final = "com.docker.network.gateway"
"""The value of `ADDRESS_TYPE` for the address of a gateway."""
TAG: Final = "contiv-tag"
"""The option that names a group or a network by its tag."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,255}")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
LONGEST: Final = 1024
"""Of any text that becomes part of a request to netmaster."""
LONGEST_REFUSAL: Final = 4096
"""Of what a refusal says: a body's own names are cut before."""
_LONGEST_PLACE: Final = 256


class BadBody(Invalid):
    """A body that cannot be read as the call that it was sent for."""

    http_status = 400


def _id(value: Any) -> Any:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("is not an id")
    return value


def _null(zero: Any) -> BeforeValidator:
    """Return a validator that takes null for the zero value."""
    return BeforeValidator(lambda value: zero if value is None else value)


Id = Annotated[str, BeforeValidator(_id)]
Text = Annotated[str, Field(max_length=LONGEST), _null("")]
Texts = Annotated[dict[str, str], _null({})]


class EngineCall(BaseModel):
    """Base of all bodies: the engine's names, and nothing is converted."""

    # Texts of calls are not kept: pydantic would keep 16 384 of them (`state.reading`).
    model_config = ConfigDict(
        strict=True, extra="ignore", frozen=True, populate_by_name=True, cache_strings="keys"
    )


class EngineSubnet(EngineCall):
    """One subnet of a network, with the addresses that others than containers have in it."""

    pool: Text = Field(default="", alias="Pool")
    gateway: Text = Field(default="", alias="Gateway")
    auxiliary: Texts = Field(default_factory=dict, alias="AuxAddresses")


Subnets = Annotated[list[EngineSubnet], _null([])]


class NetworkCall(EngineCall):
    """A call about a network."""

    network_id: Id = Field(alias="NetworkID")


class CreateNetwork(NetworkCall):
    """The engine made a network, on each of its hosts where its scope is local or swarm."""

    options: Annotated[dict[str, Any], _null({})] = Field(default_factory=dict, alias="Options")
    ipv4: Subnets = Field(default_factory=list, alias="IPv4Data")
    ipv6: Subnets = Field(default_factory=list, alias="IPv6Data")

    @property
    def generic(self) -> dict[str, str]:
        """The options of `docker network create -o`; those that are no texts are left out."""
        given = self.options.get(GENERIC_OPTIONS)
        named = given if isinstance(given, dict) else {}
        return {name: value for name, value in named.items() if isinstance(value, str)}

    @property
    def auxiliary(self) -> list[str]:
        """The addresses in the network that others have, without prefix lengths."""
        texts = [text for subnet in (*self.ipv4, *self.ipv6) for text in subnet.auxiliary.values()]
        return [str(_interface(text).ip) for text in texts]


class AllocateNetwork(NetworkCall):
    """A manager of a swarm has a new network, or begins to lead and names one that it has."""

    options: Texts = Field(default_factory=dict, alias="Options")
    ipv4: Subnets = Field(default_factory=list, alias="IPv4Data")
    ipv6: Subnets = Field(default_factory=list, alias="IPv6Data")


class EndpointCall(NetworkCall):
    """A call about an endpoint of a network."""

    endpoint_id: Id = Field(alias="EndpointID")


class Interface(EngineCall):
    """What the engine has chosen for an endpoint, "" for what the driver is to choose."""

    address: Text = Field(default="", alias="Address")
    address6: Text = Field(default="", alias="AddressIPv6")
    mac: Text = Field(default="", alias="MacAddress")


class CreateEndpoint(EndpointCall):
    """A container is to have an endpoint."""

    interface: Annotated[Interface, _null(Interface())] = Field(
        default_factory=Interface, alias="Interface"
    )

    @property
    def ipv4(self) -> IPv4Interface | None:
        """The IPv4 address that the engine has chosen."""
        chosen = _interface(self.interface.address) if self.interface.address else None
        if chosen is not None and not isinstance(chosen, IPv4Interface):
            raise BadBody(f"Interface.Address: {chosen} is not an IPv4 address")
        return chosen

    @property
    def ipv6(self) -> IPv6Interface | None:
        """The IPv6 address that the engine has chosen."""
        chosen = _interface(self.interface.address6) if self.interface.address6 else None
        if chosen is not None and not isinstance(chosen, IPv6Interface):
            raise BadBody(f"Interface.AddressIPv6: {chosen} is not an IPv6 address")
        return chosen

    @property
    def mac(self) -> str:
        """The MAC address that the engine has chosen, "" for any."""
        mac = self.interface.mac
        if mac and not _MAC.fullmatch(mac):
            raise BadBody(f"Interface.MacAddress: {mac[:64]!r} is not a MAC address")
        return mac.lower()


class Join(EndpointCall):
    """An endpoint's link is to be moved into a namespace."""

    sandbox: Text = Field(default="", alias="SandboxKey")


class RequestPool(EngineCall):
    """A network wants a subnet."""

    space: Text = Field(default="", alias="AddressSpace")
    pool: Text = Field(default="", alias="Pool")
    part: Text = Field(default="", alias="SubPool")
    options: Texts = Field(default_factory=dict, alias="Options")
    v6: Annotated[bool, _null(zero=False)] = Field(default=False, alias="V6")


class PoolCall(EngineCall):
    """A call about the subnet of a network."""

    pool_id: Annotated[str, Field(min_length=1, max_length=LONGEST)] = Field(alias="PoolID")


class RequestAddress(PoolCall):
    """An address is wanted: a certain one or any, of a container or of a gateway."""

    address: Text = Field(default="", alias="Address")
    options: Texts = Field(default_factory=dict, alias="Options")

    @property
    def of_gateway(self) -> bool:
        """Whether the address is a gateway's."""
        return self.options.get(ADDRESS_TYPE) == GATEWAY


class ReleaseAddress(EngineCall):
    """An address is not used any more.

    The pool is "" for an address that the engine did not get from it, as one that it was told by
    the answer to CreateEndpoint.
    """

    pool_id: Text = Field(default="", alias="PoolID")
    address: Text = Field(default="", alias="Address")


C = TypeVar("C", bound=EngineCall)


def read(call: type[C], body: bytes) -> C:
    """Return the call in a body. Raises BadBody."""
    if not body.strip():
        raise BadBody(f"{call.__name__}: the request has no body: repeat the command")
    try:
        return call.model_validate_json(body)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = first["msg"][:_LONGEST_PLACE]
        what = f"{where[:_LONGEST_PLACE]}: {said}" if where else said
        raise BadBody(f"{call.__name__}: {what}") from exc


def address_of(text: str) -> str:
    """Return an address in its usual spelling, without prefix length; "" for "". Raises BadBody."""
    return str(_interface(text).ip) if text else ""


def _interface(text: str) -> IPv4Interface | IPv6Interface:
    try:
        return ip_interface(text)
    except ValueError as exc:
        raise BadBody(f"{text[:64]!r} is not an address") from exc
