"""What is taken for gone: by two looks at least, a grace period apart, and without a gap."""

from core.grace_period import GracePeriod


def test_what_is_missing_for_the_grace_period_is_due() -> None:
    suspects: GracePeriod[str] = GracePeriod(10)
    assert suspects.look(["a"], 100) == []
    assert suspects.look(["a", "b"], 109.9) == []
    assert suspects.look(["a", "b"], 110) == ["a"]
    assert suspects.look(["a", "b"], 120) == ["a", "b"]


def test_what_was_seen_again_begins_anew() -> None:
    suspects: GracePeriod[str] = GracePeriod(10)
    suspects.look(["a"], 100)
    suspects.look([], 105)
    assert suspects.look(["a"], 111) == []
    assert suspects.look(["a"], 121) == ["a"]


def test_nothing_is_due_by_one_look() -> None:
    suspects: GracePeriod[str] = GracePeriod(0)
    assert suspects.look(["a"], 100) == []
    assert suspects.look(["a"], 100) == ["a"]


def test_a_gap_begins_anew() -> None:
    suspects: GracePeriod[str] = GracePeriod(10)
    suspects.look(["a"], 100)
    suspects.forget()
    assert suspects.look(["a"], 111) == []
    assert suspects.look(["a"], 121) == ["a"]
