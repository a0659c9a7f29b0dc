"""A machine of KubeVirt begins to run in a pod and announces itself, or something else is sent."""

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest

from netplugin.kernel.packets.machine_announcements import ETH_P_RARP, MachineAnnouncements
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import WITHIN

LINKS = ("vport1", "vport2")
ETH_P_ARP = 0x0806


@pytest.fixture
def pod(host: Namespace) -> Iterator[Namespace]:
    """Have a pod with a link for each name; the host's ends are in no switch."""
    made = Namespace(fresh_name("pod")).create()
    try:
        for link in LINKS:
            host.run(["ip", "link", "add", link, "type", "veth", "peer", link, "netns", made.name])
            host.run(["ip", "link", "set", link, "up"])
            made.run(["ip", "link", "set", link, "up"])
        yield made
    finally:
        made.delete()


def send(pod: Namespace, link: str, kind: int = ETH_P_RARP) -> None:
    frame = b"\xff" * 6 + bytes(6) + struct.pack("!H", kind) + bytes(46)
    with pod.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as door:
        door.bind((link, 0))
        door.send(frame)


class Heard:
    """The links of the announcements that were heard."""

    def __init__(self) -> None:
        self.links: list[str] = []
        self._event = asyncio.Event()

    def note(self, link: str) -> None:
        self.links.append(link)
        self._event.set()

    async def next(self) -> str:
        """Return the link of the next announcement."""
        await asyncio.wait_for(self._event.wait(), WITHIN)
        self._event.clear()
        return self.links[-1]


@pytest.mark.usefixtures("host")
async def test_an_announcement_is_heard_once_on_its_link(pod: Namespace) -> None:
    heard = Heard()
    announcements = MachineAnnouncements(heard.note)
    try:
        assert announcements.listen(set(LINKS)) == []
        send(pod, "vport1", ETH_P_ARP)
        for _ in range(3):
            send(pod, "vport1")
        assert await heard.next() == "vport1"
        send(pod, "vport2")
        assert await heard.next() == "vport2"
        assert heard.links == ["vport1", "vport2"]
        assert announcements.listen({"vport1"}) == []  # it is awaited once more
        send(pod, "vport2")
        send(pod, "vport1")
        assert await heard.next() == "vport1"
    finally:
        announcements.close()


async def test_of_a_link_that_is_gone_nothing_is_heard(pod: Namespace, host: Namespace) -> None:
    heard = Heard()
    announcements = MachineAnnouncements(heard.note)
    try:
        assert announcements.listen({"vport1"}) == []
        host.run(["ip", "link", "delete", "vport1"])
        (failure,) = announcements.listen({"vport1", "gone", "vport2"})
        assert "packets cannot be filtered" in str(failure)
        send(pod, "vport2")
        assert await heard.next() == "vport2"
        assert heard.links == ["vport2"]
    finally:
        announcements.close()
