"""Kubernetes' policies for the pods of the cluster, as the bridges of this host need them. Pure.

In come policies and namespaces (`netplugin.kube.policies`), and the records of endpoints, whose
labels name their pods and have the pods' own labels (`netplugin.world.kube_pods`). So a host knows
the pods of other hosts by the store alone, and asks the API server for its own. Out come entries
and subjects (`netplugin.world.kube_policies`), with the VRFs of the pods' tenants.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from ipaddress import ip_address

from core.ids import EndpointKey, HostLabel, TenantName
from core.multimap import discard
from netplugin.world.bridge_state import BridgeState
from netplugin.world.kube_objects import KubeObject
from netplugin.world.kube_pods import POD_NAME, POD_NAMESPACE, named_ports
from netplugin.world.kube_policies.policies import KubePolicies
from netplugin.world.kube_policies.rules import PodAddress, PolicyNode, PolicyPod
from netplugin.world.network_tenants import NetworkTenants
from ofnet.world import Bridge
from state.records import EndpointRecord

PodKey = tuple[str, str]
"""Namespace and name."""


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
        tenants: NetworkTenants,
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._bridges = bridges
        self._vrfs = vrfs
        self._tenants = tenants
        self._changed = changed
        self.policies = KubePolicies()
        self._records: dict[EndpointKey, EndpointRecord] = {}
        self._by_pod: dict[PodKey, set[EndpointKey]] = {}
        self._tenant_of: dict[EndpointKey, TenantName] = {}
        self._by_tenant: dict[TenantName, set[EndpointKey]] = {}

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

    def put_endpoint(self, record: EndpointRecord) -> None:
        """Add or replace an endpoint, which may be a pod's."""
        before = self._forget(record.key)
        pod = pod_of(record)
        if pod is not None:
            self._records[record.key] = record
            self._by_pod.setdefault(pod, set()).add(record.key)
            tenant = self._tenant_of[record.key] = self._tenants.of(record.network)
            self._by_tenant.setdefault(tenant, set()).add(record.key)
        self._update({one for one in (before, pod) if one is not None})

    def remove_endpoint(self, key: EndpointKey) -> None:
        """Remove an endpoint."""
        pod = self._forget(key)
        if pod is not None:
            self._update({pod})

    def tenants_changed(self, tenants: Iterable[TenantName]) -> None:
        """Update the pods of tenants whose VRF ids changed."""
        keys = {key for tenant in tenants for key in self._by_tenant.get(tenant, ())}
        self._update({pod for key in keys if (pod := pod_of(self._records[key])) is not None})

    def _forget(self, key: EndpointKey) -> PodKey | None:
        """Remove an endpoint from the indexes; return its pod."""
        record = self._records.pop(key, None)
        pod = None if record is None else pod_of(record)
        if record is None or pod is None:
            return None
        discard(self._by_pod, pod, key)
        discard(self._by_tenant, self._tenant_of.pop(key), key)
        return pod

    def _update(self, pods: Iterable[PodKey]) -> None:
        for namespace, name in pods:
            records = [
                self._records[key] for key in sorted(self._by_pod.get((namespace, name), ()))
            ]
            if records:
                self.policies.put_pod(self._policy_pod(namespace, name, records))
            else:
                self.policies.remove_pod(namespace, name)
        self._tell()

    def _policy_pod(
        self, namespace: str, name: str, records: Iterable[EndpointRecord]
    ) -> PolicyPod:
        records = tuple(records)
        labels = {k: v for record in records for k, v in (record.labels or {}).items()}
        return PolicyPod(
            namespace=namespace,
            name=name,
            labels=labels,
            addresses=tuple(one for record in records for one in self._addresses(record)),
            local=any(record.homing_host == self._host for record in records),
            ports=named_ports(labels),
        )

    def _addresses(self, record: EndpointRecord) -> Iterator[PodAddress]:
        vrf = self._vrfs.get(self._tenants.of(record.network))
        for text in (record.ip_address, record.ipv6_address):
            if vrf is not None and text:
                yield PodAddress(vrf, ip_address(text))

    # -- to the bridges ------------------------------------------------------------------------

    def update_bridges(self) -> None:
        """Mark on the bridges what changed."""
        entries, subjects = self.policies.take_altered()
        for bridge in self._bridges.values():
            bridge.alter_kube_policies(entries, subjects)

    def _tell(self) -> None:
        if self.policies.altered:
            self._changed()


def pod_of(record: EndpointRecord) -> PodKey | None:
    """Return the pod of an endpoint; None for an endpoint that is no pod's."""
    labels = record.labels or {}
    namespace, name = labels.get(POD_NAMESPACE, ""), labels.get(POD_NAME, "")
    return (namespace, name) if namespace and name else None
