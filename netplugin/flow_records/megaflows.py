"""Reads how much each direction of each connection has sent, from a dump of the datapath's flows.

In comes the text of `dpctl/dump-flows --names`; out come counters by `MegaflowWay`. Flows that
stand for many connections at once, because the datapath did not have to tell them apart, are passed
over.
Addresses stay text: most ways have been there in the dump before. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ofnet.openflow import oxm

COMMAND: Final = ("dpctl/dump-flows", "--names")

_WITH_PORTS: Final = frozenset({oxm.PROTO_TCP, oxm.PROTO_UDP, oxm.PROTO_SCTP})
_FLOW: Final = re.compile(
    r"recirc_id\((\w+)\).*?in_port\(([^)]*)\).*?,ipv[46]\(src=([^,/)]+),dst=([^,/)]+),"
    r"(?:[^)]*?,)?proto=(\d+)(?:,[^)]*)?\)"
    # what the kernel has and Open vSwitch has no name for comes before the ports: `key32`, which
    # are the extension headers of IPv6
    r"(?:(?:,\w+\([^()]*\))*?,(?:tcp|udp|sctp)\(src=(\d+),dst=(\d+)\))?"
    r".*? packets:(\d+), bytes:(\d+), used:([\d.]+)?"
)
_TUNNEL: Final = re.compile(r"tun_id=(0x[0-9a-f]+)")
_VLAN: Final = re.compile(r"[ ,]vlan\(vid=(\d+)")
_NEIGHBOURS: Final = re.compile(r"icmpv6\(type=13[56][,)]")
"""Questions for MACs by IPv6, and answers: no connection, as ARP is none."""
_REPORT: Final = re.compile(
    r"in_port\(([^)]*)\).*? packets:(\d+), bytes:.*[(,]rule_cookie=(0x[0-9a-f]+)"
)
_IP: Final = ",ipv"
_FIRST_STAGE: Final = "0"


class MegaflowWay(NamedTuple):
    """One direction of a connection, as it comes into the switch; ports are 0 without any.

    `port` is the name of the port that it comes by. `tunnel` is its tunnel id, `vlan` its tag, both
    0 for none.
    """

    port: str
    tunnel: int
    vlan: int
    protocol: int
    source: str
    source_port: int
    destination: str
    destination_port: int


class Count(NamedTuple):
    """Packets and bytes of a way at one stage, and the seconds since the last of them."""

    packets: int
    bytes: int
    idle: float


Stages = Mapping[str, Count]
"""By the stage at which packets were counted: "0" as they came in, others after translations."""


def ways(dump: str) -> dict[MegaflowWay, dict[str, Count]]:
    """Return the counters of each way that has datapath flows of its own."""
    found: dict[MegaflowWay, dict[str, Count]] = {}
    for line in dump.splitlines():
        read = _FLOW.search(line)
        if read is not None:
            _add(found, line, read)
    return found


class Reporting(NamedTuple):
    """A datapath flow that reports packets to the agent, for a flow of OpenFlow.

    `port` is the name of the port that they come by, `cookie` that of the flow of OpenFlow.
    """

    port: str
    cookie: int
    packets: int


def reports(dump: str) -> dict[str, Reporting]:
    """Return the datapath flows that report IP packets, by the text of what they match."""
    found = {}
    for line in dump.splitlines():
        read = _REPORT.search(line) if _IP in line else None
        if read is not None:
            match = line[: read.start(2)]
            found[match] = Reporting(read[1], int(read[3], 16), int(read[2]))
    return found


def comes_in(stages: Stages) -> bool:
    """Return whether packets were counted as they came in, before any translation."""
    return _FIRST_STAGE in stages


def _add(found: dict[MegaflowWay, dict[str, Count]], line: str, read: re.Match[str]) -> None:
    stage, port, source, destination, protocol, sport, dport, packets, size, used = read.groups()
    number = int(protocol)
    if sport is None and number in _WITH_PORTS:
        return
    if number == oxm.PROTO_ICMP6 and _NEIGHBOURS.search(line) is not None:
        return
    tunnel = _TUNNEL.search(line) if "tunnel(" in line else None
    vlan = _VLAN.search(line) if "vlan(" in line else None
    way = MegaflowWay(
        port=port,
        tunnel=int(tunnel[1], 16) if tunnel is not None else 0,
        vlan=int(vlan[1]) if vlan is not None else 0,
        protocol=number,
        source=source,
        source_port=int(sport or 0),
        destination=destination,
        destination_port=int(dport or 0),
    )
    count = Count(int(packets), int(size), float(used or 0))
    stages = found.setdefault(way, {})
    before = stages.get(stage)
    stages[stage] = count if before is None else _sum(before, count)


def _sum(one: Count, other: Count) -> Count:
    return Count(one.packets + other.packets, one.bytes + other.bytes, min(one.idle, other.idle))


class Passed(NamedTuple):
    """What a way has sent since the dump before; `entered` as `comes_in` has it."""

    way: MegaflowWay
    packets: int
    bytes: int
    idle: float
    entered: bool


class Tally:
    """Turns counters that grow, begin anew and vanish into what passed between two dumps."""

    # The packet that makes a datapath flow is no part of its counters: the switch forwards it
    # itself. It is added here: a SYN as Linux sends it, or as long as the others of its way are.
    # The stages of a way count the same packets, some of them fewer: the greatest one is right.

    def __init__(self) -> None:
        self._before: Mapping[MegaflowWay, Stages] = {}

    def take(self, found: Mapping[MegaflowWay, Stages]) -> Iterator[Passed]:
        """Yield what passed since the last dump, for each way of this one."""
        before, self._before = self._before, found
        for way, stages in found.items():
            old = before.get(way)
            if old is None:
                count = max(stages.values())
                packets, size = count.packets + 1, count.bytes + _first(way, count)
            else:
                grown = [_growth(old.get(stage), count) for stage, count in stages.items()]
                packets, size = max(grown)
            idle = min(count.idle for count in stages.values())
            yield Passed(way, packets, size, idle, comes_in(stages))


_SYN4: Final = 74
_SYN6: Final = 94


def _first(way: MegaflowWay, count: Count) -> int:
    if way.protocol == oxm.PROTO_TCP:
        return _SYN6 if ":" in way.source else _SYN4
    return count.bytes // count.packets if count.packets else 0


def _growth(before: Count | None, now: Count) -> tuple[int, int]:
    # A flow that was made anew counts from 0.
    if before is None or now.packets < before.packets or now.bytes < before.bytes:
        return now.packets, now.bytes
    return now.packets - before.packets, now.bytes - before.bytes
