"""The stack behind the port of the name service: asked under any address, it outlives the agent."""

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.kernel.links.name_space import NAME_MAC
from netplugin.kernel.netns import KernelLinks
from tests.bed.janitor import Janitor
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import WITHIN, eventually

pytestmark = pytest.mark.ovs

LINK = "contivdns0"
POD, SERVER = "198.18.0.2", "192.0.2.53"
POD6, SERVER6 = "100::2", "2001:db8::53"


@pytest.fixture
async def links(host: Namespace) -> AsyncIterator[KernelLinks]:  # noqa: ARG001 - stand in it
    links = KernelLinks()
    yield links
    links.close()


def there(host: Namespace) -> bool:
    return LINK in host.run(["ip", "-o", "link"]).stdout


@pytest.fixture
async def path(links: KernelLinks, bed_dir: Path) -> AsyncIterator[Path]:
    path = bed_dir / "dns.netns"
    yield path
    await links.remove_name_space(path)


def number(host: Namespace) -> str:
    """Return the index of the link, which another link of that name would not have."""
    return host.run(["ip", "-o", "link", "show", LINK]).stdout.partition(":")[0]


@pytest.mark.parametrize(("pod", "server"), [(POD, SERVER), (POD6, SERVER6)], ids=["v4", "v6"])
async def test_it_answers_under_any_address(
    links: KernelLinks, host: Namespace, path: Path, pod: str, server: str
) -> None:
    space = await links.create_name_space(LINK, path, tx_off=True)
    try:
        # the host's end plays the switch: its flows set the MACs
        host.run(["sysctl", "-q", "-w", f"net.ipv6.conf.{LINK}.disable_ipv6=0"])
        for words in (
            ["link", "set", LINK, "address", NAME_MAC],
            ["address", "add", pod, "dev", LINK, *(["nodad"] if ":" in pod else [])],
            ["route", "add", server, "dev", LINK, "src", pod],
            ["neighbour", "add", server, "dev", LINK, "lladdr", NAME_MAC],
        ):
            host.run(["ip", *words])
        with host.call(lambda: socket.create_connection((server, 53), timeout=WITHIN)) as asker:
            accepted = eventually(lambda: _accepted(space.listeners), "it is accepted")
            assert accepted is not None
            with accepted:
                assert (accepted.getpeername()[0], accepted.getsockname()[:2]) == (
                    pod,
                    (server, 53),
                )
                accepted.sendall(b"answer")
                assert asker.recv(100) == b"answer"
    finally:
        space.close()


def _accepted(listeners: Iterable[socket.socket]) -> socket.socket | None:
    for listener in listeners:
        with suppress(BlockingIOError):
            return listener.accept()[0]
    return None


async def test_the_next_agent_goes_on_with_its_link(
    links: KernelLinks, host: Namespace, path: Path
) -> None:
    assert await links.reopen_name_space(LINK, path) is None
    (await links.create_name_space(LINK, path, tx_off=True)).close()
    former = number(host)
    reopened = await links.reopen_name_space(LINK, path)
    assert reopened is not None
    reopened.close()
    assert number(host) == former
    await links.remove_name_space(path)
    eventually(lambda: not there(host), "the link is gone")


async def test_one_without_its_link_is_made_anew(
    links: KernelLinks, host: Namespace, path: Path
) -> None:
    (await links.create_name_space(LINK, path, tx_off=False)).close()
    host.run(["ip", "link", "set", LINK, "down"])
    assert await links.reopen_name_space(LINK, path) is None
    host.run(["ip", "link", "delete", LINK])
    assert await links.reopen_name_space(LINK, path) is None
    (await links.create_name_space(LINK, path, tx_off=False)).close()
    reopened = await links.reopen_name_space(LINK, path)
    assert reopened is not None
    reopened.close()


async def test_a_file_without_its_mount_is_used_again(
    links: KernelLinks,
    host: Namespace,
    path: Path,
) -> None:
    host.run(["touch", path])
    assert await links.reopen_name_space(LINK, path) is None
    (await links.create_name_space(LINK, path, tx_off=False)).close()
    with pytest.raises(HostError, match="below"):
        await links.create_name_space(LINK, path / "below", tx_off=False)


async def test_a_socket_of_a_pod(links: KernelLinks, janitor: Janitor) -> None:
    pod = Namespace(fresh_name("pod"), keeper=janitor).create()
    try:
        with await links.pod_socket(str(pod.path), 63, 4) as made:
            assert made.getsockopt(socket.SOL_IP, socket.IP_TOS) == 63 << 2
            made.bind(("127.0.0.1", 53))  # free in the pod's namespace, whoever serves the host's
        with await links.pod_socket(str(pod.path), 63, 6) as made:
            assert made.family == socket.AF_INET6
            assert made.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) == 63 << 2
    finally:
        pod.delete()
    with pytest.raises(HostError):
        await links.pod_socket(str(pod.path), 63, 4)
