"""What tests of results share."""

from dataclasses import replace
from ipaddress import ip_address, ip_interface

from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from tests.unit.netplugin.records import interface

REQUEST = PodRequest(
    spec=interface("abc123", netns="/var/run/netns/pod1"),
    pod_name="web-1",
    namespace="default",
    cni_version="0.3.1",
)


RESULT = PodResult(
    endpoint_id="n1.default-abc123",
    mac="02:02:0a:01:01:05",
    ipv4=ip_interface("10.1.1.5/24"),  # type: ignore[arg-type]
    ipv6=None,
    gateway=ip_address("10.1.1.1"),  # type: ignore[arg-type]
    gateway6=None,
    mtu=1450,
    host_ifname="vvport3",
)


DUAL = replace(
    RESULT,
    ipv6=ip_interface("2001:db8::5/64"),  # type: ignore[arg-type]
    gateway6=ip_address("2001:db8::1"),  # type: ignore[arg-type]
)
