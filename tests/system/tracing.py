"""Traces beside real packets, and traces of broken clusters. Run by `make trace-check`.

`test_traces_agree`: by the rules of the truth table, in all four modes, a way is open by its trace
exactly if the oracle says so, whom `test_truth_table` holds against real packets; of a sample they
are sent here too, and the rules of every other case log. `test_traces_to_services_agree` compares
traces with connections to a service and to its provider, under policies of Kubernetes and rules
with and without `log`. `test_what_is_broken_is_named`: one thing at a time is taken away from a
cluster that works, and the trace names the host and what it is. TRACE_WAYS and TRACE_BREAKS say how
many.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest

from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from ofnet.tables import mode_of
from ofnet.world import FwdMode
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import WITHIN, eventually
from tests.model.policy_cases import pairwise_cases
from tests.system.echoes import answering, dials
from tests.system.kube_site import api_beside, api_flags
from tests.system.planes import FWD_MODES, NETWORKS, addresses, applied, planes
from tests.system.rest import ask
from tests.system.services import create_service, label
from tests.system.trace import delete_flow
from tests.system.truth_table import (
    ASKED,
    BRIDGES,
    GROUPS,
    RULE_PATH,
    add_pods,
    expected,
    post,
)
from tests.system.ways import Family, Way, Ways

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

PER_CASE = int(os.environ.get("TRACE_WAYS", "100"))
"""Ways of each case that are traced; a tenth of them is sent as well."""
BREAKS = int(os.environ.get("TRACE_BREAKS", "50"))
"""Breaks on each network in each mode."""
ENOUGH = 0.95
AUDITS = ["--audit-interval", "300"]
SERVED, SHUT = 8080, 8081
"""Ports of a provider: the service's, and another."""

SERVICE_PORT = 80
PATIENCE = 0.7
"""Seconds that a connection may take; what is denied takes that long."""

SELECTED = {"podSelector": {"matchLabels": {"app": "web"}}}
KUBE_POLICIES: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "deny": {"podSelector": {}, "policyTypes": ["Ingress"]},
    "far": {
        **SELECTED,
        "ingress": [
            {
                "from": [{"podSelector": {"matchLabels": {"app": "far"}}}],
                "ports": [{"port": SERVED}],
            }
        ],
    },
    "out": {
        "podSelector": {"matchLabels": {"app": "near"}},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [{"port": SHUT}]}],
    },
}
RULES: Mapping[str, Sequence[str]] = {
    "none": (),
    "allow": ("-j", "allow", "-l", "tcp", "-P", str(SERVED)),
    "allow and log": ("-j", "allow", "-l", "tcp", "-P", str(SERVED), "--log"),
    "deny and log": ("-j", "deny", "-l", "tcp", "-P", str(SERVED), "--log"),
    "deny all and log": ("-j", "deny", "--log"),
}
"""Rules for packets into the provider's group."""


@pytest.fixture(scope="module", params=FWD_MODES)
def fwd_mode(request: pytest.FixtureRequest) -> str:
    """Say in which forwarding mode the cluster is."""
    return str(request.param)


