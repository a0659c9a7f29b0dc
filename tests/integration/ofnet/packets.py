"""What tests of packets share."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv6Address

from ofnet.world import World
from tests.bed.netns import Namespace, fresh_name, tx_checksum_off
from tests.bed.waiting import WITHIN
from tests.integration.ofnet.dialled import Dialled
from tests.unit.ofnet.worlds import address, local, mac, remote, world


@dataclass(frozen=True)
class Pod:
    """A namespace behind port 100 + number of the bridge."""

    namespace: Namespace
    number: int

    def run(self, *command: str) -> str:
        return self.namespace.run(command, check=False, timeout=WITHIN).stdout

    def datagrams(self, port: int) -> socket.socket:
        def make() -> socket.socket:
            end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            end.bind((str(address(self.number)), port))
            end.setblocking(False)
            return end

        return self.namespace.call(make)

    def frames(self, kind: int = 0x0806) -> socket.socket:
        def make() -> socket.socket:
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind))
            end.bind(("eth0", kind))
            end.setblocking(False)
            return end

        return self.namespace.call(make)


@contextmanager
def pod(bridge: Dialled, number: int) -> Iterator[Pod]:
    """Make a pod and put its port, numbered 100 + number, on the bridge."""
    ovs = bridge.ovs
    namespace = Namespace(fresh_name("pod")).create()
    port = f"p{bridge.name}-{number}"
    try:
        ovs.namespace.run(
            [
                *("ip", "link", "add", port, "up", "type", "veth", "peer", "name", "eth0"),
                *("address", mac(number), "netns", namespace.name),
            ]
        )
        namespace.run(["ip", "address", "add", f"{address(number)}/16", "dev", "eth0"])
        six = f"{address6(number)}/64"
        namespace.run(["ip", "address", "add", six, "dev", "eth0", "nodad"])
        namespace.run(["ip", "link", "set", "eth0", "up"])
        tx_checksum_off(namespace, "eth0")
        ovs.vsctl(
            *("add-port", bridge.name, port),
            *("--", "set", "interface", port, f"ofport_request={100 + number}"),
        )
        yield Pod(namespace, number)
    finally:
        namespace.delete()


@asynccontextmanager
async def two_pods(bridge: Dialled) -> AsyncIterator[tuple[Pod, Pod, World]]:
    with pod(bridge, 1) as one, pod(bridge, 2) as two:
        here = tuple(replace(local(n), ip6=address6(n)) for n in (1, 2))
        both = world(here=here, there=(remote(9, v6=True),))
        yield one, two, replace(both, guard=True)


def address6(number: int) -> IPv6Address:
    return IPv6Address("2001:db8::") + number
