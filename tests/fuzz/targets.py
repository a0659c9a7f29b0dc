"""The registry of fuzz targets: every parser of what comes from outside, with its own errors.

A target has a name, inputs that its parser reads (`seeds`), the call, and the errors by which the
parser refuses. A new parser is one line here, and one in docs/notes/parsers.md.
"""

import atexit
import json
import shutil
import struct
import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import dns.message
import dns.rrset
import yaml
from cryptography.utils import CryptographyDeprecationWarning

from contivk8s import main as plugin
from contivmodel import representation
from contivmodel import wire as go_wire
from contivmodel.objects import Network, Rule
from core import keys
from core.errors import AgentUnavailable, ContivError, Invalid, SchemaMismatch, UsageError
from core.outside_json import read_json
from daemons.certificates.certificate_requests import new_request, renewal_is_due
from daemons.certificates.peers import Role
from netmaster import agent_answers
from netmaster import codec as master_codec
from netmaster.auth import tokens, users
from netmaster.commands import backup, ca
from netmaster.takeover import source
from netplugin.cni import request as cni
from netplugin.cni.errors import BadCall
from netplugin.cni.previous_result import differences
from netplugin.cni.results import PodResult
from netplugin.diagnostics import dry_run, pcap
from netplugin.dns import messages as dns_messages
from netplugin.kube import api as kube_api
from netplugin.kube import config as kube_config
from netplugin.kube import exec_plugin, kubeconfig
from netplugin.kube.feed import KubeHandler
from netplugin.kube.pods import PodHandler
from netplugin.kube.policy_peers import PeerHandler
from netplugin.kube.resources import (
    ADMIN_POLICIES,
    CLUSTER_POLICIES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    SERVICES,
    SLICES,
    Resource,
    pods_of,
)
from netplugin.kube.services import ServiceHandler
from netplugin.libnetwork import calls as docker_calls
from netplugin.mesos import messages as mesos
from netplugin.pods.registry import journal_entry
from netplugin.trace import request as trace
from netplugin.world.builder import WorldBuilder
from objdb import original
from ofnet.bgp import message_reading as bgp_reading
from ofnet.bgp import messages as bgp
from ofnet.bgp.peering import Peering
from ofnet.bgp.rib import Rib
from ofnet.channel import flow_stats, group_wire, meter_wire
from ofnet.channel import wire as openflow
from ofnet.openflow import oxm, packets
from ofnet.rpc import control, jsonrpc
from ofnet.world import FwdMode
from state import codec, intents, lineage, schema
from tests.unit.netplugin.records import HOST, endpoint, group, host, network


@dataclass(frozen=True, slots=True)
class Target:
    """A parser: inputs that it reads, and the errors by which it refuses others.

    `text` says that inputs are JSON or the like. `share` is how many calls it gets for one of the
    others': parsers of wire formats are quick, and read what strangers send.
    """

    name: str
    seeds: tuple[bytes, ...]
    call: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = ()
    text: bool = True
    share: float = 1.0


def as_json(*values: Any) -> tuple[bytes, ...]:
    """Return values as seeds."""
    return tuple(json.dumps(value).encode() for value in values)


# -- the runtime ----------------------------------------------------------------------------------

CONFIG: Final = {
    "cniVersion": "1.1.0",
    "name": "contiv-net",
    "type": "contivk8s",
    "contiv": {"tenant": "t", "network": "n", "group": "g", "defaultRoute": True},
    "dns": {"nameservers": ["10.0.0.1"], "search": ["a"], "options": [], "domain": "b"},
    "runtimeConfig": {
        "ips": ["10.1.1.5/16", "fd00::5"],
        "mac": "02:aa:00:00:00:01",
        "bandwidth": {"ingressRate": 1000, "ingressBurst": 1, "egressRate": 9, "egressBurst": 1},
        "portMappings": [{"hostPort": 1, "containerPort": 2, "protocol": "tcp", "hostIP": "::"}],
    },
    "args": {"cni": {"ips": ["10.1.1.5"], "mac": ""}},
}
GO_CONFIG: Final = {
    **CONFIG,
    "runtimeConfig": {
        "bandwidth": {"IngressRate": 1000, "IngressBurst": 4294967295, "EgressRate": 0},
        "dns": {"Servers": ["10.0.0.1"], "Searches": None, "Options": ["ndots:5"]},
        "portMappings": [{"HostPort": 1, "ContainerPort": 2, "Protocol": "tcp", "HostIP": ""}],
    },
}
"""As containerd writes it."""
RESULT: Final = {
    "interfaces": [
        {"name": "vvport1"},
        {"name": "eth0", "mac": "02:02:0a:01:01:05", "sandbox": "/n"},
    ],
    "ips": [{"interface": 1, "address": "10.1.1.5/16", "gateway": "10.1.0.1"}],
    "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}],
    "dns": {},
}
GC: Final = {
    "cniVersion": "1.1.0",
    "name": "x",
    "cni.dev/valid-attachments": [{"containerID": "c1", "ifname": "eth0"}],
    "cni.dev/attachments": None,
}


