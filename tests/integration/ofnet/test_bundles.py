"""Bundles that a real switch gives up."""

import asyncio

import pytest

from core.errors import SwitchRefused
from ofnet.changes import ObjectKind
from ofnet.channel.switch import Switch
from ofnet.flows import Flow
from ofnet.openflow.actions import DROP
from ofnet.openflow.match import Match
from ofnet.tables import TableId
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import dialled, fails, until

pytestmark = pytest.mark.ovs

FLOWS = [Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=n), DROP) for n in range(1, 602)]


async def test_a_bundle_that_expired_half_sent_leaves_no_flow(ovs_module: OvsHost) -> None:
    ovs_module.vsctl("set", "Open_vSwitch", ".", "other_config:bundle-idle-timeout=1")
    try:
        async with dialled(ovs_module) as bridge:
            session = bridge.switch._session
            assert session is not None
            session.pause_writing()
            writing = asyncio.gather(fails(bridge.switch.apply(FLOWS, []), SwitchRefused))
            await until(lambda: _given_up(bridge.switch), "the switch gives up the bundle")
            session.resume_writing()
            [refusal] = await writing
            assert "gave up a bundle" in str(refusal)
            assert not bridge.flows()
            await bridge.switch.apply(FLOWS, [])
            assert len(bridge.flows()) == len(FLOWS)
    finally:
        ovs_module.vsctl("remove", "Open_vSwitch", ".", "other_config", "bundle-idle-timeout")


def _given_up(switch: Switch) -> bool:
    session = switch._session
    return session is not None and any(batch.errors for batch in session._requests._batches)
