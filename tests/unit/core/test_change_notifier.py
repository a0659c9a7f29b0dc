"""An event taken before a change is set by it; one taken after is not."""

from core.change_notifier import ChangeNotifier


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
