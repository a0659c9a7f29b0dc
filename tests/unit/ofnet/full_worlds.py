"""Worlds that have something of each kind, on both bridges in both modes."""

from collections.abc import Iterator
from dataclasses import replace

from ofnet.world import Bridge, FwdMode, Provider, Rule, Service, ServicePort, World
from tests.unit.ofnet.worlds import address, local, remote, vtep, world

DENY = Rule(id="deny", priority=1, allow=False, dst_group=8, protocol=6, dst_port=80)
LOGGED = replace(DENY, id="logged", priority=2, log=True)
SERVICE = Service(
    key="web:default",
    vrf=1,
    address=address(200),
    ports=(ServicePort(6, 80, frozenset({Provider(address(2), 8080, 1)})),),
)


def worlds() -> Iterator[tuple[Bridge, World]]:
    base = world(here=(local(1),), there=(remote(2, v6=True),))
    full = replace(
        base,
        vteps={vtep().host: vtep()},
        rules={one.id: one for one in (DENY, LOGGED)},
        services={SERVICE.key: SERVICE},
        guard=True,
    )
    for bridge in Bridge:
        for mode in FwdMode:
            yield bridge, replace(full, fwd_mode=mode)
