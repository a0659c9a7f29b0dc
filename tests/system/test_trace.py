"""`netctl trace` on two hosts: who reaches whom, why not, and what it names when it is broken."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import applied
from tests.system.services import label
from tests.system.trace import delete_flow

pytestmark = [pytest.mark.system]

VIP = "10.20.9.9"
Trace = dict[str, Any]


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Have the agents repair their switches by no audit, while a test asks what is broken."""
    return {"netplugin": ["--audit-interval", "300"]}


@pytest.fixture(scope="module")
def pods(bed: Bed) -> dict[str, Pod]:
    """Have two pods on the first host and one on the second, a policy and a service."""
    bed.netctl("policy", "create", "doors")
    bed.netctl("policy", "rule-add", "-d", "in", "--action=deny", "-l", "tcp", "doors", "1")
    allowed = ["-d", "in", "--action=allow", "--priority=10", "-l", "tcp", "-P", "8080"]
    bed.netctl("policy", "rule-add", *allowed, "doors", "2")
    bed.netctl("group", "create", "-p", "doors", "default-net", "guarded")
    service = ["-s", "default-net", "--selector=app=web", "--port=80:8080:TCP", "-ip", VIP, "web"]
    bed.netctl("service", "create", *service)
    one, two = bed.hosts
    pods = {
        "a": bed.add_pod(one, "a"),
        "b": bed.add_pod(one, "b", group="guarded"),
        "c": bed.add_pod(two, "c", group="guarded"),
    }
    applied(bed)
    return pods


def traced(bed: Bed, *words: str) -> Trace:
    found: Trace = json.loads(bed.netctl("trace", "--json", *words, check=False))
    return found


def on(trace: Trace) -> list[str]:
    """Return the hosts on the way there."""
    return [hop["host"] for hop in trace["hops"]]


WAYS = [
    (("a", "b"), "delivered", ["h1"]),
    (("a", "c"), "delivered", ["h1", "h2"]),
    (("a", "c", "-l", "tcp", "-P", "8080"), "delivered", ["h1", "h2"]),
    (("a", "c", "-l", "tcp", "-P", "80"), "dropped", ["h1"]),
    (("a", "8.8.8.8", "-l", "udp", "-P", "123"), "left", ["h1"]),
    (("a", "h2"), "left", ["h1"]),
    (("h1", "b"), "delivered", ["h1"]),
    (("h1", "c"), "delivered", ["h1", "h2"]),
    (("8.8.8.8", "c"), "delivered", ["h2"]),
    # no pod provides the service: the agent refuses
    (("a", "web", "-l", "tcp", "-P", "80"), "agent", ["h1"]),
    (("a", VIP, "-l", "tcp", "-P", "81"), "dropped", ["h1"]),
]


def test_every_way_is_told(bed: Bed, pods: dict[str, Pod]) -> None:
    began = time.monotonic()
    found = {words: traced(bed, *words) for words, _, _ in WAYS}
    print(f"{(time.monotonic() - began) / len(WAYS):.2f} s each")  # noqa: T201 - measured
    told = {words: (one["outcome"], on(one)) for words, one in found.items()}
    assert told == {words: (outcome, hosts) for words, outcome, hosts in WAYS}, found
    words = ("trace", "a", "c", "-l", "tcp", "-P", "80")
    denied = bed.netctl(*words, check=False).splitlines()[-1]
    assert denied == (
        "dropped by rule 1 of policy doors (tenant default) on group guarded on host h1,"
        " table 5 POLICY"
    )
    assert pods["a"].loses_nothing_to(pods["c"].address)


def test_a_service_leads_to_its_provider(bed: Bed, pods: dict[str, Pod]) -> None:
    label(bed, pods["c"])
    found = traced(bed, "a", "web", "-l", "tcp", "-P", "80")
    assert (found["outcome"], on(found)) == ("delivered", ["h1", "h2"]), found["verdict"]
    (arrived,) = found["hops"][-1]["exits"]
    assert arrived["packet"]["ipv4_dst"] == pods["c"].address
    (back,) = found["answer"][-1]["exits"]
    assert (back["packet"]["ipv4_src"], back["packet"]["tcp_src"]) == (VIP, 80)


