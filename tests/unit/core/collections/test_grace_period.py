"""A suspect is due after two scans at least, a grace period apart, without a failed scan."""

from core.collections.grace_period import GracePeriod


def test_a_suspect_is_due_after_the_grace_period() -> None:
    suspects: GracePeriod[str] = GracePeriod(10)
    assert suspects.observe(["a"], 100) == []
    assert suspects.observe(["a", "b"], 109.9) == []
    assert suspects.observe(["a", "b"], 110) == ["a"]
    assert suspects.observe(["a", "b"], 120) == ["a", "b"]


def test_a_suspect_that_was_seen_again_starts_again() -> None:
    suspects: GracePeriod[str] = GracePeriod(10)
    suspects.observe(["a"], 100)
    suspects.observe([], 105)
    assert suspects.observe(["a"], 111) == []
    assert suspects.observe(["a"], 121) == ["a"]


def test_nothing_is_due_after_one_scan() -> None:
    suspects: GracePeriod[str] = GracePeriod(0)
    assert suspects.observe(["a"], 100) == []
    assert suspects.observe(["a"], 100) == ["a"]


def test_a_failed_scan_starts_all_suspects_again() -> None:
    suspects: GracePeriod[str] = GracePeriod(10)
    suspects.observe(["a"], 100)
    suspects.reset()
    assert suspects.observe(["a"], 111) == []
    assert suspects.observe(["a"], 121) == ["a"]