def cni_body(config: Any, **members: str) -> dict[str, str]:
    """Return a body as `contivk8s` posts it."""
    return {
        "CNI_NETNS": "/n",
        "CNI_IFNAME": "eth0",
        "CNI_CONTAINERID": "abc",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=p;IP=10.1.1.5;MAC=02:aa:00:00:00:01",
        "netconf": json.dumps(config),
        **members,
    }


def cni_config(verb: cni.Verb, raw: bytes) -> object:
    """Read a configuration, which mutations of a body seldom leave whole."""
    text = raw.decode("utf-8", "surrogateescape")
    return cni.parse(json.dumps({**cni_body({}), "netconf": text}).encode(), verb)


def cni_arguments(raw: bytes) -> object:
    """Read CNI_ARGS."""
    text = raw.decode("utf-8", "replace")
    return cni.parse(json.dumps(cni_body({}, CNI_ARGS=text)).encode(), cni.Verb.ADD)


POD_RESULT: Final = PodResult(
    endpoint_id="abc",
    mac="02:02:0a:01:01:05",
    ipv4=IPv4Interface("10.1.1.5/16"),
    ipv6=None,
    gateway=IPv4Address("10.1.0.1"),
    gateway6=None,
    mtu=1450,
    host_ifname="vvport1",
)


def cni_check(raw: bytes) -> object:
    """Read the prevResult of a CHECK."""
    config = b'{"cniVersion":"1.0.0","prevResult":' + raw + b"}"
    asked = cni_config(cni.Verb.CHECK, config)
    assert isinstance(asked, cni.PodRequest)
    return list(differences(asked, POD_RESULT))


JOURNAL: Final = {
    "key": "n.t-abc",
    "container_id": "abc",
    "netns": "/n",
    "ifname": "eth0",
    "tenant": "t",
    "network": "n",
    "group": None,
    "port": 1,
    "bridge": "contivVxlanBridge",
    "state": "present",
    "labels": {"a": "b"},
    "mappings": [{"host_port": 1, "container_port": 2, "protocol": "tcp", "host_ip": ""}],
    "rate": 1,
}


def journalled(raw: bytes) -> object:
    """Read a file of the journal as `journal._read` does, and write it again."""
    entry = journal_entry.parse(raw.decode())
    assert journal_entry.parse(journal_entry.text_of(entry)) == entry
    return entry.key.encode()


# -- packets and peers ----------------------------------------------------------------------------

MAC: Final = "02:02:0a:01:00:01"
ONE, TWO = IPv4Address("10.1.0.1"), IPv4Address("10.1.0.2")
SIX = IPv6Address("2001:db8::6")


def frames() -> tuple[bytes, ...]:
    """Return ARP, UDP, UDP with a tag, an error of ICMP, and a neighbour advertisement."""
    arp = packets.arp_request(MAC, ONE, TWO)
    ends = ONE.packed + TWO.packed
    udp = struct.pack(">HHHH", 4000, 53, 8 + 12, 0) + b"question-abc"
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + ends
    ethernet = bytes(12) + b"\x08\x00"
    datagram = ethernet + head + udp
    quoted = struct.pack(">BBHI", 3, 4, 0, 1400) + head[:12] + TWO.packed + ONE.packed + udp[:8]
    quoted = quoted[:2] + packets.checksum(quoted).to_bytes(2) + quoted[4:]
    icmp = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(quoted), 1, 0, 64, 1, 0) + ends + quoted
    advert = struct.pack(">IHBB", 6 << 28, 32, 58, 255) + IPv6Address("fe80::1").packed * 2
    advert += struct.pack(">BBHI", 136, 0, 0, 0x60000000) + IPv6Address("fe80::1").packed
    advert += b"\x02\x01" + bytes(6)
    neighbour = bytes(12) + b"\x86\xdd" + advert
    return (arp, datagram, packets.tagged(datagram, 5), ethernet + icmp, neighbour)


