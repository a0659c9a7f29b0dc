"""Reservations: their age is counted by one clock, and anew in each term."""

from netmaster.plan.endpoints.address import GRACE
from netmaster.reservations import Reservations
from tests.unit.netmaster.clock import Clock
from tests.unit.netmaster.scene import NOW, Scene


def test_a_reservation_is_overdue_once_this_leader_has_seen_it_for_its_whole_time() -> None:
    scene, clock = Scene(), Clock()
    scene.network("n1")
    scene.allocate(now=NOW - 9 * GRACE)  # the clock of the leader before was behind
    reservations = Reservations(clock)
    assert reservations.overdue(scene.view) == frozenset()
    clock.at += GRACE - 1
    assert reservations.overdue(scene.view) == frozenset()
    clock.at += 1
    assert reservations.overdue(scene.view) == set(scene.view.reservations)


def test_an_address_that_is_reserved_again_has_its_whole_time_again() -> None:
    scene, clock = Scene(), Clock()
    scene.network("n1")
    scene.allocate(preferred="10.1.1.1")
    scene.allocate(preferred="10.1.1.9")
    reservations = Reservations(clock)
    reservations.overdue(scene.view)
    scene.release("10.1.1.1")
    scene.allocate(preferred="10.1.1.1")
    clock.at += GRACE
    (overdue,) = reservations.overdue(scene.view)
    assert overdue.endswith("10.1.1.9")


def test_a_swarms_reservations_never_end_by_time() -> None:
    scene, clock = Scene(), Clock()
    scene.network("n1")
    scene.allocate()
    reservations = Reservations(clock, endless=True)
    reservations.overdue(scene.view)
    clock.at += 9 * GRACE
    assert reservations.overdue(scene.view) == frozenset()
