"""What a network configuration asks for."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplugin.cni import net_config
from netplugin.cni.config_names import NetConfig, declared
from netplugin.cni.errors import BadCall

V4, V6 = IPv4Address("10.1.1.5"), IPv6Address("2001:db8::5")


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ({}, (None, None)),
        ({"runtimeConfig": {"ips": []}}, (None, None)),
        ({"runtimeConfig": {"ips": ["10.1.1.5/24", "2001:db8::5/64"]}}, (V4, V6)),
        ({"runtimeConfig": {"ips": ["2001:DB8:0::5"]}}, (None, V6)),
        ({"args": {"cni": {"ips": ["10.1.1.5"]}}}, (V4, None)),
        (
            {"args": {"cni": {"ips": ["10.9.9.9"]}}, "runtimeConfig": {"ips": ["10.1.1.5"]}},
            (V4, None),
        ),
        ({"runtimeConfig": {"ips": ["10.1.1.5/24", "10.1.1.5/16"]}}, (V4, None)),
    ],
)
def test_addresses(config: dict[str, Any], asked: object) -> None:
    assert net_config.asked_addresses(declared(config)) == asked


@pytest.mark.parametrize(
    "ips", ["10.1.1.5", ["x"], [1], [["10.1.1.5"]], ["10.1.1.5", "10.1.1.6"], {}, ["10.1.1.5/33"]]
)
def test_wrong_addresses(ips: object) -> None:
    with pytest.raises(BadCall, match=r"runtimeConfig\.ips") as caught:
        net_config.asked_addresses(declared({"runtimeConfig": {"ips": ips}}))
    assert caught.value.code == 7


@pytest.mark.parametrize(
    ("config", "mac"),
    [
        ({}, ""),
        ({"runtimeConfig": {"mac": ""}}, ""),
        ({"runtimeConfig": {"mac": "02:AA:00:00:00:01"}}, "02:aa:00:00:00:01"),
        ({"args": {"cni": {"mac": "02:aa:00:00:00:01"}}}, "02:aa:00:00:00:01"),
    ],
)
def test_mac(config: dict[str, Any], mac: str) -> None:
    assert net_config.asked_mac(declared(config)) == mac


@pytest.mark.parametrize(
    "mac",
    [
        1,
        [],
        "x",
        "02-aa-00-00-00-01",
        "01:00:5e:00:00:01",
        "ff:ff:ff:ff:ff:ff",
        "00:00:00:00:00:00",
    ],
)
def test_wrong_mac(mac: object) -> None:
    with pytest.raises(BadCall, match=r"runtimeConfig\.mac") as caught:
        net_config.asked_mac(declared({"runtimeConfig": {"mac": mac}}))
    assert caught.value.code == 7


def test_dns_passes() -> None:
    dns = {"nameservers": ["10.1.1.53"], "domain": "a.b", "search": ["b"], "options": ["ndots:2"]}
    assert net_config.dns_of(declared({"dns": dns})) == dns
    assert net_config.dns_of(declared({"dns": {"domain": "", "search": None}})) == {}
    assert net_config.dns_of(declared({})) == {}


def test_the_runtime_s_dns_goes_before() -> None:
    given = {"nameservers": ["10.1.1.53"], "domain": "a.b", "search": ["b"]}
    runtime = {"Servers": ["10.96.0.10"], "Searches": [], "Options": ["ndots:5"]}
    assert net_config.dns_of(declared({"dns": given, "runtimeConfig": {"dns": runtime}})) == {
        "nameservers": ["10.96.0.10"],
        "domain": "a.b",
        "search": ["b"],
        "options": ["ndots:5"],
    }
    with pytest.raises(BadCall, match=r"runtimeConfig\.dns\.servers"):
        net_config.dns_of(declared({"runtimeConfig": {"dns": {"Servers": "x"}}}))


@pytest.mark.parametrize("dns", ["x", {"domain": 1}, {"search": "x"}, {"nameservers": [1]}])
def test_wrong_dns(dns: object) -> None:
    with pytest.raises(BadCall) as caught:
        net_config.dns_of(declared({"dns": dns}))
    assert caught.value.code == 7


_OTHER = {
    "egressRate": "ingressRate",
    "egressBurst": "ingressBurst",
    "ingressRate": "egressRate",
}


@pytest.mark.parametrize(
    ("bandwidth", "limit"),
    [
        ({}, (0, 0)),
        ({"egressRate": 0, "egressBurst": 5000}, (0, 0)),
        ({"egressRate": 1_000_000, "egressBurst": 100_000}, (1000, 100)),
        ({"egressRate": 1, "ingressRate": 0}, (1, 0)),
        ({"egressRate": 1_000_000, "egressBurst": 2**31 - 1}, (1000, 0)),
        ({"egressRate": 1_000_000, "egressBurst": 2**32 - 1}, (1000, 0)),
        ({"egressRate": 1_000_000, "egressBurst": 2**32}, (1000, 2**32 // 1000)),
    ],
)
def test_bandwidth(bandwidth: dict[str, int], limit: tuple[int, int]) -> None:
    assert net_config.asked_limit(declared({"runtimeConfig": {"bandwidth": bandwidth}})) == limit
    swapped = {_OTHER[name]: value for name, value in bandwidth.items()}
    assert (
        net_config.asked_receive_limit(declared({"runtimeConfig": {"bandwidth": swapped}})) == limit
    )


@pytest.mark.parametrize(
    "bandwidth",
    [3, {"egressRate": "1M"}, {"egressRate": -1}, {"egressBurst": True}, {"ingressRate": 2**43}],
)
def test_wrong_bandwidth(bandwidth: object) -> None:
    with pytest.raises(BadCall, match=r"runtimeConfig\.bandwidth") as caught:
        both_limits(declared({"runtimeConfig": {"bandwidth": bandwidth}}))
    assert caught.value.code == 7


def both_limits(config: NetConfig) -> tuple[net_config.BandwidthLimit, net_config.BandwidthLimit]:
    return net_config.asked_limit(config), net_config.asked_receive_limit(config)


def test_an_add_behind_another_plugin_is_refused() -> None:
    net_config.refuse_chained(declared({"prevResult": None}))
    with pytest.raises(BadCall, match="name it first") as caught:
        net_config.refuse_chained(declared({"prevResult": {"cniVersion": "1.0.0", "ips": []}}))
    assert caught.value.code == 7


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(JSON, JSON)
def test_anything_is_read_or_refused(one: object, other: object) -> None:
    config = {
        "name": other,
        "dns": one,
        "args": {"cni": {"ips": one, "mac": other}},
        "runtimeConfig": one,
        "prevResult": other,
        "contiv": one,
    }
    for read in (
        net_config.name_of,
        net_config.place_of,
        net_config.asked_addresses,
        net_config.asked_mac,
        net_config.asked_limit,
        net_config.asked_receive_limit,
        net_config.refuse_chained,
        net_config.dns_of,
        net_config.previous_result,
        net_config.valid_attachments,
    ):
        with suppress(BadCall):
            read(declared(config))