def packet(raw: bytes) -> None:
    """Give a frame of a pod to all that read frames."""
    packets.ether_type(raw), packets.vlan(raw), packets.untagged(raw)
    packets.parse_arp(raw)
    packets.parse_advertisement(raw)
    packets.advertisement(raw)
    if packets.udp_payload(raw) is not None:
        packets.udp_reply(raw, b"answer")
        packets.source(raw), packets.destination(raw)
    if packets.quoted_sender(raw) is not None:
        packets.error_about(raw, TWO if packets.ether_type(raw) == oxm.ETH_IPV4 else SIX)
    pcap.headers(raw)


def dns_question(raw: bytes) -> None:
    """Read a pod's question, and answer it in each way."""
    query = dns_messages.read(raw)
    if query is not None:
        found = dns_messages.QuestionAnswer(records=(dns_messages.Records("A", 5, (ONE,)),))
        query.answered((found,) * len(query.questions), query.datagram_limit)
        query.answered((None,) * len(query.questions), 512)


def dns_reply(raw: bytes) -> None:
    """Read what an outside name server answers."""
    query = dns_messages.read(dns_messages.question_for("a.example", "A"))
    assert query is not None
    query.answered_by_alias([dns_messages.Records("CNAME", 5, ("b.example.",))], raw, 4096)


def dns_messages_of() -> tuple[bytes, ...]:
    """Return questions of several kinds."""
    made = [
        dns.message.make_query("web.shop.svc.cluster.local", kind) for kind in ("A", "AAAA", "ANY")
    ]
    made += [dns.message.make_query("a.example", "SRV", use_edns=0, payload=1232)]
    return tuple(one.to_wire() for one in made)


def dns_replies() -> tuple[bytes, ...]:
    """Return answers with records of several types."""
    reply = dns.message.make_response(dns.message.make_query("a.example", "A"))
    for kind, text in (("A", "10.0.0.1"), ("CNAME", "b.example."), ("TXT", '"x"'), ("MX", "1 m.")):
        reply.answer.append(dns.rrset.from_text("a.example.", 5, "IN", kind, text))
    return (reply.to_wire(), *dns_messages_of())


BGP_PEERING = Peering(
    router6=IPv6Interface("2001:db8:50::1/64"),
    asn=1,
    peer=IPv6Address("2001:db8:50::2"),
    peer_asn=2,
)


def bgp_messages() -> tuple[bytes, ...]:
    """Return one message of each kind."""
    families = frozenset(bgp.Family)
    own = bgp.Open(
        asn=70000,
        hold_time=90,
        router_id=ONE,
        families=families,
        restart=bgp.Restart(seconds=9, families=families, forwarding=families),
    )
    prefixes = [IPv4Network("10.0.0.0/8"), IPv4Network("10.1.2.0/24")]
    six = [IPv6Network("2001:db8::/32")]
    hop = IPv6Address("fe80::1")
    return (
        bgp.open_message(own),
        bgp.keepalive(),
        bgp.notification(6, 2),
        bgp.open_message(replace(own, extended_hops=True)),
        *bgp.announcements(prefixes, bgp.Family.IPV4, ONE, (1, 70000), four_octets=True),
        *bgp.announcements(prefixes, bgp.Family.IPV4, (hop,), (1,), four_octets=True),
        *bgp.announcements(six, bgp.Family.IPV6, (hop,), (1,), four_octets=True),
        *bgp.announcements(six, bgp.Family.IPV6, (six[0][1], hop), (1,), four_octets=True),
        *bgp.withdrawals(prefixes, bgp.Family.IPV4),
        *bgp.withdrawals(six, bgp.Family.IPV6),
        *(bgp.end_of_rib(family) for family in bgp.Family),
    )


