"""`netctl network`."""

from typing import Any

import pytest

from tests.unit.netctl.master import Netctl

HEADER = (
    "Tenant   Network  Nw Type  Encap type  Packet tag  Subnet                  Gateway     "
    "IPv6Subnet     IPv6Gateway  Cfgd Tag \n"
    "------   -------  -------  ----------  ----------  -------                 ------      "
    "----------     -----------  ---------\n"
)
NETWORKS: list[dict[str, Any]] = [
    {
        "key": "default:n3",
        "encap": "vxlan",
        "gateway": "10.1.3.254",
        "networkName": "n3",
        "nwType": "data",
        "subnet": "10.1.3.10-10.1.3.20/24",
        "tenantName": "default",
    },
    {
        "key": "default:v6",
        "encap": "vxlan",
        "ipv6Gateway": "2001:db8::1",
        "ipv6Subnet": "2001:db8::/64",
        "networkName": "v6",
        "nwType": "data",
        "subnet": "10.1.6.0/24",
        "tenantName": "default",
    },
    {
        "key": "blue:n1",
        "cfgdTag": "tagx",
        "encap": "vlan",
        "gateway": "10.1.1.254",
        "networkName": "n1",
        "nwType": "infra",
        "pktTag": 100,
        "subnet": "10.1.1.0/24",
        "tenantName": "blue",
    },
]


@pytest.fixture
def stocked(netctl: Netctl) -> Netctl:
    netctl.master.add("tenants", {"key": "blue", "tenantName": "blue"})
    netctl.master.add("networks", *NETWORKS)
    return netctl


def test_ls_shows_the_networks_of_a_tenant(stocked: Netctl) -> None:
    assert stocked("net", "ls").out == HEADER + (
        "default  n3       data     vxlan       0           10.1.3.10-10.1.3.20/24  10.1.3.254  "
        "                            \n"
        "default  v6       data     vxlan       0           10.1.6.0/24                         "
        "2001:db8::/64  2001:db8::1  \n"
    )


def test_ls_all_shows_those_of_every_tenant(stocked: Netctl) -> None:
    last = stocked("net", "ls", "-a").out.splitlines()[-1]
    assert last == (
        "blue     n1       infra    vlan        100         10.1.1.0/24             10.1.1.254  "
        "                            tagx"
    )


def test_a_wide_list_has_the_tags_that_were_granted(stocked: Netctl) -> None:
    for number, one in enumerate(NETWORKS, 1):
        oper = {"pktTag": number, "numEndpoints": number * 10}
        stocked.master.inspected["networks", one["key"]] = {"Config": one, "Oper": oper}
    head, _, *rows = stocked("net", "ls", "-a", "-o", "wide").out.splitlines()
    assert head.split()[-3:] == ["Granted", "tag", "Endpoints"]
    assert [row.split()[-2:] for row in rows] == [["1", "10"], ["2", "20"], ["3", "30"]]


@pytest.mark.parametrize(
    ("words", "names"),
    [([], ["n3", "v6"]), (["-t", "blue"], ["n1"]), (["--all"], ["n3", "v6", "n1"])],
)
def test_ls_quiet_shows_names(words: list[str], names: list[str], stocked: Netctl) -> None:
    assert stocked("net", "ls", "-q", *words).out.split() == names


def test_ls_of_an_unknown_tenant_fails(stocked: Netctl) -> None:
    done = stocked("net", "ls", "-t", "nope")
    assert (done.code, done.out, done.message) == (3, "", '"tenant not found\n"')


def test_an_empty_list_is_a_header_or_brackets_or_nothing(netctl: Netctl) -> None:
    assert netctl("net", "ls").out == (
        "Tenant  Network  Nw Type  Encap type  Packet tag  Subnet   Gateway  IPv6Subnet  "
        "IPv6Gateway  Cfgd Tag \n"
        "------  -------  -------  ----------  ----------  -------  ------   ----------  "
        "-----------  ---------\n"
    )
    assert netctl("net", "ls", "-j").out == "[]\n"
    assert netctl("net", "ls", "-q").out == ""


