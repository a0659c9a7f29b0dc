"""Garbage at every door is refused clearly, changes nothing and disturbs nobody.

What each field may hold is tried where it is decided; here the doors of running daemons are tried,
while a pod keeps working, and the store is compared key by key.
"""

import json
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.bed.cluster import AGENT_PORT, NETMASTER_PORT, Bed
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Sandbox, new_sandbox
from tests.bed.waiting import WITHIN
from tests.system.footprint import eventually_same, lasting_keys, steady
from tests.system.rest import ask
from tests.system.watcher import both_ways, unbroken

pytestmark = [pytest.mark.system]

ADD = b"POST /ContivCNI.AddPod HTTP/1.1\r\nHost: a\r\n"
JSON = b"Content-Type: application/json\r\n"
MEGABYTE = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def undisturbed(bed: Bed) -> Iterator[None]:
    """Send through all of the tests, compare switches, links and journals, and try a pod.

    What is sent stays within a host: between hosts the userspace switch itself drops a packet now
    and then when any link comes or goes, for it reads its routes anew.
    """
    a, b = (bed.add_pod(bed.hosts[0], name) for name in ("a", "b"))
    before = steady(bed)
    with unbroken(both_ways((a, b))):
        yield
    eventually_same(bed, before)
    works(bed)
    eventually_same(bed, before)


@pytest.fixture(autouse=True)
def nothing_changes(bed: Bed) -> Iterator[None]:
    """Compare the store, and see that everybody still answers."""
    keys = lasting_keys(bed)
    yield
    assert lasting_keys(bed) == keys
    assert ask(bed, "GET", "/api/v1/networks/").status == 200
    path = str(bed.cni_socket(bed.hosts[0]))
    answer = exchange(socket.AF_UNIX, path, body(b"{}"), within=WITHIN)
    assert answer.startswith(b"HTTP/1.1 500")


def works(bed: Bed) -> None:
    """See that a pod can come and go."""
    bed.delete_pod(bed.add_pod(bed.hosts[0], "works"))


def body(text: bytes, head: bytes = ADD + JSON) -> bytes:
    """Write a request with a body of the length it says."""
    return head + b"Content-Length: %d\r\n\r\n" % len(text) + text


