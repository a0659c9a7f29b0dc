"""Addresses that hosts hold ahead of their pods: granted, renewed, used, and taken back."""

from functools import partial
from typing import Any

import pytest

from contivmodel.rpc import AddressBlocksRequest
from core import keys
from core.addresses import ipv6, ipv6_text, with_mac6_of
from core.errors import Conflict
from core.ids import HostLabel, NetworkId
from netmaster.plan.endpoints import address_blocks, cleanup, drain, endpoint
from netmaster.plan.endpoints.address_blocks import BlocksReply, Renewal
from netmaster.plan.objects import network
from netmaster.plan.show import ipam_check
from netmaster.stored import BlockLease
from state.records import GrantOwner
from tests.unit.netmaster.scene import NOW, Scene, wanted

H1, H2 = HostLabel("h1"), HostLabel("h2")
N1 = NetworkId("n1.default")
HOW = Renewal("id1", 50.0, NOW)


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    return scene


def renew(scene: Scene, how: Renewal = HOW, **more: Any) -> BlocksReply:
    asked = {"host": H1, "wanted": {N1: "3"}} | more
    reply = scene.do(address_blocks.renew, AddressBlocksRequest(**asked), how)
    assert isinstance(reply, BlocksReply)
    return reply


def again(scene: Scene, last: BlocksReply, held: list[str], wanted: int = 0) -> BlocksReply:
    """Renew, naming what is held of the network."""
    return renew(
        scene,
        lease=last.lease,
        number=last.number,
        held=[f"{N1}/{address}" for address in held],
        wanted={N1: str(wanted)},
    )


def blocked(scene: Scene, nid: NetworkId = N1) -> set[str]:
    grants = scene.view.addresses[nid].grants
    return {address for address, one in grants.items() if one.owner is GrantOwner.BLOCK}


def claim(name: str, address: str, token: str, host: str = H1) -> Any:
    request = wanted(name, ip_address=address, host=host)
    return request.model_copy(update={"claim": "true", "block": token})


def test_a_host_gets_addresses_that_nobody_else_gets(scene: Scene) -> None:
    reply = renew(scene)
    assert [one.ipv4 for one in reply.granted] == ["10.1.1.1", "10.1.1.2", "10.1.1.3"]
    assert (reply.lease, reply.number, reply.renewed, reply.seconds) == ("id1", 1, True, 50.0)
    assert scene.view.block_leases == {H1: BlockLease(H1, "id1", 1, 50.0)}
    assert scene.endpoint("c1").ip_address == "10.1.1.4"
    assert "10.1.1.2 is not available" in scene.refused(
        endpoint.create, wanted("c2", ip_address="10.1.1.2"), NOW
    )
    assert list(ipam_check.findings(scene.view, NOW)) == []


def test_both_families_come_in_pairs(scene: Scene) -> None:
    scene.network("v6", "10.2.1.0/24", ipv6_subnet="2001:db8::/120")
    reply = renew(scene, wanted={"v6.default": "2"})
    assert [(one.ipv4, one.ipv6) for one in reply.granted] == [
        ("10.2.1.1", "2001:db8::1"),
        ("10.2.1.2", "2001:db8::2"),
    ]


def test_a_network_of_ipv6_alone_has_blocks(scene: Scene) -> None:
    scene.network("six", "", ipv6_subnet="2001:db8::/125")
    reply = renew(scene, wanted={"six.default": "20"})
    assert [(one.ipv4, one.ipv6) for one in reply.granted] == [
        ("", "2001:db8::1"),
        ("", "2001:db8::2"),
        ("", "2001:db8::3"),
    ], "half of seven"
    request = wanted("c1", "six", ipv6_address="2001:db8::2", host=H1)
    scene.do(endpoint.create, request.model_copy(update={"block": reply.token}), NOW)
    assert blocked(scene, NetworkId("six.default")) == {"2001:db8::1", "2001:db8::3"}
    assert list(ipam_check.findings(scene.view, NOW)) == []


def test_nobody_asks_for_the_mac_of_an_address_that_a_host_holds(scene: Scene) -> None:
    """A pod is started with it before netmaster is asked."""
    scene.network("six", "", ipv6_subnet="2001:db8::/64")
    held = renew(scene, wanted={"six.default": "2"}).granted[0].ipv6
    asked = ipv6_text(with_mac6_of(ipv6(held), ipv6(held) + (1 << 40)))
    request = wanted("c1", "six", ipv6_address=asked)
    assert scene.refused(endpoint.create, request, NOW).endswith(f"goes with {asked}, is in use")


def test_a_host_gets_half_of_what_is_free_at_most(scene: Scene) -> None:
    scene.network("few", "10.3.1.0/29")
    assert len(renew(scene, wanted={"few.default": "20"}).granted) == 3


