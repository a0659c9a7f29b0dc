"""200 NetworkPolicies of Kubernetes over 1 000 pods: from the API's objects to flows in the switch.

A real Open vSwitch; no agent around it. The pods are in 20 namespaces, on this host 100 of them, or
all. Each policy selects a tenth of its namespace's pods and allows some peers at some ports. What
is timed is all that an agent does with them: resolve, make flows, encode, send, wait for the
acknowledgement. The reference is `ovs-ofctl --bundle add-flows` with the same flows. Flows are
counted beside those that the same rules would need without conjunctive matches.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from bench.flows import BRIDGE, connected, install_by_ofctl
from bench.table import Row, show
from daemons.collector import tune_garbage_collector
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from netplugin.world.kubernetes.rules import PodAddress, PolicyPod
from ofnet.changes import EVERYTHING, ObjectKind
from ofnet.channel.switch import Switch
from ofnet.desired import Desired
from ofnet.diff import FlowStamp, difference
from ofnet.flows import AnyFlow
from ofnet.world import Bridge, PolicyEntry
from tests.bed.netns import Namespace, fresh_name
from tests.bed.ovs import OvsHost
from tests.unit.ofnet.worlds import world

PODS, NAMESPACES, POLICIES = 1_000, 20, 200
HERE = (100, PODS)
ROUNDS = 3
VRF = 1
OWN = (ObjectKind.POLICY_ENTRY, ObjectKind.POLICY_SUBJECT)


def rows() -> Iterable[Row]:
    """Measure; needs root and Open vSwitch."""
    tune_garbage_collector()  # as the agent does
    namespace = Namespace(fresh_name("bench")).create()
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        ovs = OvsHost(namespace, Path(directory))
        try:
            ovs.start()
            for here in HERE:
                yield from asyncio.run(_measure(ovs, here))
        finally:
            ovs.kill()
            namespace.delete()


async def _measure(ovs: OvsHost, here: int) -> list[Row]:
    async with connected(ovs) as switch:
        policies = [*_policies()]
        times: list[float] = []
        worked = time.process_time()
        known, flows = KubePolicies(), list[AnyFlow]()
        for _ in range(ROUNDS):
            known = _inventory(here)
            began = time.perf_counter()
            for policy in policies:
                known.put(NETWORK_POLICIES, policy)
                await asyncio.sleep(0)  # as the agent does: the switch's probes are answered
            flows = [one for one in _desired(known).held.values() if one.owner in OWN]
            await switch.apply(flows, [])
            times.append(time.perf_counter() - began)
            ovs.ofctl("del-flows", BRIDGE)
        worked = (time.process_time() - worked) / ROUNDS
        shown = [flow for flow in _desired(known).flows.values() if flow.owner in OWN]
        theirs = statistics.median(install_by_ofctl(ovs, shown) for _ in range(ROUNDS))
        changed = await _one_pod_more(switch, known)
    ours = statistics.median(times)
    note = f"{POLICIES} policies, {PODS} pods, {here} of them here; median of {ROUNDS}"
    return [
        Row(
            what=f"network policies to flows, {here} pods here",
            ours=ours * 1000,
            unit="ms",
            reference=theirs * 1000,
            ratio=theirs / ours,
            note=f"{note}, {worked * 1000:.0f} ms of processor time; "
            "reference: ovs-ofctl add-flows of the same flows, not made first",
        ),
        Row(
            what=f"flows of network policies, {here} pods here",
            ours=len(flows),
            unit="flows",
            reference=_crossed(known.entries.values()),
            ratio=_crossed(known.entries.values()) / len(flows),
            note="reference: a flow for each subject, peer and port of each rule",
        ),
        Row(
            what=f"a pod more, to flows, {here} pods here",
            ours=changed * 1000,
            unit="ms",
            note=f"{note}; a pod that policies select and name",
        ),
    ]


async def _one_pod_more(switch: Switch, known: KubePolicies) -> float:
    """Return the seconds from a new pod of this host to its flows."""
    desired = _desired(known)
    await switch.apply(list(desired.held.values()), [])
    before = [FlowStamp(flow.table, flow.cookie) for flow in desired.held.values()]
    began = time.perf_counter()
    known.put_pod(_pod(PODS, local=True))
    desired.update(_world(known), EVERYTHING)
    wanted = difference(desired.held.values(), before)
    await switch.apply(wanted.add, wanted.delete)
    return time.perf_counter() - began


def _desired(known: KubePolicies) -> Desired:
    desired = Desired(Bridge.VXLAN)
    desired.update(_world(known), EVERYTHING)
    return desired


def _world(known: KubePolicies) -> Any:
    return replace(world(), policy_entries=known.entries, policy_subjects=known.subjects)


def _crossed(entries: Iterable[PolicyEntry]) -> int:
    """Return how many flows the conjunctions stand for: the products of their clauses' sizes."""
    sizes: dict[int, dict[int, int]] = {}
    others = 0
    for entry in entries:
        others += entry.verdict is not None and not entry.match.conjunction
        for conjunction, clause, _ in entry.memberships:
            clauses = sizes.setdefault(conjunction, {})
            clauses[clause] = clauses.get(clause, 0) + 1
    return others + sum(_product(clauses.values()) for clauses in sizes.values())


def _product(sizes: Iterable[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def _inventory(here: int) -> KubePolicies:
    known = KubePolicies()
    for number in range(NAMESPACES):
        known.put_namespace(f"n{number}", {"tier": f"t{number % 4}"})
    for number in range(PODS):
        known.put_pod(_pod(number, local=number < here))
    return known


def _pod(number: int, *, local: bool) -> PolicyPod:
    within = number // NAMESPACES
    return PolicyPod(
        namespace=f"n{number % NAMESPACES}",
        name=f"p{number}",
        labels={"app": f"a{within % 10}", "role": f"r{within % 3}"},
        addresses=(PodAddress(VRF, IPv4Address("10.1.0.0") + number + 1),),
        local=local,
        ports={"web": (6, 8080 + within % 2)},
    )


def _policies() -> Iterator[dict[str, Any]]:
    """Yield policies of the kinds that clusters have: by pods, by namespaces, by addresses."""
    for number in range(POLICIES):
        app = number // NAMESPACES
        tier = {"namespaceSelector": {"matchLabels": {"tier": f"t{number % 4}"}}}
        role = {"podSelector": {"matchLabels": {"role": f"r{number % 3}"}}}
        block = {"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.7.0/24"]}}
        spec = {
            "podSelector": {"matchLabels": {"app": f"a{app}"}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [role], "ports": [{"port": "web"}]},
                {"from": [{**tier, **role}, block], "ports": [{"port": 443}, {"port": 80}]},
            ],
            "egress": [
                {"to": [role], "ports": [{"port": 5000, "endPort": 5999}]},
                {"to": [tier], "ports": [{"protocol": "UDP", "port": 53}]},
            ],
        }
        meta = {"name": f"policy{number}", "namespace": f"n{number % NAMESPACES}"}
        yield {"metadata": meta, "spec": spec}


if __name__ == "__main__":
    show(rows())