GARBAGE = {
    "nothing": b"",
    "binary": bytes(range(256)) * 16,
    "zeros": bytes(4096),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "a line without end": b"G" * MEGABYTE,
    "a header without end": ADD + b"X: " + b"x" * MEGABYTE,
    "headers without end": ADD + b"X: y\r\n" * 50_000,
    "half a head": ADD,
    "half a body": ADD + JSON + b"Content-Length: 100\r\n\r\n{",
    "wrong path": body(b"{}", b"POST /ContivCNI.Nothing HTTP/1.1\r\nHost: a\r\n" + JSON),
    "wrong method": b"GET /ContivCNI.AddPod HTTP/1.1\r\nHost: a\r\n\r\n",
    "wrong type": body(b"{}", ADD + b"Content-Type: text/plain\r\n"),
    "no JSON": body(b"\xff\xfe{"),
    "wrong JSON": body(b"[1]"),
    "deep JSON": body(b"[" * 60_000),
    "empty": body(b""),
    "wrong members": body(b'{"CNI_CONTAINERID": 7, "CNI_NETNS": {}}'),
    "hostile members": body(
        json.dumps(
            {
                "CNI_CONTAINERID": "../../x",
                "CNI_NETNS": "/proc/1/ns/net\0",
                "CNI_IFNAME": "a/b",
                "K8S_POD_NAME": "x" * 40_000,
            }
        ).encode()
    ),
    "huge": body(b"x" * (8 * MEGABYTE)),
    "a length that lies": ADD + JSON + b"Content-Length: 99999999999999999999\r\n\r\nx",
    "negative length": ADD + JSON + b"Content-Length: -5\r\n\r\nx",
    "endless chunks": ADD
    + JSON
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"5\r\nxxxxx\r\n" * 50_000,
    "bad chunk": ADD + JSON + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_on_the_cni_socket(name: str, bed: Bed) -> None:
    path = bed.cni_socket(bed.hosts[0])
    answer = exchange(socket.AF_UNIX, str(path), GARBAGE[name])
    assert answer[:12] not in {b"HTTP/1.1 200", b"HTTP/1.0 200"}
    # a sender that does not wait for its answer
    exchange(socket.AF_UNIX, str(path), GARBAGE[name], listen=False)


@pytest.mark.parametrize("name", ["binary", "TLS", "a line without end", "headers without end"])
@pytest.mark.parametrize("door", ["netmaster", "agent"])
def test_garbage_on_the_rest_ports(door: str, name: str, bed: Bed) -> None:
    address = {
        "netmaster": (bed.fabric.address, NETMASTER_PORT),
        "agent": (bed.hosts[0].address, AGENT_PORT),
    }[door]
    answer = bed.fabric.namespace.call(lambda: exchange(socket.AF_INET, address, GARBAGE[name]))
    assert not answer.startswith(b"HTTP/1.1 200")


def test_slow_callers_keep_nobody_waiting(bed: Bed) -> None:
    path = str(bed.cni_socket(bed.hosts[0]))
    slow = []
    try:
        for text in (b"", b"P", ADD, ADD + JSON + b"Content-Length: 100\r\n\r\n{") * 50:
            door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            door.connect(path)
            door.sendall(text)
            slow.append(door)
        works(bed)
    finally:
        for door in slow:
            door.close()


def exchange(
    family: int,
    address: str | tuple[str, int],
    request: bytes,
    *,
    listen: bool = True,
    within: float = 0.3,
) -> bytes:
    """Send bytes and return what comes back; half a request may have no answer at all."""
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.settimeout(within)
        door.connect(address)
        answer = b""
        try:
            door.sendall(request)
            while listen and b"\r\n\r\n" not in answer and (part := door.recv(1 << 16)):
                answer += part
        except OSError:  # refused before all of it was sent, or no answer to half a request
            return answer
        return answer


NETWORK = {"tenantName": "default", "networkName": "bad", "encap": "vxlan", "subnet": "10.9.0.0/24"}
ENDPOINT = {"TenantName": "default", "NetworkName": "default-net", "EndpointID": "bad"}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/api/v1/networks/default:bad/", b'{"tenantName": "default",'),
        ("/api/v1/networks/default:bad/", b"\x00\xff"),
        ("/api/v1/networks/default:bad/", {**NETWORK, "pktTag": "seven"}),
        ("/api/v1/networks/default:bad/", {**NETWORK, "subnet": ["10.9.0.0/24"]}),
        ("/api/v1/networks/default:bad/", {**NETWORK, "subnet": "10.9.0.0/33"}),
        ("/api/v1/networks/default:bad/", {**NETWORK, "subnet": "10.9.0.300/24"}),
        ("/api/v1/networks/default:bad/", {**NETWORK, "gateway": "10.10.0.1"}),
        ("/api/v1/networks/default:bad/", {**NETWORK, "subnet": "10.20.5.0/24"}),
        ("/api/v1/networks/nobody:bad/", {**NETWORK, "tenantName": "nobody"}),
        ("/api/v1/tenants/x%2fy/", {"tenantName": "x/y"}),
        ("/api/v1/tenants/big/", b'{"tenantName": "' + b"x" * (2 * MEGABYTE) + b'"}'),
        ("/plugin/createEndpoint", b"{"),
        ("/plugin/createEndpoint", {**ENDPOINT, "ConfigEP": "none"}),
        ("/plugin/createEndpoint", {**ENDPOINT, "ConfigEP": {"Container": ""}}),
        (
            "/plugin/createEndpoint",
            {**ENDPOINT, "NetworkName": "nowhere", "ConfigEP": {"Container": "c"}},
        ),
        ("/plugin/createEndpoint", b"x" * (2 * MEGABYTE)),
        ("/plugin/deleteEndpoint", {**ENDPOINT, "EndpointID": "nobody"}),
        ("/plugin/allocAddress", {"NetworkID": "default-net.default", "PreferredIPv4Address": "x"}),
        ("/plugin/releaseAddress", {"NetworkID": "nowhere.default", "IPv4Address": "10.20.0.9"}),
    ],
)
def test_bad_requests_to_netmaster(path: str, content: object, bed: Bed) -> None:
    try:
        answer = ask(bed, "POST", path, content)
    except OSError:
        # it may hang up on one that goes on sending
        assert isinstance(content, bytes)
        assert len(content) > MEGABYTE
        return
    assert answer.status >= 400, answer
    assert answer.text
    assert "internal error" not in answer.text


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Make a pod's sandbox that is without network."""
    sandbox = new_sandbox("p", Namespace(fresh_name("p")))
    yield sandbox
    sandbox.namespace.delete()


@pytest.mark.parametrize(
    ("environment", "stdin", "code"),
    [
        ({}, b"no JSON", 6),
        ({}, b"[]", 6),
        ({}, b"\xff\xfe", 6),
        ({}, b'{"cniVersion": "9.9.9"}', 1),
        ({}, b'{"cniVersion": 1}', 1),
        ({}, b'{"cniVersion": "1.0.0", "contiv": 7}', 7),
        ({}, b'{"cniVersion": "1.0.0", "contiv": {"network": []}}', 7),
        ({}, b'{"cniVersion": "1.0.0", "x": "' + b"x" * (2 * MEGABYTE) + b'"}', 6),
        ({"CNI_COMMAND": "GC"}, None, 1),  # the configuration is 1.0.0
        ({"CNI_COMMAND": "GRANT"}, None, 4),
        ({"CNI_COMMAND": ""}, None, 4),
        ({"CNI_CONTAINERID": "../etc", "CNI_ARGS": ""}, None, 4),
        ({"CNI_CONTAINERID": "", "CNI_ARGS": ""}, None, 4),
        ({"CNI_IFNAME": "far-too-long-a-name"}, None, 4),
        ({"CNI_IFNAME": "a/b"}, None, 4),
        ({"CNI_NETNS": "relative/path"}, None, 4),
        ({"CNI_ARGS": "nonsense"}, None, 4),
    ],
)
def test_bad_calls_of_the_plugin(
    environment: dict[str, str], stdin: bytes | None, code: int, bed: Bed, sandbox: Sandbox
) -> None:
    host = bed.hosts[0]
    usual = bed.runtime.environment("ADD", sandbox, netns=str(sandbox.namespace.path))
    done = subprocess.run(
        [*host.namespace.enter, str(bed.runtime.plugin)],
        input=json.dumps(bed.conf(host)).encode() if stdin is None else stdin,
        env={**usual, "CONTIV_CNI_SOCKET": str(bed.cni_socket(host)), **environment},
        check=False,
        capture_output=True,
        timeout=WITHIN,
    )
    error = json.loads(done.stdout)
    assert (done.returncode, error["code"]) == (1, code), error
    assert error["msg"]
    assert done.stderr == b""