def test_create_sends_every_flag(netctl: Netctl) -> None:
    words = "-t blue -n infra -e vlan -p 0x10 -g 10.0.0.1 -s6 fd00::/64 -g6 fd00::1 -tag red"
    done = netctl("net", "create", "n1", "-s", "10.0.0.0/24", *words.split())
    assert (done.code, done.out) == (0, "Creating network blue:n1\n")
    assert netctl.master.written == [
        (
            "networks",
            "blue:n1",
            {
                "tenantName": "blue",
                "networkName": "n1",
                "nwType": "infra",
                "encap": "vlan",
                "pktTag": 16,
                "subnet": "10.0.0.0/24",
                "gateway": "10.0.0.1",
                "ipv6Subnet": "fd00::/64",
                "ipv6Gateway": "fd00::1",
                "cfgdTag": "red",
            },
        )
    ]


def test_create_has_defaults(netctl: Netctl) -> None:
    netctl("net", "create", "-s", "10.0.0.0/24", "n1")
    [(_, key, body)] = netctl.master.written
    assert key == "default:n1"
    assert (body["encap"], body["nwType"], body["pktTag"]) == ("vxlan", "data", 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Network name required"),
        (["n1", "n2", "-s", "10.0.0.0/24"], "Network name required"),
        (["n1"], "Subnet is required"),
        (["n1", "-s", "x", "-g", "abc"], "Invalid gateway - Enter in A.B.C.D format"),
        (["n1", "-s", "x", "-g", "fd00::1"], "Invalid gateway - Enter in A.B.C.D format"),
        (["n1", "-s", "x", "-g6", "abc"], "Invalid IPv6 gateway "),
        (["n1", "-s", "x", "-g6", "10.0.0.1"], "Invalid IPv6 gateway "),
        (["n1", "-s", "x", "-g6", "fe80::1%eth0"], "Invalid IPv6 gateway "),
    ],
)
def test_create_checks_before_it_asks(words: list[str], message: str, netctl: Netctl) -> None:
    done = netctl("net", "create", *words)
    assert (done.code, done.message) == (1, f'"{message}"')
    assert "Usage: netctl network create" in done.out
    assert netctl.master.written == []


def test_the_same_network_may_be_there_if_asked_for(netctl: Netctl) -> None:
    words = ("net", "create", "--if-absent", "-s", "10.0.0.0/24")
    assert netctl(*words, "n1").out == "Creating network default:n1\n"
    [(_, _, body)] = netctl.master.written
    # netmaster leaves out what is empty
    stored = {name: value for name, value in body.items() if value}
    netctl.master.add("networks", {"key": "default:n1", **stored})
    done = netctl(*words, "n1")
    told = "default:n1 exists already with these settings, nothing was changed\n"
    assert (done.code, done.out, done.err) == (0, told, "")
    done = netctl(*words, "--encap=vlan", "n1")
    assert (done.code, done.out) == (3, "")
    assert 'default:n1 exists with other settings: encap is "vxlan", not "vlan"' in done.message
    assert len(netctl.master.written) == 1


def test_nothing_is_said_to_be_done_by_a_dry_run(netctl: Netctl) -> None:
    for words in (("create", "-s", "10.0.0.0/24"), ("rm",)):
        assert netctl("net", *words, "--what-if", "n1").out == ""


def test_rm_and_inspect_name_the_tenant(netctl: Netctl) -> None:
    netctl.master.inspected["networks", "blue:n1"] = {"Config": {}}
    assert netctl("net", "inspect", "-t", "blue", "n1").out == '{\n  "Config": {}\n}\n'
    assert netctl("net", "rm", "n1", "-t", "blue").out == "Deleting network blue:n1\n"
    assert netctl.master.deleted == [("networks", "blue:n1")]
