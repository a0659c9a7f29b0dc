"""What `netcontiv` posts is read as a request, and its answers are what Mesos reads."""

import json
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplugin.cni.errors import BadCall
from netplugin.cni.request import Verb
from netplugin.cni.results import PodResult
from netplugin.mesos import messages

CALL = {"cni_ifname": "eth0", "cni_netns": "/var/run/mesos/ns", "cni_containerid": "c1-2"}


def body(**members: object) -> bytes:
    return json.dumps({**CALL, **members}).encode()


@pytest.mark.parametrize(
    ("labels", "tenant", "network", "group"),
    [
        ({}, "default", "default-net", ""),
        ({"io.contiv.tenant": "t1", "io.contiv.network": "n1"}, "t1", "n1", ""),
        ({"io.contiv.network": "n1"}, "default", "n1", ""),
        ({"io.contiv.tenant": "t1"}, "t1", "default-net", ""),
        ({"io.contiv.net-group": "g1", "io.contiv.tenant": ""}, "default", "default-net", "g1"),
    ],
)
def test_labels_say_where_a_container_belongs(
    labels: dict[str, str], tenant: str, network: str, group: str
) -> None:
    request = messages.read_request(body(labels=labels), Verb.ADD)
    assert (request.spec.tenant, request.spec.network, request.spec.group) == (
        tenant,
        network,
        group,
    )
    assert (request.spec.container_id, request.spec.ifname) == ("c1-2", "eth0")
    assert request.spec.key == f"{network}.{tenant}-c1-2"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        body(labels=["a"]),
        body(labels={"io.contiv.tenant": 1}),
        body(cni_containerid="../x"),
        body(cni_containerid=7),
        body(cni_ifname="a/b"),
        body(cni_netns="relative"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(sent: bytes) -> None:
    with pytest.raises(BadCall):
        messages.read_request(sent, Verb.ADD)


@given(st.recursive(st.none() | st.text() | st.integers(), st.lists))
def test_any_member_is_read_or_refused(value: Any) -> None:
    for name in (*CALL, "labels"):
        for verb in (Verb.ADD, Verb.DEL):
            try:
                messages.read_request(body(**{name: value}), verb)
            except BadCall:
                continue


def result(ipv6: str | None = None) -> PodResult:
    return PodResult(
        endpoint_id="n1.default-c1",
        mac="02:02:0a:01:01:05",
        ipv4=IPv4Interface("10.1.1.5/24"),
        ipv6=None if ipv6 is None else IPv6Interface(ipv6),
        gateway=None if ipv6 is None else IPv4Address("10.1.1.1"),
        gateway6=None if ipv6 is None else IPv6Address("2001:db8::1"),
        mtu=1450,
        host_ifname="vvport1",
    )


def test_results() -> None:
    assert messages.added(result()) == {
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.1.1.5/24"},
        "dns": {},
    }
    assert messages.added(result("2001:db8::5/64")) == {
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.1.1.5/24", "gateway": "10.1.1.1"},
        "ip6": {"ip": "2001:db8::5/64", "gateway": "2001:db8::1"},
        "dns": {},
    }


def test_errors() -> None:
    assert messages.failed("no") == {"cniVersion": "0.2", "code": 2, "msg": "Contiv: no"}
