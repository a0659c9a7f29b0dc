"""What came and has gone leaves nothing behind, in whatever order it went.

A tenant with a network, pods here and elsewhere, services of its own and one of Kubernetes, whose
names have been asked for, goes again, piece by piece. Then no
index of the agent is longer than before it came.
"""

from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import IPv4Address

from hypothesis import given, settings
from hypothesis import strategies as st

from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from netplugin.world.dns.dns_records import Asker
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from ofnet.desired import Desired
from ofnet.packets.directory import Directory
from ofnet.world import Bridge, FwdMode
from state.intents import Fact
from state.records import Encap
from tests.unit.netplugin.records import HOST, PEER, network
from tests.unit.netplugin.world.service_records import provider, record

TARGETS = frozenset({KubeTarget(address=IPv4Address("10.1.0.3"), port=8080)})
KUBE = KubeService(
    namespace="shop",
    name="web",
    addresses=(IPv4Address("10.96.0.10"),),
    ports=(KubePort(protocol="TCP", port=80, targets=TARGETS),),
)


class Bench:
    """What an agent keeps of both bridges, without switches."""

    def __init__(self) -> None:
        self.world = WorldBuilder(HOST, FwdMode.ROUTING)
        self.world.set_complete()
        self.sides = {b: (Directory(), Desired(b)) for b in Bridge}
        self.turn()

    def turn(self) -> None:
        """Have both bridges take over what has changed."""
        for bridge, (directory, desired) in self.sides.items():
            now, changes = self.world.take(bridge)
            directory.update(now, changes)
            desired.update(now, changes)
            desired.groups()

    def comes(self, encap: Encap) -> list[Callable[[], object]]:
        """Have the tenant come; return the steps by which it goes."""
        services = [record(), record(name="db")]
        pods = [provider(n, homing_host=HOST if n < 3 else PEER) for n in (1, 2, 3)]
        facts: list[Fact] = [network(encap=encap), *pods, *services]
        for fact in facts:
            self.world.put(fact)
        for number, pod in enumerate(pods[:2], 1):
            self.world.endpoints.put_port(
                pod.key, LocalPort(record=pod, ofport=number, number=number)
            )
        self.world.put_kube_service(KUBE)
        self.turn()
        self._ask()
        return [
            *(partial(self.world.remove, fact) for fact in facts),
            *(partial(self.world.endpoints.remove_port, pod.key) for pod in pods[:2]),
            partial(self.world.remove_kube_service, KUBE.key),
            *[self.turn] * 2,
        ]

    def _ask(self) -> None:
        """Have names asked for."""
        for name in ("web", "c1", "web.shop"):
            assert self.world.names.lookup(Asker(network().tenant), name, IPv4Address)

    def lengths(self) -> dict[str, int]:
        """Return how much is in everything that holds something."""
        parts = [part for side in self.sides.values() for part in side]
        return dict(_lengths([self.world, *parts], "", set()))


def _lengths(held: object, where: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if id(held) in seen or not type(held).__module__.startswith(("builtins", "netplugin", "ofnet")):
        return
    seen.add(id(held))
    inside: dict[str, object] = {}
    if isinstance(held, dict | set | frozenset | list | tuple):
        yield where, len(held)
        if isinstance(held, dict):
            inside = {str(key): value for key, value in held.items() if isinstance(key, Bridge)}
        if isinstance(held, list):
            inside = {str(number): value for number, value in enumerate(held)}
    else:
        slots = [name for kind in type(held).__mro__ for name in getattr(kind, "__slots__", ())]
        names = [*getattr(held, "__dict__", ()), *slots]
        inside = {name: getattr(held, name) for name in names}
    for name, value in inside.items():
        yield from _lengths(value, f"{where}.{name}", seen)


@settings(max_examples=60, deadline=None)
@given(encap=st.sampled_from(Encap), data=st.data())
def test_nothing_is_left(encap: Encap, data: st.DataObject) -> None:
    bench = Bench()
    before = bench.lengths()
    steps = bench.comes(encap)
    assert bench.lengths() != before
    for step in data.draw(st.permutations(range(len(steps)))):
        steps[step]()
    bench.turn()
    assert bench.lengths() == before
