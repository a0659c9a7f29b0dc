"""`netctl group`."""

import pytest

from tests.unit.netctl.master import Netctl


def test_ls_joins_policies_and_does_not_pad_the_last_column(netctl: Netctl) -> None:
    netctl.master.add(
        "endpointGroups",
        {"key": "default:g1", "groupName": "g1", "networkName": "n1", "tenantName": "default"},
        {
            "key": "default:g3",
            "cfgdTag": "t1",
            "groupName": "g3",
            "ipPool": "10.1.1.10-10.1.1.20",
            "netProfile": "np1",
            "networkName": "n1",
            "policies": ["p1", "p2"],
            "tenantName": "default",
        },
        {"key": "blue:g1", "groupName": "g1", "networkName": "n1", "tenantName": "blue"},
    )
    assert netctl("group", "ls").out == (
        "Tenant   Group  Network  IP Pool              CfgdTag  Policies  Network profile\n"
        "------   -----  -------  -------              -------  --------  ---------------\n"
        "default  g1     n1                                               \n"
        "default  g3     n1       10.1.1.10-10.1.1.20  t1       p1,p2     np1\n"
    )
    assert netctl("group", "list", "-a", "-q").out == "g1\ng3\ng1\n"


def test_create_sends_every_flag(netctl: Netctl) -> None:
    words = "-t blue -p p1 -p p2 -n np -e e1 -e e2 -r 10.0.0.1-10.0.0.9 -tag red n1 g1"
    done = netctl("group", "create", *words.split())
    assert (done.code, done.out) == (0, "Creating EndpointGroup blue:g1\n")
    assert netctl.master.written == [
        (
            "endpointGroups",
            "blue:g1",
            {
                "tenantName": "blue",
                "networkName": "n1",
                "groupName": "g1",
                "policies": ("p1", "p2"),
                "netProfile": "np",
                "extContractsGrps": ("e1", "e2"),
                "ipPool": "10.0.0.1-10.0.0.9",
                "cfgdTag": "red",
            },
        )
    ]


def test_words_keep_their_order_around_flags(netctl: Netctl) -> None:
    netctl("group", "create", "n1", "-t", "blue", "g1")
    [(_, key, body)] = netctl.master.written
    assert (key, body["networkName"], body["groupName"]) == ("blue:g1", "n1", "g1")


@pytest.mark.parametrize("words", [[], ["n1"], ["n1", "g1", "x"], ["n1", ""]])
def test_create_requires_network_and_group(words: list[str], netctl: Netctl) -> None:
    done = netctl("group", "create", *words)
    assert (done.code, done.message) == (1, '"Network and group name required"')
    assert netctl.master.written == []


def test_rm_says_nothing(netctl: Netctl) -> None:
    done = netctl("group", "rm", "-t", "blue", "g1")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert netctl.master.deleted == [("endpointGroups", "blue:g1")]


@pytest.mark.parametrize("verb", ["rm", "inspect"])
def test_a_name_is_required(verb: str, netctl: Netctl) -> None:
    done = netctl("group", verb)
    assert (done.code, done.message) == (1, '"EndpointGroup name required"')


def test_inspect_prints_all_of_it(netctl: Netctl) -> None:
    netctl.master.inspected["endpointGroups", "default:g1"] = {"Oper": {"pktTag": 1}}
    assert netctl("group", "inspect", "g1").out == '{\n  "Oper": {\n    "pktTag": 1\n  }\n}\n'


def test_set_changes_what_is_excluded(netctl: Netctl) -> None:
    done = netctl("group", "set", "-t", "blue", "--exclude=10.0.0.2", "--exclude=10.0.0.8/29", "g1")
    said = "Excluding 10.0.0.2, 10.0.0.8/29 from blue:g1; what of it is in use stays so, "
    assert (done.code, done.out) == (0, f"{said}netctl ipam check lists it\n")
    assert netctl("network", "set", "--exclude=", "n1").out == "Excluding nothing from default:n1\n"
    assert netctl.master.patched == [
        ("endpointGroups", "blue:g1", {"exclude": ["10.0.0.2", "10.0.0.8/29"]}),
        ("networks", "default:n1", {"exclude": []}),
    ]


def test_set_without_a_flag_changes_nothing(netctl: Netctl) -> None:
    done = netctl("group", "set", "g1")
    assert (done.code, netctl.master.patched) == (1, [])
    assert "Nothing to set" in done.message


def test_create_sends_what_is_excluded(netctl: Netctl) -> None:
    netctl("group", "create", "--exclude=10.0.0.2", "n1", "g1")
    netctl("network", "create", "-s", "10.0.0.0/24", "--exclude=10.0.0.9-10.0.0.12", "n1")
    assert [body["exclude"] for _, _, body in netctl.master.written] == [
        ("10.0.0.2",),
        ("10.0.0.9-10.0.0.12",),
    ]
