"""`netctl aci-gw`."""

from typing import Any

import pytest

from tests.unit.netctl.master import Netctl

GATEWAY: dict[str, Any] = {
    "key": "aciGw",
    "enforcePolicies": "yes",
    "includeCommonTenant": "no",
    "name": "aciGw",
    "nodeBindings": "topology/pod-1/node-101",
    "physicalDomain": "dom",
}


@pytest.mark.parametrize("flags", [[], ["-a"], ["-t", "nope"]])
def test_info_is_one_setting_a_line(flags: list[str], netctl: Netctl) -> None:
    netctl.master.add("aciGws", GATEWAY)
    assert netctl("aci-gw", "info", *flags).out == (
        "Path bindings: \nNode bindings: topology/pod-1/node-101\nPhysical domain: dom\n"
        "Enforce policies: yes\nInclude Common-Tenant: no\n"
    )


def test_info_without_a_gateway_is_empty(netctl: Netctl) -> None:
    assert netctl("aci-gw", "info").out == ""
    assert netctl("aci-gw", "info", "-j").out == "[]\n"


def test_inspect_asks_for_the_one_object(netctl: Netctl) -> None:
    netctl.master.inspected["aciGws", "aciGw"] = {"Config": GATEWAY, "Oper": {}}
    assert '"physicalDomain": "dom"' in netctl("aci-gw", "inspect").out


@pytest.mark.parametrize("verb", ["info", "inspect"])
def test_reading_takes_no_words(verb: str, netctl: Netctl) -> None:
    done = netctl("aci-gw", verb, "extra")
    assert (done.code, done.message) == (1, '"More arguments than required"')


def test_set_writes_every_setting(netctl: Netctl) -> None:
    netctl.master.add("aciGws", GATEWAY)
    done = netctl("aci-gw", "set", "-d", "other", "-p", "paths", "-e", "no", "-i", "yes", "ignored")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert netctl.master.written == [
        (
            "aciGws",
            "aciGw",
            {
                "name": "aciGw",
                "pathBindings": "paths",
                "nodeBindings": "",
                "physicalDomain": "other",
                "enforcePolicies": "no",
                "includeCommonTenant": "yes",
            },
        )
    ]


def test_set_has_defaults(netctl: Netctl) -> None:
    netctl("aci-gw", "set")
    [(_, _, body)] = netctl.master.written
    assert (body["enforcePolicies"], body["includeCommonTenant"]) == ("yes", "no")
