"""An event taken before a change is set by it; one taken after is not."""

import asyncio

from core.change_notifier import ChangeNotifier, each_change


def test_a_change_sets_the_event_taken_before_it() -> None:
    notifier = ChangeNotifier()
    before, also = notifier.next, notifier.next
    notifier.notify()
    assert before.is_set()
    assert also is before
    assert not notifier.next.is_set()


def test_each_change_sets_its_own_event() -> None:
    notifier = ChangeNotifier()
    notifier.notify()
    taken = notifier.next
    notifier.notify()
    assert taken.is_set()
    assert notifier.next is not taken


async def test_a_change_during_a_turn_has_a_turn_of_its_own() -> None:
    notifier, turns = ChangeNotifier(), 0
    async with asyncio.timeout(5):
        async for _ in each_change(lambda: notifier.next, 60):
            turns += 1
            if turns == 3:
                return
            notifier.notify()


async def test_there_is_a_turn_now_and_then_without_a_change() -> None:
    notifier, turns = ChangeNotifier(), 0
    async with asyncio.timeout(5):
        async for _ in each_change(lambda: notifier.next, 0.001):
            turns += 1
            if turns == 3:
                return
