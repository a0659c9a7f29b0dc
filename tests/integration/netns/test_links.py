"""Links between two real namespaces: one stands for the host, one for the pod."""

import asyncio
import ctypes
import errno
import os
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    ip_address,
)
from pathlib import Path
from typing import Any

import pytest

from core.errors import HostError
from netplugin.kernel.links import host_links, pod_places
from netplugin.kernel.links.host_links import Nic
from netplugin.kernel.links.pod_links import PodLink
from netplugin.kernel.links.pod_places import PodPlace
from netplugin.kernel.netlink.requests import Address, Interface
from netplugin.kernel.netns import KernelLinks
from tests.bed.janitor import Janitor
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import WITHIN, eventually
from tests.integration.netns.links import shown

pytestmark = pytest.mark.ovs

MAC = "02:02:0a:01:01:05"
V4 = IPv4Interface("10.1.1.5/24")
V6 = IPv6Interface("2001:db8::5/64")
GATEWAYS = [ip_address("10.1.1.1"), ip_address("2001:db8::1")]


@pytest.fixture
def pod(janitor: Janitor) -> Iterator[Namespace]:
    namespace = Namespace(fresh_name("pod"), keeper=janitor)
    subprocess.run(["ip", "netns", "add", namespace.name], check=True)
    yield namespace
    namespace.delete()


@pytest.fixture
async def links(host: Namespace) -> AsyncIterator[KernelLinks]:  # noqa: ARG001 - stand in it
    links = KernelLinks()
    yield links
    links.close()


def spec(pod: Namespace, number: int = 1, **rest: Any) -> PodLink:
    words: dict[str, Any] = {"ifname": "eth0", "netns_path": str(pod.path), "mtu": 1450}
    return PodLink(host_name=f"vvport{number}", **(words | rest))


@pytest.mark.parametrize(
    ("limit", "bucket"),
    [
        ({"rate": 10_000, "burst": 800}, "rate 10Mbit burst 100000b"),
        ({"rate": 10_000}, "rate 10Mbit burst 1000000b"),
        # jumbo frames must fit in, of which the kernel may round off a byte
        ({"rate": 64, "burst": 1}, r"rate 64Kbit burst 1846[6-8]b"),
    ],
)
async def test_what_a_pod_receives_is_limited(
    links: KernelLinks, host: Namespace, pod: Namespace, limit: dict[str, int], bucket: str
) -> None:
    await links.add_pod_link(spec(pod, **limit))
    found = host.run(["tc", "qdisc", "show", "dev", "vvport1"]).stdout
    assert "tbf" in found
    assert re.search(bucket, found)
    asked = {"rate": 0, "burst": 0} | limit
    assert await links.receives_at_most("vvport1", **asked)
    assert not await links.receives_at_most("vvport1", asked["rate"] + 8, asked["burst"])
    assert not await links.receives_at_most("vvport1", asked["rate"], 900)


@pytest.mark.parametrize("rate", [1, 999, 123_457, 40_000_000, 10**9])
async def test_any_limit_is_recognised(links: KernelLinks, pod: Namespace, rate: int) -> None:
    await links.add_pod_link(spec(pod, rate=rate))
    assert await links.receives_at_most("vvport1", rate, 0)


