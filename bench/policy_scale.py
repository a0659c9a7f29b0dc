"""Policies of many networks, groups and rules: what one agent and its switch make of them.

A tenant of one, then of 25 networks (500 networks of 20 tenants are as much for an agent of one
tenant, ADR 27), each with 20 groups that share a policy of 50 rules; then one group with a policy
of 10 000 rules. An agent's own process folds the records into Worlds (`netplugin.world`), and an
agent of each bridge (`ofnet.agent`) has a real Open vSwitch realise them: bundle, dump,
comparison. Then rules change one at a time. Pods, tunnels, store and kernel are left out.

Processor times are those of the agent's process and of ovs-vswitchd. Flows are counted beside
those that there would be if each group had flows of its own
(`ofnet.pipelines.features.policy_class`).

With POLICY_SCALE_LARGE=1 an agent has 500 networks instead, which takes minutes.
"""

import asyncio
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvloop

from bench.crowds import HERE, Cluster
from bench.objects import rss
from bench.table import Row, show
from core.ids import GroupName, NetworkName, TenantName
from core.tasks import supervisor
from daemons.collector import tune_garbage_collector
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.channel.switch import Switch
from ofnet.channel.workload import Workload
from ofnet.world import Bridge, FwdMode
from state.intents import Attachment
from state.policy_rules import TCP, UDP, PolicyRule
from state.records import Encap, GroupRecord
from tests.bed.netns import Namespace, fresh_name
from tests.bed.ovs import OvsHost

TENANT: Final = TenantName("tenant0")
PORTS: Final = {Bridge.VXLAN: 6633, Bridge.VLAN: 6634}
CHANGES: Final = 20
COMPARISONS: Final = 3
_TICK: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Size:
    """Groups of each network, and rules of each network's policy."""

    networks: int
    groups: int
    rules: int

    def __str__(self) -> str:
        if self.networks == self.groups == 1:
            return f"a policy of {self.rules} rules"
        return f"{self.networks} x {self.groups} x {self.rules}"


SIZES: Final = (Size(1, 20, 50), Size(25, 20, 50), Size(1, 1, 10_000))
LARGE: Final = (Size(500, 20, 50),)


def rows() -> Iterable[Row]:
    """Measure; needs root and Open vSwitch."""
    for size in LARGE if os.environ.get("POLICY_SCALE_LARGE") else SIZES:
        yield from _measure(size)


def _measure(size: Size) -> Iterator[Row]:
    namespace = Namespace(fresh_name("bench")).create()
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        ovs = OvsHost(namespace, Path(directory))
        try:
            ovs.start()
            for bridge, port in PORTS.items():
                ovs.vsctl(
                    *("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev"),
                    *("fail_mode=secure", "protocols=OpenFlow13,OpenFlow14"),
                    *("--", "set-controller", bridge, f"tcp:127.0.0.1:{port}"),
                    *("--", "set", "controller", bridge, "max_backoff=1000"),
                    "inactivity_probe=10000",
                )
            yield from _of_an_agent(ovs, size)
        finally:
            ovs.kill()
            namespace.delete()


