"""What bodies are read as, and that nothing else than BadBody comes of the rest."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplugin.libnetwork.calls import (
    BadBody,
    CreateEndpoint,
    CreateNetwork,
    EndpointCall,
    EngineCall,
    Join,
    ReleaseAddress,
    RequestAddress,
    RequestPool,
    read,
)

CALLS: tuple[type[EngineCall], ...] = (
    CreateEndpoint,
    CreateNetwork,
    EndpointCall,
    Join,
    ReleaseAddress,
    RequestAddress,
    RequestPool,
)
IDS = {"NetworkID": "n", "EndpointID": "e", "PoolID": "a.b|10.1.0.0/24"}


def body(**members: Any) -> bytes:
    return json.dumps({**IDS, **members}).encode()


def test_null_is_the_zero_value() -> None:
    call = read(CreateEndpoint, body(Interface=None))
    assert (call.ipv4, call.ipv6, call.mac) == (None, None, "")
    call = read(CreateEndpoint, body(Interface={"Address": None, "AddressIPv6": "fd00::1/64"}))
    assert (call.ipv4, str(call.ipv6)) == (None, "fd00::1/64")
    assert read(CreateNetwork, body(Options=None, IPv4Data=None)).generic == {}
    assert not read(RequestPool, body(Options=None, V6=None)).v6


def test_options_and_auxiliary_addresses_of_a_network() -> None:
    generic = {"network": "n1", "odd": 7}
    data = [{"Pool": "10.1.0.0/24", "AuxAddresses": {"a": "10.1.0.5/24", "b": "10.1.0.6/24"}}]
    options = {"com.docker.network.generic": generic, "com.docker.network.enable_ipv6": False}
    call = read(CreateNetwork, body(Options=options, IPv4Data=data))
    assert call.generic == {"network": "n1"}
    assert call.auxiliary == ["10.1.0.5", "10.1.0.6"]


def test_the_address_of_a_gateway() -> None:
    options = {"RequestAddressType": "com.docker.network.gateway"}
    assert read(RequestAddress, body(Options=options)).of_gateway
    assert not read(RequestAddress, body(Options=None)).of_gateway


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("text", [b"", b" \n", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 5000])
def test_what_is_no_call(call: type[EngineCall], text: bytes) -> None:
    with pytest.raises(BadBody, match=call.__name__):
        read(call, text)


@pytest.mark.parametrize(
    ("call", "members", "named"),
    [
        (EndpointCall, {"NetworkID": ""}, "NetworkID"),
        (EndpointCall, {"EndpointID": None}, "EndpointID"),
        (EndpointCall, {"EndpointID": "../../etc"}, "EndpointID"),
        (EndpointCall, {"EndpointID": "x" * 300}, "EndpointID"),
        (CreateEndpoint, {"Interface": []}, "Interface"),
        (CreateEndpoint, {"Interface": {"Address": 7}}, "Interface.Address"),
        (CreateNetwork, {"IPv4Data": [{"AuxAddresses": {"a": 1}}]}, "AuxAddresses"),
        (RequestPool, {"V6": "yes"}, "V6"),
        (RequestAddress, {"PoolID": None}, "PoolID"),
        (RequestAddress, {"Address": "x" * 2000}, "Address"),
    ],
)
def test_the_wrong_member_is_named(
    call: type[EngineCall], members: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadBody, match=named):
        read(call, body(**members))


@pytest.mark.parametrize(
    "interface",
    [
        {"Address": "10.1.0.300/24"},
        {"Address": "fd00::1/64"},
        {"AddressIPv6": "10.1.0.1/24"},
        {"AddressIPv6": "fd00::1/200"},
        {"MacAddress": "02:00:00:00:00"},
    ],
)
def test_addresses_that_are_none(interface: dict[str, str]) -> None:
    call = read(CreateEndpoint, body(Interface=interface))
    with pytest.raises(BadBody):
        _ = (call.ipv4, call.ipv6, call.mac)


NAMES = st.sampled_from(["NetworkID", "EndpointID", "PoolID", "Interface", "Options", "IPv4Data"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.hypothesis
@given(
    st.sampled_from(CALLS), st.binary(max_size=64) | VALUES.map(lambda v: json.dumps(v).encode())
)
def test_any_body_is_a_call_or_refused(call: type[EngineCall], text: bytes) -> None:
    try:
        assert isinstance(read(call, text), call)
    except BadBody as exc:
        assert str(exc).startswith(call.__name__)  # noqa: PT017 - either outcome will do
