"""`netctl wait`."""

from typing import Any

import pytest

from netctl.commands.cluster import wait
from tests.unit.netctl.master import Netctl


def said(*, done: bool, absent: tuple[str, ...] = ()) -> dict[str, Any]:
    condition = {
        "type": "realised",
        "status": done,
        "since": "12:00",
        "hosts": 2 if done else 1,
        "of": 2,
        "host": "" if done else "h2",
        "reason": "" if done else "state/nets/ at 6 of 7",
    }
    return {"key": "x", "conditions": [condition], "absent": list(absent)}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "POLL_INTERVAL", 0.0)


@pytest.mark.parametrize(
    ("kind", "name", "asked"),
    [
        ("network", "blue/sea", ("networks", "blue:sea")),
        ("network", "sea", ("networks", "default:sea")),
        ("group", "blue/web", ("endpointGroups", "blue:web")),
        ("policy", "blue/web-in", ("policys", "blue:web-in")),
        ("rule", "blue/web-in/1", ("rules", "blue:web-in:1")),
        ("rule", "web-in/1", ("rules", "default:web-in:1")),
        ("endpoint", "sea.blue-c1", ("endpoints", "sea.blue-c1")),
    ],
)
def test_it_waits_until_all_hosts_have_it(
    netctl: Netctl, kind: str, name: str, asked: tuple[str, str]
) -> None:
    netctl.master.condition = lambda look: said(done=look > 2)
    done = netctl("wait", kind, name, "--realised", "--timeout", "30s")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{kind} {name} is realised on 2 of 2 hosts\n"
    assert netctl.master.asked == [asked]
    assert netctl.master.looks == 3


def test_it_fails_in_time_with_the_reason_of_the_first_host(netctl: Netctl) -> None:
    netctl.master.condition = lambda _: said(done=False, absent=("h3",))
    done = netctl("wait", "network", "sea", "--realised", "--timeout=0s")
    assert done.code == 5
    assert done.out == "network sea is realised on 1 of 2 hosts\n"
    assert "not waited for, without an agent: h3" in done.err
    assert "host h2: state/nets/ at 6 of 7" in done.err


def test_what_does_not_exist_fails_at_once(netctl: Netctl) -> None:
    netctl.master.refusal = "network default:sea not found\n"
    done = netctl("wait", "network", "sea", "--realised")
    assert (done.code, netctl.master.looks) == (3, 1)
    assert "not found" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["network", "sea"],
        ["tenant", "blue", "--realised"],
        ["network", "a/b/c", "--realised"],
        ["network", "a/", "--realised"],
        ["rule", "1", "--realised"],
        ["network", "--realised"],
        ["network", "sea", "--realised", "--timeout=soon"],
        ["network", "sea", "--realised", "--timeout=-5s"],
    ],
)
def test_what_cannot_be_waited_for_is_refused(netctl: Netctl, words: list[str]) -> None:
    done = netctl("wait", *words)
    assert done.code in {1, 2}
    assert netctl.master.looks == 0
