"""The ring of records: bounded, in order of leaving, and honest about what it lost."""

import random

from hypothesis import given
from hypothesis import strategies as st

from netplugin.flow_records.ring import Ring
from state.flow_records import DROPPED, End, FlowRecord


def record(ring: Ring, at: float) -> FlowRecord:
    number = ring.next()
    made = FlowRecord(
        number=number,
        changed=number,
        first=at,
        last=at,
        verdict=DROPPED,
        protocol="tcp",
        source=End("10.0.0.1", 1),
        destination=End("10.0.0.2", 2),
    )
    ring.add(made)
    return made


def changed(one: FlowRecord) -> int:
    return one.changed


@given(
    st.integers(1, 5),
    st.lists(st.sampled_from(["add", "end", "expire"]), max_size=60),
    st.randoms(use_true_random=False),
)
def test_no_more_than_room_is_there_and_what_went_is_counted(
    room: int, steps: list[str], choice: random.Random
) -> None:
    ring, made, now, expired = Ring(room, age=10.0), list[FlowRecord](), 0.0, 0
    for step in steps:
        now += 1
        if step == "add":
            made.append(record(ring, now - choice.choice([0, 0, 2.5])))
        elif step == "end" and made:
            ring.end(choice.choice(made))
        elif step == "expire":
            before = len(ring)
            ring.expire(now)
            expired += before - len(ring)
        assert len(ring) <= room
    assert len(ring) == len(made) - ring.evicted - expired
    assert ring.made[DROPPED] == len(made)
    shown = list(ring.records())
    assert len({one.number for one in shown}) == len(shown) == len(ring)
    assert all(one.changed <= ring.position for one in shown)
    newest = sorted(shown, key=lambda one: (one.begun, one.number), reverse=True)
    assert list(ring.newest()) == newest
    for one in newest:
        assert list(ring.newest(one.begun)) == [each for each in newest if each.begun <= one.begun]
        later = [each for each in shown if each.changed > one.changed]
        assert sorted(ring.changed(one.changed), key=changed) == sorted(later, key=changed)


def test_what_has_ended_goes_before_what_goes_on() -> None:
    ring = Ring(2)
    first, second = record(ring, 1.0), record(ring, 2.0)
    ring.end(second)
    record(ring, 3.0)
    assert ring.has(first)
    assert not ring.has(second)
    assert ring.evicted == 1


def test_an_end_is_a_change_and_happens_once() -> None:
    ring = Ring()
    one = record(ring, 1.0)
    begun = one.changed
    ring.end(one)
    ended = one.changed
    assert one.ended
    assert begun < ended == ring.position
    ring.end(one)
    assert one.changed == ended


def test_only_what_ended_long_ago_is_forgotten() -> None:
    ring = Ring(age=10.0)
    old, young, going = record(ring, 1.0), record(ring, 9.0), record(ring, 0.0)
    ring.end(old)
    ring.end(young)
    ring.expire(12.0)
    assert {one.number for one in ring.records()} == {young.number, going.number}
    assert ring.evicted == 0


def test_what_is_read_while_records_end_and_go_is_whole() -> None:
    ring = Ring(50)
    made = [record(ring, float(at)) for at in range(50)]
    reading = ring.newest()
    assert next(reading) is made[49]
    ring.end(made[48])
    assert next(reading) is made[48]
    ring.end(made[47])
    record(ring, 99.0)  # for which the record that ended first goes
    assert [one.number for one in reading] == [one.number for one in reversed(made[:48])]


def test_the_order_is_kept_of_no_more_than_there_is() -> None:
    ring = Ring(10)
    for at in range(10_000):
        record(ring, float(at))
    assert len(ring._order) < 1100
    assert [one.first for one in ring.newest()] == [float(at) for at in range(9999, 9989, -1)]