def bgp_message(raw: bytes) -> None:
    """Read a message as a session does: the length first; keep its routes."""
    header = raw[:19].ljust(19, b"\0")
    length = bgp_reading.body_length(header)
    for four_octets in (True, False):
        message = bgp_reading.read(header, raw[19 : 19 + length], four_octets=four_octets)
        if isinstance(message, bgp.Update):
            Rib(BGP_PEERING).apply(message)


def packet_in() -> bytes:
    """Return the body of a packet-in."""
    oxm = b"\x80\x00\x00\x04" + (14).to_bytes(4) + b"\x80\x00\x4c\x08" + (9).to_bytes(8)
    match = struct.pack(">HH", 1, 4 + len(oxm)) + oxm
    match += bytes(-len(match) % 8)
    return struct.pack(">IHBBQ", 0xFFFFFFFF, 60, 1, 3, 5) + match + bytes(2) + frames()[0]


def flow_reply() -> bytes:
    """Return one part of a flow-stats reply with two flows."""
    oxm = b"\x80\x00\x0a\x02\x08\x00" + b"\x80\x00\x18\x04" + ONE.packed
    match = struct.pack(">HH", 1, 4 + len(oxm)) + oxm
    match += bytes(-len(match) % 8)
    entry = struct.pack(">HBxIIHHHH4xQQQ", 48 + len(match), 5, 1, 2, 3, 0, 0, 0, 77, 10, 1000)
    return struct.pack(">HH4x", 1, 1) + (entry + match) * 2


def openflow_body(raw: bytes) -> None:
    """Read a body as each kind of reply that is asked for."""
    kind, body = (raw[:1] or b"\0")[0] % 9, raw[1:]
    (
        openflow.packet_in,
        openflow.datapath_id,
        openflow.error_text,
        openflow.stamps,
        openflow.flow_counts,
        flow_stats.counts,
        flow_stats.entries,
        group_wire.groups,
        meter_wire.meters,
    )[kind](body)


def openflow_stream(raw: bytes) -> None:
    """Cut a stream into messages."""
    buffer = bytearray(raw)
    for one in openflow.frames(buffer):
        if one.type == openflow.PACKET_IN:
            openflow.packet_in(one.body)


OPENFLOW_BODIES: Final = (
    b"\0" + packet_in(),
    b"\1" + struct.pack(">QIBB2xII", 7, 0, 254, 0, 0, 0),
    b"\2" + struct.pack(">HH", 5, 1) + b"x",
    *(bytes((kind,)) + flow_reply() for kind in (3, 5, 6)),
    b"\4" + struct.pack(">HH4x", 3, 0) + struct.pack(">B3xIQQ", 1, 5, 6, 7),
    b"\7" + struct.pack(">HH4x", 7, 0) + struct.pack(">HBxI", 8, 1, 3),
    b"\x08" + struct.pack(">HH4x", 10, 0) + struct.pack(">HHI", 8, 1, 3),
)


# -- Kubernetes and engines -----------------------------------------------------------------------

