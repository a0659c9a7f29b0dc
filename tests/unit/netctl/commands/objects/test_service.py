"""`netctl service`."""

from typing import Any

import pytest

from tests.unit.netctl.master import Netctl

SERVICE: dict[str, Any] = {
    "key": "default:s1",
    "networkName": "n1",
    "selectors": ["app=web", "tier=1"],
    "serviceName": "s1",
    "tenantName": "default",
}


@pytest.mark.parametrize("flags", [[], ["-t", ""], ["-a"]])
def test_ls_shows_selectors_in_brackets(flags: list[str], netctl: Netctl) -> None:
    netctl.master.add("serviceLBs", SERVICE)
    assert netctl("service", "ls", *flags).out == (
        "ServiceName  Tenant    Network  Selectors\n"
        "---------    --------  -------  -------\n"
        "s1           default   n1       [app=web tier=1]  \n"
    )


def test_ls_quiet_shows_names(netctl: Netctl) -> None:
    netctl.master.add("serviceLBs", SERVICE)
    assert netctl("service", "list", "-q").out == "s1\n"


def test_ls_takes_no_name(netctl: Netctl) -> None:
    done = netctl("service", "ls", "extra")
    assert (done.code, done.message) == (1, '"More arguments than required"')


@pytest.mark.parametrize("address", ["-ip", "--ip", "--preferred-ip"])
def test_create_sends_every_flag(address: str, netctl: Netctl) -> None:
    words = [
        "-s",
        "n1",
        "-l",
        "app=web",
        "--selector=tier=1",
        "-p",
        "80:8080:TCP",
        "--port",
        "53:53:UDP",
    ]
    done = netctl("service", "create", *words, address, "10.1.1.7", "s1")
    assert (done.code, done.out) == (0, "Creating ServiceLB default:s1\n")
    assert netctl.master.written == [
        (
            "serviceLBs",
            "default:s1",
            {
                "tenantName": "default",
                "serviceName": "s1",
                "networkName": "n1",
                "selectors": ("app=web", "tier=1"),
                "ports": ("80:8080:TCP", "53:53:UDP"),
                "ipAddress": "10.1.1.7",
            },
        )
    ]


@pytest.mark.parametrize(
    ("flags", "tenant"), [([], "default"), (["-t", ""], "default"), (["-t", "blue"], "blue")]
)
def test_rm_says_so_before_it_asks(flags: list[str], tenant: str, netctl: Netctl) -> None:
    assert netctl("service", "rm", "s1", *flags).out == f"Deleting Service  s1,{tenant}\n"
    assert netctl.master.deleted == [("serviceLBs", f"{tenant}:s1")]


def test_inspect_prints_all_of_it(netctl: Netctl) -> None:
    netctl.master.inspected["serviceLBs", "blue:s1"] = {"Config": {}, "Oper": {}}
    assert netctl("service", "inspect", "-t", "blue", "s1").out.startswith('{\n  "Config": {}')


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("create", "Service name required"),
        ("rm", "Service name required"),
        ("inspect", "Service group name required"),
    ],
)
@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_name_is_required(verb: str, message: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("service", verb, *names)
    assert (done.code, done.message) == (1, f'"{message}"')
    assert (netctl.master.written, netctl.master.deleted) == ([], [])
