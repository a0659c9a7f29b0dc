"""The records of a whole cluster, as netmaster writes them: tenants, networks, hosts, endpoints.

A tenth of a thousandth part of it is one host's, `HERE`: its pods are all of the first tenant.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from bench.records import endpoint, host, write
from bench.stores import client
from core import keys
from core.ids import HostLabel, NetworkId, NetworkName, TenantName
from objdb.api import Put
from state import codec
from state.records import (
    Encap,
    EndpointRecord,
    GlobalRecord,
    HostRecord,
    NetworkRecord,
    NetworkType,
    Record,
)

HERE: Final = HostLabel("here")
PODS: Final = 10
"""Of `HERE`, on the networks of the first tenant."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """How many of each; `networks` of each tenant, `endpoints` in all."""

    tenants: int
    networks: int
    endpoints: int
    hosts: int

    def puts(self) -> Iterator[Put]:
        """Yield what the store holds of the cluster, but the grants of addresses."""
        settings = GlobalRecord(
            infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
        )
        yield Put(keys.GLOBAL_CONFIG, codec.encode(settings))
        for number in range(self.hosts):
            label = host(number)
            yield _put(keys.host(label), _host(label, number))
        for number in range(self.tenants * self.networks):
            network = self.network_record(number)
            yield _put(keys.network(network.id), network)
        for number in range(self.endpoints):
            pod = self.endpoint(number)
            yield _put(keys.endpoint(pod.key), pod)

    def endpoint(self, number: int) -> EndpointRecord:
        """Return an endpoint; those below `PODS` are of `HERE`."""
        here = number < PODS
        slot = number % self.networks if here else number % (self.tenants * self.networks)
        network, container = self.network_record(slot), f"{number:064x}"
        address = IPv4Address(network.subnet) + 2 + number // (self.tenants * self.networks)
        if here:
            address += 3_000 + number
        return endpoint(
            network.id,
            container,
            address=address,
            on=HERE if here else host(number % self.hosts),
            name=f"pod-{number}",
        )

    def network_record(self, number: int) -> NetworkRecord:
        """Return a network."""
        tenant, slot = divmod(number, self.networks)
        subnet = IPv4Address("10.0.0.0") + (slot << 12)
        return NetworkRecord(
            tenant=TenantName(f"tenant{tenant}"),
            name=NetworkName(f"net{slot}"),
            type=NetworkType.DATA,
            encap=Encap.VXLAN,
            pkt_tag=number + 1,
            ext_pkt_tag=10_001 + number,
            subnet=str(subnet),
            subnet_len=20,
            gateway=str(subnet + 1),
            first=str(subnet),
            last=str(subnet + 4_095),
            ipv6_subnet="",
            ipv6_subnet_len=0,
            ipv6_gateway="",
            network_tag="",
        )

    def network(self, number: int) -> NetworkId:
        """Return the id of a network."""
        return self.network_record(number).id


async def seed(url: str, cluster: Cluster) -> None:
    """Write a cluster into an etcd."""
    store = client("etcd", url)
    try:
        await write(store, cluster.puts())
    finally:
        await store.close()


def _host(label: HostLabel, number: int) -> HostRecord:
    address = str(IPv4Address("192.168.0.1") + number)
    return HostRecord(label=label, control_ip=address, vtep_ip=address, vxlan_port=4789)


def _put(key: str, record: Record) -> Put:
    return Put(key, codec.encode(record))
