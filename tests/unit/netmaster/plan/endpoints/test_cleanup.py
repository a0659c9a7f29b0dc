"""Clean-ups: what they name, part by part, and that nothing else goes."""

from typing import Any

import pytest

from core import keys
from core.ids import HostLabel, NetworkId
from netmaster.plan.endpoints import cleanup, dead_hosts, drain
from netmaster.stored import EndpointCleanup
from tests.unit.netmaster.scene import NOW, Scene


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.tenant("blue")
    scene.network("n1")
    scene.network("n2", "10.1.2.0/24")
    scene.network("n1", tenant_name="blue")
    scene.group("g1")
    scene.group("g1", tenant_name="blue")
    scene.endpoint("c1", service_name="g1")
    scene.endpoint("c2")
    scene.endpoint("c2", "n2")
    scene.endpoint("c12", "n2")
    scene.endpoint("c1", tenant="blue", service_name="g1")
    return scene


def begin(scene: Scene, category: str, name: str, tenant: str = "default") -> EndpointCleanup:
    begun = scene.do(cleanup.begin, tenant, category, name)
    assert isinstance(begun, EndpointCleanup)
    return begun


def carry_out(scene: Scene, wanted: EndpointCleanup) -> list[str]:
    """Do all parts; return the keys of what went."""
    gone: list[str] = []
    while part := cleanup.next_part(scene.view, wanted):
        gone += [record.key for record in part]
        assert scene.do(cleanup.remove, part) == len(part)
    scene.do(cleanup.finish, wanted)
    return sorted(gone)


@pytest.mark.parametrize(
    ("category", "name", "gone"),
    [
        ("net", "n1", ["n1.default-c1", "n1.default-c2"]),
        ("group", "g1", ["n1.default-c1"]),
        ("ep", "c2", ["n1.default-c2", "n2.default-c2"]),
        ("ep", "c1", ["n1.default-c1"]),
        ("ep", "12", ["n2.default-c12"]),
    ],
)
def test_what_goes(scene: Scene, category: str, name: str, gone: list[str]) -> None:
    before = set(scene.view.endpoints)
    assert carry_out(scene, begin(scene, category, name)) == gone
    assert before - set(scene.view.endpoints) == set(gone)
    assert scene.view.cleanups == {}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("default", "foo", "x"), "unknown category foo, expected net, group or ep"),
        (("default", "host", "h1"), "unknown category host, expected net, group or ep"),
        (("default", "net", "nope"), "no endpoints of network nope in tenant default"),
        (("blue", "net", "n2"), "no endpoints of network n2 in tenant blue"),
        (("default", "group", "nope"), "no endpoints of endpoint group nope in tenant default"),
        (("blue", "ep", "c2"), "no endpoints of container c2 in tenant blue"),
        (("default", "ep", "c"), "endpoint c is ambiguous, name it in full"),
    ],
)
def test_refusals(scene: Scene, asked: tuple[Any, ...], text: str) -> None:
    assert scene.refused(cleanup.begin, *asked) == text


def test_a_host_goes_with_all_of_its_endpoints(scene: Scene) -> None:
    scene.endpoint("far", host="h2")
    label = HostLabel("h1")
    observed = {label: 3}
    absent = dead_hosts.Observed(absent=observed, confirmed=observed, seconds={}, now=NOW)
    scene.do(dead_hosts.update, absent)
    scene.do(drain.drain, label, NOW)
    scene.store[keys.host(label)] = b"its record"
    begun = scene.do(cleanup.begin_host, label, 3)
    assert keys.host(label) not in scene.store
    scene.reload()
    (left,) = scene.view.cleanups.values()
    assert left == begun
    assert len(carry_out(scene, begun)) == 5
    assert set(scene.view.endpoints) == {"n1.default-far"}
    assert (scene.view.cleanups, scene.view.absences) == ({}, {})
    assert set(scene.view.drains) == {label}


def test_a_host_s_record_is_removed_at_the_revision_seen(scene: Scene) -> None:
    plan = cleanup.begin_host(scene.view, HostLabel("h1"), 3)
    (write,) = [write for write in plan.writes if write.key == keys.host(HostLabel("h1"))]
    assert (write.record, write.new, write.rev) == (None, False, 3)


def test_a_host_that_is_to_be_unused_is_not_removed_with_endpoints(scene: Scene) -> None:
    text = scene.refused(lambda view: cleanup.begin_host(view, HostLabel("h1"), None, unused=True))
    assert text.startswith("host h1 has 5 endpoints; delete them, or remove it all the same: ")
    scene.do(lambda view: cleanup.begin_host(view, HostLabel("h9"), None, unused=True))


def test_a_drain_is_forgotten_with_its_host_if_asked(scene: Scene) -> None:
    label = HostLabel("h1")
    scene.do(drain.drain, label, NOW)
    scene.do(lambda view: cleanup.begin_host(view, label, None, undrain=True))
    assert scene.view.drains == {}


def test_a_large_network_goes_in_parts_that_a_new_leader_goes_on_with(scene: Scene) -> None:
    for number in range(cleanup.CHUNK + 3):
        scene.endpoint(f"x{number}", "n2")
    wanted = begin(scene, "net", "n2")
    part = cleanup.next_part(scene.view, wanted)
    assert len(part) == cleanup.CHUNK
    scene.do(cleanup.remove, part)
    scene.reload()
    (left,) = scene.view.cleanups.values()
    assert left == wanted
    assert len(carry_out(scene, left)) == 5
    assert scene.lists("default:n2") == ("", "10.1.2.1-10.1.2.254", 0)


def test_what_came_later_stays(scene: Scene) -> None:
    wanted = begin(scene, "net", "n1")
    scene.endpoint("late")
    assert "n1.default-late" not in carry_out(scene, wanted)


def test_an_endpoint_created_after_a_leader_died_half_way_stays(scene: Scene) -> None:
    newest = scene.endpoint("newest", "n2")
    begun = begin(scene, "net", "n2")
    scene.do(cleanup.remove, [newest])
    scene.reload()
    scene.endpoint("late", "n2")
    assert carry_out(scene, begun) == ["n2.default-c12", "n2.default-c2"]
    assert set(scene.view.network_endpoints[NetworkId("n2.default")]) == {"n2.default-late"}


def test_a_part_done_twice_does_no_harm(scene: Scene) -> None:
    part = cleanup.next_part(scene.view, begin(scene, "net", "n1"))
    scene.delete_endpoint("c1")
    assert scene.do(cleanup.remove, part) == 1
    assert cleanup.remove(scene.view, part).writes == ()


def test_one_asked_for_again_is_not_forgotten_by_the_first(scene: Scene) -> None:
    first = begin(scene, "net", "n1")
    scene.endpoint("late")
    second = begin(scene, "net", "n1")
    assert scene.do(cleanup.finish, first) is None
    assert list(scene.view.cleanups.values()) == [second]


@pytest.mark.parametrize(
    ("category", "title"), [("net", "Network"), ("group", "EPG"), ("ep", "Endpoint")]
)
def test_what_is_answered(category: str, title: str) -> None:
    text = f"Received request to cleanup {title} with ID: x"
    assert cleanup.announcement(category, "x") == text
