"""Networks on their bridges, in the VRFs of their tenants."""

import pytest

from core.errors import Invalid
from core.ids import NetworkName, TenantName
from netplugin.flow_records.end_names import of_endpoint
from netplugin.world.bridges.vrfs import MAX_VRF
from netplugin.world.builder import WorldBuilder
from ofnet.changes import ObjectKind
from ofnet.world import Bridge
from state.records import Encap
from tests.unit.netplugin.records import NET, PEER, endpoint, key, network, nid_of
from tests.unit.netplugin.worlds import altered, built, drain, now


def test_a_network_belongs_to_the_bridge_of_its_encapsulation(builder: WorldBuilder) -> None:
    builder.put(endpoint(host=PEER))
    drain(builder)
    builder.put(network(encap=Encap.VLAN))
    vxlan, vlan = now(builder), now(builder, Bridge.VLAN)
    assert not vxlan.networks
    assert not vxlan.remote
    assert (set(vlan.networks), set(vlan.remote)) == ({NET}, {key("c1")})


def test_a_network_says_what_its_record_says(builder: WorldBuilder) -> None:
    builder.put(network("six", tag=7, v6=True))
    found = now(builder).networks[nid_of("six")]
    assert (found.vlan, found.vni) == (7, 10_007)
    assert (str(found.gateway), str(found.gateway6)) == ("10.1.255.254", "2001:db8::1")
    builder.put(network("six", tag=8, gateway=""))
    found = now(builder).networks[nid_of("six")]
    assert (found.vlan, found.gateway, found.gateway6) == (8, None, None)
    assert builder.networks.get(nid_of("six")) == network("six", tag=8, gateway="")


def test_a_network_that_cannot_be_read_changes_nothing(builder: WorldBuilder) -> None:
    with pytest.raises(Invalid, match=r"n2\.default"):
        builder.put(network("n2", gateway="x"))
    assert builder.networks.get(nid_of("n2")) is None
    assert Bridge.VXLAN not in altered(builder)


# -- VRF ids -----------------------------------------------------------------------------------


def test_a_vrf_id_stays_while_the_tenant_has_a_network() -> None:
    builder = built()
    builder.set_complete()
    for number in range(3):
        builder.put(network(f"n{number}", f"t{number}"))
    assert builder.vrfs == {"t0": 1, "t1": 2, "t2": 3}
    builder.put(network("more", "t1"))
    builder.remove(network("n1", "t1"))
    assert builder.vrfs == {"t0": 1, "t1": 2, "t2": 3}
    builder.remove(network("more", "t1"))
    assert builder.vrfs == {"t0": 1, "t2": 3}
    builder.put(network("n3", "t3"))
    assert builder.vrfs == {"t0": 1, "t2": 3, "t3": 2}


def test_vrf_ids_of_the_agent_before_are_taken_over() -> None:
    builder = built(default=9, gone=1)
    builder.put(network())
    builder.put(network("n2", "new"))
    assert {n.vrf for n in now(builder).networks.values()} == {9, 2}
    assert builder.vrfs == {"default": 9, "gone": 1, "new": 2}, "not all has been read yet"
    builder.set_complete()
    assert builder.vrfs == {"default": 9, "new": 2}


def test_no_vrf_id_is_freed_before_everything_is_read() -> None:
    builder = built()
    builder.put(network())
    builder.remove(network())
    assert builder.vrfs == {"default": 1}
    builder.set_complete()
    assert builder.vrfs == {}


def test_networks_without_a_vrf_id_wait_for_one() -> None:
    builder = built()
    builder.set_complete()
    for number in range(MAX_VRF):
        builder.put(network("n", f"t{number}"))
    builder.put(network())
    builder.put(endpoint(host=PEER))
    world = now(builder)
    assert len(world.networks) == MAX_VRF
    assert not world.remote
    assert not builder.networks.on_bridge(NET)
    builder.remove(network("n", "t7"))
    world, changes = builder.take(Bridge.VXLAN)
    assert world.networks[NET].vrf == 8
    assert world.remote.keys() == {key("c1")}
    assert changes.names(ObjectKind.NETWORK) == {NET, nid_of("n", "t7")}
    assert builder.networks.on_bridge(NET)


def test_a_network_whose_tenant_has_a_dot_is_nobody_elses(builder: WorldBuilder) -> None:
    """Its id is that of another name in another tenant, who would get its addresses and names."""
    builder.put(network("n", "dev.red"))
    nid = nid_of("n", "dev.red")
    builder.put(endpoint(9, nid=nid))
    found = builder.networks.named(NetworkName("n"), TenantName("dev.red"))
    assert found is builder.networks.get(nid) is not None
    assert builder.networks.named(NetworkName("n.dev"), TenantName("red")) is None
    row = builder.endpoints.row(key("c9", nid))
    assert row is not None
    names = of_endpoint(row)
    assert (names.tenant, names.network) == ("dev.red", "n")
