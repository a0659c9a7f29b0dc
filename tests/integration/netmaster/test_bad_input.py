"""Whatever is sent, the answer is a clear error and the store stays as it was."""

import http.client
import json
import socket

import pytest

from tests.bed.waiting import WITHIN, eventually
from tests.integration.netmaster.conftest import Running

pytestmark = pytest.mark.store

NETWORK = {"tenantName": "default", "networkName": "bad", "encap": "vxlan", "subnet": "10.9.0.0/24"}
GROUP = {"tenantName": "default", "groupName": "bad", "networkName": "exists"}
ENDPOINT = {
    "TenantName": "default",
    "NetworkName": "exists",
    "EndpointID": "bad",
    "ConfigEP": {"Container": "bad", "Host": "h1"},
}


@pytest.fixture(scope="module", autouse=True)
def exists(running: Running) -> None:
    """Have a network to name: 2 addresses, both taken by endpoints."""
    network = {**NETWORK, "networkName": "exists", "subnet": "10.8.0.0/30"}
    assert running.master.ask("POST", "/api/v1/networks/default:exists/", network).status == 200
    for name in ("one", "two"):
        body = {**ENDPOINT, "ConfigEP": {"Container": name, "Host": "h1"}}
        assert running.master.ask("POST", "/plugin/createEndpoint", body).status == 200


def network(**changes: object) -> object:
    return {**NETWORK, **changes}


OBJECTS = [
    ("networks/default:bad", "", "EOF"),
    ("networks/default:bad", "{", "unexpected EOF"),
    (
        "networks/default:bad",
        "{]",
        "invalid character ']' looking for beginning of object key string",
    ),
    (
        "networks/default:bad",
        json.dumps(NETWORK) + "x",
        "invalid character 'x' after top-level value",
    ),
    ("networks/default:bad", "[" * 20_000, "exceeded max depth"),
    ("networks/default:bad", "null", "Invalid Key"),
    (
        "networks/default:bad",
        "[]",
        "json: cannot unmarshal array into Go value of type contivModel.Network",
    ),
    (
        "networks/default:bad",
        network(pktTag="7"),
        "json: cannot unmarshal string into Go struct field Network.pktTag of type int",
    ),
    (
        "networks/default:bad",
        network(pktTag=10**30),
        f"json: cannot unmarshal number {10**30} into Go struct field Network.pktTag of type int",
    ),
    ("networks/default:other", network(), "Invalid Key"),
    ("networks/default:bad", network(subnet="10.9.0.0"), "subnet string invalid format"),
    ("networks/default:bad", network(subnet="10.9.0.256/24"), "subnet string invalid format"),
    ("networks/default:bad", network(subnet="1" * 500_000), "subnet string invalid format"),
    ("networks/default:bad", network(subnet="20.0.0.0/7"), "subnet length 7 not supported"),
    (
        "networks/default:bad",
        network(gateway="10.7.0.1"),
        "hostIP 10.7.0.1 is exceeding beyond subnet 10.9.0.0/24, hostID 4294836225",
    ),
    ("networks/default:bad", network(ipv6Subnet="/64"), "ipv6Subnet string invalid format"),
    ("networks/default:bad", network(ipv6Subnet="1:/64"), "ipv6Subnet string invalid format"),
    ("networks/nope:bad", network(tenantName="nope"), "Tenant not found"),
    (
        "networks/default:bad",
        network(subnet="10.8.0.0/16"),
        "network exists conflicts with subnet 10.8.0.0/16",
    ),
    ("tenants/bad_name", {"tenantName": "bad_name"}, "tenantName string invalid format"),
    ("tenants/\u00fc", {"tenantName": "\ud800"}, "Invalid Key"),
    ("endpointGroups/default:bad", {**GROUP, "networkName": "nope"}, "Network nope not found"),
    ("endpointGroups/default:bad", {**GROUP, "policies": ["nope"]}, "Policy not found"),
    (
        "endpointGroups/default:bad",
        {**GROUP, "ipPool": "10.7.0.1-10.7.0.2"},
        "bad ip-pool 10.7.0.1-10.7.0.2, EPG ip-pool must be a subset of network 10.8.0.0/30",
    ),
    ("endpointGroups/default:bad", {**GROUP, "ipPool": "10.8.0.2-10.8.0.1"}, "invalid ip-pool"),
    ("globals/global", {"name": "global"}, "pvtSubnet string invalid format"),
]

