"""News: who took the event before a change is woken by it, who took it after is not."""

from core.change_notifier import ChangeNotifier


def test_a_change_sets_what_was_taken_before_it() -> None:
    news = ChangeNotifier()
    before, also = news.next, news.next
    news.tell()
    assert before.is_set()
    assert also is before
    assert not news.next.is_set()


def test_each_change_sets_its_own() -> None:
    news = ChangeNotifier()
    news.tell()
    taken = news.next
    news.tell()
    assert taken.is_set()
    assert news.next is not taken
