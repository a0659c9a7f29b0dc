"""What was done to the two hosts of the recordings, step by step, as records of the store.

Names, addresses and rules are those of the recordings; `tests.golden.run` plays the steps.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Final

from core import keys
from core.ids import (
    EndpointKey,
    GroupKey,
    GroupName,
    HostLabel,
    NetworkId,
    NetworkName,
    TenantName,
    group_key,
)
from state.intents import Attachment, Fact, decode_rule
from state.records import (
    BgpRecord,
    Encap,
    EndpointRecord,
    GlobalRecord,
    GroupRecord,
    NetworkRecord,
    NetworkType,
    ServiceRecord,
)
from tests.golden.recordings import Recording

HERE: Final = HostLabel("host1")
PEER: Final = HostLabel("host12")
Words = Mapping[str, str | int]
"""What a rule's object says."""


@dataclass(frozen=True)
class Subnet:
    """A network of the run: its first three bytes, its tag, whether it has IPv6 and a gateway."""

    base: str
    tag: int
    tenant: str = "default"
    base6: str = ""
    gateway: bool = True


NETWORKS: Final = {
    "nvxlan": Subnet("10.1.1", 1),
    "nvxlan2": Subnet("10.1.2", 2),
    "nvxlan3": Subnet("10.1.3", 3, gateway=False),
    "nvxlan6": Subnet("10.1.6", 4, base6="2001:db8:1::"),
    "nvxlaninf": Subnet("10.1.7", 5),
    "nblue": Subnet("10.1.1", 6, tenant="blue"),
    "nvlan": Subnet("10.2.1", 100),
    "nvlan2": Subnet("10.2.2", 101),
    "nvlan3": Subnet("10.2.3", 102, gateway=False),
    "nvlan6": Subnet("10.2.6", 103, base6="2001:db8:2::"),
    "nvlaninf": Subnet("10.2.7", 104),
}
GROUP_IDS: Final = {"hvxlan": 1, "gvxlan": 2, "kvxlan": 3, "hvlan": 4, "gvlan": 5, "kvlan": 6}
FIRST6: Final = {"nvxlan6": 2, "nvlan6": 1}
"""The first pod's IPv6 address: the original gave the vlan network's gateway away."""


def network(name: str) -> NetworkRecord:
    subnet = NETWORKS[name]
    encap = Encap.VLAN if "vlan" in name else Encap.VXLAN
    return NetworkRecord(
        tenant=TenantName(subnet.tenant),
        name=NetworkName(name),
        type=NetworkType.INFRA if name.endswith("inf") else NetworkType.DATA,
        encap=encap,
        pkt_tag=subnet.tag,
        ext_pkt_tag=subnet.tag if encap is Encap.VXLAN else 0,
        subnet=f"{subnet.base}.0",
        subnet_len=24,
        gateway=f"{subnet.base}.254" if subnet.gateway else "",
        first=f"{subnet.base}.0",
        last=f"{subnet.base}.255",
        ipv6_subnet=subnet.base6,
        ipv6_subnet_len=64 if subnet.base6 else 0,
        ipv6_gateway=f"{subnet.base6}1" if subnet.base6 else "",
        network_tag=f"{name}.{subnet.tenant}",
    )


def group(name: str, dscp: int = 0) -> GroupRecord:
    on = network(f"n{name[1:]}")
    return GroupRecord(
        tenant=on.tenant,
        name=GroupName(name),
        network=on.name,
        group_id=GROUP_IDS[name],
        encap=on.encap,
        pkt_tag=on.pkt_tag,
        ext_pkt_tag=on.ext_pkt_tag,
        dscp=dscp,
        bandwidth="",
        burst=0,
        ip_pool="",
        group_tag=f"{name}.{on.tenant}",
    )


def endpoint(on: str, container: str, number: int, host: HostLabel, of: str = "") -> EndpointRecord:
    """Return the endpoint with the given last byte of its address on a network, of a group."""
    subnet = NETWORKS[on]
    address = f"{subnet.base}.{number}"
    last6 = number - 1 + FIRST6.get(on, 0)
    tenant = TenantName(subnet.tenant)
    nid = NetworkId(f"{on}.{tenant}")
    return EndpointRecord(
        key=EndpointKey(f"{nid}-{container}"),
        network=nid,
        endpoint_id=container,
        service_name=of,
        group_id=GROUP_IDS.get(of, 0),
        group_key=group_key(GroupName(of), tenant) if of else GroupKey(""),
        ip_address=address,
        ipv6_address=f"{subnet.base6}{last6}" if subnet.base6 else "",
        mac_address=":".join(f"{byte:02x}" for byte in b"\2\2" + IPv4Address(address).packed),
        homing_host=host,
        intf_name="",
        vtep_ip="",
        labels=None,
        container_id="",
        common_name=container.removeprefix("cid-"),
    )


def pod(name: str, on: str, number: int, host: HostLabel = HERE, of: str = "") -> EndpointRecord:
    return endpoint(on, f"cid-{name}", number, host, of)


LABELS: Final = {"app": "provider"}


def provider(name: str, on: str, number: int, host: HostLabel, **more: str) -> EndpointRecord:
    """Return a pod with the labels that services select."""
    there = pod(name, on, number, host)
    return replace(there, labels={**LABELS, **more}, container_id=there.endpoint_id)


