"""What is asked of agents for a dry run, and what becomes of their answers."""

import json
from typing import Any

import pytest

from contivmodel.objects import Tenant
from netmaster.api.leader import flow_effects
from netmaster.api.leader.agents import Answers
from netmaster.plan.objects import network, tenant
from netmaster.plan.reachability import effects
from netmaster.plan.reachability.effects import ChangePreview
from state import intents
from tests.unit.netmaster.scene import Scene, a_network

BRIDGES = {
    "one": {"added": 1, "removed": 2, "replaced": 3},
    "other": {"added": 4, "removed": 0, "replaced": 0},
}


class Agents:
    """Agents that give the answers they are told to; `asked` are the questions."""

    def __init__(self, said: dict[str, Any], silent: dict[str, str]) -> None:
        self.answers = Answers({h: json.dumps(x).encode() for h, x in said.items()}, silent)
        self.asked: list[Any] = []

    async def ask_all(self, path: str, *, seconds: float = 0, body: bytes | None = None) -> Answers:
        assert path == flow_effects.ASKED
        assert seconds > 0
        self.asked.append(json.loads(body or b""))
        return self.answers


def a_change() -> ChangePreview:
    scene = Scene()
    return effects.preview(scene.view, network.create(scene.view, a_network("n1")))


async def test_both_bridges_of_each_host_are_added_up() -> None:
    agents = Agents({"h1": BRIDGES, "h2": {}}, {"h3": "no netplugin is registered"})
    told = await flow_effects.effects(agents, a_change())
    assert told["flows"] == {
        "hosts": {
            "h1": {"added": 5, "removed": 2, "replaced": 3},
            "h2": {"added": 0, "removed": 0, "replaced": 0},
        },
        "missing": {"h3": "no netplugin is registered"},
        "complete": True,
    }


async def test_agents_are_asked_about_what_they_read_and_nothing_else() -> None:
    preview = a_change()
    agents = Agents({}, {})
    await flow_effects.effects(agents, preview)
    ((asked,),) = [one.values() for one in agents.asked]
    assert asked
    assert asked.keys() < {write.key for write in preview.writes}
    for key, text in asked.items():
        assert intents.decode(key, text.encode()) is not None


async def test_nobody_is_asked_about_what_no_agent_reads() -> None:
    scene, agents = Scene(), Agents({"h1": BRIDGES}, {})
    preview = effects.preview(scene.view, tenant.create(scene.view, Tenant(tenant_name="blue")))
    told = await flow_effects.effects(agents, preview)
    assert told["flows"] == {"hosts": {}, "missing": {}, "complete": True}
    assert agents.asked == []


async def test_figures_of_a_change_that_is_too_large_are_left_out() -> None:
    agents, whole = Agents({"h1": BRIDGES}, {}), a_change()
    told = await flow_effects.effects(agents, ChangePreview(whole.writes, False, whole.reach))
    assert told["flows"] == {"hosts": {}, "missing": {}, "complete": False}
    assert agents.asked == []


@pytest.mark.parametrize("answer", [1, [], {"one": {}}, {"one": 1}, {"one": {"added": "x"}}])
async def test_an_answer_that_cannot_be_read_is_no_figure(answer: Any) -> None:
    told = await flow_effects.effects(Agents({"h1": answer}, {}), a_change())
    assert told["flows"]["hosts"] == {}
    assert "host h1: not figures of a dry run" in told["flows"]["missing"]["h1"]
