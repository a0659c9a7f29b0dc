"""The check of commit messages: what `scripts/check-commits` refuses, and what it lets pass."""

from typing import Any

import pytest

from tests.unit.scripts import script as load

WHY = "The reason of the change."


@pytest.fixture(scope="module")
def script() -> Any:
    return load("check-commits")


@pytest.mark.parametrize(
    "subject",
    [
        "Sort modules into packages by subject and rename them",
        "Pass the deadline on",
        "Address the second review",
        "Discuss MTU in the troubleshooting page",
        "Wait for flows in tests of both forwarding modes: time proves nothing",
        "Need a leader before the first write",
        "x".upper() * 72,
    ],
)
def test_a_good_subject_passes(script: Any, subject: str) -> None:
    assert script.faults(script.Commit("c", subject, WHY, 500)) == []


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("X" * 73, "73 characters"),
        ("fix the tests", "capital"),
        ("", "capital"),
        ("Fix the tests.", "dot"),
        ("Fixed the tests", "no imperative"),
        ("Fixes the tests", "no imperative"),
        ("Fixing the tests", "no imperative"),
        ("Tests: wait for flows", "topic"),
        ("Test of hosts: wait for flows", "topic"),
        ("fixup! Fix the tests", "unfinished"),
        ("WIP", "unfinished"),
    ],
)
def test_a_bad_subject_is_refused(script: Any, subject: str, fault: str) -> None:
    assert any(fault in found for found in script.faults(script.Commit("c", subject, WHY, 500)))


@pytest.mark.parametrize("body", ["", "\n\n", "Signed-off-by: A B <a@example.org>\n"])
def test_more_than_a_few_lines_need_a_reason(script: Any, body: str) -> None:
    assert script.faults(script.Commit("c", "Fix it", body, 10)) == []
    assert "no body" in script.faults(script.Commit("c", "Fix it", body, 11))[0]
    assert script.faults(script.Commit("c", "Fix it", f"{body}{WHY}\n", 11)) == []


def test_a_history_without_the_first_commit_is_not_checked(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"rev-parse": ".git\n", "log": "abc An only commit\n"}
    monkeypatch.setattr(script, "git", lambda *words: answers[words[0]])
    assert script.main([]) == 0
    assert "nothing is checked" in capsys.readouterr().out
