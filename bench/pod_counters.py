"""What it costs to read the counters of pods' ports: from the kernel, and from Open vSwitch.

A real Open vSwitch with 200 ports in its userspace datapath, whose other ends are in a namespace of
their own. Each way is asked a hundred times; what counts is the processor time of this process, of
ovs-vswitchd, which has one thread for this and for the changes that ADDs wait for, and of
ovsdb-server. The last row is of a client that has the database tell it of all changes, every five
seconds, while each port carries something.
"""

import asyncio
import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.table import Row
from netplugin.kernel.links import link_counters
from netplugin.ovsdb.control_socket import ControlSocket
from netplugin.ovsdb.replica import DATABASE
from netplugin.world.bridges.port_names import POD_LINKS, switch_name
from ofnet.channel import wire
from ofnet.world import Bridge
from tests.bed.hosts import Fabric, Host
from tests.bed.netns import Namespace, fresh_name
from tests.bed.ovs import SCHEMA

PORTS: Final = 200
ASKED: Final = 100
SETTLED: Final = 10.0
"""Seconds until ovs-vswitchd has done all that new ports give it to do."""
WATCHED: Final = 20.0
PERIOD: Final = 5.0
"""Seconds after which ovs-vswitchd writes its statistics into the database."""

_PORT: Final = re.compile(r"port \d+: (\S+).*?RX packets:(\d+).*?RX bytes:(\d+)", re.DOTALL)
_ALL_PORTS: Final = struct.pack(">I4x", 0xFFFFFFFF)
_PORT_STATS, _REPLY, _ENTRY = 4, 19, 112
_WATCH: Final = """
import resource, sys, time
sys.modules["eventlet"] = None
from ovs.db import idl
import ovs.poller

helper = idl.SchemaHelper(sys.argv[2])
helper.register_columns("Interface", ["name", "statistics"])
client = idl.Idl(sys.argv[1], helper)
begun = None
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    client.run()
    if begun is None and client.has_ever_connected():
        begun = time.process_time(), time.monotonic()
    poller = ovs.poller.Poller()
    client.wait(poller)
    poller.timer_wait(200)
    poller.block()
print((time.process_time() - begun[0]) / (time.monotonic() - begun[1]))
"""


def rows() -> Iterable[Row]:
    """Measure each way on one Open vSwitch."""
    with (
        tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory,
        _host(Path(directory)) as (host, pods),
    ):
        yield from _measured(host, pods)


@contextmanager
def _host(directory: Path) -> Iterator[tuple[Host, Namespace]]:
    """Have a host whose switch has ports, and the namespace of their other ends."""
    fabric = Fabric(fresh_name("fabric")).start()
    host, pods = Host(1, fresh_name("h1"), directory / "h1"), Namespace(fresh_name("pods")).create()
    try:
        host.start(fabric)
        bridge = ["--", "set", "bridge", Bridge.VXLAN, "datapath_type=netdev"]
        host.ovs.vsctl("add-br", Bridge.VXLAN, *bridge, "protocols=OpenFlow13")
        made = "".join(
            f"link add {switch_name(one)} up type veth peer p{one} netns {pods.name}\n"
            for one in range(1, PORTS + 1)
        )
        subprocess.run(
            [*host.namespace.enter, "ip", "-batch", "-"], input=made.encode(), check=True
        )
        up = "".join(f"link set p{one} up\n" for one in range(1, PORTS + 1))
        subprocess.run([*pods.enter, "ip", "-batch", "-"], input=up.encode(), check=True)
        ports = (["--", "add-port", Bridge.VXLAN, switch_name(n)] for n in range(1, PORTS + 1))
        host.ovs.vsctl(*[word for port in ports for word in port][1:])
        yield host, pods
    finally:
        pods.delete()
        host.stop()
        fabric.stop()


