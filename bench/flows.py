"""10 000 flows into a real Open vSwitch: ours beside `ovs-ofctl --bundle add-flows`.

In come nothing but the machine; out come rows. Both sides install the same flows in the same
switch, in turns; the median counts.
"""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.table import Row, show
from daemons.collector import tune_garbage_collector
from ofnet.changes import EVERYTHING
from ofnet.channel.switch import Switch
from ofnet.desired import Desired
from ofnet.diff import difference
from ofnet.flows import AnyFlow, Flow
from ofnet.openflow.match import Match
from ofnet.world import Bridge, World
from tests.bed.netns import Namespace, fresh_name
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import listening, until
from tests.unit.ofnet.worlds import remote, world

REMOTE_ENDPOINTS = 4993
ROUNDS = 5
BRIDGE = "bench"


def rows() -> Iterable[Row]:
    """Measure; needs root and Open vSwitch."""
    tune_garbage_collector()  # as the agent does
    namespace = Namespace(fresh_name("bench")).create()
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        ovs = OvsHost(namespace, Path(directory))
        try:
            ovs.start()
            yield from asyncio.run(_measure(ovs))
        finally:
            ovs.kill()
            namespace.delete()


async def _measure(ovs: OvsHost) -> list[Row]:
    async with connected(ovs) as switch:
        return await _rounds(ovs, switch)


@asynccontextmanager
async def connected(ovs: OvsHost) -> AsyncIterator[Switch]:
    """Have a bridge of its own connect to a switch's channel; it is gone afterwards."""
    switch = Switch(BRIDGE)
    await switch.start(listening(ovs))
    ovs.vsctl(
        *("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev"),
        *("fail_mode=secure", "protocols=OpenFlow13,OpenFlow14"),
        *("--", "set-controller", BRIDGE, f"tcp:127.0.0.1:{switch.port}"),
        # what is measured keeps this process from answering probes, for seconds on a busy machine
        *("--", "set", "controller", BRIDGE, "inactivity_probe=0"),
    )
    try:
        await until(lambda: switch.connected, "the switch connects")
        yield switch
    finally:
        await switch.close()
        ovs.vsctl("del-br", BRIDGE)


def install_by_ofctl(ovs: OvsHost, flows: Iterable[Flow]) -> float:
    """Return the seconds in which Open vSwitch's own tool adds flows; they are removed again."""
    script = ovs.rundir / "flows.txt"
    script.write_text("".join(f"cookie={flow.cookie:#x},{_input(flow)}\n" for flow in flows))
    took = _ofctl(ovs, script)
    ovs.ofctl("del-flows", BRIDGE)
    return took


async def _rounds(ovs: OvsHost, switch: Switch) -> list[Row]:
    big = world(there=tuple(remote(number) for number in range(1, REMOTE_ENDPOINTS + 1)))
    flows = _flows(big)
    script = ovs.rundir / "flows.txt"
    script.write_text("".join(f"cookie={flow.cookie:#x},{_input(flow)}\n" for flow in flows))
    packed, made, theirs = [], [], []
    for _ in range(ROUNDS):
        theirs.append(_ofctl(ovs, script))
        _check(ovs, flows)
        packed.append(await _install(switch, lambda: [_anew(flow) for flow in flows]))
        _check(ovs, flows)
        made.append(await _install(switch, lambda: _computed(big)))
        _check(ovs, flows)
    reference = statistics.median(theirs)
    note = f"{len(flows)} flows, one bundle, median of {ROUNDS}"
    return [
        _row("flow install: encode, send, commit acknowledged", packed, reference, 1.3, note),
        _row("flow install: World to commit acknowledged", made, reference, 1.0, note),
    ]


def _row(what: str, ours: list[float], reference: float, target: float, note: str) -> Row:
    figure = statistics.median(ours)
    return Row(
        what=what,
        ours=figure * 1000,
        unit="ms",
        reference=reference * 1000,
        ratio=reference / figure,
        note=f"{note}; target ratio {target}; reference: ovs-ofctl --bundle add-flows",
    )


async def _install(switch: Switch, flows: Callable[[], Sequence[AnyFlow]]) -> float:
    began = time.perf_counter()
    await switch.apply(flows(), [])
    return time.perf_counter() - began


def _ofctl(ovs: OvsHost, script: Path) -> float:
    command = ["ovs-ofctl", "-O", "OpenFlow14", "--bundle", "add-flows", BRIDGE, str(script)]
    began = time.perf_counter()
    subprocess.run(
        [*ovs.namespace.enter, *command], check=True, env={**os.environ, **ovs.environment}
    )
    return time.perf_counter() - began


def _check(ovs: OvsHost, flows: list[Flow]) -> None:
    count = ovs.ofctl("dump-aggregate", BRIDGE)
    if f"flow_count={len(flows)}" not in count:
        raise RuntimeError(f"not all flows are installed: {count}")
    ovs.ofctl("del-flows", BRIDGE)


def _flows(of: World) -> list[Flow]:
    desired = Desired(Bridge.VXLAN)
    desired.update(of, EVERYTHING)
    return list(desired.flows.values())


def _computed(of: World) -> list[AnyFlow]:
    """Compute flows as an agent does that starts, for a switch that has none of them."""
    desired = Desired(Bridge.VXLAN)
    desired.update(of, EVERYTHING)
    return list(difference(desired.held.values(), []).add)


def _anew(flow: Flow) -> Flow:
    """Return an equal flow that has to be encoded again, match and all."""
    match = Match(**dict(flow.match.fields))
    return Flow(flow.owner, flow.table, flow.priority, match, flow.instructions)


def _input(flow: Flow) -> str:
    return str(flow).replace(" actions=", ",actions=")


if __name__ == "__main__":
    show(rows())
