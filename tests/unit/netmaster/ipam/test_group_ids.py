"""Ids of endpoint groups."""

from netmaster.ipam.group_ids import LAST_ID, GroupIds


def _take(ids: GroupIds) -> int | None:
    number = ids.following()
    if number is not None:
        ids.take(number)
        ids.last = number
    return number


def test_ids_go_round_before_one_comes_again() -> None:
    ids = GroupIds()
    assert [_take(ids) for _ in range(3)] == [1, 2, 3]
    ids.release(2)
    assert _take(ids) == 4
    ids.last = LAST_ID - 1
    assert [_take(ids) for _ in range(2)] == [LAST_ID, 2]


def test_the_last_one_given_is_known_by_what_is_in_use() -> None:
    ids = GroupIds()
    for number in (1, 2, 3):
        ids.take(number)
    assert ids.latest() == 3
    ids.last = ids.latest()
    ids.release(3)
    assert (ids.latest(), ids.following()) == (3, 4)
    ids.last = LAST_ID - 1
    ids.take(LAST_ID)
    assert (ids.latest(), ids.following()) == (2, 3)
    ids.release(1)
    assert (ids.latest(), ids.following()) == (LAST_ID, 1)


def test_no_id_is_left() -> None:
    ids = GroupIds()
    for number in range(1, LAST_ID + 1):
        ids.take(number)
    assert ids.following() is None
    assert ids.latest() == ids.last
    ids.release(7)
    assert ids.following() == 7
