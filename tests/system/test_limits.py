"""Slow, huge, many: connections and requests that are meant to use a daemon up do not.

Thousands of connections are held open at every listener, most of them in the midst of a request,
while pods come and go. Later the daemons have no file descriptor left at all.
"""

import json
import resource
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.bed.cluster import AGENT_PORT, NETMASTER_PORT, Bed
from tests.bed.daemon import Daemon
from tests.bed.netns import Namespace
from tests.bed.pods import CniFailed
from tests.bed.waiting import WITHIN, eventually
from tests.system.rest import ask

pytestmark = [
    pytest.mark.usefixtures("no_pods_left"),
    pytest.mark.system,
]

OFNET_PORT = 9001
HEAD = b"POST /api/v1/networks/default:x/ HTTP/1.1\r\nHost: a\r\n"
SLOW = (b"", b"GET /", HEAD, HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 100)
"""Nothing, half a request line, half a head, half a body."""
CONNECTIONS = 5000
MEMORY = 250 * 1024
"""KiB by which a daemon may grow under all this."""


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Have the agent look at its links every second."""
    return {"netplugin": ["--audit-interval", "1"]}


@pytest.fixture(scope="module", autouse=True)
def usual_limit() -> Iterator[None]:
    """Start the daemons with the limit that a service has by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * CONNECTIONS:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module", autouse=True)
def many_files(usual_limit: None, bed: Bed) -> None:  # noqa: ARG001 - their order counts
    """Let this process have thousands of connections, once the daemons run."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def held(
    namespace: Namespace, address: str, port: int, count: int, sent: Sequence[bytes] = SLOW
) -> Iterator[list[socket.socket]]:
    """Hold connections of a few peers open, each having sent one of the texts."""
    with ExitStack() as stack:
        opened = []

        def connect(number: int) -> socket.socket:
            sock = stack.enter_context(socket.socket())
            sock.bind((f"127.0.0.{number % 4 + 10}", 0))
            sock.settimeout(WITHIN)
            sock.connect((address, port))
            return sock

        for number in range(count):
            sock = namespace.call(lambda number=number: connect(number))  # type: ignore[misc]
            with suppress(ConnectionError):  # displaced by others already
                sock.sendall(sent[number // 4 % len(sent)])
            opened.append(sock)
        yield opened


def memory(daemon: Daemon) -> int:
    """Return a daemon's memory in KiB."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def limit_files(daemon: Daemon, soft: int) -> int:
    """Set how many files a daemon may open; return how many it could before."""
    before, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))
    return before


def works(bed: Bed, name: str) -> None:
    """See that a pod can come and go, and that netmaster and agent answer."""
    bed.delete_pod(bed.add_pod(bed.hosts[0], name))
    assert ask(bed, "GET", "/api/v1/networks/").status == 200
    host = bed.hosts[0].namespace
    command = ["curl", "-sf", "-m", f"{WITHIN:g}", f"http://127.0.0.1:{AGENT_PORT}/debug/leaks"]
    assert json.loads(host.run(command).stdout) is not None


def test_thousands_of_connections(bed: Bed) -> None:
    """The finding of docs/notes/trust.md §4."""
    master, agent = bed.netmaster, bed.agents[0]
    fabric, host = bed.fabric.namespace, bed.hosts[0].namespace
    before = {daemon.name: memory(daemon) for daemon in (master, agent)}
    with (
        held(host, "127.0.0.1", AGENT_PORT, CONNECTIONS * 2 // 5),
        held(fabric, "127.0.0.1", NETMASTER_PORT, CONNECTIONS * 2 // 5),
        held(fabric, bed.fabric.address, OFNET_PORT, CONNECTIONS // 5, [b"", b'{"method":']),
    ):
        for number in range(3):
            works(bed, f"pod{number}")
    assert master.running
    assert agent.running
    grown = {daemon.name: memory(daemon) - before[daemon.name] for daemon in (master, agent)}
    assert max(grown.values()) < MEMORY, grown


def test_huge_registrations_are_not_kept(bed: Bed) -> None:
    """The finding of docs/notes/trust.md §11."""
    call = {"method": "OfnetMaster.RegisterNode", "id": 1}
    before = memory(bed.netmaster)
    for number in range(100):
        argument = {"HostAddr": f"{number}" + "x" * 900_000, "HostPort": 9002}
        line = json.dumps({**call, "params": [argument]}).encode() + b"\n"
        with held(bed.fabric.namespace, bed.fabric.address, OFNET_PORT, 1, [line]) as (sock,):
            assert _end(sock) == b""
    assert memory(bed.netmaster) - before < 50 * 1024


def _end(sock: socket.socket) -> bytes:
    """Return what comes until the other end closes the connection."""
    try:
        return sock.recv(100)
    except ConnectionError:
        return b""


def test_on_a_full_disk_pods_can_be_deleted(bed: Bed) -> None:
    """The agent's journal and its log cannot be written for a while: docs/notes/trust.md §13."""
    agent = bed.agents[0]
    pod, other = (bed.add_pod(bed.hosts[0], name) for name in ("first", "second"))
    endless = resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        bed.delete_pod(pod)
        with pytest.raises(CniFailed, match="journal"):
            bed.add_pod(bed.hosts[0], "during")
        agent.kill()
    finally:
        if agent.running:
            resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, endless)
    agent.start()
    bed.delete_pod(other)
    works(bed, "after")


def test_without_a_free_file_descriptor(bed: Bed) -> None:
    """Every accept, socket and file of both daemons fails for a while: docs/notes/trust.md §4."""
    agent = bed.agents[0]
    daemons = (bed.netmaster, agent)
    pod = bed.add_pod(bed.hosts[0], "before")
    limits = [limit_files(daemon, 4) for daemon in daemons]
    try:
        fabric, host = bed.fabric.namespace, bed.hosts[0].namespace
        with (
            held(fabric, bed.fabric.address, NETMASTER_PORT, 50),
            held(host, "127.0.0.1", AGENT_PORT, 50),
        ):
            said = "cannot read the links: Too many open files"
            eventually(lambda: not agent.running or said in agent.log_text(), said)
    finally:
        for daemon, limit in zip(daemons, limits, strict=True):
            if daemon.running:
                limit_files(daemon, limit)
    assert [daemon.name for daemon in daemons if not daemon.running] == []
    # a call in the middle of its recovery may be refused: a runtime tries again
    eventually(partial(is_served, partial(bed.delete_pod, pod)), "a pod goes")
    names = (f"after{number}" for number in count())
    eventually(lambda: is_served(partial(works, bed, next(names))), "pods come and go again")


def is_served(call: Callable[[], None]) -> bool:
    """Try a call; return whether the daemons serve it."""
    try:
        call()
    except (CniFailed, OSError, RuntimeError):
        return False
    return True
