"""Connects the target pods of live migrations (KubeVirt) as soon as their machines run in them.

A target pod is made without a port and without an endpoint (`netplugin.pods.add`), since its
machine runs in the source pod, which has the addresses. Three things say that it runs here: the
machine announces itself (`netplugin.kernel.packets.machine_announcements`), which comes first;
KubeVirt says so by an annotation of the pod; or the source pod's endpoint is gone. Netmaster then
gives the addresses to the target pod (ADR 46), and the source pod's host cuts that one off.
"""

import logging
from contextlib import closing
from typing import Final

from core.change_notifier import ChangeNotifier
from core.errors import ContivError
from core.ids import POD_NAME, POD_NAMESPACE, endpoint_key
from core.logs import fields
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.kernel.packets.machine_announcements import MachineAnnouncements
from netplugin.pods.handler import Pods
from netplugin.pods.labels import KnownPods
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from netplugin.world.kubernetes.kube_pods import POD_UID

log = logging.getLogger(__name__)

ANNOUNCED: Final = "it announced itself"
ANNOTATED: Final = "KubeVirt says so"
ALONE: Final = "its source pod is gone"


class LiveMigrations:
    """The target pods of this host. One per agent in a cluster of Kubernetes."""

    def __init__(self, host: PodHost, pods: Pods, known: KnownPods, interval: float) -> None:
        self._host = host
        self._pods = pods
        self._known = known
        self._interval = interval
        self._announced: set[str] = set()
        self._announcements = MachineAnnouncements(self._note)
        self._changed = ChangeNotifier()

    async def run(self) -> None:
        """Connect them, for ever."""
        with closing(self._announcements):
            await ReconcileLoop(
                name="live migrations",
                converge=self.converge,
                observe=self._facts,
                triggers=(
                    lambda: self._changed.next,
                    self._host.registry.awaiting_changed,
                    self._known.changed,
                    self._host.reconciler.records.records_changed,
                ),
                interval=self._interval,
            ).run()

    async def converge(self) -> object:
        """Connect the pods whose machines run in them, once. Raises the first ContivError."""
        awaiting = {_link(entry): entry for entry in self._host.registry.awaiting()}
        self._announced &= awaiting.keys()
        failures: list[ContivError] = [
            *self._announcements.listen(awaiting.keys() - self._announced)
        ]
        for entry in awaiting.values():
            if reason := self._reason(entry):
                try:
                    await self._pods.arrive(entry)
                except ContivError as exc:
                    failures.append(exc)
                    continue
                log.info(
                    "machine runs in its target pod",
                    extra=fields(endpoint=entry.key, address=entry.ip_address, reason=reason),
                )
        if failures:
            raise failures[0]
        return self._facts()

    def _note(self, link: str) -> None:
        self._announced.add(link)
        self._changed.notify()

    def _facts(self) -> object:
        return {entry.key: self._reason(entry) for entry in self._host.registry.awaiting()}

    def _reason(self, entry: JournalEntry) -> str:
        """Return what says that a pod's machine runs in it, "" for nothing."""
        if _link(entry) in self._announced:
            return ANNOUNCED
        labels = entry.spec.labels
        name = f"{labels.get(POD_NAMESPACE)}/{labels.get(POD_NAME)}"
        pod = self._known.pod(name, labels.get(POD_UID, ""))
        if pod is not None and pod.machine_runs:
            return ANNOTATED
        # Absence proves nothing while records are being read.
        known = self._host.world.complete and self._host.reconciler.records.endpoints_position
        source = endpoint_key(entry.spec.network_id, entry.source)
        return ALONE if known and self._host.world.endpoint_records.get(source) is None else ""


def _link(entry: JournalEntry) -> str:
    return port_names.switch_name(entry.port)