CALLS = [
    ("createEndpoint", "", "EOF"),
    ("createEndpoint", '{"a":1,}', "invalid character '}' looking for beginning of object key"),
    (
        "createEndpoint",
        {"ConfigEP": {"Container": 5}},
        "json: cannot unmarshal number into Go struct field ConfigEP.ConfigEP.Container",
    ),
    ("createEndpoint", {}, "key not found"),
    ("createEndpoint", {**ENDPOINT, "NetworkName": "nope"}, "key not found"),
    ("createEndpoint", ENDPOINT, "auto allocation failed - address exhaustion in subnet 10.8.0.0"),
    ("createEndpoint", {**ENDPOINT, "ConfigEP": {"Host": "h"}}, "the endpoint on network exists."),
    (
        "createEndpoint",
        {**ENDPOINT, "ConfigEP": {"Container": "x", "IPAddress": "::1"}},
        "unable to convert hostIP ::1 to uint32",
    ),
    (
        "createEndpoint",
        {**ENDPOINT, "ConfigEP": {"Container": "x", "Host": "h" * 900_000}},
        "Host string too long",
    ),
    (
        "createEndpoint",
        {**ENDPOINT, "ConfigEP": {"Container": "x" * 1025, "Host": "h1"}},
        "Container string too long",
    ),
    ("createEndpoint", {**ENDPOINT, "EPCommonName": "x" * 900_000}, "EPCommonName string too long"),
    (
        "updateEndpoint",
        {
            "Tenant": "default",
            "Network": "exists",
            "Event": "start",
            "EndpointID": "one",
            "ContainerID": "c",
            "Labels": {"a": "x" * 800_000},
        },
        "endpoint exists.default-one: 1 labels of 800001 bytes; 1024 of 65536 bytes are allowed",
    ),
    ("updateEndpoint", {"Tenant": "t" * 1025}, "Tenant string too long"),
    ("deleteEndpoint", {**ENDPOINT, "EndpointID": "x" * 1025}, "EndpointID string too long"),
    ("releaseAddress", {"NetworkID": "x" * 1025}, "NetworkID string too long"),
    ("deleteEndpoint", {**ENDPOINT, "EndpointID": "nope"}, "key not found"),
    ("allocAddress", "null", "invalid address pool"),
    ("allocAddress", {"AddressPool": "10.8.0.0"}, "invalid address pool"),
    ("allocAddress", {"AddressPool": "2001:db8::/64"}, "network not found"),
    ("allocAddress", {"NetworkID": "exists.default"}, "auto allocation failed"),
    ("allocAddress", {"NetworkID": "..::.."}, "key not found"),
    ("releaseAddress", {"NetworkID": "exists.default"}, "unable to convert hostIP  to uint32"),
    (
        "releaseAddress",
        {"NetworkID": "exists.default", "IPv4Address": "2001:db8::1"},
        "subnet length 0 is invalid",
    ),
]


@pytest.mark.parametrize(("path", "body", "text"), OBJECTS)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_bad_object_is_refused(
    method: str, path: str, body: object, text: str, running: Running
) -> None:
    before = running.store.revision()
    url = "/api/v1/" + path.replace("\u00fc", "%C3%BC") + "/"
    answer = running.master.ask(method, url, body)
    assert answer.status == 500
    assert answer.text.startswith(text)
    assert running.store.revision() == before


@pytest.mark.parametrize(("route", "body", "text"), CALLS)
def test_a_bad_call_is_refused(route: str, body: object, text: str, running: Running) -> None:
    """The finding of docs/notes/trust.md §12."""
    before = running.store.revision()
    answer = running.master.ask("POST", f"/plugin/{route}", body)
    assert answer.status == 500
    assert answer.text.startswith(text)
    assert running.store.revision() == before


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("GET", "/api/v1/tenants/nope/", "tenant not found"),
        ("GET", "/api/v1/networks/default:nope/", "network not found"),
        ("GET", "/api/v1/endpointGroups/default:nope/", "endpointGroup not found"),
        ("GET", "/api/v1/globals/nope/", "global not found"),
        ("GET", "/api/v1/inspect/tenants/nope/", "tenant not found"),
        ("GET", "/api/v1/inspect/endpoints/nope/", "endpoint not found"),
        ("DELETE", "/api/v1/tenants/nope/", "tenant not found"),
        ("DELETE", "/api/v1/networks/default:nope/", "network not found"),
        ("DELETE", "/api/v1/networks/default:exists/", "Error: Network has active endpoints"),
        ("DELETE", "/api/v1/tenants/default/", "cannot delete default has 1 networks"),
        ("DELETE", "/api/v1/endpointGroups/default:nope/", "endpointGroup not found"),
        ("DELETE", "/api/v1/globals/nope/", "global not found"),
    ],
)
def test_what_is_not_there_or_in_use_is_said_to_be(
    method: str, path: str, text: str, running: Running
) -> None:
    before = running.store.revision()
    answer = running.master.ask(method, path)
    assert (answer.status, answer.text) == (500, text)
    assert running.store.revision() == before


@pytest.mark.parametrize("path", ["/api/v1/networks/default:bad/", "/plugin/createEndpoint"])
def test_an_oversized_body_is_refused(path: str, running: Running) -> None:
    before = running.store.revision()
    body = json.dumps({"networkName": "x" * (1 << 20)})
    answer = running.master.ask("POST", path, body)
    assert (answer.status, answer.text) == (413, "request body is larger than 1048576 bytes")
    assert running.store.revision() == before


def test_an_oversized_body_of_unknown_length_is_refused(running: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.master.port, timeout=WITHIN)
    chunks = (b"x" * 65536 for _ in range(17))
    connection.request("POST", "/api/v1/tenants/t/", chunks, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_a_body_that_is_cut_does_nothing(running: Running) -> None:
    before = running.store.revision()
    for announced in ("Content-Length: 99", "Transfer-Encoding: chunked"):
        with socket.create_connection(("127.0.0.1", running.master.port), timeout=WITHIN) as peer:
            head = f"POST /api/v1/tenants/t/ HTTP/1.1\r\nHost: x\r\n{announced}\r\n\r\n"
            peer.sendall(head.encode() + b'13\r\n{"tenantName": "t"}')
    eventually(
        lambda: running.master.log_text().count("client disconnected") == 2,
        "the master knows of both",
    )
    assert running.store.revision() == before


def test_what_is_not_http_is_refused(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.master.port), timeout=WITHIN) as peer:
        peer.sendall(b"\x16\x03\x01 garbage\r\n\r\n")
        assert peer.recv(4096).startswith(b"HTTP/1.0 400")
    assert running.master.ask("GET", "/version").status == 200


def test_an_unread_answer_harms_no_other_client(running: Running) -> None:
    peer = socket.create_connection(("127.0.0.1", running.master.port), timeout=WITHIN)
    peer.sendall(b"GET /api/v1/networks/ HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
    peer.close()
    assert running.master.ask("GET", "/api/v1/networks/").status == 200