def _measured(host: Host, pods: Namespace) -> Iterator[Row]:
    time.sleep(SETTLED)
    table = Path(f"/proc/{host.ovs.vswitchd.pid}/net/dev")
    asked = {
        "the kernel's table of links": lambda: len(link_counters.read(POD_LINKS, table)),
        "OpenFlow, one request": _openflow(host),
        "ovsdb, one select": _select(host),
        "ovs-appctl dpctl/show -s": _appctl(host),
    }
    times = {what: _times(host, ask) for what, ask in asked.items()}
    least = sum(times[next(iter(times))])
    for what, (own, switch, database) in times.items():
        whole = own + switch + database
        yield Row(
            what=f"counters of {PORTS} ports: {what}",
            ours=least * 1e3,
            reference=whole * 1e3,
            unit="ms",
            ratio=whole / least,
            note=f"own {own * 1e3:.2f}, ovs-vswitchd {switch * 1e3:.2f}, "
            f"ovsdb-server {database * 1e3:.2f}",
        )
    yield _watched(host, pods)


def _times(host: Host, ask: Callable[[], int]) -> tuple[float, float, float]:
    """Return the processor time of a question, here, of ovs-vswitchd and of ovsdb-server."""
    daemons = (host.ovs.vswitchd, host.ovs.server)
    assert ask() >= PORTS
    before, own = [_used(one.pid) for one in daemons], time.process_time()
    for _ in range(ASKED):
        ask()
    own = time.process_time() - own
    switch, database = (_used(one.pid) - was for one, was in zip(daemons, before, strict=True))
    return own / ASKED, switch / ASKED, database / ASKED


def _used(pid: int) -> float:
    """Return the seconds of processor time of all threads of a process, as the scheduler has it."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9


def _appctl(host: Host) -> Callable[[], int]:
    control, loop = ControlSocket(host.ovs.rundir), asyncio.new_event_loop()

    def ask() -> int:
        shown = loop.run_until_complete(control.call("dpctl/show", "-s"))
        return len(_PORT.findall(shown))

    return ask


def _openflow(host: Host) -> Callable[[], int]:
    door = _connected(host.ovs.rundir / f"{Bridge.VXLAN}.mgmt")
    buffer = bytearray()
    door.sendall(wire.message(wire.HELLO, 1))

    def ask() -> int:
        door.sendall(wire.multipart_request(_PORT_STATS, 2, _ALL_PORTS))
        found = 0
        while True:
            buffer.extend(door.recv(1 << 20))
            for message in wire.frames(buffer):
                if message.type != _REPLY:
                    continue
                found += (len(message.body) - wire.PARTS) // _ENTRY
                if not wire.has_more(message.body, _PORT_STATS):
                    return found

    return ask


def _select(host: Host) -> Callable[[], int]:
    door = _connected(host.ovs.db_socket)
    asked = {"op": "select", "table": "Interface", "where": [], "columns": ["name", "statistics"]}
    text = json.dumps({"id": 1, "method": "transact", "params": [DATABASE, asked]}).encode()

    def ask() -> int:
        door.sendall(text)
        received = b""
        while True:
            received += door.recv(1 << 20)
            try:
                answer = json.loads(received)
            except ValueError:
                continue
            return len([dict(one["statistics"][1]) for one in answer["result"][0]["rows"]])

    return ask


def _watched(host: Host, pods: Namespace) -> Row:
    """Return what a client of the database costs that follows the statistics, in each period."""
    words = [f"unix:{host.ovs.db_socket}", SCHEMA, str(WATCHED)]
    client = subprocess.Popen([sys.executable, "-c", _WATCH, *words], stdout=subprocess.PIPE)
    doors = pods.call(_doors)
    frame = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(46)
    while client.poll() is None:
        for door in doors:
            door.send(frame)
        time.sleep(1)
    assert client.stdout is not None
    own = float(client.stdout.read()) * PERIOD
    return Row(
        what=f"counters of {PORTS} ports: ovsdb, a watch",
        ours=own * 1e3,
        unit="ms",
        note=f"own, each {PERIOD:.0f} s, whether somebody asks or not",
    )


def _doors() -> list[socket.socket]:
    made = []
    for number in range(1, PORTS + 1):
        door = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        door.bind((f"p{number}", 0))
        made.append(door)
    return made


def _connected(path: Path) -> socket.socket:
    door = socket.socket(socket.AF_UNIX)
    door.connect(str(path))
    return door
