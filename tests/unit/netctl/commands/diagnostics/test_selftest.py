"""`netctl selftest`."""

import json

from tests.unit.netctl.master import Netctl

WELL = {"passed": 1, "failed": {}}


def test_a_table_of_hosts_and_exit_0_if_all_is_well(netctl: Netctl) -> None:
    checks = {
        "agent": WELL,
        "tunnels": {"passed": 3, "failed": {}},
        "names": {"passed": 0, "failed": {}},
    }
    netctl.master.tested = {"passed": True, "hosts": [{"host": "h1", "checks": checks}]}
    done = netctl("selftest")
    head, _, row, unseen = done.out.splitlines()
    assert head.split() == [
        *("Host", "Agent", "Ready", "Flows", "Tunnels", "Services", "Names", "Applied")
    ]
    assert row.split() == ["h1", "1/1", "-", "-", "3/3", "-", "-", "-"]
    assert unseen.startswith("Not tested: ")
    assert (done.code, done.err) == (0, "")


def test_what_failed_is_named_and_the_exit_code_1(netctl: Netctl) -> None:
    checks = {"tunnels": {"passed": 1, "failed": {"h2": "short packets alone pass"}}}
    netctl.master.tested = {"passed": False, "hosts": [{"host": "h1", "checks": checks}]}
    done = netctl("selftest")
    assert done.out.splitlines()[-2] == "h1: tunnels: h2: short packets alone pass"
    assert (done.code, done.err) == (1, "")
    done = netctl("selftest", "--json")
    assert (done.code, json.loads(done.out)) == (1, netctl.master.tested)
