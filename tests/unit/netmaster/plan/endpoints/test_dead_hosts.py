"""For how long hosts have no agent: noted, forgotten, and which absences are certain."""

from core.ids import HostLabel
from netmaster.plan.endpoints import dead_hosts
from netmaster.plan.endpoints.dead_hosts import Observed
from netmaster.stored import HostAbsence
from tests.unit.netmaster.scene import Scene

H1, H2 = HostLabel("h1"), HostLabel("h2")


def note(
    scene: Scene,
    absent: dict[HostLabel, int],
    confirmed: list[HostLabel],
    now: float,
    seconds: dict[HostLabel, float] | None = None,
) -> set[HostLabel]:
    while scene.do(dead_hosts.update, found(absent, confirmed, now, seconds)):
        pass
    return set(scene.view.absences)


def found(
    absent: dict[HostLabel, int],
    confirmed: list[HostLabel],
    now: float,
    seconds: dict[HostLabel, float] | None = None,
) -> Observed:
    certain = {label: absent[label] for label in confirmed}
    return Observed(absent=absent, confirmed=certain, seconds=seconds or {}, now=now)


def test_only_confirmed_absences_are_stored() -> None:
    scene = Scene()
    assert note(scene, {H1: 5, H2: 6}, [H1], 50.0) == {H1}
    assert scene.view.absences[H1] == HostAbsence(H1, 50.0, 5)


def test_the_first_time_is_kept_by_the_next_leader() -> None:
    scene = Scene()
    note(scene, {H1: 5}, [H1], 50.0)
    scene.reload()
    note(scene, {H1: 5}, [], 60.0)
    note(scene, {H1: 5}, [H1], 70.0, {H1: 8.0})
    scene.reload()
    assert scene.view.absences[H1] == HostAbsence(H1, 50.0, 5, 8.0)


def test_who_is_back_is_forgotten() -> None:
    scene = Scene()
    note(scene, {H1: 5, H2: 6}, [H1, H2], 50.0)
    assert note(scene, {H2: 6}, [H2], 60.0) == {H2}


def test_who_wrote_its_record_anew_has_been_there() -> None:
    scene = Scene()
    note(scene, {H1: 5}, [H1], 50.0)
    assert note(scene, {H1: 9}, [], 60.0) == set()
    note(scene, {H1: 9}, [H1], 75.0)
    assert scene.view.absences[H1] == HostAbsence(H1, 75.0, 9)


def test_many_hosts_go_by_parts() -> None:
    scene = Scene()
    absent = {HostLabel(f"h{number}"): number for number in range(dead_hosts.CHUNK + 5)}
    assert scene.do(dead_hosts.update, found(absent, list(absent), 50.0)) == dead_hosts.CHUNK
    assert len(note(scene, absent, list(absent), 50.0)) == dead_hosts.CHUNK + 5


def test_which_absences_are_confirmed() -> None:
    scene = Scene()
    note(scene, {H1: 5, H2: 6}, [H1, H2], 50.0)
    assert dead_hosts.absences(scene.view, {H1: 5}) == [HostAbsence(H1, 50.0, 5)]
    assert dead_hosts.absences(scene.view, {}) == []
    assert dead_hosts.absences(scene.view, {H1: 7}) == []
