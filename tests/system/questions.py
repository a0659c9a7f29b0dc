"""DNS questions of pods, and a server that answers them: what a pod is told of a name.

In come pods; out come addresses. Must not know who answers.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dns.message
import dns.rrset

from tests.bed.pods import Pod
from tests.bed.waiting import eventually

OUTSIDE = "192.0.2.53"
"""What the server that pods ask says of any name."""


@contextmanager
def serving(pod: Pod) -> Iterator[str]:
    """Answer DNS requests in a pod; give its address."""
    ended = threading.Event()

    def make() -> socket.socket:
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind((pod.address, 53))
        end.settimeout(0.1)
        return end

    def serve() -> None:
        while not ended.is_set():
            try:
                message, asker = server.recvfrom(2048)
            except TimeoutError:
                continue
            query = dns.message.from_wire(message)
            reply = dns.message.make_response(query)
            reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", OUTSIDE))
            server.sendto(reply.to_wire(), asker)

    with pod.namespace.call(make) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield pod.address
        finally:
            ended.set()
            thread.join()


def asked(pod: Pod, server: str, name: str, rdtype: str = "A") -> set[str] | None:
    """Ask once, as a resolver does; return the addresses of the answer, None without one."""
    query = dns.message.make_query(name, rdtype)

    def make() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    with pod.namespace.call(make) as asker:
        asker.settimeout(1)
        asker.connect((server, 53))
        try:
            asker.send(query.to_wire())
            reply = dns.message.from_wire(asker.recv(2048))
        except OSError:
            return None
    assert query.is_response(reply)
    return {record.address for records in reply.answer for record in records}


def hears(pod: Pod, server: str, name: str, wanted: set[str], rdtype: str = "A") -> None:
    """Wait until a pod that asks for a name is told these addresses."""
    eventually(lambda: asked(pod, server, name, rdtype) == wanted, f"{name} is {wanted}", within=30)
