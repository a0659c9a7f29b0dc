"""Connections of each protocol that policies name, between pods of one bridge: packets of kernels.

SCTP where the kernel speaks it: that of `make kernel-check` does.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ofnet.world import PolicyEntry, PolicyMatch, PolicyStage, PolicySubject, Verdict, World
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled, running_agent
from tests.integration.ofnet.packets import Pod, two_pods
from tests.unit.ofnet.worlds import address

pytestmark = pytest.mark.ovs

OPEN, SHUT = 7000, 7001
VRF = 1
PATIENCE = 10.0
SILENCE = 1.0


@pytest.fixture
async def bridge(ovs_module: OvsHost) -> AsyncIterator[Dialled]:
    async with dialled(ovs_module) as bridge:
        yield bridge


def guarded(both: World, protocol: int) -> World:
    """Let nothing come to the second pod but connections of the protocol to one port."""
    to = address(2)
    served = PolicyMatch(PolicyStage.INGRESS, 1000, VRF, 4, None, to, protocol, OPEN, 0xFFFF)
    all_else = PolicyMatch(PolicyStage.INGRESS, 10, VRF, destination=to)
    entries = (PolicyEntry(served, Verdict.ALLOW), PolicyEntry(all_else, Verdict.DENY))
    return replace(
        both,
        policy_entries={one.match.name: one for one in entries},
        policy_subjects={str(to): PolicySubject(VRF, to)},
    )


@contextmanager
def listening(pod: Pod, protocol: int, port: int) -> Iterator[None]:
    """Have a pod take connections: its kernel does."""
    with pod.namespace.call(lambda: door(protocol)) as ear:
        ear.bind((str(address(pod.number)), port))
        ear.listen(8)
        yield


def door(protocol: int) -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)


def connects(pod: Pod, protocol: int, port: int, patience: float = PATIENCE) -> bool:
    with pod.namespace.call(lambda: door(protocol)) as mouth:
        mouth.settimeout(patience)
        try:
            mouth.connect((str(address(2)), port))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("protocol", [socket.IPPROTO_TCP, socket.IPPROTO_SCTP])
async def test_a_policy_opens_one_port(bridge: Dialled, protocol: int) -> None:
    try:
        door(protocol).close()
    except OSError:
        pytest.skip("this kernel does not speak it")
    async with two_pods(bridge) as (one, two, both):
        with listening(two, protocol, OPEN), listening(two, protocol, SHUT):
            async with running_agent(bridge, both):
                assert await asyncio.to_thread(connects, one, protocol, SHUT), "without policies"
            async with running_agent(bridge, guarded(both, protocol)) as agent:
                assert not agent.sync.refused
                assert await asyncio.to_thread(connects, one, protocol, OPEN)
                assert not await asyncio.to_thread(connects, one, protocol, SHUT, SILENCE)
