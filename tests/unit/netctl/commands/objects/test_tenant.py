"""`netctl tenant`."""

import pytest

from tests.unit.netctl.master import Netctl


def test_ls_is_a_table_with_padded_names(netctl: Netctl) -> None:
    assert netctl("tenant", "ls").out == "Name     \n------   \ndefault  \n"
    assert netctl("tenant", "list", "-q").out == "default\n"


def test_ls_json_is_what_the_server_sent(netctl: Netctl) -> None:
    expected = (
        '[\n  {\n    "key": "default",\n    "tenantName": "default",\n    "link-sets": {}\n  }\n]\n'
    )
    assert netctl("tenant", "ls", "--json").out == expected


def test_create_says_so_after_it_is_done(netctl: Netctl) -> None:
    done = netctl("tenant", "create", "blue")
    assert (done.code, done.out, done.err) == (0, "Creating tenant: blue\n", "")
    assert netctl.master.written == [("tenants", "blue", {"tenantName": "blue"})]


def test_a_refused_create_is_silent_on_stdout(netctl: Netctl) -> None:
    netctl.master.refusal = "tenantName string too long\n"
    done = netctl("tenant", "create", "blue")
    assert (done.code, done.out) == (3, "")
    assert done.message == '"tenantName string too long\n"'


@pytest.mark.parametrize("verb", ["rm", "delete"])
def test_rm_says_so_before_it_asks(verb: str, netctl: Netctl) -> None:
    netctl.master.refusal = "tenant not found\n"
    done = netctl("tenant", verb, "blue")
    assert (done.code, done.out) == (3, "Deleting tenant blue\n")


@pytest.mark.parametrize("verb", ["create", "rm", "inspect"])
@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_name_is_required(verb: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("tenant", verb, *names)
    assert done.code == 1
    assert done.message == '"Tenant name required"'
    assert f"Usage: netctl tenant {verb}" in done.out
    assert (netctl.master.written, netctl.master.deleted) == ([], [])


def test_ls_takes_no_name(netctl: Netctl) -> None:
    done = netctl("tenant", "ls", "extra")
    assert (done.code, done.message) == (1, '"More arguments than required"')


def test_inspect_prints_all_of_it(netctl: Netctl) -> None:
    netctl.master.inspected["tenants", "blue"] = {"Config": {"key": "blue"}, "Oper": {}}
    done = netctl("tenant", "inspect", "blue")
    assert done.out == '{\n  "Config": {\n    "key": "blue"\n  },\n  "Oper": {}\n}\n'


def test_quotas_are_set_by_flags_and_shown_without(netctl: Netctl) -> None:
    netctl("tenant", "create", "--networks=5", "--addresses-in-use=500", "blue")
    assert netctl.master.written == [
        (
            "tenants",
            "blue",
            {"tenantName": "blue", "networkQuota": 5, "usedAddressQuota": 500},
        )
    ]
    done = netctl("tenant", "quota", "--rules=0", "--endpoints=9", "blue")
    assert (done.code, done.out) == (0, "")
    assert netctl.master.patched == [("tenants", "blue", {"ruleQuota": 0, "endpointQuota": 9})]
    quotas = {"endpoints": {"used": 3, "allowed": 9}}
    netctl.master.inspected["tenants", "blue"] = {"Oper": {"quotas": quotas}}
    shown = netctl("tenant", "quota", "blue").out.splitlines()
    assert [line.split() for line in shown] == [
        ["Of", "Used", "Allowed"],
        ["--", "----", "-------"],
        ["endpoints", "3", "9"],
    ]
