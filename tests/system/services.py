"""What tests of services share."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod
from tests.system.echoes import answering, dials
from tests.system.families import FAMILY
from tests.system.planes import applied
from tests.system.rest import ask
from tests.system.streams import accepting

PATIENCE = 30.0


VIPS = (
    {"vxlan": "fd00:60::200", "vlan": "fd00:61::200"}
    if FAMILY == "v6"
    else {"vxlan": "10.60.0.200", "vlan": "10.61.0.200"}
)


def create_service(
    bed: Bed,
    network: str,
    *ports: str,
    name: str = "web",
    tenant: str = "default",
    address: str = "",
) -> str:
    """Create a service that pods labelled `app=<its name>` serve; return its address."""
    words = ["-t", tenant, "-s", network, f"--selector=app={name}"]
    words += [f"--port={port}" for port in ports or ("80:8080:TCP",)]
    bed.netctl("service", "create", *words, "-ip", address or VIPS[network], name)
    return address or VIPS[network]


def label(bed: Bed, pod: Pod, *, event: str = "start", **labels: str) -> None:
    """Say that a pod's container started with labels, or died, as an agent does that hears of it.

    Return when all hosts know.
    """
    contiv = pod.conf["contiv"]
    body = {
        "IPAddress": pod.address,
        "ContainerID": pod.sandbox.container_id,
        "Labels": {"app": "web"} | labels,
        "Tenant": contiv["tenant"],
        "Network": contiv["network"],
        "Event": event,
        "EndpointID": pod.sandbox.container_id,
        "EPCommonName": pod.name,
    }
    assert ask(bed, "POST", "/plugin/updateEndpoint", body).status == 200
    applied(bed)


@contextmanager
def serving(*pods: Pod, port: int = 8080) -> Iterator[None]:
    """Have pods echo every line they are sent, their name before it."""
    with ExitStack() as ends:
        for pod in pods:
            ends.enter_context(accepting(pod, port, partial(_echo, pod)))
        yield


def _echo(pod: Pod, end: socket.socket) -> None:
    # a connection whose client was moved ends by a reset
    with suppress(ConnectionError), end, end.makefile("rb") as lines:
        for line in lines:
            end.sendall(pod.name.encode() + b" " + line)


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Talk:
    """A connection of a pod."""

    def __init__(self, pod: Pod, address: str, port: int, patience: float = PATIENCE) -> None:
        self._end = pod.namespace.call(partial(socket.socket, family_of(address)))
        self._end.settimeout(patience)
        try:
            self._end.connect((address, port))
        except OSError:
            self._end.close()
            raise

    def says(self) -> str:
        """Return who answers."""
        self._end.sendall(b"who\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._end.recv(100)
            if not part:
                raise ConnectionError("closed by the other end")
            answer += part
        return answer.decode().split()[0]

    def close(self) -> None:
        """End it."""
        self._end.close()


def who(pod: Pod, address: str, port: int = 80, patience: float = PATIENCE) -> str:
    """Return who answers a new connection; "" if nobody does."""
    try:
        with closing(Talk(pod, address, port, patience)) as talk:
            return talk.says()
    except OSError:
        return ""


def pods(bed: Bed, host: Host, network: str, *names: str) -> list[Pod]:
    return [bed.add_pod(host, name, network=network) for name in names]


def lead_to_both_hosts(bed: Bed, network: str) -> None:
    """See that a service whose address netmaster chooses is served by a pod of each host."""
    here, there = bed.hosts
    words = ["-s", network, "--selector=app=web", "--port=80:8080:TCP", f"s-{network}"]
    bed.netctl("service", "create", *words)
    shown = ask(bed, "GET", f"/api/v1/inspect/serviceLBs/default:s-{network}/").json()
    vip = shown["Oper"]["serviceVip"]
    near, client = (bed.add_pod(here, name, network=network) for name in ("near", "client"))
    far = bed.add_pod(there, "far", network=network)
    for pod in (near, far):
        label(bed, pod)
    with (
        answering(near.namespace, near.address, 8080) as by_near,
        answering(far.namespace, far.address, 8080) as by_far,
    ):
        assert all(dials(client.namespace, vip, 80) for _ in range(40))
    assert set(by_near) == set(by_far) == {client.address}
    bed.netctl("service", "rm", f"s-{network}")
