"""The two bridges: what they are called, who controls them, which datapath they run on."""

import pytest

from core.ids import HostLabel
from netplugin.bridges.bridges import (
    KERNEL,
    OWNER,
    USERSPACE,
    bridge_specs,
    choose_datapath,
    datapath_id,
)
from netplugin.kernel.netns import KernelLinks
from ofnet.world import Bridge

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


def test_both_bridges_are_made_with_their_controller() -> None:
    targets = {Bridge.VXLAN: "tcp:127.0.0.1:6633", Bridge.VLAN: "tcp:127.0.0.1:6634"}
    specs = {spec.name: spec for spec in bridge_specs(HOST, USERSPACE, targets, "host h1")}
    assert specs.keys() == {"contivVxlanBridge", "contivVlanBridge"}
    spec = specs["contivVxlanBridge"]
    assert (spec.controller, spec.datapath_type) == ("tcp:127.0.0.1:6633", "netdev")
    assert spec.datapath_id is not None
    assert len(spec.datapath_id) == 16
    assert int(spec.datapath_id, 16) == datapath_id(Bridge.VXLAN, HOST)
    assert spec.fail_mode == "secure", "flows must stay when the agent is gone"
    assert dict(spec.external_ids) == {OWNER: "host h1"}
