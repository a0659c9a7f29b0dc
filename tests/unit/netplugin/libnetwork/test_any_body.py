"""Bodies of every call, good and bad: an error says what is wrong, and has changed nothing."""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.errors import ContivError
from netplugin.libnetwork.swarm import SwarmNetworks
from netplugin.startup.docker import handlers, swarm_handlers
from state.records import Encap
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.libnetwork.any_body import GOOD
from tests.unit.netplugin.libnetwork.scene import drivers

TEXTS = st.sampled_from(
    [
        *("", "d1", "e1", "../e1", "x" * 300, "é", "a b", "\x00", "node", "n1.default", "|", "/"),
        *("10.1.0.5", "10.1.0.5/16", "10.1.0.0/16", "10.1.0.300/16", "10.1.0.0/33", "10.7.0.0/24"),
        *("fd00::1/64", "2001:db8::/64", "::ffff:10.1.0.1/128", "fe80::1%eth0"),
        *(
            "n1.default|10.1.0.0/16",
            "node|10.1.0.0/16",
            "nn.red|10.1.0.0/16|10.1.1.0/24",
            "a|b|c|d",
        ),
        *("02:02:0a:01:00:05", "02-02", "contivLocal", "contivGlobal", "n1", "g1", "default"),
        "com.docker.network.gateway",
    ]
)
NAMES = st.sampled_from(
    [
        *(
            "NetworkID",
            "EndpointID",
            "Interface",
            "Address",
            "AddressIPv6",
            "MacAddress",
            "Options",
        ),
        *("SandboxKey", "PoolID", "Pool", "SubPool", "AddressSpace", "V6", "IPv4Data", "IPv6Data"),
        *(
            "Gateway",
            "AuxAddresses",
            "com.docker.network.generic",
            "contiv-tag",
            "network",
            "group",
        ),
        *("tenant", "RequestAddressType", "other"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
ABSENT = object()


def _altered(call: str) -> st.SearchStrategy[tuple[str, bytes]]:
    """Return bodies of a call in which some members are others, or absent."""
    members = st.sampled_from(sorted(GOOD[call]))
    others = st.just(ABSENT) | TEXTS | VALUES | st.dictionaries(NAMES, TEXTS, max_size=3)

    def body(changes: dict[str, object]) -> tuple[str, bytes]:
        changed = {**GOOD[call], **changes}
        left = {name: value for name, value in changed.items() if value is not ABSENT}
        return call, json.dumps(left).encode()

    return st.dictionaries(members, others, max_size=2).map(body)


CALLS = st.sampled_from(sorted(GOOD))
NO_CALL = VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40)
SENT = st.lists(CALLS.flatmap(_altered) | st.tuples(CALLS, NO_CALL), min_size=1, max_size=12)
ALL = [(call, json.dumps(body).encode()) for call, body in GOOD.items()]
NEW = b'{"NetworkID":"d1","Options":{"com.docker.network.generic":{"network":"n1"}}}'
TAKEN = b'{"NetworkID":"d1","EndpointID":"e2","Interface":{"Address":"10.1.0.5/16"}}'
FIRST = b'{"NetworkID":"d1","EndpointID":"e1","Interface":{"Address":"10.1.0.5/16"}}'


@settings(max_examples=60)
@given(sent=SENT, in_swarm=st.booleans())
@example(sent=ALL, in_swarm=True)
@example(sent=ALL, in_swarm=False)
@example(
    sent=[
        ("NetworkDriver.CreateNetwork", NEW),
        ("NetworkDriver.CreateEndpoint", FIRST),
        ("NetworkDriver.CreateEndpoint", TAKEN),
    ],
    in_swarm=False,
)
def test_an_error_has_changed_nothing(sent: list[tuple[str, bytes]], in_swarm: bool) -> None:
    asyncio.run(_send(sent, in_swarm=in_swarm))


async def _send(sent: list[tuple[str, bytes]], *, in_swarm: bool) -> None:
    outside = Outside.new()
    with TemporaryDirectory() as directory:
        path = Path(directory)
        async with drivers(outside, path / "networks", in_swarm=in_swarm) as it:
            swarm = SwarmNetworks(outside.master, it.agent.world, Encap.VXLAN, path / "freed")
            calls = handlers(it.driver, it.ipam) | swarm_handlers(swarm)
            assert set(calls) == set(GOOD)

            def state() -> Any:
                master = outside.master
                return (
                    [
                        dict(trace) if isinstance(trace, dict) else trace
                        for trace in it.agent.traces()
                    ],
                    it.files.all(),
                    set(master.reserved),
                    list(master.allocated),
                    list(master.freed),
                    dict(master.endpoints),
                    sorted(path.glob("freed/*")),
                )

            for name, body in sent:
                before = state()
                try:
                    answer = await calls[name](body)
                except ContivError as exc:
                    refusal = str(exc)
                else:
                    json.dumps(answer)
                    continue
                assert refusal
                assert state() == before, (name, body)