SERVICE: Final = {
    "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1", "labels": {"a": "b"}},
    "spec": {
        "type": "LoadBalancer",
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7", "fd00::7"],
        "externalIPs": ["192.0.2.7"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        "ports": [{"name": "a", "port": 80, "nodePort": 30080, "protocol": "TCP"}],
    },
    "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ipMode": "VIP"}]}},
}
SLICE: Final = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "resourceVersion": "1",
        "labels": {"kubernetes.io/service-name": "web"},
    },
    "addressType": "IPv4",
    "endpoints": [
        {
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": True, "serving": None, "terminating": False},
            "nodeName": "n1",
            "targetRef": {"kind": "Pod", "name": "p", "namespace": "shop"},
        }
    ],
    "ports": [{"name": "a", "port": 8080, "protocol": "TCP"}],
}
POD: Final = {
    "metadata": {
        "name": "p",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {"io.contiv.tenant": "t"},
        "annotations": {"kubernetes.io/config.mirror": "m"},
    },
    "spec": {"containers": [{"ports": [{"name": "a", "containerPort": 80, "protocol": "TCP"}]}]},
}
NAMESPACE: Final = {"metadata": {"name": "shop", "resourceVersion": "1", "labels": {"a": "b"}}}
NODE: Final = {
    **NAMESPACE,
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
}
POLICY: Final = {
    "metadata": {"name": "p", "namespace": "shop", "resourceVersion": "1"},
    "spec": {
        "podSelector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
        },
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {
                "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                "ports": [{"protocol": "TCP", "port": 80, "endPort": 90}],
            }
        ],
        "egress": [{"to": [{"namespaceSelector": {}}], "ports": [{"port": "web"}]}],
    },
}
ADMIN_POLICY: Final = {
    "metadata": {"name": "p", "resourceVersion": "1"},
    "spec": {
        "priority": 1,
        "subject": {"namespaces": {}},
        "ingress": [
            {
                "action": "Deny",
                "from": [{"pods": {"namespaceSelector": {}, "podSelector": {}}}],
                "ports": [{"portRange": {"start": 1, "end": 9}}],
            }
        ],
        "egress": [{"action": "Allow", "to": [{"networks": ["10.0.0.0/8"]}]}],
    },
}
CLUSTER_POLICY: Final = {
    "metadata": {"name": "p", "resourceVersion": "1"},
    "spec": {
        "tier": "Baseline",
        "priority": 1,
        "subject": {"pods": {"namespaceSelector": {}, "podSelector": {}}},
        "ingress": [
            {
                "name": "a",
                "action": "Accept",
                "from": [{"namespaces": {"matchLabels": {"a": "b"}}}],
                "protocols": [{"tcp": {"destinationPort": {"range": {"start": 1, "end": 9}}}}],
            }
        ],
        "egress": [
            {
                "action": "Pass",
                "to": [{"networks": ["10.0.0.0/8"]}, {"domainNames": ["example.org"]}],
                "protocols": [{"destinationNamedPort": "web"}],
            }
        ],
    },
}


def watch_lines(*objects: dict[str, Any]) -> tuple[bytes, ...]:
    """Return lines of a watch."""
    return as_json(*({"type": "MODIFIED", "object": one} for one in objects))


class KubeHandlers:
    """What takes the objects of Kubernetes in an agent; made anew now and then, for it grows."""

    def __init__(self) -> None:
        self._calls = 0
        self._made: dict[str, KubeHandler] = {}

    def of(self, resource: Resource) -> KubeHandler:
        """Return the handler of a resource."""
        if self._calls % 500 == 0:
            world = WorldBuilder(HOST, FwdMode.ROUTING)
            peers, services = PeerHandler(world.pod_policies), ServiceHandler(world)
            policies = world.pod_policies
            self._made = {
                SERVICES.name: services,
                SLICES.name: services,
                "pods": PodHandler(),
                NAMESPACES.name: peers,
                NODES.name: peers,
                NETWORK_POLICIES.name: policies,
                ADMIN_POLICIES.name: policies,
                CLUSTER_POLICIES.name: policies,
            }
        self._calls += 1
        return self._made[resource.name]


KUBE_HANDLERS: Final = KubeHandlers()


def kube_event(resource: Resource, raw: bytes) -> None:
    """Read a line of a watch and take its object as the agent does."""
    event = kube_api._event(resource, raw)
    if isinstance(event, kube_api.KubeChange):
        KUBE_HANDLERS.of(resource).put(resource.name, resource.reduced(event.object))


KUBE_REFUSALS: Final = (ValueError, RecursionError, kube_api.KubeRefused, Invalid)
"""What the client takes for a fault of the server, and the feed for one of the object."""

KUBECONFIG: Final = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://192.0.2.1:6443"}}],
    "users": [{"name": "u", "user": {"token": "t", "client-key-data": "YQ=="}}],
}

EXEC_CREDENTIAL: Final = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00Z"},
}


