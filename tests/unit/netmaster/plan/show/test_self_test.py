"""The report of a self-test."""

import json

import pytest

from netmaster.plan.show.self_test import MOST, report

WELL = {"passed": 3, "failed": {}}
APPLIED = {"label": "h1", "applied": True, "errors": []}


def said(**checks: object) -> bytes:
    return json.dumps(checks).encode()


def test_all_is_well() -> None:
    found = report({"h1": said(tunnels=WELL)}, {}, [APPLIED])
    assert found == {
        "passed": True,
        "hosts": [
            {
                "host": "h1",
                "checks": {
                    "agent": {"passed": 1, "failed": {}},
                    "tunnels": WELL,
                    "applied": {"passed": 1, "failed": {}},
                },
            }
        ],
    }


def test_what_an_agent_says_a_silent_one_and_one_behind_are_failures() -> None:
    broken = {"passed": 1, "failed": {"h2": "does not answer"}}
    late = {"label": "h2", "applied": False, "behind": "has not reported", "errors": ["a", "b"]}
    found = report({"h1": said(tunnels=broken)}, {"h2": "away"}, [APPLIED, late])
    assert not found["passed"]
    one, two = (host["checks"] for host in found["hosts"])
    assert one["tunnels"] == broken
    assert two["agent"]["failed"] == {"answer": "away"}
    assert two["applied"]["failed"] == {
        "error 1": "a",
        "error 2": "b",
        "changes": "has not reported",
    }


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'"x"', b'{"ready": 1}', b'{"ready": {"passed": "x", "failed": {}}}']
)
def test_an_answer_that_cannot_be_read_is_a_failure(answer: bytes) -> None:
    found = report({"h1": answer}, {}, [APPLIED])
    assert not found["passed"]
    assert "not an answer" in found["hosts"][0]["checks"]["agent"]["failed"]["answer"]


def test_a_host_without_a_record_is_told_and_long_answers_cut() -> None:
    many = {"passed": 0, "failed": {str(number): "x" for number in range(MOST + 1)}}
    found = report({"h9": said(tunnels=many)}, {}, [])
    (host,) = found["hosts"]
    assert len(host["checks"]["tunnels"]["failed"]) == MOST
    assert host["checks"]["applied"]["failed"] == {"record": "the host has no record"}