def test_a_host_that_asks_again_and_again_leaves_the_other_half(scene: Scene) -> None:
    scene.network("few", "10.3.1.0/28")
    last, held = renew(scene, wanted={"few.default": "20"}), list[str]()
    for _ in range(5):
        held += [f"few.default/{one.ipv4}" for one in last.granted]
        last = renew(
            scene, lease=last.lease, number=last.number, held=held, wanted={"few.default": "20"}
        )
    assert len(blocked(scene, NetworkId("few.default"))) == 7  # of 14


@pytest.mark.parametrize("more", [{"encap": "vlan", "pkt_tag": 7}, {"nw_type": "infra"}])
def test_other_networks_have_no_blocks(scene: Scene, more: dict[str, Any]) -> None:
    scene.network("other", "10.4.1.0/24", **more)
    assert renew(scene, wanted={"other.default": "3", "gone.default": "3"}).granted == ()


def test_what_a_host_does_not_name_is_released(scene: Scene) -> None:
    first = renew(scene)
    second = again(scene, first, ["10.1.1.2"])
    assert (second.renewed, second.number) == (True, 2)
    assert blocked(scene) == {"10.1.1.2"}


def test_a_copy_of_a_request_changes_nothing(scene: Scene) -> None:
    first = renew(scene)
    again(scene, first, ["10.1.1.1", "10.1.1.2", "10.1.1.3"], wanted=1)
    held = blocked(scene)
    for late in (renew(scene), again(scene, first, [])):
        assert (late.lease, late.number, late.renewed, late.granted) == ("id1", 2, False, ())
    assert blocked(scene) == held


def test_a_host_whose_lease_has_ended_is_told_so(scene: Scene) -> None:
    told = renew(scene, lease="old", number=7)
    assert (told.lease, told.number, told.renewed) == ("", 0, False)
    assert not scene.view.block_leases


def test_an_endpoint_takes_its_address_from_the_block(scene: Scene) -> None:
    token = renew(scene).token
    record = scene.do(endpoint.create, claim("c1", "10.1.1.2", token), NOW)
    assert (record.ip_address, record.homing_host) == ("10.1.1.2", H1)
    grant = scene.view.addresses[N1].grants["10.1.1.2"]
    assert (grant.owner, grant.owner_id) == (GrantOwner.ENDPOINT, record.key)
    assert scene.do(endpoint.create, claim("c1", "10.1.1.2", token), NOW) == record
    scene.delete_endpoint("c1")
    assert blocked(scene) == {"10.1.1.1", "10.1.1.3"}


def test_no_other_token_takes_it(scene: Scene) -> None:
    first = renew(scene)
    again(scene, first, [], wanted=3)
    third = again(scene, BlocksReply("id1", 2, renewed=True), [], wanted=3)
    assert blocked(scene) == {one.ipv4 for one in third.granted}
    address = third.granted[0].ipv4
    for token, host in ((first.token, H1), ("", H1), (third.token, H2)):
        with pytest.raises(Conflict):
            endpoint.create(scene.view, claim("c1", address, token, host), NOW)


def test_a_late_report_takes_no_reservation(scene: Scene) -> None:
    first = renew(scene)
    again(scene, first, [])
    assert scene.allocate(preferred="10.1.1.2") == "10.1.1.2/24"
    with pytest.raises(Conflict):
        endpoint.create(scene.view, claim("c1", "10.1.1.2", first.token), NOW)


def test_a_drained_host_gets_nothing(scene: Scene) -> None:
    scene.do(drain.drain, H1, NOW)
    reply = renew(scene)
    assert (reply.renewed, reply.drained, reply.granted) == (True, True, ())


def test_a_dead_host_loses_its_lease_and_its_addresses(scene: Scene) -> None:
    renew(scene)
    begin = partial(cleanup.begin_host, renewal="id1/1")
    scene.do(begin, H1, None)
    assert not scene.view.block_leases
    assert scene.do(address_blocks.reclaim) == 3
    assert blocked(scene) == set()
    assert renew(scene, Renewal("id2", 50.0, NOW)).lease == "id2"
    assert scene.do(address_blocks.reclaim) == 0


def test_a_host_that_renewed_meanwhile_is_not_dead(scene: Scene) -> None:
    again(scene, renew(scene), [])
    begin = partial(cleanup.begin_host, renewal="id1/1")
    assert "has renewed its address blocks" in scene.refused(begin, H1, None)


def test_a_host_that_is_removed_keeps_its_lease(scene: Scene) -> None:
    renew(scene)
    scene.do(cleanup.begin_host, H1, None)
    assert scene.do(address_blocks.reclaim) == 0
    assert len(blocked(scene)) == 3


def test_a_deleted_network_leaves_no_addresses(scene: Scene) -> None:
    renew(scene, wanted={N1: "20"})
    second = renew(
        scene,
        lease="id1",
        number=1,
        wanted={N1: "20"},
        held=[f"{N1}/{address}" for address in blocked(scene)],
    )
    assert len(second.granted) == 20
    scene.do(network.delete, "default:n1")
    while scene.do(address_blocks.reclaim):
        pass
    assert not [key for key in scene.store if key.startswith(keys.GRANTS)]
