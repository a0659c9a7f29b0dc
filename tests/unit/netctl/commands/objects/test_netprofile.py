"""`netctl netprofile`."""

from typing import Any

import pytest

from tests.unit.netctl.master import Netctl


def profile(name: str, **fields: Any) -> dict[str, Any]:
    return {"key": f"default:{name}", "profileName": name, "tenantName": "default", **fields}


def test_ls_shows_bandwidth_in_short(netctl: Netctl) -> None:
    netctl.master.add(
        "netprofiles",
        profile("np1", bandwidth="10 mbps", DSCP=7, burst=2000),
        profile("np2", bandwidth="1Gbps"),
        profile("np3", bandwidth="5K"),
    )
    assert netctl("netprofile", "ls").out == (
        "Name    Tenant   Bandwidth  DSCP      burst size\n"
        "------  ------   ---------  --------  ----------\n"
        "np1     default  10Mbps     7         2000\n"
        "np2     default  1Gbps      0         0\n"
        "np3     default  5Kbps      0         0\n"
    )


def test_a_unit_does_not_leak_into_the_next_row(netctl: Netctl) -> None:
    netctl.master.add(
        "netprofiles", profile("np1", bandwidth="1gbps"), profile("np2", bandwidth="10 baud")
    )
    assert netctl("netprofile", "ls").out.splitlines()[-1].split() == [
        "np2",
        "default",
        "10",
        *"00",
    ]


def test_without_bandwidth_a_row_ends_with_its_dscp(netctl: Netctl) -> None:
    netctl.master.add("netprofiles", profile("np1", DSCP=6, burst=100))
    assert netctl("netprofile", "list").out.splitlines()[-1] == "np1     default             6"


def test_ls_quiet_and_json(netctl: Netctl) -> None:
    netctl.master.add("netprofiles", profile("np1"), profile("np2") | {"tenantName": "blue"})
    assert netctl("netprofile", "ls", "-q").out == "np1\n"
    assert netctl("netprofile", "ls", "-a", "-q").out == "np1\nnp2\n"
    assert '"profileName": "np1"' in netctl("netprofile", "ls", "-j").out


def test_create_sends_every_flag(netctl: Netctl) -> None:
    words = ("-t", "blue", "-b", "10 mbps", "-d", "6", "-s", "2000")
    done = netctl("netprofile", "create", "np1", *words)
    assert (done.code, done.out) == (0, "Creating netprofile blue:np1\n")
    assert netctl.master.written == [
        (
            "netprofiles",
            "blue:np1",
            {
                "tenantName": "blue",
                "profileName": "np1",
                "bandwidth": "10 mbps",
                "DSCP": 6,
                "burst": 2000,
            },
        )
    ]


@pytest.mark.parametrize("verb", ["rm", "delete"])
def test_rm_is_silent(verb: str, netctl: Netctl) -> None:
    done = netctl("netprofile", verb, "np1")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert netctl.master.deleted == [("netprofiles", "default:np1")]


def test_inspect_prints_all_of_it(netctl: Netctl) -> None:
    netctl.master.inspected["netprofiles", "default:np1"] = {"Config": {}}
    assert netctl("netprofile", "inspect", "np1").out == '{\n  "Config": {}\n}\n'


@pytest.mark.parametrize("verb", ["create", "rm", "inspect"])
@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_name_is_required(verb: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("netprofile", verb, *names)
    assert (done.code, done.message) == (1, '"Net profile name required"')
    assert (netctl.master.written, netctl.master.deleted) == ([], [])