@cache
def scratch() -> Path:
    """Return the file that parsers of files are given."""
    directory = Path(mkdtemp(prefix="contiv-fuzz-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory / "file"


def from_file(load: Callable[[Path], object], raw: bytes) -> object:
    """Give a parser of files its input."""
    scratch().write_bytes(raw)
    return load(scratch())


MESOS: Final = {
    "cni_ifname": "eth0",
    "cni_netns": "/n",
    "cni_containerid": "c1",
    "labels": {"io.contiv.tenant": "t", "io.contiv.network": "n", "io.contiv.net-group": "g"},
}
DOCKER: Final = {
    "NetworkID": "n1",
    "EndpointID": "e1",
    "SandboxKey": "/s",
    "Options": {"com.docker.network.generic": {"tenant": "t"}},
    "Interface": {"Address": "10.1.0.1/16", "AddressIPv6": "", "MacAddress": "02:02:0a:01:00:01"},
    "IPv4Data": [{"AddressSpace": "x", "Pool": "10.1.0.0/16", "Gateway": "10.1.0.1/16"}],
    "IPv6Data": [],
}
DOCKER_CALLS: Final = (docker_calls.CreateNetwork, docker_calls.CreateEndpoint, docker_calls.Join)


def docker_call(raw: bytes) -> None:
    """Read a body as each kind of call; one that reads it is enough."""
    refused = [_is_refused(partial(docker_calls.read, one), raw) for one in DOCKER_CALLS]
    if all(refused):
        raise docker_calls.BadBody("none reads it")


def _is_refused(read: Callable[[bytes], object], raw: bytes) -> bool:
    try:
        read(raw)
    except docker_calls.BadBody:
        return True
    return False


# -- records and requests -------------------------------------------------------------------------

RECORDS: Final = (
    (f"{keys.NETWORKS}n1.default", network("n1")),
    (f"{keys.ENDPOINTS}n1.default-c1", endpoint(1)),
    (f"{keys.GROUPS}web:default", group("web")),
    (f"{keys.HOSTS}h2", host()),
)
LINEAGE: Final = f"{keys.LINEAGE} ".encode() + lineage.encode(
    lineage.Lineage((lineage.Term("a", 5), lineage.Term("b", 7)))
)
USER: Final = users.User(
    name="ann", role=Role.OPERATOR, password_hash="$x", tenants=frozenset({"t"})
)
HOP: Final = {
    "host": "h1",
    "faults": ["x"],
    "bridge": "b",
    "packet": {"a": 1},
    "steps": [
        {"kind": "a", "owner": "b", "why": "c", "flow": "d", "table": 5, "tableName": "e"},
    ],
    "exits": [{"kind": "a", "name": "b", "port": 1, "packet": {}}],
}


def keyed(*records: tuple[str, Any]) -> tuple[bytes, ...]:
    """Return records as lines of a key and a value."""
    return tuple(f"{key} ".encode() + codec.encode(record) for key, record in records)


def record_of(decode: Callable[[str, bytes], object], raw: bytes) -> object:
    """Read a line of a key and a value."""
    key, _, value = raw.partition(b" ")
    return decode(key.decode("utf-8", "backslashreplace"), value)


OBJECTS: Final = (
    b"/contiv.io/obj/modeldb/network/t:n "
    + json.dumps(
        {
            "key": "t:n",
            "tenantName": "t",
            "networkName": "n",
            "encap": "vxlan",
            "subnet": "10.1.0.0/16",
        }
    ).encode(),
    f"{keys.RULES}t:p:1 ".encode()
    + json.dumps(
        {
            "key": "t:p:1",
            "tenantName": "t",
            "policyName": "p",
            "ruleId": "1",
            "direction": "in",
            "action": "allow",
            "protocol": "tcp",
            "port": 80,
            "priority": 1,
        }
    ).encode(),
)
V1_NETWORK: Final = {
    "tenantName": "t",
    "networkName": "n",
    "encap": "vxlan",
    "nwType": "data",
    "subnet": "10.1.0.0/16",
    "gateway": "10.1.0.1",
    "pktTag": 5,
}
TRACE: Final = {
    "enter": {"endpoint": "abc"},
    "to": "10.1.0.1",
    "protocol": 6,
    "port": 80,
    "before": [],
    "towards": {"endpoint": "e", "host": "h"},
}
TOKEN_KEYS: Final = {
    "current": {"id": "a", "secret": b64encode(bytes(64)).decode()},
    "previous": None,
    "rotated_at": 5,
}


def report_of(raw: bytes) -> object:
    """Read an agent's call of the control channel."""
    asked = jsonrpc._request(raw)
    return control.AgentReport.from_json(asked.argument)


def answer_of(raw: bytes) -> object:
    """Read a master's response."""
    return jsonrpc._response(raw)


@cache
def authority() -> ca.KeyPair:
    """Return an authority."""
    return ca.new_authority(datetime.now(UTC))


@cache
def request_pem() -> bytes:
    """Return a certificate request."""
    return new_request()[1]


AGENT: Final = ca.CertificateRequest(role=Role.AGENT, name="h1", addresses=("192.0.2.1",))


def certificate(raw: bytes) -> object:
    """Read a certificate as an agent reads its own, and as one of an authority."""
    with warnings.catch_warnings():  # the library announces what later releases of it refuse
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        renewal_is_due(raw, datetime.now(UTC))
        return ca.bundle([raw])


TARGETS: Final = (
    Target("cni-plugin-stdin", as_json(CONFIG), plugin.configuration, (plugin.CniError,)),
    Target(
        "cni-plugin-reply",
        (
            b'HTTP/1.1 200 OK\r\nX: y\r\n\r\n{"cni":"{}"}',
            b'HTTP/1.1 500 X\r\n\r\n{"errmsg":"a","errinfo":"b"}',
        ),
        lambda raw: plugin.read_reply(raw, "/s", ""),
        (plugin.CniError,),
    ),
    Target(
        "cni-body",
        as_json(cni_body(CONFIG)),
        lambda raw: cni.parse(raw, cni.Verb.ADD),
        (BadCall,),
    ),
    Target("cni-config", as_json(CONFIG, GO_CONFIG), partial(cni_config, cni.Verb.ADD), (BadCall,)),
    Target("cni-config-del", as_json(CONFIG), partial(cni_config, cni.Verb.DEL), (BadCall,)),
    Target(
        "cni-arguments",
        (b"IgnoreUnknown=1;K8S_POD_NAME=a=b;IP=10.1.1.5,fd00::5;MAC=02:aa:00:00:00:01;GATEWAY=",),
        cni_arguments,
        (BadCall,),
    ),
    Target("cni-previous-result", as_json(RESULT), cni_check, (BadCall,)),
    Target("cni-gc", as_json({"netconf": json.dumps(GC)}), cni.parse_gc, (BadCall,)),
    Target("journal", as_json(JOURNAL), journalled, (ValueError,)),
    Target("mesos", as_json(MESOS), lambda raw: mesos.read_request(raw, cni.Verb.ADD), (BadCall,)),
    Target("docker", as_json(DOCKER), docker_call, (docker_calls.BadBody,)),
    Target("packet", frames(), packet, (), text=False, share=32),
    Target("dns-question", dns_messages_of(), dns_question, (), text=False),
    Target("dns-reply", dns_replies(), dns_reply, (), text=False),
    Target("bgp", bgp_messages(), bgp_message, (bgp.MalformedBgp,), text=False, share=32),
    Target(
        "openflow-body",
        OPENFLOW_BODIES,
        openflow_body,
        (openflow.MalformedOpenflow,),
        text=False,
        share=32,
    ),
    Target(
        "openflow-stream",
        (openflow.message(10, 1, packet_in()) * 2, openflow.message(2, 1)),
        openflow_stream,
        (openflow.MalformedOpenflow,),
        text=False,
        share=32,
    ),
    Target(
        "capture-filter",
        (b"tcp and host 10.0.0.1 and port 80", b"net 10.0.0.0/8 icmp6", b"ip6 udp"),
        lambda raw: pcap.packet_filter(raw.decode("utf-8", "replace"))(frames()[1]),
        (Invalid,),
    ),
    Target(
        "rpc-request",
        as_json(
            {
                "method": "OfnetMaster.Report",
                "params": [
                    {
                        "HostAddr": "h",
                        "HostPort": 9002,
                        "Host": "h1",
                        "Revisions": {"/a/": 7},
                        "Errors": ["x"],
                        "History": "t",
                    }
                ],
                "id": 1,
            }
        ),
        report_of,
        (Invalid,),
    ),
    Target(
        "rpc-response",
        as_json({"id": 1, "error": None, "result": {"a": 1}}),
        answer_of,
        (jsonrpc.RpcFailed,),
    ),
    Target("kube-service", watch_lines(SERVICE), partial(kube_event, SERVICES), KUBE_REFUSALS),
    Target("kube-slice", watch_lines(SLICE), partial(kube_event, SLICES), KUBE_REFUSALS),
    Target("kube-pod", watch_lines(POD), partial(kube_event, pods_of("n1")), KUBE_REFUSALS),
    Target(
        "kube-namespace", watch_lines(NAMESPACE), partial(kube_event, NAMESPACES), KUBE_REFUSALS
    ),
    Target("kube-node", watch_lines(NODE), partial(kube_event, NODES), KUBE_REFUSALS),
    Target(
        "kube-policy", watch_lines(POLICY), partial(kube_event, NETWORK_POLICIES), KUBE_REFUSALS
    ),
    Target(
        "kube-admin-policy",
        watch_lines(ADMIN_POLICY),
        partial(kube_event, ADMIN_POLICIES),
        KUBE_REFUSALS,
    ),
    Target(
        "kube-cluster-policy",
        watch_lines(CLUSTER_POLICY),
        partial(kube_event, CLUSTER_POLICIES),
        KUBE_REFUSALS,
    ),
    Target(
        "kube-status",
        as_json({"message": "denied"}),
        lambda raw: kube_api._message(raw.decode("utf-8", "replace")),
    ),
    Target(
        "kube-config",
        as_json({"K8S_API_SERVER": "https://192.0.2.1:6443", "SVC_SUBNET": "10.96.0.0/12"}),
        partial(from_file, kube_config.load),
        (UsageError,),
    ),
    Target(
        "exec-credential",
        as_json(EXEC_CREDENTIAL),
        lambda raw: exec_plugin.read(raw, "client.authentication.k8s.io/v1"),
        (ValueError,),
    ),
    Target(
        "kubeconfig",
        (*as_json(KUBECONFIG), yaml.safe_dump(KUBECONFIG).encode()),
        partial(from_file, kubeconfig.load),
        (UsageError,),
        share=0.02,  # the parser of YAML takes milliseconds
    ),
    Target(
        "record", (*keyed(*RECORDS), LINEAGE), partial(record_of, intents.decode), (ContivError,)
    ),
    Target("record-of-master", OBJECTS, partial(record_of, master_codec.decode), (ContivError,)),
    Target(
        "user",
        (f"{keys.user('ann')} ".encode() + users.encode(USER),),
        partial(record_of, users.decode),
        (Invalid,),
    ),
    Target(
        "agent-answer",
        as_json(HOP),
        lambda raw: agent_answers.read("h1", "a hop", raw, agent_answers.HOP),
        (AgentUnavailable,),
    ),
    Target("schema", as_json({"version": 1, "loading": True}), schema.decode, (Invalid,)),
    Target("token-keys", as_json(TOKEN_KEYS), tokens.decode_keys, (Invalid,)),
    Target(
        "original-store",
        as_json(
            {"node": {"dir": True, "nodes": [{"key": "/contiv.io/a", "value": "b"}]}},
            [{"key": "contiv.io/a", "value": "YQ==", "flags": 0}],
        ),
        lambda raw: original.parse(raw.decode("utf-8", "replace")),
        (Invalid,),
    ),
    Target("original-record", as_json({"a": {"b": [1]}}), source._parsed),
    Target(
        "backup",
        as_json({"schema": schema.VERSION, "release": "0.2.0", "keys": {}}),
        lambda raw: backup.read(raw.decode("utf-8", "replace")),
        (Invalid, SchemaMismatch),
    ),
    Target("rest-v1", as_json(V1_NETWORK), lambda raw: go_wire.decode(Network, raw), (Invalid,)),
    Target(
        "rest-v2",
        as_json(V1_NETWORK, {"tenantName": "t", "policyName": "p", "ruleId": "1"}),
        lambda raw: representation.read(Rule if b"ruleId" in raw else Network, raw),
        (ContivError,),
    ),
    Target(
        "dry-run",
        as_json({"writes": {f"{keys.NETWORKS}n1.t": "{}", "x": None}}),
        dry_run.read,
        (Invalid,),
    ),
    Target("trace", as_json(TRACE), lambda raw: trace.read(read_json(raw)), (Invalid, ValueError)),
    Target("certificate", (authority().certificate,), certificate, (Invalid,)),
    Target(
        "certificate-request",
        (request_pem(),),
        lambda raw: ca.sign(authority(), raw, AGENT, datetime.now(UTC)),
        (Invalid,),
    ),
)
