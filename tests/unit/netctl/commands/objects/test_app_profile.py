"""`netctl app-profile`."""

from typing import Any

import pytest

from tests.unit.netctl.master import Netctl

PROFILE: dict[str, Any] = {
    "key": "default:a1",
    "appProfileName": "a1",
    "endpointGroups": ["g1", "g2"],
    "tenantName": "default",
}


@pytest.fixture
def stocked(netctl: Netctl) -> Netctl:
    netctl.master.add(
        "appProfiles",
        PROFILE,
        {"key": "default:a2", "appProfileName": "a2", "tenantName": "default"},
    )
    return netctl


def test_ls_joins_groups_with_commas(stocked: Netctl) -> None:
    assert stocked("app-profile", "ls").out == (
        "Tenant   AppProfile  Groups\n"
        "------   ----------  ------\n"
        "default  a1          g1,g2\n"
        "default  a2          \n"
    )
    assert stocked("app-profile", "list", "-q").out == "a1\na2\n"


@pytest.mark.parametrize("verb", ["group-ls", "group-list"])
@pytest.mark.parametrize("flags", [[], ["-q"], ["-a"]])
def test_group_ls_is_one_unfinished_line(verb: str, flags: list[str], stocked: Netctl) -> None:
    assert stocked("app-profile", verb, "a1", *flags).out == "g1,g2"
    assert stocked("app-profile", verb, "a2", *flags).out == ""


def test_group_ls_json_is_the_profile(stocked: Netctl) -> None:
    out = stocked("app-profile", "group-ls", "-j", "a1").out
    assert out.startswith('{\n  "key": "default:a1",\n')


def test_group_ls_of_an_unknown_profile_fails(stocked: Netctl) -> None:
    done = stocked("app-profile", "group-ls", "nope")
    assert (done.code, done.out, done.message) == (3, "", '"appProfile not found\n"')


@pytest.mark.parametrize(("groups", "sent"), [([], []), (["-g", "g1,g2"], ["g1", "g2"])])
def test_create_splits_the_list_of_groups(
    groups: list[str], sent: list[str], netctl: Netctl
) -> None:
    done = netctl("app-profile", "create", *groups, "a1")
    assert (done.code, done.out) == (0, "Creating AppProfile default:a1\n")
    assert netctl.master.written == [
        (
            "appProfiles",
            "default:a1",
            {"tenantName": "default", "appProfileName": "a1", "endpointGroups": sent},
        )
    ]


def test_update_replaces_the_groups_silently(stocked: Netctl) -> None:
    done = stocked("app-profile", "update", "-g", "g3", "a1")
    assert (done.code, done.out, done.err) == (0, "", "")
    [(_, key, body)] = stocked.master.written
    assert (key, body["endpointGroups"]) == ("default:a1", ["g3"])


def test_update_does_not_create(stocked: Netctl) -> None:
    done = stocked("app-profile", "update", "nope")
    assert (done.code, done.message) == (3, '"appProfile not found\n"')
    assert stocked.master.written == []


@pytest.mark.parametrize("verb", ["rm", "delete"])
def test_rm_is_silent(verb: str, netctl: Netctl) -> None:
    done = netctl("app-profile", verb, "a1", "-t", "blue")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert netctl.master.deleted == [("appProfiles", "blue:a1")]


@pytest.mark.parametrize("verb", ["create", "update", "rm", "group-ls"])
@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_name_is_required(verb: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("app-profile", verb, *names)
    assert (done.code, done.message) == (1, '"Profile name required"')
    assert (netctl.master.written, netctl.master.deleted) == ([], [])
