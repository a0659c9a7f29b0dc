"""Connects the target pods of live migrations (KubeVirt) as soon as their machines run in them.

A target pod is made without a port and without an endpoint (`netplugin.pods.add`), since its
machine runs in the source pod, which has the addresses. Three things say that it runs here: the
machine announces itself (`netplugin.kernel.packets.machine_announcements`), which comes first;
KubeVirt says so by an annotation of the pod; or the source pod's endpoint is gone. Netmaster then
gives the addresses to the target pod (ADR 46).

The source pod is cut off on its host, once the store has no record of it and one of another pod
with its address. Its port goes, too: Open vSwitch has learned the machine's MAC address there, and
would send bridged packets to it for five minutes.
"""

import logging
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing, suppress
from ipaddress import ip_address
from typing import Final, Protocol

from core.change_notifier import ChangeNotifier
from core.errors import ContivError
from core.ids import OF_MACHINE, POD_NAME, POD_NAMESPACE, EndpointKey, endpoint_key
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
GRANTED: Final = "netmaster has made its endpoint"


class ListensForMachines(Protocol):
    """Tells of each link on which a machine announces itself."""

    def listen(self, links: Set[str]) -> Sequence[ContivError]:
        """Listen on these links, and on no other; return why not on some."""

    def close(self) -> None:
        """Listen no more."""


class LiveMigrations:
    """The target pods of this host. One per agent in a cluster of Kubernetes."""

    def __init__(
        self,
        host: PodHost,
        pods: Pods,
        known: KnownPods,
        interval: float,
        announcements: Callable[[Callable[[str], None]], ListensForMachines] = MachineAnnouncements,
    ) -> None:
        self._host = host
        self._pods = pods
        self._known = known
        self._interval = interval
        self._announced: set[str] = set()
        self._announcements = announcements(self._note)
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
        """Connect the pods whose machines run in them, once; return what told so.

        Raises the first ContivError.
        """
        # Taken first: what changes during the work, for pods that were looked at, is work to do.
        seen = self._facts()
        awaiting = {_link(entry): entry for entry in self._host.registry.awaiting()}
        self._announced &= awaiting.keys()
        failures: list[ContivError] = [
            *self._announcements.listen(awaiting.keys() - self._announced)
        ]
        for entry in awaiting.values():
            if reason := self._reason(entry):
                about = fields(endpoint=entry.key, address=entry.ip_address, reason=reason)
                try:
                    if await self._pods.arrive(entry):
                        log.info("machine runs in its target pod", extra=about)
                except ContivError as exc:
                    failures.append(exc)
        failures += await self._cut_off()
        if failures:
            raise failures[0]
        return seen

    async def _cut_off(self) -> list[ContivError]:
        """Cut off the pods whose addresses others have; return what failed."""
        failures = []
        for entry in self._replaced():
            log.info("pod cut off, its machine runs elsewhere", extra=fields(endpoint=entry.key))
            try:
                await self._pods.cut_off(entry)
            except ContivError as exc:
                failures.append(exc)
        if ports := self._ports_cut_off():
            try:
                await self._host.ovsdb.delete_ports(ports)
            except ContivError as exc:
                failures.append(exc)
        return failures

    def _replaced(self) -> list[JournalEntry]:
        """Return the machines' pods without a record, whose addresses other records have."""
        records = self._host.world.endpoint_records
        return [
            entry
            for entry in self._host.registry.idle()
            if entry.spec.keep.endswith(OF_MACHINE) and not entry.claiming
            if self._is_gone(entry.key, entry)
            if any(
                row.record.network == entry.spec.network_id
                for address in _addresses(entry)
                for row in records.at(address)
            )
        ]

    def _ports_cut_off(self) -> dict[str, str]:
        """Return the ports that pods have which are cut off, and the bridge of each."""
        cut_off = self._host.registry.cut_off()
        rows = self._host.ovsdb.ports() if cut_off else {}
        return {
            name: rows[name].bridge
            for entry in cut_off
            for name in (_link(entry), port_names.access_name(entry.port))
            if name in rows
        }

    def _note(self, link: str) -> None:
        self._announced.add(link)
        self._changed.notify()

    def _facts(self) -> object:
        awaiting = {entry.key: self._reason(entry) for entry in self._host.registry.awaiting()}
        return awaiting, [entry.key for entry in self._replaced()], self._ports_cut_off()

    def _reason(self, entry: JournalEntry) -> str:
        """Return what says that a pod's machine runs in it, "" for nothing."""
        if _link(entry) in self._announced:
            return ANNOUNCED
        labels = entry.spec.labels
        name = f"{labels.get(POD_NAMESPACE)}/{labels.get(POD_NAME)}"
        pod = self._known.pod(name, labels.get(POD_UID, ""))
        if pod is not None and pod.machine_runs:
            return ANNOTATED
        if self._host.world.endpoint_records.get(entry.key) is not None:
            return GRANTED  # this agent or an earlier one asked for it, and did not finish
        source = endpoint_key(entry.spec.network_id, entry.source)
        return ALONE if self._is_gone(source, entry) else ""

    def _is_gone(self, key: EndpointKey, known: JournalEntry) -> bool:
        """Return whether the record of an endpoint was deleted that was there with an entry's."""
        # Absence proves nothing while records are being read, nor in a store that went back
        # (`netplugin.pods.claims`): there the pod that the store does not know is the younger one.
        records = self._host.reconciler.records
        now = records.endpoints_position
        if not self._host.world.complete or now is None:
            return False
        if known.term and now.term and not records.lineage.has(known.position):
            return False
        if known.term == now.term and known.rev > now.rev:
            return False
        return self._host.world.endpoint_records.get(key) is None


def _addresses(entry: JournalEntry) -> Iterator[str]:
    """Yield the addresses of a pod as `str` has them; a journal may have been edited."""
    for text in filter(None, (entry.ip_address, entry.ipv6_address)):
        with suppress(ValueError):
            yield str(ip_address(text))


def _link(entry: JournalEntry) -> str:
    return port_names.switch_name(entry.port)
