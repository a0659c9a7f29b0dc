"""The pods of this node and the namespaces, as Kubernetes knows them; places the pods of ADDs.

In come the objects (`netplugin.kube.feed`) and the requests of the runtime; out go requests with
tenant, network, group and labels by `netplugin.world.kubernetes.kube_pods`. An ADD may precede the
watch's event for its pod, so it waits a little and then asks the server itself. A pod is recognised
by its UID, not by its name, which a later pod may have: no pod gets the labels of another.
"""

import asyncio
import logging
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from core.change_notifier import ChangeNotifier
from core.errors import OrchestratorUnavailable
from core.ids import GroupName, NetworkName, TenantName
from core.logs import fields
from core.patience import patient
from netplugin.cni.request import PodRequest
from netplugin.kube.api import KubeApi
from netplugin.kube.resources import NAMESPACES, Resource
from netplugin.world.kubernetes.kube_objects import KubeObject
from netplugin.world.kubernetes.kube_pods import (
    GROUP,
    NETWORK,
    TENANT,
    KubePod,
    endpoint_labels,
    namespace_of,
    pod_of,
)

log = logging.getLogger(__name__)

WATCH_WAIT: Final = patient(1.0)
"""Seconds an ADD waits for the watch before it asks the server."""


class PodHandler:
    """A `netplugin.kube.feed.KubeHandler` of pods and namespaces."""

    def __init__(self) -> None:
        self._pods: dict[str, KubePod] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._changed = ChangeNotifier()

    def put(self, resource: str, received: KubeObject) -> None:
        """As `KubeHandler.put`."""
        if resource == NAMESPACES.name:
            name, labels = namespace_of(received)
            self._namespaces[name] = labels
        else:
            pod = pod_of(received)
            self._pods[pod.key] = pod
        self._changed.notify()

    def remove(self, resource: str, key: str) -> None:
        """As `KubeHandler.remove`."""
        self._held(resource).pop(key, None)
        self._changed.notify()

    def retain(self, resource: str, keys: Container[str]) -> None:
        """As `KubeHandler.retain`."""
        held = self._held(resource)
        for key in [key for key in held if key not in keys]:
            del held[key]
        self._changed.notify()

    def pod(self, key: str, uid: str) -> KubePod | None:
        """Return the pod of a name and a UID, None if it is not known."""
        found = self._pods.get(key)
        return found if found is not None and uid in found.uids else None

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace, None if it is not known."""
        return self._namespaces.get(name)

    def changed(self) -> asyncio.Event:
        """Return the event of the next change: take it, read the state, then wait for it."""
        return self._changed.next

    def _held(self, resource: str) -> dict[str, KubePod] | dict[str, Mapping[str, str]]:
        return self._namespaces if resource == NAMESPACES.name else self._pods


class PodPlacement:
    """Places the pods of ADDs; `pods` is the resource that `known` follows."""

    def __init__(
        self,
        api: KubeApi,
        pods: Resource,
        known: PodHandler,
        wait: float = WATCH_WAIT,
        *,
        tenant_by_pod: bool = True,
    ) -> None:
        self._api = api
        self._pods = pods
        self._known = known
        self._wait = wait
        self._tenant_by_pod = tenant_by_pod

    async def place(self, request: PodRequest) -> PodRequest:
        """Return a request as the labels of its pod say; as it is, if it names no pod.

        Raises OrchestratorUnavailable if Kubernetes cannot be asked, or does not know the pod;
        Invalid for annotations that are none.
        """
        if not request.pod_name or not request.namespace:
            return request
        pod, namespace = await self._watched(request)
        if pod is None:
            pod = await self._asked_pod(request)
        if namespace is None:
            namespace = await self._asked_namespace(request.namespace)
        found = placed(request, pod, namespace, tenant_by_pod=self._tenant_by_pod)
        wanted = pod.labels.get(TENANT)
        if request.spec.is_first and wanted and wanted != found.spec.tenant:
            log.warning(
                "pod asks for a tenant that its namespace has not",
                extra=fields(pod=pod.key, asked=wanted, tenant=found.spec.tenant),
            )
        return found

    async def _watched(
        self, request: PodRequest
    ) -> tuple[KubePod | None, Mapping[str, str] | None]:
        """Return what the watches know of a pod and its namespace, after a little wait."""
        # Without a UID (old runtimes) only the server can say which pod has the name now.
        key = f"{request.namespace}/{request.pod_name}"
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait if request.pod_uid else 0):
                while True:
                    changed = self._known.changed()
                    pod = self._known.pod(key, request.pod_uid)
                    namespace = self._known.namespace(request.namespace)
                    if pod is not None and namespace is not None:
                        return pod, namespace
                    await changed.wait()
        return self._known.pod(key, request.pod_uid), self._known.namespace(request.namespace)

    async def _asked_pod(self, request: PodRequest) -> KubePod:
        name = f"pod {request.namespace}/{request.pod_name}"
        received = await self._get(self._pods, request.namespace, request.pod_name)
        if received is None:
            raise OrchestratorUnavailable(f"{name} does not exist in Kubernetes, or not yet")
        pod = pod_of(received)
        if request.pod_uid and request.pod_uid not in pod.uids:
            raise OrchestratorUnavailable(
                f"{name} has UID {', '.join(sorted(pod.uids))} in Kubernetes and "
                f"{request.pod_uid} here: one of them is gone"
            )
        return pod

    async def _asked_namespace(self, name: str) -> Mapping[str, str]:
        received = await self._get(NAMESPACES, "", name)
        if received is None:
            raise OrchestratorUnavailable(f"namespace {name} does not exist in Kubernetes")
        return namespace_of(received)[1]

    async def _get(self, resource: Resource, namespace: str, name: str) -> KubeObject | None:
        received = await self._api.get(resource, namespace, name)
        return None if received is None else resource.reduced(received)


def placed(
    request: PodRequest,
    pod: KubePod,
    namespace: Mapping[str, str],
    *,
    tenant_by_pod: bool = True,
) -> PodRequest:
    """Return a request with tenant, network and group as the labels say, and the labels.

    A label of the pod counts before one of its namespace, and that before the network configuration
    of the runtime; each label for itself (docs/original/cni-k8s.md §5). But a namespace that names
    a tenant has the last word on it, and without `tenant_by_pod` a pod's label never counts: who
    writes pods does not choose whose network they are in. The labels place a pod's first interface;
    each further one has a configuration of its own, which places it.

    So do its annotations, which ask for addresses where the runtime asks for none. Raises Invalid
    for annotations that are none.
    """
    labels = endpoint_labels(pod, request.pod_uid)
    if not request.spec.is_first:
        return replace(request, spec=replace(request.spec, labels=labels))

    def label(name: str) -> str:
        return pod.labels.get(name) or namespace.get(name) or ""

    wishes = pod.wishes
    asked = pod.labels.get(TENANT) if tenant_by_pod else None
    tenant = namespace.get(TENANT) or asked
    group = label(GROUP)
    spec = replace(
        request.spec,
        tenant=TenantName(tenant or request.spec.tenant),
        network=NetworkName(label(NETWORK) or request.spec.network),
        group=GroupName(group) if group else request.spec.group,
        labels=labels,
        mac=request.spec.mac or wishes.mac,
        keep=wishes.keep,
        awaits_machine=wishes.awaits_machine,
    )
    return replace(
        request, spec=spec, ipv4=request.ipv4 or wishes.ipv4, ipv6=request.ipv6 or wishes.ipv6
    )
