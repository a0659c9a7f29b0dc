"""`netctl events`."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from tests.unit.netctl.master import Netctl

CHANGE = {
    "number": 7,
    "at": "2026-01-01T00:00:00.000+00:00",
    "who": "admin/joe",
    "address": "192.0.2.7",
    "omitted": 0,
    "objects": [
        {
            "kind": "networks",
            "key": "default:n1",
            "action": "create",
            "fields": [{"name": "subnet", "before": "", "after": '"10.1.1.0/24"'}],
        }
    ],
}
LINE = "2026-01-01T00:00:00.000+00:00  admin/joe 192.0.2.7  create networks default:n1\n"


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """Have this process be in a time zone."""
    try:
        with patch.dict(os.environ, TZ=name):
            time.tzset()
            yield
    finally:
        time.tzset()


def test_changes_are_shown_the_oldest_first(netctl: Netctl) -> None:
    later = {**CHANGE, "who": "", "omitted": 2}
    netctl.master.changed = [later, CHANGE]
    assert netctl("events").out == (
        LINE + LINE.replace("admin/joe", "-") + "    and 2 more objects\n"
    )


def test_fields_are_shown_when_asked_for(netctl: Netctl) -> None:
    netctl.master.changed = [CHANGE]
    assert netctl("events", "--fields").out == LINE + '    subnet: - -> "10.1.1.0/24"\n'


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        ("2026-01-01", True),
        ("2026-01-01T00:00:00+00:00", True),
        ("2026-01-01T00:00:01Z", False),
        ("2026-01-01T01:00:00+01:00", True),
        ("10m", False),
        ("99999d", True),
    ],
)
def test_what_is_older_is_left_out(netctl: Netctl, since: str, shown: bool) -> None:
    netctl.master.changed = [CHANGE]
    with time_zone("UTC"):
        assert netctl("events", "--since", since).out == (LINE if shown else "")
    assert netctl.master.asked == [("limit", "5000")]


def test_the_last_of_those_since_may_be_asked_for(netctl: Netctl) -> None:
    netctl("events", "--since", "1h", "-n", "3")
    assert netctl.master.asked == [("limit", "3")]


@pytest.mark.parametrize("since", ["soon", "5", "2026-13-01", "999999999d", "-1h"])
def test_a_time_that_is_none_is_refused(netctl: Netctl, since: str) -> None:
    assert netctl("events", "--since", since).code == 2


def test_filters_are_passed_on(netctl: Netctl) -> None:
    found = netctl("events", "-t", "blue", "-k", "networks", "-w", "admin/joe", "-n", "3", "-j")
    assert json.loads(found.out) == []
    assert sorted(netctl.master.asked) == [
        ("kind", "networks"),
        ("limit", "3"),
        ("tenantName", "blue"),
        ("who", "admin/joe"),
    ]
