"""Network profiles, and what the groups that name them get of them."""

from typing import Any

import pytest

from contivmodel.objects import Link, Netprofile
from core import keys
from core.ids import GroupKey
from netmaster.plan.model import Plan
from netmaster.plan.objects import group, netprofile
from netmaster.view import View
from tests.unit.netmaster.scene import Scene, a_group

Granted = tuple[str, int, int]


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1")
    return scene


def a_profile(name: str = "p", **more: Any) -> Netprofile:
    asked: dict[str, Any] = {
        "tenant_name": "default",
        "profile_name": name,
        "bandwidth": "5Mb",
        "dscp": 3,
        "burst": 1500,
    }
    return Netprofile.model_validate(asked | more)


def granted(view: View, name: str = "g1") -> Granted:
    record = view.groups[GroupKey(f"{name}:default")]
    return record.bandwidth, record.dscp, record.burst


def test_a_profile_is_its_object(scene: Scene) -> None:
    reply = scene.do(netprofile.create, a_profile())
    assert reply == scene.view.read("netprofile", "default:p")
    assert reply.links.tenant == Link(type="tenant", key="default")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"tenant_name": ""}, "Invalid tenant name"),
        ({"tenant_name": "nope"}, "Tenant not found"),
        ({"burst": 1}, "Invalid Burst size. burst size > 1500 bytes"),
    ],
)
def test_profiles_that_cannot_be(scene: Scene, asked: dict[str, Any], text: str) -> None:
    assert scene.refused(netprofile.create, a_profile(**asked)) == text


def test_a_group_gets_what_its_profile_grants(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    reply = scene.group("g1", net_profile="p")
    assert reply.links.net_profile == Link(type="netprofile", key="default:p")
    assert granted(scene.view) == ("5Mb", 3, 1500)
    shown = scene.view.read("netprofile", "default:p")
    assert isinstance(shown, Netprofile)
    assert set(shown.link_sets.endpoint_groups) == {"default:g1"}


def test_a_group_changes_its_profile(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    scene.do(netprofile.create, a_profile("q", bandwidth="10gbps", dscp=7, burst=0))
    scene.group("g1")
    assert granted(scene.view) == ("", 0, 0)
    scene.do(group.update, a_group("g1", net_profile="p"))
    assert granted(scene.view) == ("5Mb", 3, 1500)
    scene.do(group.update, a_group("g1", net_profile="q"))
    assert granted(scene.view) == ("10gbps", 7, 0)
    reply = scene.do(group.update, a_group("g1"))
    assert granted(scene.view) == ("", 0, 0)
    assert reply.links.net_profile == Link()


def test_an_unknown_profile_changes_nothing(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    scene.group("g1", net_profile="p")
    refusal = scene.refused(group.update, a_group("g1", net_profile="nope"))
    assert refusal == "netprofile not found"
    assert scene.refused(group.create, a_group("g2", net_profile="nope")) == "netprofile not found"
    scene.group("g2")
    assert granted(scene.view) == ("5Mb", 3, 1500)


def test_update_reaches_every_group_that_names_it(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    scene.group("g1", net_profile="p")
    scene.group("g2", net_profile="p")
    scene.group("g3")
    changed = a_profile(bandwidth="900Mb", dscp=9, burst=1650)
    reply = scene.do(netprofile.update, changed)
    assert (reply.bandwidth, reply.dscp, reply.burst) == ("900Mb", 9, 1650)
    assert reply == scene.view.read("netprofile", "default:p")
    assert [granted(scene.view, name) for name in ("g1", "g2", "g3")] == [
        ("900Mb", 9, 1650),
        ("900Mb", 9, 1650),
        ("", 0, 0),
    ]
    assert netprofile.update(scene.view, changed).writes == ()


def test_an_update_that_cannot_be(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    refusal = scene.refused(netprofile.create, a_profile(burst=1))
    assert refusal == "Invalid Burst size. burst size must be > 1500 bytes"
    assert scene.refused(netprofile.update, a_profile("q")) == "netprofile not found"


def test_many_groups_are_brought_in_line_in_parts(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    names = [f"g{number}" for number in range(2 * netprofile.CHUNK + 1)]
    for name in names:
        scene.group(name, net_profile="p")
    plan = netprofile.update(scene.view, a_profile(dscp=9))
    assert plan.writes[0].key == keys.obj("netprofile", "default:p")
    parts = 0
    following = apply(scene, plan)
    while following.then is not None:
        parts += 1
        following = apply(scene, following.then(scene.view))
    assert parts == 2
    assert {granted(scene.view, name) for name in names} == {("5Mb", 9, 1500)}


def test_what_was_left_behind_is_caught_up(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    names = [f"g{number}" for number in range(netprofile.CHUNK + 3)]
    for name in names:
        scene.group(name, net_profile="p")
    apply(scene, netprofile.update(scene.view, a_profile(dscp=9)))
    scene.reload()
    assert granted(scene.view, names[-1]) == ("5Mb", 3, 1500)
    assert scene.do(netprofile.sync_groups) == 3
    assert scene.do(netprofile.sync_groups) == 0
    assert {granted(scene.view, name) for name in names} == {("5Mb", 9, 1500)}


def test_a_profile_that_goes_meanwhile_ends_the_parts(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    names = [f"g{number}" for number in range(netprofile.CHUNK + 1)]
    for name in names:
        scene.group(name, net_profile="p")
    plan = apply(scene, netprofile.update(scene.view, a_profile(dscp=9)))
    assert plan.then is not None
    for name in names:
        scene.do(group.update, a_group(name))
    scene.do(netprofile.delete, "default:p")
    assert plan.then(scene.view).writes == ()


def test_a_profile_in_use_stays(scene: Scene) -> None:
    scene.do(netprofile.create, a_profile())
    scene.group("g1", net_profile="p")
    assert scene.refused(netprofile.delete, "default:p") == "NetProfile is being used"
    scene.do(group.delete, "default:g1")
    assert scene.do(netprofile.delete, "default:p") == "default:p"
    assert scene.refused(netprofile.delete, "default:p") == "netprofile not found"


def apply(scene: Scene, plan: Plan) -> Plan:
    """Apply one transaction's part of a change."""
    scene.do(lambda _: plan)
    return plan
