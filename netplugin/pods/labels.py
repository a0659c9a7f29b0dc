"""Keeps the labels of this host's endpoints as those of their pods in Kubernetes.

An endpoint gets the labels of its pod when it is created (`netplugin.pods.add`). Here later changes
are sent to netmaster, which stores them in the endpoint's record. A change of the labels that
choose tenant, network and group moves no pod: it counts when the pod is created anew.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from core.errors import Invalid, MasterRefused
from core.ids import POD_NAME, POD_NAMESPACE, EndpointKey
from core.logs import fields
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.kubernetes.kube_pods import POD_UID, KubePod, endpoint_labels

log = logging.getLogger(__name__)


class KnownPods(Protocol):
    """The pods that Kubernetes knows."""

    def pod(self, key: str, uid: str) -> KubePod | None:
        """Return the pod of a name and a UID, None if it is not known."""

    def changed(self) -> asyncio.Event:
        """Return the event of the next change."""


class PodLabels:
    """The labels of this host's endpoints. One per agent."""

    def __init__(self, host: PodHost, pods: KnownPods, interval: float) -> None:
        self._host = host
        self._pods = pods
        self._interval = interval
        self._sent: dict[EndpointKey, Mapping[str, str]] = {}

    async def run(self) -> None:
        """Follow the labels of pods, for ever."""
        triggers: tuple[Callable[[], asyncio.Event], ...] = (
            self._pods.changed,
            self._host.reconciler.ports_changed,
        )
        await ReconcileLoop(
            name="labels of pods",
            converge=self.converge,
            observe=self._wanted,
            triggers=triggers,
            interval=self._interval,
        ).run()

    async def converge(self) -> object:
        """Send what differs from the endpoints' records, once. Raises ContivError."""
        wanted = self._wanted()
        self._sent = {key: labels for key, labels in self._sent.items() if key in wanted}
        for key, labels in wanted.items():
            record = self._host.world.endpoint_records.get(key)
            network = record and self._host.world.networks.get(record.network)
            # What was sent is not sent again: its record may be on the way, and an older netmaster
            # ignores it.
            if not record or not network or labels in (record.labels, self._sent.get(key)):
                continue
            try:
                await self._host.master.set_labels(replace(record, labels=labels), network)
            except (Invalid, MasterRefused) as exc:
                log.warning("labels refused", extra=fields(endpoint=key, error=exc))
            self._sent[key] = labels
        return wanted

    def _wanted(self) -> dict[EndpointKey, Mapping[str, str]]:
        """Return the labels of the endpoints whose pods are known."""
        wanted: dict[EndpointKey, Mapping[str, str]] = {}
        for entry in self._host.registry.idle():
            named = entry.spec.labels
            uid = named.get(POD_UID, "")
            pod = self._pods.pod(f"{named.get(POD_NAMESPACE)}/{named.get(POD_NAME)}", uid)
            if pod is not None:
                wanted[entry.key] = endpoint_labels(pod, uid)
        return wanted
