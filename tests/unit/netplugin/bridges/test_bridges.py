"""The two bridges: what they are called, who controls them, which datapath they run on."""

import pytest

from core.errors import SwitchUnavailable
from core.ids import HostLabel
from netplugin.bridges.bridges import (
    KERNEL,
    USERSPACE,
    choose_datapath,
    datapath_id,
    ensure_bridges,
)
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import BridgeSpec
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Outside

HOST = HostLabel("h1")


class Kernel(KernelLinks):
    def __init__(self, *, has_datapath: bool) -> None:
        self.has_datapath = has_datapath

    async def has_kernel_datapath(self) -> bool:
        return self.has_datapath


@pytest.mark.parametrize(("has", "name"), [(True, KERNEL), (False, USERSPACE)])
async def test_the_kernels_datapath_is_taken_where_there_is_one(*, has: bool, name: str) -> None:
    assert await choose_datapath(Kernel(has_datapath=has)) == name


def test_a_datapath_id_is_a_bridges_own_and_stays() -> None:
    hosts = [HostLabel(f"h{number}") for number in range(50)]
    ids = {(host, bridge): datapath_id(bridge, host) for host in hosts for bridge in Bridge}
    assert len(set(ids.values())) == 100
    assert all(0 < number < 1 << 48 for number in ids.values())
    assert ids[hosts[0], Bridge.VXLAN] == datapath_id(Bridge.VXLAN, hosts[0])


async def test_both_bridges_are_made_with_their_controller(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: dict[str, BridgeSpec] = {}

    async def keep(spec: BridgeSpec) -> None:
        specs[spec.name] = spec

    monkeypatch.setattr(outside.ovsdb, "ensure_bridge", keep)
    await ensure_bridges(outside.ovsdb, HOST, USERSPACE, {Bridge.VXLAN: 6633, Bridge.VLAN: 6634})
    assert specs.keys() == {"contivVxlanBridge", "contivVlanBridge"}
    spec = specs["contivVxlanBridge"]
    assert (spec.controller, spec.datapath_type) == ("tcp:127.0.0.1:6633", "netdev")
    assert spec.datapath_id is not None
    assert len(spec.datapath_id) == 16
    assert int(spec.datapath_id, 16) == datapath_id(Bridge.VXLAN, HOST)
    assert spec.fail_mode == "secure", "flows must stay when the agent is gone"


async def test_a_database_that_does_not_answer_is_told(outside: Outside) -> None:
    outside.faults.failing["bridge"] = SwitchUnavailable("no answer")
    with pytest.raises(SwitchUnavailable):
        await ensure_bridges(outside.ovsdb, HOST, KERNEL, {Bridge.VXLAN: 1})
