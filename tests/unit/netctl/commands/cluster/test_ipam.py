"""`netctl ipam check`."""

import json

from tests.unit.netctl.master import Netctl

STALE = {
    "kind": "grant-without-owner",
    "network": "n1.default",
    "address": "10.1.1.9",
    "owner": "endpoint n1.default-gone",
    "since": 86400.0,
    "remedy": "release the address",
    "certain": True,
}
CONTESTED = STALE | {"kind": "address-contested", "since": None, "remedy": "nothing: ask a user"}


def test_nothing_found_is_a_success_without_a_word(netctl: Netctl) -> None:
    netctl.master.ipam = {"findings": [], "counts": {}, "mended": {}}
    done = netctl("ipam", "check")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_findings_are_a_table_and_exit_with_1(netctl: Netctl) -> None:
    netctl.master.ipam = {"findings": [STALE, CONTESTED]}
    done = netctl("ipam", "check")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("Kind  ")
    assert done.out.splitlines()[2] == (
        "grant-without-owner  n1.default  10.1.1.9  endpoint n1.default-gone  "
        "1970-01-02T00:00:00+00:00  release the address"
    )
    assert done.out.splitlines()[3].split() == [
        *("address-contested", "n1.default", "10.1.1.9", "endpoint", "n1.default-gone"),
        *("-", "nothing:", "ask", "a", "user"),
    ]


def test_a_fix_that_leaves_nothing_is_a_success(netctl: Netctl) -> None:
    netctl.master.fixed = {"fixed": [STALE], "findings": []}
    done = netctl("ipam", "check", "--fix")
    assert done.code == 0
    assert done.out == (
        "Fixed: grant-without-owner n1.default 10.1.1.9 endpoint n1.default-gone: "
        "release the address\n"
    )


def test_a_fix_that_leaves_something_says_what(netctl: Netctl) -> None:
    netctl.master.fixed = {"fixed": [], "findings": [CONTESTED]}
    done = netctl("ipam", "check", "--fix")
    assert done.code == 1
    assert "address-contested" in done.out


def test_json_is_what_the_server_sent(netctl: Netctl) -> None:
    netctl.master.ipam = {"findings": [STALE], "counts": {"endpoints": 3}, "mended": {}}
    done = netctl("ipam", "check", "--json")
    assert (done.code, json.loads(done.out)) == (1, netctl.master.ipam)


def test_a_refusal_is_shown(netctl: Netctl) -> None:
    netctl.master.refusal = "Leader not found"
    assert netctl("ipam", "check", "--fix").code == 3


def test_what_is_kept_is_a_table(netctl: Netctl) -> None:
    netctl.master.kept = [
        {
            "key": "default:n1:shop:db-0",
            "tenantName": "default",
            "networkName": "n1",
            "name": "shop/db-0",
            "ipAddress": "10.1.1.9",
            "ipv6Address": "",
            "macAddress": "",
            "host": "h1",
            "awaySeconds": 0.0,
        }
    ]
    done = netctl("ipam", "kept")
    assert done.out.splitlines()[2].split() == ["default", "n1", "shop/db-0", "10.1.1.9", "h1"]
    assert netctl.master.asked_kept == [{"tenantName": "default"}]
    netctl("ipam", "kept", "--all")
    assert netctl.master.asked_kept[1:] == [{}]


def test_release_names_network_and_pod(netctl: Netctl) -> None:
    done = netctl("ipam", "release", "-t", "blue", "n1", "shop/db-0")
    assert (done.code, done.out) == (0, "Released what was kept for shop/db-0\n")
    assert netctl.master.released == ["blue:n1:shop:db-0"]
    assert netctl("ipam", "release", "n1").code == 1