Break = Callable[[Bed, dict[str, Pod], ExitStack], None]


def flow_gone(host: int, table: int) -> Break:
    """Delete a flow that a packet from `a` to `c` meets."""

    def take(bed: Bed, _pods: dict[str, Pod], undo: ExitStack) -> None:
        hop = next(one for one in traced(bed, "a", "c")["hops"] if one["host"] == f"h{host + 1}")
        flow = next(step["flow"] for step in hop["steps"] if step["table"] == table)
        delete_flow(bed.hosts[host].ovs, Bridge.VXLAN, flow, undo)

    return take


def foreign_flow(bed: Bed, pods: dict[str, Pod], undo: ExitStack) -> None:
    ovs = bed.hosts[1].ovs
    match = f"table=5,priority=999,ip,nw_dst={pods['c'].address}"
    ovs.ofctl("add-flow", Bridge.VXLAN, f"{match},actions=drop")
    undo.callback(ovs.ofctl, "--strict", "del-flows", Bridge.VXLAN, match)


def no_route_in_pod(_bed: Bed, pods: dict[str, Pod], undo: ExitStack) -> None:
    inside = pods["a"].namespace
    inside.run(["ip", "route", "del", "default"])
    undo.callback(inside.run, ["ip", "route", "add", "default", "via", "10.20.0.1"])


def link_down_in_pod(_bed: Bed, pods: dict[str, Pod], undo: ExitStack) -> None:
    inside = pods["c"].namespace
    inside.run(["ip", "link", "set", "eth0", "down"])
    undo.callback(inside.run, ["ip", "route", "add", "default", "via", "10.20.0.1"])
    undo.callback(inside.run, ["ip", "link", "set", "eth0", "up"])


def no_tunnel(bed: Bed, _pods: dict[str, Pod], undo: ExitStack) -> None:
    """Put another port with the same other end in the tunnel's place, so that it cannot return."""
    host = bed.hosts[0]
    ports = host.ovs.vsctl("list-ports", Bridge.VXLAN).split()
    (tunnel,) = [name for name in ports if name.startswith("vxif")]
    options = ["type=vxlan", f"options:remote_ip={bed.hosts[1].address}", "options:key=flow"]
    options += ["options:tos=inherit", "options:dst_port=4789"]
    bed.agents[0].pause()
    host.ovs.vsctl("del-port", tunnel)
    host.ovs.vsctl("add-port", Bridge.VLAN, "rival", "--", "set", "interface", "rival", *options)
    bed.agents[0].resume()
    # a port that Open vSwitch has refused once is not tried again until its rows change
    undo.callback(host.ovs.vsctl, "del-port", tunnel)
    undo.callback(host.ovs.vsctl, "del-port", "rival")


def no_agent(bed: Bed, _pods: dict[str, Pod], undo: ExitStack) -> None:
    bed.agents[1].pause()
    undo.callback(bed.agents[1].resume)


BREAKS = {
    "flow of table 0 at the sender": (flow_gone(0, 0), "h1", "lacks flow priority=6,ip,in_port"),
    "flow of table 7 at the receiver": (flow_gone(1, 7), "h2", "lacks flow table=7"),
    "foreign flow": (foreign_flow, "h2", "a flow that is not wanted: table=5, priority=999"),
    "route": (no_route_in_pod, "h1", "no default route by 10.20.0.1"),
    "link": (link_down_in_pod, "h2", "link eth0 is down"),
    "tunnel": (no_tunnel, "h1", "no tunnel to h2"),
    "agent": (no_agent, "h2", "its agent does not answer"),
}


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    """Run what is left here after a test."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("name", list(BREAKS))
def test_what_is_broken_is_named(
    bed: Bed, pods: dict[str, Pod], undo: ExitStack, name: str
) -> None:
    take, host, words = BREAKS[name]
    take(bed, pods, undo)
    verdict = told(bed)
    assert verdict.startswith(f"broken: host {host}: ")
    assert words in verdict
    undo.close()
    eventually(lambda: told(bed).startswith("delivered"), "whole again")


def told(bed: Bed) -> str:
    return str(traced(bed, "a", "c")["verdict"])
