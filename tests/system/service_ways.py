"""The ways to a service: who asks, at which address, and what is not answered.

In come the namespaces of clients and the addresses of two hosts; out come the rows of a table and
what stays silent in them. `tests/system/test_service_table.py` asks what this system answers,
`tests/system/kube_proxy.py` what kube-proxy does. Must not know who serves.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bed.kubernetes import service
from tests.bed.netns import Namespace
from tests.system.echoes import answering, asks, dials, echoing

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("pod", "host", "outside")
"""Of targets."""

PODS = ("provider", "near", "far")
"""The provider is the target of kind pod; the second is on its host, the third on another."""

ADDRESS, EXTERNAL = "10.96.0.10", "203.0.113.9"
ADDRESS6, EXTERNAL6 = "fd00:96::10", "2001:db8:113::9"
NODE_PORT, HOST_PORT, TARGET = 30080, 8091, 8080
PORTS = [
    {"name": name, "port": 80, "protocol": name.upper(), "nodePort": NODE_PORT}
    for name in ("tcp", "udp")
]
READY = [{"name": one["name"], "port": TARGET, "protocol": one["protocol"]} for one in PORTS]
LARGE = 4000
"""Bytes of a datagram that is sent in fragments."""

ALL = "TCP, UDP, fragments"
PATIENCE, SILENCE = 3.0, 1.0
ROUNDS = 10
"""How often a row is tried that must pass: a neighbour that is not resolved costs a datagram."""
AT_ONCE = 12


class Row(NamedTuple):
    """A client, and the address it asks at."""

    client: str
    way: str


Asked = dict[Row, tuple[Namespace, str, int]]
"""From where, and at which address and port."""


def body(version: int = 4) -> dict[str, Any]:
    """Return what the API server says of the service, which has one family."""
    address, external = (ADDRESS, EXTERNAL) if version == 4 else (ADDRESS6, EXTERNAL6)
    said = service(address, *PORTS)
    said["spec"] |= {"externalIPs": [external]}
    return said


@contextmanager
def targets(namespace: Namespace, address: str) -> "Iterator[None]":
    """Run the service's only target."""
    with ExitStack() as stack:
        stack.enter_context(answering(namespace, address, TARGET))
        stack.enter_context(echoing(namespace, address, TARGET))
        yield


def rows(clients: Mapping[str, Namespace], one: str, two: str, kind: str) -> Asked:
    """Return who asks where; a pod in a host's network is a process of the host's namespace.

    The addresses of both hosts tell the family. Loopback addresses of IPv6 are never translated,
    by kube-proxy neither: the kernel does not route them.
    """
    asked: Asked = {}
    four = ip_address(one).version == 4
    address, external = (ADDRESS, EXTERNAL) if four else (ADDRESS6, EXTERNAL6)
    for client, namespace in clients.items():
        here, there = (two, one) if client in {"far", "other host"} else (one, two)
        ways = {
            "ClusterIP": (address, 80),
            "NodePort": (here, NODE_PORT),
            "NodePort of the other host": (there, NODE_PORT),
            "loopback": ("127.0.0.1", NODE_PORT),
            "externalIP": (external, 80),
            "hostPort": (one, HOST_PORT),
            "hostPort by loopback": ("127.0.0.1", HOST_PORT),
        }
        for way, (at, port) in ways.items():
            if _makes_sense(client, way, kind) and (four or "loopback" not in way):
                asked[Row(client, way)] = (namespace, at, port)
    return asked


def _makes_sense(client: str, way: str, kind: str) -> bool:
    if "loopback" in way and "host" not in client:
        return False  # a namespace of its own has a loopback of its own
    if way == "hostPort by loopback" and client != "host":
        return False
    if client == "provider" and kind != "pod":
        return False  # it is a client like the one beside it
    if way == "ClusterIP" and client == "outside":
        return False
    return kind == "pod" or "hostPort" not in way


def unanswered(asked: Asked, expected: Callable[[Row], str] = lambda _row: "") -> dict[Row, str]:
    """Return what is not answered in each row; rows are tried again until they are as expected."""
    found: dict[Row, str] = {}
    due = dict(asked)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(ROUNDS):
            patience = {row: SILENCE if expected(row) else PATIENCE for row in due}
            said = {row: pool.submit(_silent, *where, patience[row]) for row, where in due.items()}
            found |= {row: one.result() for row, one in said.items()}
            due = {row: due[row] for row in due if found[row] and found[row] != expected(row)}
            if not due:
                break
    return {row: silent for row, silent in found.items() if silent}


def _silent(source: Namespace, address: str, port: int, patience: float) -> str:
    heard = {
        "TCP": dials(source, address, port, patience),
        "UDP": asks(source, address, port, patience=patience),
        "fragments": asks(source, address, port, LARGE, patience),
    }
    return ", ".join(name for name, answer in heard.items() if not answer)
