"""What tests of network policy share."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from core.ids import EndpointKey, NetworkId
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import PROTOCOLS
from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.trace.evaluator import PacketFields, Value
from ofnet.world import LocalEndpoint, World
from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster, Pod
from tests.unit.netplugin.world.kubernetes.world import (
    OUTSIDE6,
    packets,
)
from tests.unit.ofnet.worlds import HOST_PORT, NET, network, world

Sent = tuple[str, str, str, int]
"""Source, target, protocol and port of a connection's first packet."""


FIELDS = {
    "TCP": ("tcp_src", "tcp_dst"),
    "UDP": ("udp_src", "udp_dst"),
    "SCTP": ("sctp_src", "sctp_dst"),
}


def mac(number: int) -> str:
    return f"02:02:0a:01:00:{number:02x}"


def endpoint(number: int, pod: Pod) -> LocalEndpoint:
    return LocalEndpoint(
        key=EndpointKey(f"{NET}-{pod.namespace}-{pod.name}"),
        network=NetworkId(NET),
        ofport=number,
        mac=mac(number),
        ip=IPv4Address(pod.address),
        ip6=IPv6Address(pod.address6),
        nat_ip=IPv4Address("172.19.0.0") + number,
    )


def numbered(cluster: KubeCluster) -> dict[str, int]:
    """Return the port of each pod by its addresses; 1 is the host's."""
    pods = list(enumerate(cluster.pods.values(), start=2))
    return {at: number for number, pod in pods for at in (pod.address, pod.address6)}


def world_of(cluster: KubeCluster, policies: KubePolicies) -> World:
    ports = numbered(cluster)
    here = tuple(endpoint(ports[pod.address], pod) for pod in cluster.pods.values())
    return replace(
        world(here=here),
        networks={NET: network()},
        host_port=HOST_PORT,
        policy_entries=policies.entries,
        policy_subjects=policies.subjects,
    )


def packet(port: int, source: str, target: str, protocol: str, number: int) -> PacketFields:
    ends = dict(zip(FIELDS[protocol], (40000, number), strict=True))
    frame: dict[str, Value] = {"in_port": port, "eth_src": mac(port), "eth_dst": ROUTER_MAC}
    if ":" in source:
        network: dict[str, Value] = {
            "eth_type": oxm.ETH_IPV6,
            "ipv6_src": IPv6Address(source),
            "ipv6_dst": IPv6Address(target),
        }
    else:
        network = {
            "eth_type": oxm.ETH_IPV4,
            "ipv4_src": IPv4Address(source),
            "ipv4_dst": IPv4Address(target),
        }
    return PacketFields({**frame, **network, "ip_proto": PROTOCOLS[protocol], **ends})


def sendable(known: KubeCluster) -> list[Sent]:
    """Return the packets of pods; others come from outside, and no route of IPv6 leads there."""
    ports = numbered(known)
    return [one for one in packets(known) if one[0] in ports and one[1] != OUTSIDE6]
