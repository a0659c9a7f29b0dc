"""Kubernetes' policies for the pods of the cluster, as the bridges of this host need them. Pure.

In come policies and namespaces (`netplugin.kube.policies`), and the records of endpoints, whose
labels name their pods and have the pods' own labels (`netplugin.world.kube_pods`). So a host knows
the pods of other hosts by the store alone, and asks the API server for its own. Out come entries
and subjects (`netplugin.world.kube_policies`), with the VRFs of the pods' tenants.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address

from core.ids import EndpointKey, HostLabel, TenantName
from netplugin.world.bridge_state import BridgeState
from netplugin.world.endpoint_table import (
    EndpointRow,
    EndpointTable,
    Index,
    PodKey,
    addresses_of,
    pods_of,
)
from netplugin.world.kube_objects import KubeObject
from netplugin.world.kube_pods import named_ports
from netplugin.world.kube_policies.policies import KubePolicies
from netplugin.world.kube_policies.rules import PodAddress, PolicyNode, PolicyPod
from ofnet.world import Bridge
from state.records import EndpointRecord


class PodPolicies:
    """The policies and the pods that they are about.

    `vrfs` has the current VRF ids of tenants. `changed` is called when flows may have changed.
    """

    # A pod may have several endpoints: interfaces on several networks. All their addresses are the
    # pod's. A pod that was made anew under its old name has two records for a moment; both count.

    def __init__(
        self,
        host: HostLabel,
        bridges: Mapping[Bridge, BridgeState],
        vrfs: Mapping[TenantName, int],
        endpoints: EndpointTable,
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._bridges = bridges
        self._vrfs = vrfs
        self._endpoints = endpoints
        self._changed = changed
        self.policies = KubePolicies()
        self._early: dict[EndpointKey, EndpointRow] = {}
        self._early_of = Index[PodKey](lambda row: pods_of(row.record))

    # -- from Kubernetes -----------------------------------------------------------------------

    def put(self, resource: str, received: KubeObject) -> None:
        """Add or replace a policy. Raises Invalid, changing nothing, if it cannot be read."""
        self.policies.put(resource, received)
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
        records = [one.record for one in (old, new) if one is not None]
        early = self._set_early(records[0].key, None)
        self._update({pod for one in (*early, *records) for pod in pods_of(one)})

    def put_port(self, record: EndpointRecord) -> None:
        """Follow an endpoint that has got its port on this host, which is there now.

        The record holds until the store's next of this endpoint: policies hold from the first
        packet, which may come before the watch has the record.
        """
        known = self._endpoints.get(record.key)
        before = [known] if known is not None else []
        before += self._set_early(record.key, None if known == record else record)
        self._update({pod for one in (*before, record) for pod in pods_of(one)})

    def remove_port(self, key: EndpointKey) -> None:
        """Follow an endpoint that has no port on this host any more."""
        self._update({pod for one in self._set_early(key, None) for pod in pods_of(one)})

    def tenants_changed(self, tenants: Iterable[TenantName]) -> None:
        """Update the pods of tenants whose VRF ids changed."""
        found = [row for tenant in tenants for row in self._endpoints.labelled(tenant)]
        rows = (*found, *self._early.values())
        self._update({pod for row in rows for pod in pods_of(row.record)})

    def _set_early(self, key: EndpointKey, record: EndpointRecord | None) -> list[EndpointRecord]:
        """Set or forget what a port says of its endpoint; return what it said before."""
        before = self._early.pop(key, None)
        after = None if record is None else self._endpoints.row_of(record)
        if after is not None:
            self._early[key] = after
        self._early_of.update(key, before, after)
        return [] if before is None else [before.record]

    def _update(self, pods: Iterable[PodKey]) -> None:
        for pod in pods:
            known = {row.record.key: row for row in self._endpoints.of_pod(pod)}
            rows = {key: row for key, row in known.items() if key not in self._early}
            # The tenant may have become known since.
            early = (self._early[key].record for key in self._early_of.keys(pod))
            rows |= {one.key: self._endpoints.row_of(one) for one in early}
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
            self._changed()