@pytest.fixture(scope="module")
def bed(
    fwd_mode: str, bed_dirs: Iterator[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    """Run a cluster of three hosts in a forwarding mode, beside an API server."""
    flags = {"netplugin": [*AUDITS, *api_flags(tmp_path_factory)]}
    with (
        planes(next(bed_dirs), fwd_mode, hosts=3, flags=flags) as bed,
        api_beside(bed),
    ):
        yield bed


def traced(bed: Bed, **asked: object) -> dict[str, Any]:
    answer = ask(bed, "GET", f"/api/v2/trace?{urlencode(asked)}", timeout=WITHIN)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest, bed: Bed) -> Iterator[str]:
    """Say on which network the pods of a test are; delete them after it."""
    yield str(request.param)
    for pod in list(bed.pods):
        bed.delete_pod(pod)
    for group in GROUPS[1:]:
        if ask(bed, "GET", f"/api/v2/endpointGroups/default:{group}-{request.param}").status == 200:
            bed.netctl("group", "rm", f"{group}-{request.param}")


def test_traces_agree(bed: Bed, fwd_mode: str, network: str) -> None:
    pods = add_pods(bed, network)
    mode = mode_of(BRIDGES[network], FwdMode(fwd_mode))
    random = Random(mode)
    wrong: list[str] = []
    count = 0
    cases = [case for case in pairwise_cases() if case.mode is mode]
    for number, case in enumerate(cases):
        address = addresses(pods["db2"])[case.family == "ipv6"]
        rules = case.rules(port=ASKED, group="db", network=network, address=address)
        post(bed, network, rules, log=number % 2 == 0)
        verdicts = expected(case, network, rules, pods)
        some = random.sample(sorted(verdicts), min(PER_CASE, len(verdicts)))
        family: Family = 4 if case.family == "ipv4" else 6
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(partial(_is_open, bed, pods, family), some))
        for way, (is_open, text) in zip(some, found, strict=True):
            if is_open != verdicts[way]:
                wrong.append(f"{case.name}: {way}: {text}")
        count += len(some)
        sent = {way: verdicts[way] for way in some[: PER_CASE // 10]}
        wrong += [f"{case.name}: packets: {one}" for one in Ways(pods, family).wrong(sent)]
        for rule in rules:
            path = RULE_PATH.format(network=network, name=rule.name)
            assert ask(bed, "DELETE", path).status == 200
    print(f"{mode}: {count} traces, {len(wrong)} disagreements")  # noqa: T201 - measured
    assert wrong == []


def _is_open(bed: Bed, pods: Mapping[str, Pod], family: int, way: Way) -> tuple[bool, str]:
    ends = [addresses(pods[name])[family == 6] for name in (way.source, way.target)]
    found = traced(bed, src=ends[0], dst=ends[1], proto=way.protocol, port=way.port)
    text = str(found["verdict"])
    assert found["outcome"] in {"delivered", "dropped"}, text
    # of UDP nobody waits for an answer
    return (text if way.protocol == "udp" else found["outcome"]).startswith("delivered"), text


def test_traces_to_services_agree(bed: Bed, fwd_mode: str, network: str) -> None:
    mode = mode_of(BRIDGES[network], FwdMode(fwd_mode))
    one, two, _ = bed.hosts
    group = f"web-{network}"
    server = bed.add_pod(one, "web", network=network, group=group, labels={"app": "web"})
    clients = [
        bed.add_pod(host, name, network=network, labels={"app": name})
        for host, name in ((one, "near"), (two, "far"))
    ]
    served = create_service(bed, network)
    label(bed, server)
    targets = [(server.address, SERVED), (server.address, SHUT), (served, SERVICE_PORT)]
    ways = [(client, *target) for client in clients for target in targets]
    wrong: list[str] = []
    count = 0
    with ExitStack() as stack:
        for port in (SERVED, SHUT):
            stack.enter_context(answering(server.namespace, "0.0.0.0", port))
        stack.callback(bed.netctl, "service", "rm", "web")
        for (policy, spec), (rule, words) in product(KUBE_POLICIES.items(), RULES.items()):
            name = f"{mode}: policy {policy}, rule {rule}"
            with _in_force(bed, network, spec, words):
                met = eventually_same(partial(_outcomes, bed, ways))
                count += len(ways)
                wrong += [f"{name}: {way}" for way in met]
    print(f"{mode}: {count} connections, {len(wrong)} disagreements")  # noqa: T201 - measured
    assert wrong == []


@contextmanager
def _in_force(
    bed: Bed, network: str, spec: Mapping[str, Any], words: Sequence[str]
) -> Iterator[None]:
    """Have a policy of Kubernetes and a rule in the provider's policy."""
    assert bed.api is not None
    if spec:
        bed.api.put(NETWORK_POLICIES, "default", "tried", spec=dict(spec))
    if words:
        bed.netctl("policy", "rule-add", "-d", "in", *words, f"guard-{network}", "tried")
    applied(bed)
    try:
        yield
    finally:
        if spec:
            bed.api.delete(NETWORK_POLICIES, "default", "tried")
        if words:
            bed.netctl("policy", "rule-rm", f"guard-{network}", "tried")
        applied(bed)


def eventually_same(differing: Callable[[], list[str]]) -> list[str]:
    """Return what differs once nothing is on its way any more: an API server tells no revision."""
    found: list[str] = []

    def same() -> bool:
        found[:] = differing()
        return not found

    with suppress(TimeoutError):
        eventually(same, "traces and connections agree", within=10)
    return found


def _outcomes(bed: Bed, ways: Sequence[tuple[Pod, str, int]]) -> list[str]:
    """Return the ways on which a trace and a connection differ."""

    def differs(way: tuple[Pod, str, int]) -> str:
        client, address, port = way
        is_open = dials(client.namespace, address, port, patience=PATIENCE)
        found = traced(bed, src=client.address, dst=address, proto="tcp", port=port)
        text = str(found["verdict"])
        told = found["outcome"] == "delivered" and "but the answer" not in text
        return "" if told == is_open else f"{client.name} to {address}:{port} {is_open}: {text}"

    with ThreadPoolExecutor(4) as pool:
        return [text for text in pool.map(differs, ways) if text]


Taken = tuple[str, str]
"""The host that a verdict has to name, and what of it."""
Take = Callable[[Bed, dict[str, Pod], Random, ExitStack], Taken]


def test_what_is_broken_is_named(bed: Bed, fwd_mode: str, network: str) -> None:
    pods = add_pods(bed, network)
    mode = mode_of(BRIDGES[network], FwdMode(fwd_mode))
    random = Random(f"broken {mode}")
    missed: list[str] = []
    takes: list[Take] = [a_flow] * 6 + [a_foreign_flow, a_link, an_address, an_agent, a_port]
    takes += [a_route] if network == "vxlan" or fwd_mode == "routing" else []
    restored(bed, pods, "the start")
    for number in range(BREAKS):
        take = takes[number % len(takes)]
        with ExitStack() as undo:
            host, words = take(bed, pods, random, undo)
            verdict = told(bed, pods)
        if f"broken: host {host}: " not in verdict or words not in verdict:
            missed.append(f"{take.__name__} ({host}, {words}): {verdict}")
        restored(bed, pods, f"{take.__name__} ({host}, {words})")
    print(f"{mode}: {BREAKS} breaks, {len(missed)} not named", *missed, sep="\n")  # noqa: T201
    assert len(missed) <= (1 - ENOUGH) * BREAKS


def told(bed: Bed, pods: Mapping[str, Pod]) -> str:
    """Return the verdict about a packet from a pod on the first host to one on the second."""
    return str(traced(bed, src=pods["web1"].address, dst=pods["web2"].address)["verdict"])


def restored(bed: Bed, pods: Mapping[str, Pod], after: str) -> None:
    try:
        eventually(lambda: is_whole(bed, pods), "whole", within=30)
    except TimeoutError as exc:
        raise AssertionError(f"after {after}: {told(bed, pods)}") from exc


def is_whole(bed: Bed, pods: Mapping[str, Pod]) -> bool:
    verdict = told(bed, pods)
    return verdict.startswith("delivered") and "but the answer" not in verdict


def a_flow(bed: Bed, pods: dict[str, Pod], random: Random, undo: ExitStack) -> Taken:
    """Delete a flow that the packet or its answer meets."""
    found = traced(bed, src=pods["web1"].address, dst=pods["web2"].address)
    hop = random.choice([*found["hops"], *found["answer"]])
    step = random.choice(hop["steps"])
    ovs = next(host.ovs for host in bed.hosts if host.label == hop["host"])
    delete_flow(ovs, hop["bridge"], step["flow"], undo)
    return hop["host"], f"the switch lacks flow {step['flow']}"


def a_foreign_flow(bed: Bed, pods: dict[str, Pod], random: Random, undo: ExitStack) -> Taken:
    found = traced(bed, src=pods["web1"].address, dst=pods["web2"].address)
    hop = random.choice(found["hops"])
    table = random.choice([step["table"] for step in hop["steps"]])
    ovs = next(host.ovs for host in bed.hosts if host.label == hop["host"])
    match = f"table={table},priority=9999,ip,nw_dst={pods['web2'].address}"
    ovs.ofctl("add-flow", hop["bridge"], f"{match},actions=drop")
    undo.callback(ovs.ofctl, "--strict", "del-flows", hop["bridge"], match)
    return hop["host"], f"a flow that is not wanted: table={table}, priority=9999"


def _pod(pods: dict[str, Pod], random: Random) -> tuple[Pod, str]:
    number = random.choice("12")
    return pods[f"web{number}"], f"h{number}"


def a_link(_bed: Bed, pods: dict[str, Pod], random: Random, undo: ExitStack) -> Taken:
    pod, host = _pod(pods, random)
    routes = pod.namespace.run(["ip", "route", "show", "default"]).stdout.split("\n")[0]
    routes6 = pod.namespace.run(["ip", "-6", "route", "show", "default"]).stdout.split("\n")[0]
    _, six = addresses(pod)
    pod.namespace.run(["ip", "link", "set", "eth0", "down"])
    if routes6:
        undo.callback(pod.namespace.run, ["ip", "-6", "route", "replace", *_way(routes6)])
    if routes:
        undo.callback(pod.namespace.run, ["ip", "route", "replace", *_way(routes)])
    again = ["ip", "-6", "address", "replace", f"{six}/64", "dev", "eth0", "nodad"]
    undo.callback(pod.namespace.run, again)
    undo.callback(pod.namespace.run, ["ip", "link", "set", "eth0", "up"])
    return host, "link eth0 is down"


def _way(route: str) -> list[str]:
    words = route.split()
    return ["default", "via", words[words.index("via") + 1], "dev", "eth0"]


def an_address(_bed: Bed, pods: dict[str, Pod], random: Random, undo: ExitStack) -> Taken:
    pod, host = _pod(pods, random)
    run = pod.namespace.run
    routes = run(["ip", "route", "show", "default"]).stdout.split("\n")[0]
    run(["ip", "address", "del", f"{pod.address}/24", "dev", "eth0"])
    if routes:
        undo.callback(run, ["ip", "route", "replace", *_way(routes)])
    undo.callback(run, ["ip", "address", "add", f"{pod.address}/24", "dev", "eth0"])
    return host, f"has no address {pod.address}"


def a_route(_bed: Bed, pods: dict[str, Pod], random: Random, undo: ExitStack) -> Taken:
    pod, host = _pod(pods, random)
    routes = pod.namespace.run(["ip", "route", "show", "default"]).stdout.split("\n")[0]
    pod.namespace.run(["ip", "route", "del", "default"])
    undo.callback(pod.namespace.run, ["ip", "route", "replace", *_way(routes)])
    return host, "has no default route by"


def an_agent(bed: Bed, _pods: dict[str, Pod], random: Random, undo: ExitStack) -> Taken:
    number = random.choice((0, 1))
    bed.agents[number].pause()
    undo.callback(bed.agents[number].resume)
    return f"h{number + 1}", "its agent does not answer"


def a_port(bed: Bed, pods: dict[str, Pod], random: Random, undo: ExitStack) -> Taken:
    """Have a switch send nothing by its tunnel or uplink."""
    host = random.choice(bed.hosts[:2])  # those that the packet passes
    found = traced(bed, src=pods["web1"].address, dst=pods["web2"].address)
    bridge = found["hops"][0]["bridge"]
    names = host.ovs.vsctl("list-ports", bridge).split()
    way = next(name for name in names if name.startswith(("vxif", "up")))
    number = host.ovs.vsctl("get", "interface", way, "ofport").strip()
    host.ovs.ofctl("mod-port", bridge, number, "no-forward")
    undo.callback(host.ovs.ofctl, "mod-port", bridge, number, "forward")
    return host.label, "does not send the packet out"