async def test_a_link_without_its_limit(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    assert not await links.receives_at_most("vvport1", 10_000, 0)
    await links.add_pod_link(spec(pod, rate=10_000))
    host.run(["tc", "qdisc", "del", "dev", "vvport1", "root"])
    assert not await links.receives_at_most("vvport1", 10_000, 0)


async def test_a_pod_gets_its_interface(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    await links.add_pod_link(spec(pod))
    await links.configure_pod(str(pod.path), "eth0", MAC, [V4, V6], GATEWAYS)

    assert not {link["ifname"] for link in shown(host, "link", "show")} & {"eth0", "vport1"}
    (outer,) = shown(host, "link", "show", "vvport1")
    assert "UP" in outer["flags"]
    assert outer["mtu"] == 1450
    (inner,) = shown(pod, "addr", "show", "eth0")
    assert "UP" in inner["flags"]
    assert inner["mtu"] == 1450
    assert inner["address"] == MAC
    held = {a["local"]: a["prefixlen"] for a in inner["addr_info"] if a["scope"] == "global"}
    assert held == {"10.1.1.5": 24, "2001:db8::5": 64}
    (loopback,) = shown(pod, "link", "show", "lo")
    assert "UP" in loopback["flags"]
    (route,) = shown(pod, "route", "show", "default")
    assert (route["gateway"], route["dev"]) == ("10.1.1.1", "eth0")
    (route6,) = shown(pod, "-6", "route", "show", "default")
    assert (route6["gateway"], route6["dev"]) == ("2001:db8::1", "eth0")


async def test_what_a_pods_link_has_is_read(links: KernelLinks, pod: Namespace) -> None:
    assert await links.pod_link(str(pod.path), "eth0") is None
    await links.add_pod_link(spec(pod))
    before = await links.pod_link(str(pod.path), "eth0")
    assert before is not None
    assert not before.up
    await links.configure_pod(str(pod.path), "eth0", MAC, [V4, V6], GATEWAYS)
    found = await links.pod_link(str(pod.path), "eth0")
    assert found is not None
    assert (found.up, found.mac) == (True, MAC)
    assert {V4, V6} <= found.addresses
    assert found.gateways == set(GATEWAYS)
    assert {V4.network, V6.network} <= found.routes
    pod.run(["ip", "route", "del", "default"])
    less = await links.pod_link(str(pod.path), "eth0")
    assert less is not None
    assert less.gateways == {GATEWAYS[1]}
    with pytest.raises(HostError, match="/nowhere"):
        await links.pod_link("/nowhere", "eth0")


async def test_a_link_passes_once_its_other_end_is_up(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    with pytest.raises(HostError, match="link vvport1: No such device"):
        await links.passing("vvport1")
    await links.add_pod_link(spec(pod))
    with pytest.raises(HostError, match="vvport1 has no carrier"):
        await links.passing("vvport1", 0.1)
    await links.configure_pod(str(pod.path), "eth0", MAC, [V4], [])
    await links.passing("vvport1")
    (outer,) = shown(host, "link", "show", "vvport1")
    assert outer["operstate"] == "UP"


async def test_the_host_is_no_neighbour_of_its_pod(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    await links.add_pod_link(spec(pod))
    await links.configure_pod(str(pod.path), "eth0", MAC, [V4, V6], GATEWAYS)
    await links.passing("vvport1")  # a link-local address would come with the carrier
    (outer,) = shown(host, "addr", "show", "vvport1")
    assert "LOWER_UP" in outer["flags"]
    assert outer["addr_info"] == []
    (inner,) = shown(pod, "addr", "show", "eth0")
    assert [a["local"] for a in inner["addr_info"] if a["scope"] == "link"] != []


async def test_the_ipv6_address_works_at_once(links: KernelLinks, pod: Namespace) -> None:
    await links.add_pod_link(spec(pod))
    await links.configure_pod(str(pod.path), "eth0", MAC, [V4, V6], [])

    def bind() -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind((str(V6.ip), 0))

    pod.call(bind)


async def test_ipv6_switched_off_in_the_pod_is_switched_on(
    links: KernelLinks, pod: Namespace
) -> None:
    for where in ("all", "default"):
        pod.run(["sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{where}/disable_ipv6"])
    await links.add_pod_link(spec(pod))
    await links.configure_pod(str(pod.path), "eth0", MAC, [V6], GATEWAYS[1:])
    assert shown(pod, "-6", "route", "show", "default")


async def test_configuring_twice_changes_nothing(links: KernelLinks, pod: Namespace) -> None:
    await links.add_pod_link(spec(pod))
    for _ in range(2):
        await links.configure_pod(str(pod.path), "eth0", MAC, [V4, V6], GATEWAYS)
    (inner,) = shown(pod, "addr", "show", "eth0")
    assert len([a for a in inner["addr_info"] if a["scope"] == "global"]) == 2


async def test_a_gateway_outside_the_subnet_is_reached_on_link(
    links: KernelLinks, pod: Namespace
) -> None:
    await links.add_pod_link(spec(pod))
    await links.configure_pod(str(pod.path), "eth0", MAC, [V4], [ip_address("10.9.9.1")])
    (route,) = shown(pod, "route", "show", "default")
    assert route["gateway"] == "10.9.9.1"
    assert "onlink" in route["flags"]


@pytest.mark.parametrize("tx_off", [True, False])
async def test_checksums_are_off_when_asked(
    links: KernelLinks, pod: Namespace, tx_off: bool
) -> None:
    await links.add_pod_link(spec(pod, tx_off=tx_off))

    def transmit_checksumming() -> bool:
        import fcntl
        import struct

        value = ctypes.create_string_buffer(struct.pack("II", 0x16, 0))
        request = struct.pack("16sP16x", b"eth0", ctypes.addressof(value))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
            fcntl.ioctl(door, 0x8946, request)
        return bool(struct.unpack("II", value.raw[:8])[1])

    assert pod.call(transmit_checksumming) is not tx_off


async def test_a_stale_host_link_makes_way(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    host.run(["ip", "link", "add", "vvport1", "type", "veth", "peer", "name", "old0"])
    await links.add_pod_link(spec(pod))
    assert await links.links() == {"lo", "vvport1"}
    assert shown(pod, "link", "show", "eth0")


async def test_names_the_original_gave_to_ends_of_pods_are_in_nobodys_way(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    """The pod's end is born inside, under its final name."""
    others = {"vport1", "vport2", "uport3"}
    for name in others:
        host.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"peer-{name}"])
    before = await links.links()
    await links.add_pod_link(spec(pod))
    assert await links.links() == before | {"vvport1"}
    assert before > others


async def test_an_interface_of_that_name_in_the_pod_is_an_error(
    links: KernelLinks, pod: Namespace
) -> None:
    await links.add_pod_link(spec(pod, 1))
    with pytest.raises(HostError, match=r"vvport2 to eth0 in /run/netns/.*File exists"):
        await links.add_pod_link(spec(pod, 2))
    assert await links.links() == {"lo", "vvport1"}


async def test_a_namespace_that_cannot_be_opened_is_not_taken_for_gone(
    links: KernelLinks, pod: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    assert not await links.netns_alive(f"{pod.path}x")
    monkeypatch.setattr(os, "open", too_many)
    assert await links.netns_alive(f"{pod.path}x")


async def test_a_namespace_that_is_none_is_an_error(
    links: KernelLinks, host: Namespace, pod: Namespace, tmp_path: Path
) -> None:
    plain = tmp_path / "file"
    plain.write_text("")
    wrong = {
        str(tmp_path / "nothing"): "No such file",
        str(plain): "is not a network namespace",
        str(host.path): "the host's own network namespace",
        "/proc/self/ns/mnt": "is not a network namespace",
    }
    for path, reason in wrong.items():
        assert not await links.netns_alive(path)
        with pytest.raises(HostError, match=reason):
            await links.add_pod_link(spec(pod, netns_path=path))
        with pytest.raises(HostError, match=reason):
            await links.configure_pod(path, "eth0", MAC, [V4], [])
    assert await links.netns_alive(str(pod.path))
    assert await links.links() == {"lo"}


async def test_configuring_a_missing_interface_names_it(links: KernelLinks, pod: Namespace) -> None:
    with pytest.raises(HostError, match=r"link eth0 in .*No such device"):
        await links.configure_pod(str(pod.path), "eth0", MAC, [V4], [])


async def test_threads_come_back_from_the_pod(links: KernelLinks, pod: Namespace) -> None:
    await links.add_pod_link(spec(pod))
    await asyncio.gather(
        *(links.configure_pod(str(pod.path), "eth0", MAC, [V4], []) for _ in range(12)),
        *(links.configure_pod(str(pod.path), "nosuch", MAC, [V4], []) for _ in range(12)),
        return_exceptions=True,
    )
    seen = await asyncio.gather(*(links.links() for _ in range(12)))
    assert set(seen) == {frozenset({"lo", "vvport1"})}


async def test_links_are_removed_with_their_other_ends(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    host.run(["ip", "link", "add", "keep0", "type", "veth", "peer", "name", "keep1"])
    for number in range(1, 6):
        await links.add_pod_link(spec(pod, number, ifname=f"eth{number}"))
    await asyncio.gather(
        links.delete_links(["vvport1"]),
        links.delete_links(["vvport2", "vvport3", "never-was"]),
        links.delete_links(["vvport4"]),
        links.delete_links(["vvport4"]),
    )
    assert await links.links() == {"lo", "vvport5", "keep0", "keep1"}
    assert {link["ifname"] for link in shown(pod, "link", "show")} == {"lo", "eth5"}


async def test_a_link_of_a_dead_pod_is_gone_already(links: KernelLinks, pod: Namespace) -> None:
    await links.add_pod_link(spec(pod))
    pod.delete()
    await links.delete_links(["vvport1"])
    assert await links.links() == {"lo"}


async def test_what_cannot_be_removed_is_said(links: KernelLinks, pod: Namespace) -> None:
    await links.add_pod_link(spec(pod))
    with pytest.raises(HostError, match="lo: Operation not supported"):
        await links.delete_links(["lo", "vvport1"])
    assert await links.links() == {"lo"}
    await links.delete_links(["vvport1"])


async def test_who_holds_an_address(links: KernelLinks, host: Namespace) -> None:
    host.run(["ip", "link", "add", "up0", "mtu", "1600", "type", "veth", "peer", "name", "up1"])
    host.run(["ip", "addr", "add", "192.0.2.7/24", "dev", "up0"])
    assert await links.holder(ip_address("192.0.2.7")) == "up0"
    assert (await links.mtus())["up0"] == 1600
    with pytest.raises(HostError, match=r"192\.0\.2\.8"):
        await links.holder(ip_address("192.0.2.8"))


async def test_both_ends_of_a_pods_link_get_another_mtu(
    links: KernelLinks, host: Namespace, pod: Namespace
) -> None:
    await links.add_pod_link(spec(pod))
    assert (await links.mtus())["vvport1"] == 1450
    await links.set_pod_mtu("vvport1", "eth0", str(pod.path), 1400)
    assert (await links.mtus())["vvport1"] == 1400
    for namespace, name in ((host, "vvport1"), (pod, "eth0")):
        assert [link["mtu"] for link in shown(namespace, "link", "show", name)] == [1400]
    with pytest.raises(HostError, match=r"MTU of vvport1 and eth7 in .*: No such device"):
        await links.set_pod_mtu("vvport1", "eth7", str(pod.path), 1300)


async def test_changes_of_links_are_told(links: KernelLinks, host: Namespace) -> None:
    changes = links.changes()
    await anext(changes)
    for command in ("add up0 type veth peer name up1", "set up0 mtu 1400", "del up0"):
        host.run(["ip", "link", *command.split()])
        await asyncio.wait_for(anext(changes), WITHIN)
    host.run(["ip", "address", "add", "192.0.2.7/32", "dev", "lo"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(changes), 0.2)


async def test_a_host_link_is_configured(links: KernelLinks, host: Namespace) -> None:
    host.run(["ip", "link", "add", "contivh0", "type", "veth", "peer", "name", "contivh1"])
    address = IPv4Interface("172.19.255.254/16")
    for _ in range(2):
        await links.configure_host_link("contivh0", "02:02:ac:13:ff:fe", [address])
    (link,) = shown(host, "addr", "show", "contivh0")
    assert link["address"] == "02:02:ac:13:ff:fe"
    assert "UP" in link["flags"]
    assert [a["local"] for a in link["addr_info"] if a["family"] == "inet"] == ["172.19.255.254"]


async def test_kernel_datapath_is_found_or_not(links: KernelLinks) -> None:
    loaded = os.path.exists("/sys/module/openvswitch")  # noqa: ASYNC240, PTH110 - one stat
    assert await links.has_kernel_datapath() is loaded
    assert await asyncio.to_thread(host_links.has_family, "nlctrl")


async def test_a_card_tells_what_of_the_host_is_on_it(links: KernelLinks, host: Namespace) -> None:
    host.run(["ip", "link", "add", "up0", "up", "type", "veth", "peer", "name", "far0"])
    host.run(["ip", "link", "set", "far0", "up"])
    (shown_link,) = shown(host, "link", "show", "up0")
    bare = Nic(name="up0", mac=shown_link["address"])
    assert await links.cards(["up0"]) == (bare,), "link-local addresses do not count"
    host.run(["ip", "address", "add", "192.0.2.5/24", "dev", "up0"])
    host.run(["ip", "address", "add", "2001:db8::5/64", "dev", "up0", "nodad"])
    (held,) = await links.cards(["up0"])
    assert held.addresses == ("192.0.2.5/24", "2001:db8::5/64")
    assert not held.default_route
    with pytest.raises(HostError, match="uplink up9: No such device"):
        await links.cards(["up0", "up9"])


@pytest.mark.parametrize(
    "words",
    [
        ["default", "dev", "up0"],
        ["-6", "default", "dev", "up0"],
        ["default", "nexthop", "dev", "far0", "nexthop", "dev", "up0"],
    ],
)
async def test_a_card_tells_of_the_default_route(
    links: KernelLinks, host: Namespace, words: list[str]
) -> None:
    host.run(["ip", "link", "add", "up0", "up", "type", "veth", "peer", "name", "far0"])
    host.run(["ip", "link", "set", "far0", "up"])
    host.run(["ip", "route", "add", "192.0.2.0/24", "dev", "up0"])
    family = [word for word in words if word == "-6"]
    (before,) = await links.cards(["up0"])
    assert not before.default_route
    host.run(["ip", *family, "route", "add", *(word for word in words if word != "-6")])
    (after,) = await links.cards(["up0"])
    assert after.default_route


async def test_a_link_without_ipv6_has_the_addresses_and_next_hops_of_ipv4(
    links: KernelLinks, host: Namespace
) -> None:
    host.run(["ip", "link", "add", "contivh0", "up", "type", "veth", "peer", "name", "far0"])
    assert await links.has_ipv6("contivh0")
    host.run(["sysctl", "-q", "-w", "net.ipv6.conf.contivh0.disable_ipv6=1"])
    assert not await links.has_ipv6("contivh0")
    mac = "02:02:ac:13:ff:fe"
    held: list[Interface] = [IPv6Interface("fd00::1/64"), IPv4Interface("172.19.255.254/16")]
    await links.configure_host_link("contivh0", mac, held)
    hops: dict[Address, str] = {IPv6Address("fe80::1"): mac, IPv4Address("172.19.255.253"): mac}
    await links.ensure_neighbours("contivh0", hops)
    (neighbour,) = shown(host, "neighbour", "show", "dev", "contivh0")
    assert neighbour["dst"] == "172.19.255.253"


async def test_a_pod_gets_a_route_by_one_of_its_links(
    links: KernelLinks,
    host: Namespace,  # noqa: ARG001 - stand in it
    pod: Namespace,
) -> None:
    await links.add_pod_link(spec(pod))
    await links.configure_pod(str(pod.path), "eth0", MAC, [V4], [])
    for _ in range(2):
        await links.route_pod(str(pod.path), "eth0", IPv4Network("10.96.0.0/12"))
    (way,) = shown(pod, "route", "get", "10.97.1.2")
    assert way["dev"] == "eth0"
    assert "gateway" not in way
    with pytest.raises(HostError, match=r"route to 10\.96\.0\.0/12 by eth9 in .*: No such device"):
        await links.route_pod(str(pod.path), "eth9", IPv4Network("10.96.0.0/12"))


async def test_other_addresses_of_a_link_of_ours_go(links: KernelLinks, host: Namespace) -> None:
    host.run(["ip", "link", "add", "contivh0", "type", "veth", "peer", "name", "contivh1"])
    for address in ("172.19.255.254/16", "172.22.255.254/16"):
        await links.configure_host_link("contivh0", "02:02:ac:13:ff:fe", [IPv4Interface(address)])
        (link,) = shown(host, "-4", "addr", "show", "contivh0")
        assert [f"{a['local']}/{a['prefixlen']}" for a in link["addr_info"]] == [address]
        assert shown(host, "route", "show", "dev", "contivh0") == []


async def test_other_ipv6_addresses_that_were_set_here_go_and_others_stay(
    links: KernelLinks, host: Namespace
) -> None:
    host.run(["ip", "link", "add", "inb01", "type", "veth", "peer", "name", "inb02"])
    host.run(["ip", "address", "add", "fd99::1/64", "dev", "inb01"])
    source = IPv6Address("fd98::1")
    await links.configure_host_link("inb01", MAC, [])
    await links.ensure_source("inb01", source)
    for address in ("fd50::1/64", "fd50::7/64", "fd50::7/48"):
        await links.configure_host_link("inb01", MAC, [IPv6Interface(address)])
        (link,) = shown(host, "-6", "addr", "show", "inb01", "scope", "global")
        held = {f"{a['local']}/{a['prefixlen']}" for a in link["addr_info"]}
        assert held == {address, "fd99::1/64", f"{source}/128"}


async def test_where_the_other_ends_of_links_are(
    links: KernelLinks, host: Namespace, pod: Namespace, janitor: Janitor
) -> None:
    other = Namespace(fresh_name("pod"), keeper=janitor).create()
    try:
        await links.add_pod_link(spec(pod, 1))
        await links.add_pod_link(spec(other, 2, ifname="net7"))
        host.run(["ip", "link", "add", "vvport3", "type", "veth", "peer", "vport3"])
        host.run(["ip", "link", "add", "vvport4", "type", "bridge"])
        names = ["vvport1", "vvport2", "vvport3", "vvport4", "vvport5"]
        assert await links.pod_places(names) == {
            "vvport1": PodPlace(str(pod.path), "eth0", inside=True),
            "vvport2": PodPlace(str(other.path), "net7", inside=True),
            "vvport3": PodPlace("", "", inside=False),
        }
    finally:
        other.delete()


@pytest.fixture
def process(pod: Namespace) -> Iterator[int]:
    """Run a process in the pod, and give its number."""
    sleeper = subprocess.Popen([*pod.enter, "sleep", "60"])
    inode, inside = pod.path.stat().st_ino, Path(f"/proc/{sleeper.pid}/ns/net")
    eventually(lambda: inside.stat().st_ino == inode, "the process is inside")
    yield sleeper.pid
    sleeper.kill()
    sleeper.wait()


async def test_a_namespace_without_a_name_is_found_by_its_process(
    links: KernelLinks, pod: Namespace, process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await links.add_pod_link(spec(pod))
    monkeypatch.setattr(pod_places, "NAMED", ())
    place = (await links.pod_places(["vvport1"]))["vvport1"]
    assert place == PodPlace(f"/proc/{process}/ns/net", "eth0", inside=True)


def test_broadcasts_of_a_subnet_are_the_hosts_whether_its_address_names_them(
    host: Namespace,
) -> None:
    host.run(["ip", "link", "add", "card", "type", "veth", "peer", "name", "far"])
    host.run(["ip", "address", "add", "192.0.2.65/26", "dev", "card"])
    host.run(["ip", "address", "add", "192.0.2.129/32", "dev", "card"])
    host.run(["ip", "address", "add", "192.0.2.200/31", "dev", "card"])
    found = {one for one in host_links.addresses(lambda _name: False) if one.startswith("192.0.2.")}
    assert found == {
        *("192.0.2.65", "192.0.2.64", "192.0.2.127", "192.0.2.129", "192.0.2.200"),
    }
