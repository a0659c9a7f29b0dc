"""What a change would do: all parts of its plan, on a copy of the view."""

from netmaster.plan.objects import network, policy
from netmaster.plan.reachability import effects
from tests.unit.netmaster.scene import Scene, a_network, shown


def test_a_change_is_previewed_and_not_made() -> None:
    scene = Scene()
    before = shown(scene.view)
    plan = network.create(scene.view, a_network("n1", gateway="10.1.1.254"))
    told = effects.preview(scene.view, plan).shown()
    assert told == {
        "writes": [{"key": write.key, "action": "put"} for write in plan.writes],
        "complete": True,
        "reach": {"changes": [], "complete": True},
    }
    assert shown(scene.view) == before


def test_all_parts_are_followed() -> None:
    scene = Scene()
    scene.policy("p1")
    for number in range(policy.CHUNK * 2 + 1):
        scene.rule(str(number))
    plan = policy.delete(scene.view, "default:p1")
    assert plan.then is not None
    told = effects.preview(scene.view, plan).shown()
    assert len(told["writes"]) == policy.CHUNK * 2 + 2
    assert {write["action"] for write in told["writes"]} == {"delete"}


def test_a_change_that_is_too_large_is_told_in_part() -> None:
    scene = Scene()
    scene.policy("p1")
    for number in range(policy.CHUNK * 2):
        scene.rule(str(number))
    plan = policy.delete(scene.view, "default:p1")
    told = effects.preview(scene.view, plan, most_writes=20).shown()
    assert told["complete"] is False
    assert len(told["writes"]) == policy.CHUNK + 1
