"""Ten hosts that record made-up flows, until ended: `python -m tests.ui.recording STORE RATE`.

Each has the ring and the route of an agent (`netplugin.flow_records`) at an address of loopback,
and is registered in the store as an agent is. Before the first line of output each ring has what a
minute brings; then so many connections begin each second in all, and end two seconds later.
"""

import asyncio
import random
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from aiohttp import web

from core import keys
from core.ids import HostLabel
from netplugin.flow_records import report
from netplugin.flow_records.ring import Ring
from objdb.api import Change, Put
from objdb.connect import connect, parse_store_url
from state import codec
from state.flow_records import DROPPED, FORWARDED, End, EndNames, FlowRecord
from state.records import HostRecord, ServiceInstance

HOSTS: Final = 10
ENDPOINTS: Final = 10_000
GROUPS: Final = (
    "web",
    "shop",
    "cart",
    "orders",
    "search",
    "mail",
    "cache",
    "db",
    "metrics",
    "auth",
)
PORTS: Final = (80, 443, 5432, 6379, 8080, 9090)
BEFORE: Final = 60
"""Seconds of connections that each ring begins with."""
_LIFE: Final = 2.0
_TICK: Final = 0.1


@dataclass
class Recorder:
    """What the route asks a host's recorder for."""

    ring: Ring = field(default_factory=Ring)
    lost: dict[str, int] = field(default_factory=dict)
    going: deque[FlowRecord] = field(default_factory=deque)

    def begin(self, now: float, dice: random.Random) -> None:
        """Begin a connection between two endpoints of neighbouring groups, or drop one."""
        source = dice.randrange(ENDPOINTS)
        destination = near(source, dice.randrange(ENDPOINTS))
        # of one group in ten, so that some lines of the map have drops and some have none
        dropped = GROUPS[destination % len(GROUPS)] == "db" and dice.random() < 0.2
        number = self.ring.next()
        record = FlowRecord(
            number=number,
            changed=number,
            first=now,
            last=now,
            verdict=DROPPED if dropped else FORWARDED,
            protocol="tcp",
            source=end(source, dice.randrange(32_768, 61_000)),
            destination=end(destination, dice.choice(PORTS)),
            reason="policy" if dropped else "",
            policy="doors" if dropped else "",
            rule="1" if dropped else "",
            because="rule 1 of policy doors" if dropped else "",
            packets=dice.randrange(1, 200),
            bytes=dice.randrange(60, 200_000),
        )
        self.ring.add(record)
        self.going.append(record)

    def finish(self, now: float) -> None:
        """End what began long enough ago."""
        while self.going and self.going[0].first < now - _LIFE:
            record = self.going.popleft()
            record.last = now
            self.ring.end(record)


def near(source: int, destination: int) -> int:
    """Return an endpoint of the same group as the source's, or of one of the next two."""
    group = (source + destination % 3) % len(GROUPS)
    return destination - destination % len(GROUPS) + group


def end(number: int, port: int) -> End:
    """Return an end that is an endpoint."""
    group = GROUPS[number % len(GROUPS)]
    name = f"{group}-{number:05}"
    names = EndNames(
        tenant="default",
        network="front",
        group=group,
        namespace=("shop", "back", "ops")[number % 3],
        pod=name,
        endpoint=f"front.default-{number:012x}",
        container=f"{number:012x}",
        labels={"app": group},
    )
    return End(f"10.1.{number >> 8}.{number & 255}", port, names)


async def run(store: str, rate: int) -> None:
    """Register the hosts and record for ever."""
    recorders = [Recorder() for _ in range(HOSTS)]
    dice = random.Random(1)
    now = datetime.now(UTC).timestamp()
    for at in range(BEFORE * rate):
        recorders[at % HOSTS].begin(now - BEFORE + at / rate, dice)
    runners = [await served(number, one) for number, one in enumerate(recorders)]
    await register(store, [runner.addresses[0] for runner in runners])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    begun, start = 0, time.monotonic()
    while True:
        now = datetime.now(UTC).timestamp()
        while begun < (time.monotonic() - start) * rate:
            recorders[begun % HOSTS].begin(now, dice)
            begun += 1
        for one in recorders:
            one.finish(now)
            one.ring.expire(now)
        await asyncio.sleep(_TICK)


async def served(number: int, recorder: Recorder) -> web.AppRunner:
    """Serve a host's records at its own address of loopback."""
    app = web.Application()
    # the route asks for the ring and for what was lost alone
    app.add_routes(report.routes(cast("Any", recorder), label(number)))
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, f"127.2.0.{number + 1}", 0).start()
    return runner


def label(number: int) -> HostLabel:
    """Return the label of a host."""
    return HostLabel(f"h{number}")


async def register(store: str, addresses: Sequence[tuple[str, int]]) -> None:
    """Write the hosts' records and their agents' registrations."""
    backend = connect(parse_store_url(store))
    try:
        for number, (address, port) in enumerate(addresses):
            host = HostRecord(
                label=label(number), control_ip=address, vtep_ip=address, vxlan_port=4789
            )
            agent = ServiceInstance(
                service=keys.SERVICE_AGENT_REST,
                address=address,
                port=port,
                hostname=label(number),
            )
            puts = (
                Put(keys.host(host.label), codec.encode(host)),
                Put(keys.service(agent.service, address, port), codec.encode(agent)),
            )
            await backend.commit([Change((), puts)])
    finally:
        await backend.close()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], int(sys.argv[2])))
