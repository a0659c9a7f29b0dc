"""Which entries of connection tracking are stale, and when they are looked for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

import pytest

from core.errors import HostError
from core.retry import Loops, begin_loops
from netplugin.bridges.services.stale_datagrams import StaleDatagrams, Ways, stale
from netplugin.kernel.conntrack import Datagrams, End

CLUSTER, HOST, OTHER = "10.96.0.1", "192.168.77.1", "192.168.77.2"
OLD, NEW = "10.1.0.1", "10.1.0.2"
LOCAL = frozenset({ip_address(HOST).packed})


def end(address: str, port: int) -> End:
    return (ip_address(address).packed if address else b"", port)


def entry(sent_to: End, answered_by: End) -> Datagrams:
    return Datagrams(4, sent_to, answered_by, b"")


def ways() -> Ways:
    made = Ways()
    made.lead(ip_address(CLUSTER), 53, [(ip_address(NEW), 5353)])
    made.lead(None, 30053, [(ip_address(NEW), 5353)])
    made.lead(ip_address(CLUSTER), 99, [])
    return made


@pytest.mark.parametrize(
    ("sent_to", "answered_by", "expected"),
    [
        pytest.param((CLUSTER, 53), (NEW, 5353), False, id="as the rules lead"),
        pytest.param((CLUSTER, 53), (OLD, 5353), True, id="to a provider that is gone"),
        pytest.param((CLUSTER, 53), (NEW, 5354), True, id="to a former port"),
        pytest.param((CLUSTER, 53), (CLUSTER, 53), True, id="begun before the rules"),
        pytest.param((CLUSTER, 99), (OLD, 99), True, id="nobody provides it now"),
        pytest.param((HOST, 30053), (NEW, 5353), False, id="a node port as the rules lead"),
        pytest.param((HOST, 30053), (OLD, 5353), True, id="a node port to one that is gone"),
        pytest.param((HOST, 30053), (HOST, 30053), True, id="a node port before its rules"),
        pytest.param((OTHER, 30053), (OTHER, 30053), False, id="another host's, passing by"),
        pytest.param((CLUSTER, 54), (OLD, 5353), False, id="of somebody else's rules"),
        pytest.param(("10.96.0.9", 53), (OLD, 5353), True, id="of a service that is gone"),
        pytest.param(("10.96.0.9", 53), ("10.96.0.9", 53), False, id="led nowhere, no service"),
        pytest.param((HOST, 30099), (OLD, 5353), True, id="of a node port that is gone"),
        pytest.param(("8.8.8.8", 53), ("8.8.8.8", 53), False, id="to the outside"),
    ],
)
def test_an_entry_is_stale_if_it_leads_elsewhere(
    sent_to: tuple[str, int], answered_by: tuple[str, int], *, expected: bool
) -> None:
    former = {end("10.96.0.9", 53), end("", 30099)}
    one = entry(end(*sent_to), end(*answered_by))
    assert stale(one, ways().ends, former, LOCAL) is expected


@dataclass
class Kernel:
    """Notes what it was asked to sweep; `now` is the time."""

    swept: list[tuple[dict[End, frozenset[End]], set[End]]] = field(default_factory=list)
    failing: bool = False
    now: float = 1000.0
    loops: Loops = field(default_factory=begin_loops)

    def sweep(self, ways: Mapping[End, frozenset[End]], former: Collection[End]) -> int:
        if self.failing:
            raise HostError("connection tracking fails")
        self.swept.append((dict(ways), set(former)))
        return len(former)

    def client(self) -> StaleDatagrams:
        return StaleDatagrams(self.sweep, lambda: self.now)


async def test_where_nothing_is_led_nothing_is_looked_for() -> None:
    kernel = Kernel()
    await kernel.client().follow("services", Ways())
    assert kernel.swept == []


async def test_owners_ways_count_together_and_what_goes_is_former() -> None:
    kernel = Kernel()
    client = kernel.client()
    await client.follow("services", ways())
    ports = Ways()
    ports.lead(None, 30053, [(ip_address(OLD), 53)])
    await client.follow("host ports", ports)
    led, _ = kernel.swept[-1]
    assert led[end("", 30053)] == {end(NEW, 5353), end(OLD, 53)}
    await client.follow("services", Ways())
    led, former = kernel.swept[-1]
    assert led == ports.ends
    assert former == ways().ends.keys()


async def test_what_an_earlier_run_led_from_is_former() -> None:
    kernel = Kernel()
    client = kernel.client()
    client.remember(
        [
            "-d 10.96.0.9/32 -p udp -m udp --dport 53 -j CONTIV-S-0123",
            "-p udp -m udp --dport 30099 -j CONTIV-X-0123",
            "-d fd00::9/128 -p udp -m udp --dport 53 -j CONTIV-S-0123",
            "-d 10.96.0.9/32 -p tcp -m tcp --dport 53 -j CONTIV-S-0123",
            "-m addrtype --dst-type LOCAL -j CONTIV-NODEPORTS",
        ]
    )
    await client.follow("services", Ways())
    ((_, former),) = kernel.swept
    assert former == {end("10.96.0.9", 53), end("", 30099), end("fd00::9", 53)}


async def test_the_same_ways_are_swept_again_after_a_while_alone() -> None:
    kernel = Kernel()
    client = kernel.client()
    for passed in (0, 1, 10):
        kernel.now += passed
        await client.follow("services", ways())
    assert len(kernel.swept) == 2


async def test_a_failure_is_a_fault_until_the_next_success() -> None:
    kernel = Kernel()
    client = kernel.client()
    await client.follow("services", ways())
    kernel.failing = True
    await client.follow("services", Ways())
    assert kernel.loops.faults() == ["datagrams not led anew: connection tracking fails"]
    kernel.failing = False
    await client.follow("services", Ways())
    assert kernel.loops.faults() == []
    _, former = kernel.swept[-1]
    assert former == ways().ends.keys(), "not forgotten by the failure"
