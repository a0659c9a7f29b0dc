"""The record of who changed what: what is in it, and that the ring is bounded."""

from dataclasses import replace
from typing import Any

from core.ids import HostLabel
from netmaster import codec
from netmaster.plan import change_log
from netmaster.plan.change_log import HIDDEN, LEADER, ChangeOrigin, recorded
from netmaster.plan.endpoints import cleanup, dead_hosts, drain
from netmaster.plan.model import Plan
from netmaster.plan.objects import group, network, policy
from netmaster.plan.show import change_pages
from netmaster.stored import ChangeRecord, Write
from tests.unit.netmaster.scene import NOW, Scene, a_group, a_network, a_policy

H1 = HostLabel("h1")
ORIGIN = ChangeOrigin(who="admin/joe", address="192.0.2.7")


def make(
    scene: Scene,
    decide: Any,
    *asked: Any,
    origin: ChangeOrigin = ORIGIN,
    kept: int = change_log.KEPT,
) -> None:
    scene.do(recorded(lambda view: decide(view, *asked), origin, NOW, kept=kept))


def page(scene: Scene, **asked: Any) -> tuple[list[change_pages.ShownChange], str]:
    query = change_pages.ChangeQuery(**({"limit": 10} | asked))
    return change_pages.page(scene.view, query)


def test_a_change_tells_who_and_the_fields_before_and_after() -> None:
    scene = Scene()
    make(scene, network.create, a_network("n1"))
    make(scene, policy.create, a_policy("p1"))
    make(scene, group.create, a_group("web"))
    make(scene, group.update, a_group("web", policies=["p1"]))
    (newest, *_, first), further = page(scene)
    assert further == ""
    assert (newest["who"], newest["address"]) == ("admin/joe", "192.0.2.7")
    assert newest["at"] == "1970-01-01T00:16:40.000+00:00"
    assert newest["objects"] == [
        {
            "kind": "endpointGroups",
            "key": "default:web",
            "action": "update",
            "fields": [{"name": "policies", "before": "", "after": '["p1"]'}],
        }
    ]
    assert first["objects"][0]["action"] == "create"
    assert {"name": "subnet", "before": "", "after": '"10.1.1.0/24"'} in first["objects"][0][
        "fields"
    ]


def test_what_changes_no_object_is_not_recorded() -> None:
    scene = Scene()
    make(scene, lambda _: Plan((), reply=None))
    assert page(scene) == ([], "")


def test_a_new_leader_goes_on_counting_and_knows_all() -> None:
    scene = Scene()
    make(scene, network.create, a_network("n1"))
    before = page(scene)
    scene.reload()
    assert page(scene) == before
    make(scene, network.delete, "default:n1")
    assert [one["number"] for one in page(scene)[0]] == [2, 1]
    deleted: Any = {"kind": "networks", "key": "default:n1", "action": "delete", "fields": []}
    assert page(scene)[0][0]["objects"] == [deleted]


def test_the_oldest_make_room() -> None:
    scene = Scene()
    for number in range(5):
        make(scene, policy.create, a_policy(f"p{number}"), kept=3)
    assert [one["number"] for one in page(scene)[0]] == [5, 4, 3]
    assert len(scene.view.changes) == 3


def test_pages_and_filters() -> None:
    scene = Scene()
    scene.tenant("blue")
    make(scene, policy.create, a_policy("p1"))
    make(scene, policy.create, a_policy("p2", tenant_name="blue"))
    make(scene, network.create, a_network("n1"), origin=ChangeOrigin(who="", address="::1"))
    first, further = page(scene, limit=2)
    assert [one["number"] for one in first] == [3, 2]
    assert further == "2"
    assert [one["number"] for one in page(scene, below=int(further))[0]] == [1]
    for asked, numbers in (
        ({"kind": "networks"}, [3]),
        ({"tenant": "blue"}, [2]),
        ({"who": "admin/joe"}, [2, 1]),
        ({"tenants": frozenset({"blue"})}, [2]),
    ):
        assert [one["number"] for one in page(scene, **asked)[0]] == numbers


def test_long_values_are_cut_and_secrets_hidden() -> None:
    assert change_log._text("password", "x") == HIDDEN
    assert len(change_log._text("policies", ["p" * 50] * 50)) == change_log.LONGEST + 1


def test_many_objects_are_counted() -> None:
    scene = Scene()
    scene.policy("p1")
    for number in range(change_log.MOST_OBJECTS + 3):
        scene.rule(str(number))
    plan = policy.delete(scene.view, "default:p1")
    record = recorded(lambda _: plan, ORIGIN, NOW)(scene.view).writes[-1].record
    assert isinstance(record, ChangeRecord)
    assert len(record.objects) + record.omitted == len(plan.writes)


def test_a_record_is_read_as_it_was_written() -> None:
    scene = Scene()
    plan = recorded(lambda view: policy.create(view, a_policy("p1")), ORIGIN, NOW)(scene.view)
    write: Write = plan.writes[-1]
    assert write.record is not None
    assert codec.decode(write.key, codec.encode(write.record)) == write.record


def test_hosts_that_go_come_back_and_are_removed_are_recorded() -> None:
    scene = Scene()
    found = dead_hosts.Observed(absent={H1: 7}, confirmed={H1: 7}, seconds={}, now=NOW)
    make(scene, dead_hosts.update, found, origin=LEADER)
    longer = replace(found, seconds={H1: 60.0})
    make(scene, dead_hosts.update, longer, origin=LEADER)
    make(scene, dead_hosts.update, replace(found, absent={}, confirmed={}), origin=LEADER)
    make(scene, drain.drain, H1, NOW)
    make(scene, drain.undo, H1)
    make(scene, dead_hosts.update, found, origin=LEADER)
    make(scene, cleanup.begin_host, H1, None, origin=LEADER)
    changes, _ = page(scene, kind="hosts")
    told = [(one["who"], one["objects"]) for one in reversed(changes)]

    def update(name: str, before: str, after: str) -> list[dict[str, Any]]:
        fields = [{"name": name, "before": before, "after": after}]
        return [{"kind": "hosts", "key": "h1", "action": "update", "fields": fields}]

    absent = ("netmaster", update("agent", '"registered"', '"absent"'))
    assert told == [
        absent,
        ("netmaster", update("agent", '"absent"', '"registered"')),
        ("admin/joe", update("drained", "false", "true")),
        ("admin/joe", update("drained", "true", "false")),
        absent,
        ("netmaster", [{"kind": "hosts", "key": "h1", "action": "delete", "fields": []}]),
    ]