def _of_an_agent(ovs: OvsHost, size: Size) -> Iterator[Row]:
    switch = int((ovs.rundir / "ovs-vswitchd.pid").read_text())
    before, worked = rss(switch), _processor(switch)
    words = [sys.executable, "-m", "bench.policy_scale", *map(str, (switch, *_numbers(size)))]
    command = [*ovs.namespace.enter, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        try:
            if agent.stdout is None:
                raise RuntimeError("the agent has no pipe")
            figures = json.loads(agent.stdout.readline())
        finally:
            agent.kill()
    worked = _processor(switch) - worked
    yield Row(
        what=f"{size}: flows on both bridges",
        ours=figures["flows"],
        unit="flows",
        reference=figures["alone"],
        ratio=figures["alone"] / figures["flows"],
        note=f"{figures['rules']} rules; reference: each group with flows of its own",
    )
    yield Row(
        what=f"{size}: records to flows",
        ours=figures["made"] * 1000,
        unit="ms",
        note="processor time",
    )
    yield Row(
        what=f"{size}: start to switch in sync",
        ours=figures["synced"] * 1000,
        unit="ms",
        note=f"processor time: agent {figures['worked'] * 1000:.0f} ms; "
        f"ovs-vswitchd with all that follows {worked * 1000:.0f} ms; "
        f"connections lost: {figures['lost']}",
    )
    yield Row(
        what=f"{size}: a changed rule",
        ours=figures["change"] * 1000,
        unit="ms",
        note=f"agent's processor time, mean of {CHANGES}; "
        f"{figures['change_took'] * 1000:.1f} ms until acknowledged, median",
    )
    yield Row(
        what=f"{size}: a comparison",
        ours=figures["comparison"] * 1000,
        unit="ms",
        note=f"agent's processor time, mean of {COMPARISONS}, both bridges",
    )
    yield Row(
        what=f"{size}: memory of the agent",
        ours=figures["memory"],
        unit="MiB",
        note=f"without rules {figures['empty']:.0f} MiB; at most {figures['highest']:.0f} MiB",
    )
    yield Row(
        what=f"{size}: memory of ovs-vswitchd",
        ours=figures["switch"],
        unit="MiB",
        note=f"without flows {before:.0f} MiB; at most {figures['switch_highest']:.0f} MiB",
    )


def _processor(pid: int) -> float:
    """Return the processor seconds of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _highest(pid: int) -> float:
    """Return the most memory in MiB that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _numbers(size: Size) -> tuple[int, int, int]:
    return size.networks, size.groups, size.rules


# -- records ---------------------------------------------------------------------------------------


def _records(size: Size) -> Iterator[Any]:
    cluster = Cluster(tenants=1, networks=size.networks, endpoints=0, hosts=1)
    for number in range(size.networks):
        yield cluster.network_record(number)
    ids = iter(range(1, 1 << 15))
    for number in range(size.networks):
        for rule in range(size.rules):
            yield _rule(number, rule)
        for group in range(size.groups):
            name = _group(number, group)
            yield GroupRecord(
                tenant=TENANT,
                name=name,
                network=NetworkName(f"net{number}"),
                group_id=next(ids),
                encap=Encap.VXLAN,
                pkt_tag=number + 1,
                ext_pkt_tag=10_001 + number,
                dscp=0,
                bandwidth="",
                burst=0,
                ip_pool="",
                group_tag="",
            )
            yield Attachment(TENANT, name, (f"policy{number}",))


def _rule(network: int, number: int, priority: int = 10) -> PolicyRule:
    """Return a rule: half of them name a group, a quarter addresses, a quarter deny a protocol."""
    named = number % 2 == 0
    block = (192 << 24) + (168 << 16) + (number % 256 << 8)
    protocol = UDP if number % 4 == 3 else TCP
    return PolicyRule(
        tenant=TENANT,
        policy=f"policy{network}",
        rule_id=str(number),
        direction="in" if number % 8 else "out",
        action="deny" if protocol == UDP else "allow",
        priority=priority,
        protocol=protocol,
        port=1 + number,
        group=_group(network, 0) if named else None,
        source=(block, block + 255) if number % 4 == 1 else None,
    )


def _group(network: int, number: int) -> GroupName:
    return GroupName(f"group{network}x{number}")


# -- an agent --------------------------------------------------------------------------------------


async def _agent(vswitchd: int, size: Size) -> None:
    tune_garbage_collector()
    empty, began, worked = rss(os.getpid()), time.monotonic(), time.process_time()
    builder = WorldBuilder(HERE, FwdMode.ROUTING)
    for record in _records(size):
        builder.put(record)
    builder.set_complete()
    worlds = {bridge: builder.take(bridge)[0] for bridge in Bridge}
    workload = Workload()
    switches = {bridge: Switch(bridge, workload=workload) for bridge in Bridge}
    agents = {b: BridgeAgent(switches[b], b, world) for b, world in worlds.items()}
    made = time.process_time() - worked
    async with supervisor() as sup:
        for bridge, switch in switches.items():
            await switch.start(_listening(PORTS[bridge]))
            sup.supervise(f"bridge {bridge}", agents[bridge].run())
        for agent in agents.values():
            await agent.sync.wait_synced()
        figures: dict[str, float] = {
            "made": made,
            "synced": time.monotonic() - began,
            "worked": time.process_time() - worked,
            "empty": empty,
            "flows": sum(len(agent.desired.held) for agent in agents.values()),
            "rules": sum(len(world.rules) for world in worlds.values()),
            "alone": sum(_alone(agent) for agent in agents.values()),
        }
        figures |= await _changes(builder, agents)
        figures |= await _comparisons(agents)
        figures["memory"] = rss(os.getpid())
        figures["highest"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        figures["switch"], figures["switch_highest"] = rss(vswitchd), _highest(vswitchd)
        figures["lost"] = sum(switch.counters["sessions"] for switch in switches.values()) - 2
        print(json.dumps(figures), flush=True)
        await asyncio.to_thread(sys.stdin.readline)


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    return listener


async def _changes(builder: WorldBuilder, agents: Mapping[Bridge, BridgeAgent]) -> dict[str, float]:
    """Change rules one at a time; return the processor seconds and the seconds of one."""
    took, worked = [], time.process_time()
    for number in range(CHANGES):
        began = time.monotonic()
        builder.put(_rule(0, number, priority=20))
        changed = builder.take_changed()
        await asyncio.gather(*(agents[bridge].update(*one) for bridge, one in changed.items()))
        took.append(time.monotonic() - began)
    return {
        "change": (time.process_time() - worked) / CHANGES,
        "change_took": statistics.median(took),
    }


async def _comparisons(agents: Mapping[Bridge, BridgeAgent]) -> dict[str, float]:
    worked = time.process_time()
    for _ in range(COMPARISONS):
        for agent in agents.values():
            _, difference = await agent.compared()
            if difference:
                raise RuntimeError("the switch differs from what is wanted")
    return {"comparison": (time.process_time() - worked) / COMPARISONS}


# -- what it would be without sharing --------------------------------------------------------------


def _alone(agent: BridgeAgent) -> int:
    """Return how many flows the bridge would have if each group had flows of its own."""
    rules, sharing = agent.world.rules, Counter[int]()
    sharing.update(one.number for one in agent.world.policy_classes.values())
    count = 0
    for key in agent.desired.held:
        owner = agent.desired.owner(key)
        if owner is None or owner.kind is ObjectKind.POLICY_CLASS:
            continue
        rule = rules.get(owner.name) if owner.kind is ObjectKind.RULE else None
        count += sharing[rule.src_class or rule.dst_class] or 1 if rule is not None else 1
    return count


if __name__ == "__main__":
    if len(sys.argv) > 1:
        uvloop.run(_agent(int(sys.argv[1]), Size(*map(int, sys.argv[2:]))))
    else:
        show(rows())
