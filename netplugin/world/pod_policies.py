"""Kubernetes' policies for the pods of the cluster, as the bridges of this host need them. Pure.

In come policies (`netplugin.kube.feed`), namespaces and nodes (`netplugin.kube.policy_peers`), and
the records of endpoints, whose labels name their pods and have the pods' own labels
(`netplugin.world.kubernetes.kube_pods`). So a host knows the pods of other hosts by the store
alone, and asks the API server for its own. Out come entries and subjects
(`netplugin.world.kubernetes`), with the VRFs of the pods' tenants.
"""

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address

from core.ids import HostLabel, TenantName
from core.logs import fields
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.bridges.networks import NetworkChange
from netplugin.world.cluster_endpoints.endpoint_table import (
    EndpointRow,
    EndpointTable,
    PodKey,
    addresses_of,
    pods_of,
)
from netplugin.world.kubernetes.kube_objects import KubeObject, key_of
from netplugin.world.kubernetes.kube_pods import named_ports
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.rules import PodAddress, PolicyNode, PolicyPod
from ofnet.world import Bridge
from state.records import EndpointRecord

log = logging.getLogger(__name__)


class PodPolicies:
    """The policies and the pods that they are about.

    `vrfs` has the current VRF ids of tenants. `signal` is set when flows may have changed.
    """

    # A pod may have several endpoints: interfaces on several networks. All their addresses are the
    # pod's. A pod that was made anew under its old name has two records for a moment; both count.

    def __init__(
        self,
        host: HostLabel,
        bridges: Mapping[Bridge, BridgeState],
        vrfs: Mapping[TenantName, int],
        endpoints: EndpointTable,
        signal: ChangeSignal,
    ) -> None:
        self._host = host
        self._bridges = bridges
        self._vrfs = vrfs
        self._endpoints = endpoints
        self._signal = signal
        self.policies = KubePolicies()
        self.early = EndpointTable(host)
        """Endpoints as their ports have them, while the store says something else or nothing."""
        self.early.feed(self._follow)

    # -- from Kubernetes -----------------------------------------------------------------------

    def put(self, resource: str, received: KubeObject) -> None:
        """Add or replace a policy. Raises Invalid, changing nothing, if it cannot be read."""
        self.policies.put(resource, received)
        for text in self.policies.unfollowed_of(resource, key_of(received)):
            log.warning("Kubernetes policy rule not followed", extra=fields(error=text))
        self._tell()

    def remove(self, resource: str, key: str) -> None:
        """Remove a policy."""
        self.policies.remove(resource, key)
        self._tell()

    def retain(self, resource: str, keys: Container[str]) -> None:
        """Remove the policies of a resource that are not among these."""
        for key in self.policies.names(resource):
            if key not in keys:
                self.policies.remove(resource, key)
        self._tell()

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Set the labels of a namespace."""
        self.policies.put_namespace(name, labels)
        self._tell()

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace."""
        self.policies.remove_namespace(name)
        self._tell()

    def put_node(self, name: str, node: PolicyNode) -> None:
        """Set labels and addresses of a node."""
        self.policies.put_node(name, node)
        self._tell()

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self.policies.remove_node(name)
        self._tell()

    # -- from the store ------------------------------------------------------------------------

    def update_endpoint(self, old: EndpointRow | None, new: EndpointRow | None) -> None:
        """Follow an endpoint, which may be a pod's."""
        for row in (old, new):
            if row is not None:
                self.early.remove(row.record.key)
        self._follow(old, new)

    def put_port(self, record: EndpointRecord) -> None:
        """Follow an endpoint that has got its port on this host, which is there now.

        The record holds until the store's next of this endpoint: policies hold from the first
        packet, which may come before the watch has the record.
        """
        if self._endpoints.get(record.key) == record:
            self.early.remove(record.key)
        else:
            self.early.put(record)

    def networks_changed(self, change: NetworkChange) -> None:
        """Update the pods of tenants whose networks or VRF ids changed."""
        tables = (self._endpoints, self.early)
        rows = (row for it in tables for tenant in change.tenants for row in it.labelled(tenant))
        self._update({pod for row in rows for pod in pods_of(row.record)})

    def _follow(self, old: EndpointRow | None, new: EndpointRow | None) -> None:
        records = [row.record for row in (old, new) if row is not None]
        known = self._endpoints.get(records[0].key)
        if known is not None:
            records.append(known)
        self._update({pod for record in records for pod in pods_of(record)})

    def _update(self, pods: Iterable[PodKey]) -> None:
        for pod in pods:
            known = {row.record.key: row for row in self._endpoints.of_pod(pod)}
            rows = {key: row for key, row in known.items() if self.early.get(key) is None}
            rows |= {row.record.key: row for row in self.early.of_pod(pod)}
            if rows:
                self.policies.put_pod(self._policy_pod(pod, [rows[key] for key in sorted(rows)]))
            else:
                self.policies.remove_pod(*pod)
        self._tell()

    def _policy_pod(self, pod: PodKey, rows: Sequence[EndpointRow]) -> PolicyPod:
        labels = {k: v for row in rows for k, v in (row.record.labels or {}).items()}
        return PolicyPod(
            namespace=pod[0],
            name=pod[1],
            labels=labels,
            addresses=tuple(one for row in rows for one in self._addresses(row)),
            local=any(row.record.homing_host == self._host for row in rows),
            ports=named_ports(labels),
        )

    def _addresses(self, row: EndpointRow) -> Iterator[PodAddress]:
        vrf = self._vrfs.get(row.tenant)
        if vrf is not None:
            yield from (PodAddress(vrf, ip_address(text)) for text in addresses_of(row.record))

    # -- to the bridges ------------------------------------------------------------------------

    def update_bridges(self) -> None:
        """Mark on the bridges what changed."""
        entries, subjects = self.policies.take_altered()
        for bridge in self._bridges.values():
            bridge.alter_kube_policies(entries, subjects)

    def _tell(self) -> None:
        if self.policies.altered:
            self._signal.set()