def service(name: str, on: str, address: str, *ports: str, **more: str) -> ServiceRecord:
    """Return a service with its address on a network; `more` narrow down who serves it."""
    return ServiceRecord(
        tenant=TenantName("default"),
        name=name,
        network=NetworkName(on),
        ports=ports,
        selectors={**LABELS, **more},
        ip_address=address,
    )


def balanced(kind: str) -> ServiceRecord:
    """Return the service of netmaster's."""
    address = f"{NETWORKS[f'n{kind}'].base}.200"
    return service(f"svc{kind}", f"n{kind}", address, "80:8080:TCP", "53:5353:UDP")


def of_kubernetes(kind: str) -> ServiceRecord:
    """Return the service that was kubernetes', as if netmaster had it: one pod serves it."""
    address = CLUSTER_IPS[kind]
    return service(f"ksvc{kind}", f"n{kind}", address, "80:8080:TCP", only=kind)


CLUSTER_IPS: Final = {"vxlan": "10.254.0.10", "vlan": "10.254.0.11"}


def policy(of: str) -> Attachment:
    return Attachment(TenantName("default"), GroupName(of), (f"p{of[1:]}",))


def rule(kind: str, rule_id: str, words: Words) -> Fact:
    """Return a rule as an agent reads it from its object."""
    name = f"default:p{kind}:{rule_id}"
    stored = {
        "key": name,
        "tenantName": "default",
        "policyName": f"p{kind}",
        "ruleId": rule_id,
        **words,
    }
    return decode_rule(keys.RULES + name, json.dumps(stored).encode())


def settings(arp_mode: str) -> GlobalRecord:
    """Return the cluster's settings; the forwarding mode stays what it was."""
    return GlobalRecord(
        infra_type="default", fwd_mode="", arp_mode=arp_mode, pvt_subnet="172.19.0.0/16"
    )


def bgp() -> BgpRecord:
    """Return whom the first host spoke BGP with, had anybody answered."""
    return BgpRecord(
        hostname=HERE,
        router_ip="50.1.1.1/24",
        as_number="65002",
        neighbor_as="65000",
        neighbor="50.1.1.2",
    )


TCP_80: Final[Words] = {
    "direction": "in",
    "action": "allow",
    "priority": 10,
    "protocol": "tcp",
    "port": 80,
}
"""The second rule."""

GRE: Final[Words] = {"direction": "in", "action": "allow", "priority": 5, "protocol": "47"}
"""The eleventh rule, added in a step that was not dumped."""


@dataclass(frozen=True)
class Change:
    """What the store said after a step, and what it no longer said."""

    put: tuple[Fact, ...] = ()
    gone: tuple[Fact, ...] = ()


def change(recording: Recording) -> Change:
    """Return what a step did."""
    step = STEPS.get(recording.step)
    if step is not None:
        return step(recording.encap, f"n{recording.encap}")
    rules = recording.rules.items()
    return Change(tuple(rule(recording.encap, rule_id, words) for rule_id, words in rules))


STEPS: Final[Mapping[int, Callable[[str, str], Change]]] = {
    2: lambda _k, net: Change((network(net),)),
    3: lambda k, net: Change((pod(f"a{k}", net, 1),)),
    4: lambda k, net: Change((pod(f"b{k}", net, 2, PEER),)),
    5: lambda k, net: Change((pod(f"c{k}", net, 3),)),
    6: lambda k, net: Change((network(f"{net}2"), pod(f"d{k}", f"{net}2", 1))),
    7: lambda k, net: Change(
        (
            *(group(f"h{k}"), group(f"g{k}"), policy(f"g{k}")),
            pod(f"e{k}", net, 4, of=f"g{k}"),
            pod(f"f{k}", net, 5, PEER, f"h{k}"),
        )
    ),
    19: lambda k, _net: Change((rule(k, "11", GRE),), (rule(k, "2", TCP_80),)),
    21: lambda k, net: Change((group(f"k{k}", dscp=26), pod(f"q{k}", net, 6, of=f"k{k}"))),
    22: lambda k, _net: Change((group(f"k{k}", dscp=10),)),
    24: lambda k, net: Change(
        (group(f"k{k}"), pod(f"s{k}", net, 7), pod(f"t{k}", net, 8, PEER), balanced(k)),
    ),
    25: lambda k, net: Change(
        (provider(f"s{k}", net, 7, HERE, only=k), provider(f"t{k}", net, 8, PEER))
    ),
    26: lambda k, _net: Change((of_kubernetes(k),)),
    27: lambda _k, _net: Change(),
    28: lambda k, _net: Change(gone=(balanced(k), of_kubernetes(k))),
    29: lambda k, net: Change((network(f"{net}3"), pod(f"i{k}", f"{net}3", 1))),
    31: lambda k, net: Change(
        (
            *(network(f"{net}6"), network(f"{net}inf")),
            *(pod(f"six{k}", f"{net}6", 1), pod(f"sev{k}", f"{net}6", 2, PEER)),
            endpoint(f"{net}inf", HERE, 1, HERE),
            endpoint(f"{net}inf", PEER, 2, PEER),
        )
    ),
    32: lambda k, net: Change(gone=(pod(f"a{k}", net, 1),)),
    33: lambda k, net: Change(gone=(pod(f"b{k}", net, 2, PEER),)),
    35: lambda _k, _net: Change(
        (
            *(network("nblue"), pod("blue1", "nblue", 1), pod("blue2", "nblue", 2, PEER)),
            settings("flood"),
            bgp(),
        )
    ),
}
"""What each step did, given the kind of networks it was about and the name of the first of them.

Both are part of the name of everything. All other steps added the rules their recordings list.
"""
