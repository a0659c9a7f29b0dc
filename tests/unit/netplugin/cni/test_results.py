"""Results and error objects in each version of the protocol."""

import json
from dataclasses import replace
from typing import Any

import pytest

from core import errors
from netplugin.cni import results
from netplugin.cni.errors import BadCall, InterfaceDiffers, NotReady
from tests.unit.netplugin.cni.results import DUAL, REQUEST, RESULT


def printed(reply: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(reply["cni"])
    return value


def test_a_result_of_0_3_1() -> None:
    reply = results.added(RESULT, REQUEST)
    assert reply["endpointid"] == "n1.default-abc123"
    assert reply["ipaddress"] == "10.1.1.5/24"
    assert "ipv6address" not in reply
    assert printed(reply) == {
        "cniVersion": "0.3.1",
        "interfaces": [
            {"name": "vvport3"},
            {"name": "eth0", "mac": "02:02:0a:01:01:05", "sandbox": "/var/run/netns/pod1"},
        ],
        "ips": [{"version": "4", "interface": 1, "address": "10.1.1.5/24", "gateway": "10.1.1.1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.1.1"}],
        "dns": {},
    }


def test_1_0_0_does_not_say_the_family() -> None:
    result = printed(results.added(DUAL, replace(REQUEST, cni_version="1.0.0")))
    assert result["ips"] == [
        {"interface": 1, "address": "10.1.1.5/24", "gateway": "10.1.1.1"},
        {"interface": 1, "address": "2001:db8::5/64", "gateway": "2001:db8::1"},
    ]
    assert result["routes"][1] == {"dst": "::/0", "gw": "2001:db8::1"}


def test_0_4_0_says_the_family_of_both() -> None:
    reply = results.added(DUAL, replace(REQUEST, cni_version="0.4.0"))
    assert reply["ipv6address"] == "2001:db8::5/64"
    assert [ip["version"] for ip in printed(reply)["ips"]] == ["4", "6"]


def test_the_network_says_which_family_comes_first() -> None:
    result = printed(results.added(replace(DUAL, ipv6_first=True), REQUEST))
    assert [ip["address"] for ip in result["ips"]] == ["2001:db8::5/64", "10.1.1.5/24"]
    assert [route["dst"] for route in result["routes"]] == ["::/0", "0.0.0.0/0"]


def test_a_result_with_ipv6_alone() -> None:
    reply = results.added(replace(DUAL, ipv4=None, gateway=None), REQUEST)
    assert (reply["ipaddress"], reply["ipv6address"]) == ("", "2001:db8::5/64")
    assert printed(reply)["ips"] == [
        {"version": "6", "interface": 1, "address": "2001:db8::5/64", "gateway": "2001:db8::1"}
    ]
    assert printed(reply)["routes"] == [{"dst": "::/0", "gw": "2001:db8::1"}]


def test_without_a_gateway_there_is_no_route() -> None:
    result = printed(results.added(replace(RESULT, gateway=None), REQUEST))
    assert result["routes"] == []
    assert "gateway" not in result["ips"][0]


def test_1_1_0_has_the_mtu() -> None:
    result = printed(results.added(RESULT, replace(REQUEST, cni_version="1.1.0")))
    assert [one["mtu"] for one in result["interfaces"]] == [1450, 1450]
    assert "version" not in result["ips"][0]


def test_a_further_interface_has_a_gateway_and_no_default_route() -> None:
    result = printed(results.added(replace(DUAL, default_route=False), REQUEST))
    assert result["routes"] == []
    assert [ip["gateway"] for ip in result["ips"]] == ["10.1.1.1", "2001:db8::1"]


def test_dns_of_the_configuration_is_passed_on() -> None:
    dns = {"nameservers": ["10.1.1.53"], "search": ["a.b"]}
    assert printed(results.added(RESULT, replace(REQUEST, dns=dns)))["dns"] == dns


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("CHECK", "Error checking EP"),
        ("GC", "Error collecting EPs"),
        ("STATUS", "Not ready"),
    ],
)
def test_newer_verbs_have_words_of_their_own(verb: str, text: str) -> None:
    assert results.failed(errors.HostError("x"), "1.1.0", verb)["errmsg"] == text
    assert results.done() == {"cni": ""}


def test_a_del_prints_nothing() -> None:
    assert results.deleted(REQUEST)["cni"] == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.StoreUnavailable("etcd is away"), 11),
        (errors.SwitchUnavailable("x"), 11),
        (errors.MasterUnavailable("x"), 11),
        (errors.NotLeader("x"), 11),
        (errors.HostError("x"), 5),
        (errors.SwitchRefused("x"), 5),
        (errors.NotFound("x"), 7),
        (errors.Invalid("x"), 7),
        (errors.Conflict("x"), 101),
        (errors.Exhausted("x"), 102),
        (errors.ContivError("x"), 100),
        (BadCall(4, "x"), 4),
        (NotReady("x"), 50),
        (NotReady("x", code=51), 51),
        (InterfaceDiffers("x"), 103),
    ],
)
def test_each_error_has_its_code(error: errors.ContivError, code: int) -> None:
    assert printed(results.failed(error, "0.4.0", "ADD"))["code"] == code


def test_an_error_keeps_the_original_words() -> None:
    reply = results.failed(errors.Conflict("boom"), "0.3.1", "ADD")
    assert reply["result"] == 1
    assert (reply["errmsg"], reply["errinfo"]) == ("Error creating EP", "Err: boom")
    assert reply["cni"] == (
        '{"cniVersion":"0.3.1","code":101,"msg":"Contiv:Error creating EP","details":"Err: boom"}'
    )


def test_where_it_failed_is_said() -> None:
    host = errors.HostError("x")
    assert results.failed(host, "1.0.0", "ADD")["errmsg"] == ("Error setting interface attributes")
    assert results.failed(host, "1.0.0", "DEL")["errmsg"] == "Error deleting EP"
    assert results.failed(BadCall(4, "x"), "1.0.0", "ADD")["errmsg"] == ("Error parsing request")


def test_a_crash_is_like_no_other_error() -> None:
    assert printed(results.crashed("1.0.0"))["msg"] == "Contiv:Unexpected failure in the agent"
