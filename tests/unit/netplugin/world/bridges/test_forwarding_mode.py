"""The cluster's settings: what they mean, and what cannot be read."""

from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from core.errors import Invalid
from netplugin.world.bridges.forwarding_mode import ForwardingMode
from netplugin.world.builder import WorldBuilder
from ofnet.world import ArpMode, Bridge, FwdMode
from state.records import Encap
from tests.unit.netplugin.worlds import now, settings


@pytest.mark.parametrize(
    ("mode", "means"),
    [("flood", ArpMode.FLOOD), ("proxy", ArpMode.PROXY), ("", ArpMode.PROXY), ("x", ArpMode.PROXY)],
)
def test_anything_but_flood_is_proxied(builder: WorldBuilder, mode: str, means: ArpMode) -> None:
    assert now(builder).arp_mode is ArpMode.PROXY
    builder.put(settings(mode))
    for bridge in Bridge:
        world, changes = builder.take(bridge)
        assert world.arp_mode is means
        assert changes.everything is (means is ArpMode.FLOOD)


def test_a_private_network_that_cannot_be_read_is_refused(builder: WorldBuilder) -> None:
    builder.put(settings(pvt_subnet="172.22.5.0/16"))
    for wrong in ("172.22/16x", "172.23.0.0/24"):
        with pytest.raises(Invalid):
            builder.put(settings(pvt_subnet=wrong))
    assert builder.forwarding.private_subnet == IPv4Network("172.22.0.0/16")


def test_only_what_flows_depend_on_concerns_every_flow() -> None:
    modes = ForwardingMode(FwdMode.ROUTING)
    assert not modes.put(settings("proxy", pvt_subnet="172.22.0.0/16"))
    assert modes.put(replace(settings(), fwd_mode="bridge"))
    assert modes.fwd_mode is FwdMode.BRIDGE
    assert not modes.put(replace(settings(), fwd_mode=""))
    assert modes.fwd_mode is FwdMode.BRIDGE
    assert modes.put(replace(settings(), fwd_mode="", infra_type="aci"))
    assert modes.fabric_enforces


@pytest.mark.parametrize("encap", Encap)
@pytest.mark.parametrize("mode", FwdMode)
def test_a_learning_switch_delivers_without_flows(mode: FwdMode, encap: Encap) -> None:
    learning = (mode, encap) == (FwdMode.BRIDGE, Encap.VLAN)
    assert ForwardingMode(mode).delivers_without_flows(encap) is learning
