"""`netctl policy`, without its rules."""

import pytest

from tests.unit.netctl.master import Netctl


@pytest.fixture
def stocked(netctl: Netctl) -> Netctl:
    netctl.master.add(
        "policys",
        {"key": "default:p1", "policyName": "p1", "tenantName": "default"},
        {"key": "blue:p2", "policyName": "p2", "tenantName": "blue"},
    )
    return netctl


def test_ls_shows_the_policies_of_a_tenant_or_all(stocked: Netctl) -> None:
    head = "Tenant   Policy\n------   ------\n"
    assert stocked("policy", "ls").out == head + "default  p1\n"
    assert stocked("policy", "list", "-a").out == head + "default  p1\nblue     p2\n"
    assert stocked("policy", "ls", "-q", "-a").out == "p1\np2\n"


def test_create_says_so_after_it_is_done(netctl: Netctl) -> None:
    done = netctl("policy", "create", "-t", "blue", "p1")
    assert (done.code, done.out) == (0, "Creating policy blue:p1\n")
    assert netctl.master.written == [
        ("policys", "blue:p1", {"tenantName": "blue", "policyName": "p1"})
    ]


@pytest.mark.parametrize("verb", ["rm", "delete"])
def test_rm_says_so_before_it_asks(verb: str, netctl: Netctl) -> None:
    assert netctl("policy", verb, "p1").out == "Deleting policy default:p1\n"
    assert netctl.master.deleted == [("policys", "default:p1")]
    netctl.master.refusal = "Policy is being used\n"
    done = netctl("policy", verb, "p1")
    assert (done.code, done.out) == (3, "Deleting policy default:p1\n")


def test_inspect_prints_all_of_it(netctl: Netctl) -> None:
    netctl.master.inspected["policys", "blue:p1"] = {"Config": {"key": "blue:p1"}}
    done = netctl("policy", "inspect", "p1", "-t", "blue")
    assert done.out == '{\n  "Config": {\n    "key": "blue:p1"\n  }\n}\n'


@pytest.mark.parametrize("verb", ["create", "rm", "inspect", "rule-ls"])
@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_name_is_required(verb: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("policy", verb, *names)
    assert (done.code, done.message) == (1, '"Policy name required"')
    assert f"Usage: netctl policy {verb} [OPTIONS] [policy]" in done.out
    assert (netctl.master.written, netctl.master.deleted) == ([], [])


def test_ls_takes_no_name(netctl: Netctl) -> None:
    done = netctl("policy", "ls", "extra")
    assert (done.code, done.message) == (1, '"More arguments than required"')


def test_a_policy_is_put_under_audit_and_enforced(netctl: Netctl) -> None:
    netctl("policy", "create", "--audit", "p1")
    assert netctl.master.written[-1][2]["enforcement"] == "audit"
    done = netctl("policy", "audit", "-t", "blue", "p1")
    assert netctl.master.patched == [("policys", "blue:p1", {"enforcement": "audit"})]
    assert done.out.startswith("blue:p1 is under audit: see `netctl flows -v audited`")
    assert netctl("policy", "audit", "--off", "p1").out == "Enforcing default:p1\n"
    assert netctl.master.patched[-1] == ("policys", "default:p1", {"enforcement": "enforcing"})
