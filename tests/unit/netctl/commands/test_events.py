"""`netctl events`."""

import json

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


def test_changes_are_shown_the_oldest_first(netctl: Netctl) -> None:
    later = {**CHANGE, "who": "", "omitted": 2}
    netctl.master.changed = [later, CHANGE]
    assert netctl("events").out == (
        LINE + LINE.replace("admin/joe", "-") + "    and 2 more objects\n"
    )


def test_fields_are_shown_when_asked_for(netctl: Netctl) -> None:
    netctl.master.changed = [CHANGE]
    assert netctl("events", "--fields").out == LINE + '    subnet: - -> "10.1.1.0/24"\n'


def test_filters_are_passed_on(netctl: Netctl) -> None:
    found = netctl("events", "-t", "blue", "-k", "networks", "-w", "admin/joe", "-n", "3", "-j")
    assert json.loads(found.out) == []
    assert sorted(netctl.master.asked) == [
        ("kind", "networks"),
        ("limit", "3"),
        ("tenantName", "blue"),
        ("who", "admin/joe"),
    ]
