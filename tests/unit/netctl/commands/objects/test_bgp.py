"""`netctl bgp`."""

import pytest

from tests.unit.netctl.master import Netctl

FLAGS = {"router-ip": "50.1.1.1/24", "as": "65000", "neighbor-as": "65001", "neighbor": "50.1.1.2"}


def words(**changed: str) -> list[str]:
    given = FLAGS | {name.replace("_", "-"): value for name, value in changed.items()}
    return [f"--{name}={value}" for name, value in given.items()]


def test_ls_is_a_table(netctl: Netctl) -> None:
    netctl.master.add(
        "Bgps",
        {
            "key": "h1",
            "as": "65000",
            "hostname": "h1",
            "neighbor": "50.1.1.2",
            "neighbor-as": "65001",
            "routerip": "50.1.1.1/24",
        },
    )
    assert netctl("bgp", "ls").out == (
        "HostName   RouterIP     AS       Neighbor  NeighborAS\n"
        "---------  --------     -------  --------  -------\n"
        "h1         50.1.1.1/24  65000    50.1.1.2  65001\n"
    )
    assert netctl("bgp", "list", "--quiet").out == "h1\n"


def test_ls_takes_no_name(netctl: Netctl) -> None:
    done = netctl("bgp", "ls", "h1")
    assert (done.code, done.message) == (1, '"More arguments than required"')


def test_create_is_silent(netctl: Netctl) -> None:
    done = netctl("bgp", "create", "h1", *words())
    assert (done.code, done.out, done.err) == (0, "", "")
    assert netctl.master.written == [
        (
            "Bgps",
            "h1",
            {
                "hostname": "h1",
                "routerip": "50.1.1.1/24",
                "as": "65000",
                "neighbor": "50.1.1.2",
                "neighbor-as": "65001",
            },
        )
    ]


IPV6 = {"router-ipv6": "fd50::1/64", "neighbor-ipv6": "fd50::2"}


@pytest.mark.parametrize(
    ("flags", "body"),
    [
        (words(router_ipv6="fd50::1/64"), {"routerIpv6": "fd50::1/64"}),
        (
            words(**IPV6, neighbor=""),
            {"routerIpv6": "fd50::1/64", "neighborIpv6": "fd50::2", "neighbor": ""},
        ),
        (
            words(**IPV6, neighbor="", router_ip=""),
            {
                "routerIpv6": "fd50::1/64",
                "neighborIpv6": "fd50::2",
                "neighbor": "",
                "routerip": "",
            },
        ),
    ],
)
def test_create_by_ipv6(flags: list[str], body: dict[str, str], netctl: Netctl) -> None:
    assert netctl("bgp", "create", "h1", *flags).code == 0
    ((plural, name, written),) = netctl.master.written
    ipv4 = {"routerip": FLAGS["router-ip"], "neighbor": FLAGS["neighbor"]}
    named = {"hostname": "h1", "as": FLAGS["as"], "neighbor-as": FLAGS["neighbor-as"]}
    assert (plural, name, written) == ("Bgps", "h1", {**named, **ipv4, **body})


def test_ls_shows_addresses_of_both_families(netctl: Netctl) -> None:
    own = {"routerip": "50.1.1.1/24", "routerIpv6": "fd50::1/64"}
    netctl.master.add("Bgps", {"key": "h1", "hostname": "h1", "neighborIpv6": "fd50::2", **own})
    row = netctl("bgp", "ls").out.splitlines()[-1].split()
    assert row == ["h1", "50.1.1.1/24,fd50::1/64", "fd50::2"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (words(router_ipv6="fd50::1"), "Wrong CIDR format. Enter in x:x::x/len format"),
        (words(router_ipv6="fd50::1/129"), "Wrong CIDR format. Enter in x:x::x/len format"),
        (words(neighbor_ipv6="50.1.1.2"), "Wrong IP format. Enter in x:x::x format"),
        (words(neighbor_ipv6="fe80::2%eth0"), "Wrong IP format. Enter in x:x::x format"),
        (words(router_ip=""), "Wrong CIDR format. Enter in x.x.x.x/len format"),
        ([], "Wrong CIDR format. Enter in x.x.x.x/len format"),
        (words(router_ip="50.1.1.1"), "Wrong CIDR format. Enter in x.x.x.x/len format"),
        (words(router_ip="50.1.1.1/33"), "Wrong CIDR format. Enter in x.x.x.x/len format"),
        (words(router_ip="fd00::1/64"), "Wrong CIDR format. Enter in x.x.x.x/len format"),
        (words(neighbor="bad"), "Wrong IP format. Enter in x.x.x.x format"),
        (words(neighbor="fd00::1"), "Wrong IP format. Enter in x.x.x.x format"),
        ([*words(), "--as="], "Missing attributes"),
        (words(neighbor_as=""), "Missing attributes"),
    ],
)
def test_create_checks_before_it_asks(flags: list[str], message: str, netctl: Netctl) -> None:
    done = netctl("bgp", "create", "h1", *flags)
    assert (done.code, done.message) == (1, f'"{message}"')
    assert "Usage: netctl bgp create" in done.out
    assert netctl.master.written == []


@pytest.mark.parametrize("verb", ["rm", "delete"])
def test_rm_says_so_before_it_asks(verb: str, netctl: Netctl) -> None:
    assert netctl("bgp", verb, "h1").out == "Deleting Bgp router config: h1\n"
    assert netctl.master.deleted == [("Bgps", "h1")]


def test_inspect_prints_all_of_it(netctl: Netctl) -> None:
    netctl.master.inspected["Bgps", "h1"] = {"Config": {}}
    assert netctl("bgp", "inspect", "h1").out == '{\n  "Config": {}\n}\n'


@pytest.mark.parametrize("verb", ["create", "rm", "inspect"])
@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_host_is_required(verb: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("bgp", verb, *names)
    assert (done.code, done.message) == (1, '"Host name required"')
    assert (netctl.master.written, netctl.master.deleted) == ([], [])
