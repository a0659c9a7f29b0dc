"""What a runtime remembers of an ADD, against what the endpoint is."""

from dataclasses import replace
from typing import Any

import pytest

from netplugin.cni.errors import BadCall
from netplugin.cni.previous_result import differences
from netplugin.cni.results import PodResult
from tests.unit.netplugin.cni.results import DUAL, REQUEST, RESULT

POD = {"name": "eth0", "mac": RESULT.mac.upper(), "sandbox": REQUEST.spec.netns}
HOST_END = {"name": RESULT.host_ifname}


def found(previous: dict[str, Any], result: PodResult = RESULT) -> list[str]:
    return list(differences(replace(REQUEST, previous=previous), result))


def previous(*addresses: str, at: int = 1) -> dict[str, Any]:
    ips = [{"interface": at, "address": address} for address in addresses]
    return {"interfaces": [HOST_END, POD], "ips": ips}


def test_the_result_of_the_add_is_right() -> None:
    assert found(previous("10.1.1.5/24")) == []
    assert found(previous("10.1.1.5/24", "2001:DB8:0::5/64"), DUAL) == []


def test_an_interface_without_mac_has_any() -> None:
    told = previous("10.1.1.5/24")
    told["interfaces"][1] = {"name": "eth0", "sandbox": REQUEST.spec.netns}
    assert found(told) == []


def test_each_difference_is_told() -> None:
    told = previous("10.1.1.6/24")
    told["interfaces"][1] = POD | {"mac": "02:02:0a:01:01:06"}
    assert found(told) == [
        "prevResult has MAC address 02:02:0a:01:01:06, the endpoint 02:02:0a:01:01:05",
        "prevResult lacks the address 10.1.1.5/24 of eth0",
        "prevResult has the address 10.1.1.6/24, which the endpoint has not",
    ]


def test_addresses_of_other_interfaces_do_not_count() -> None:
    assert found(previous("10.1.1.5/24", at=0)) == [
        "prevResult lacks the address 10.1.1.5/24 of eth0"
    ]


def test_the_host_s_end_is_not_the_pod_s_interface() -> None:
    nothing = [f"prevResult has no interface eth0 in {REQUEST.spec.netns}"]
    assert found({}) == nothing
    assert found({"interfaces": [{"name": "eth0"}], "ips": None}) == nothing


@pytest.mark.parametrize("ips", ["x", ["x"], [{"interface": 1, "address": 3}]])
def test_what_is_no_result_is_refused(ips: object) -> None:
    with pytest.raises(BadCall, match="prevResult") as caught:
        found({"interfaces": [HOST_END, POD], "ips": ips})
    assert caught.value.code == 7
