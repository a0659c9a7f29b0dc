"""The metrics of a master: what its parts have counted, and what a leader's view holds.

In come the parts that `netmaster.daemon` composed; out go readings for `daemons.metrics_page`, on
each scrape. A follower has no view: it leaves out what only a leader knows, so that a sum over all
masters is the cluster's. Of the store only its member's condition is asked, for `STORE_LIMIT` at
most: a master answers while there is none.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from contivmodel.objects import Tenant
from core.errors import ContivError
from core.ids import TenantName
from core.metrics import Metric, MetricKind, Reading, labelled, single
from core.retry import Loops
from daemons.certificates.tls import TlsContexts
from daemons.request_stats import RequestStats
from netmaster.commits.commit_stats import CommitStats
from netmaster.election import ElectionState
from netmaster.host_progress import Applicable, unapplied_reason
from netmaster.leadership import Leadership
from netmaster.plan import quotas
from netmaster.view import View
from objdb.api import StoreCondition
from objdb.registration import Registration
from ofnet.rpc.control import AgentReport, Node

_C, _G, _H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_REQUEST = ("method", "route")
_NETWORK = ("tenant", "network", "family")
_TENANT = ("tenant", "of")

STORE_LIMIT: Final = 1.0
"""Seconds; Prometheus waits ten for a page."""

BUILD: Final = Metric(
    "contiv_netmaster_build_info", _G, "1; the version is in the label.", ("version",)
)
REQUESTS: Final = Metric(
    "contiv_netmaster_http_requests_total",
    _C,
    "REST requests answered, by the pattern of their route. `forwarded`: by a follower to the "
    "leader; `unknown`: no such route.",
    (*_REQUEST, "code"),
)
REQUEST_SECONDS: Final = Metric(
    "contiv_netmaster_http_request_duration_seconds",
    _H,
    "Time from a request's head to its answer.",
    _REQUEST,
)
COMMITS: Final = Metric(
    "contiv_netmaster_commits_total",
    _C,
    "Transactions sent to the store. `refused`: another writer had changed a key; `fenced`: the "
    "leader lock was lost; `failed`: the store did not answer or refused all of it.",
    ("outcome",),
)
COMMIT_SECONDS: Final = Metric(
    "contiv_netmaster_commit_duration_seconds", _H, "Time of one transaction at the store."
)
COMMIT_GROUP: Final = Metric(
    "contiv_netmaster_commit_group_size_changes", _H, "Changes that share one transaction."
)
PENDING: Final = Metric(
    "contiv_netmaster_changes_pending", _G, "Changes decided and not committed yet; leader only."
)
REBUILDS: Final = Metric(
    "contiv_netmaster_view_rebuilds_total",
    _C,
    "How often the view was read from the store again, since it and the store differed.",
)
WATCH_LAG: Final = Metric(
    "contiv_netmaster_watch_lag_seconds",
    _H,
    "Time from the answer to one of the leader's commits to its report by the store's watch.",
)
LEADER: Final = Metric("contiv_netmaster_leader", _G, "1 on the master that leads, else 0.")
STATE: Final = Metric(
    "contiv_netmaster_election_state", _G, "1 for the state of the election, else 0.", ("state",)
)
ELECTIONS: Final = Metric(
    "contiv_netmaster_election_inputs_total",
    _C,
    "What happened to the candidacy: the lock acquired or lost, the view loaded, leading failed.",
    ("input",),
)
READY: Final = Metric(
    "contiv_netmaster_standby_ready",
    _G,
    "1 on a follower that has read the store, and so can take over without reading it (etcd); "
    "follower only.",
)
LOCK: Final = Metric(
    "contiv_netmaster_lock_remaining_seconds",
    _G,
    "For how long the leader lock is certainly held, without another renewal; leader only.",
)
REGISTERED: Final = Metric(
    "contiv_netmaster_service_registered",
    _G,
    "1 while the service is registered in the store under a lease that holds.",
    ("service",),
)
LEASES_LOST: Final = Metric(
    "contiv_netmaster_service_leases_lost_total",
    _C,
    "How often the lease of a registration was lost.",
    ("service",),
)
AGENTS: Final = Metric(
    "contiv_netmaster_agents",
    _G,
    "Bridges of agents (two for each host) known on the control channel. `behind`: not all "
    "changes applied; `faulty`: with faults to report. Leader only.",
    ("state",),
)
HOSTS: Final = Metric(
    "contiv_netmaster_hosts",
    _G,
    "Hosts that are drained, or without agent; leader only.",
    ("state",),
)
OBJECTS: Final = Metric(
    "contiv_netmaster_objects", _G, "REST objects by kind; leader only.", ("kind",)
)
ENDPOINTS: Final = Metric("contiv_netmaster_endpoints", _G, "Endpoints; leader only.")
ADDRESSES: Final = Metric(
    "contiv_netmaster_network_addresses",
    _G,
    "Addresses that a network could assign in all; leader only.",
    _NETWORK,
)
ADDRESSES_FREE: Final = Metric(
    "contiv_netmaster_network_addresses_free",
    _G,
    "Addresses that are free, groups' pools and resting ones included; leader only.",
    _NETWORK,
)
TENANT_USED: Final = Metric(
    "contiv_netmaster_tenant_used",
    _G,
    "How much a tenant has of what it has a quota of; leader only.",
    _TENANT,
)
TENANT_QUOTA: Final = Metric(
    "contiv_netmaster_tenant_quota",
    _G,
    "How much a tenant may have by its quota; leader only.",
    _TENANT,
)
RELEASED: Final = Metric(
    "contiv_netmaster_orphans_released_total",
    _C,
    "Endpoints and grants released, since their host or owner was gone.",
    ("cause",),
)
STORE_SIZE: Final = Metric(
    "contiv_netmaster_store_size_bytes",
    _G,
    "Bytes of the file of the store's member that this master asked, which etcd limits "
    "(--quota-backend-bytes, 2 GiB by default); etcd only.",
)
STORE_USED: Final = Metric(
    "contiv_netmaster_store_used_bytes",
    _G,
    "Bytes of them that hold something: `etcdctl defrag` gives back the others; etcd only.",
)
STORE_ALARM: Final = Metric(
    "contiv_netmaster_store_alarm",
    _G,
    "1 while a member of the store has raised the alarm: `nospace`, `corrupt`; etcd only.",
    ("alarm",),
)
LOOP_FAILURES: Final = Metric(
    "contiv_netmaster_loop_failures_total",
    _C,
    "Failed attempts of what is repeated until it succeeds, by what does not work meanwhile: the "
    "words of the log, `/readyz` and `/info`.",
    ("loop",),
)
LOOPS_FAILING: Final = Metric(
    "contiv_netmaster_loops_failing",
    _G,
    "What does not work now and is repeated until it succeeds: objects, by the same words; 0 while "
    "all goes well.",
    ("loop",),
)
EXPIRY: Final = Metric(
    "contiv_netmaster_certificate_expiry_timestamp_seconds",
    _G,
    "When the master's certificate (`own`) and the first of its authorities (`authority`) expire, "
    "in Unix time; with TLS only.",
    ("certificate",),
)

METRICS: Final = (
    *(BUILD, REQUESTS, REQUEST_SECONDS, COMMITS, COMMIT_SECONDS, COMMIT_GROUP, PENDING, REBUILDS),
    *(WATCH_LAG, LEADER, STATE, ELECTIONS, READY, LOCK, REGISTERED, LEASES_LOST, AGENTS, HOSTS),
    *(OBJECTS, ENDPOINTS, ADDRESSES, ADDRESSES_FREE, TENANT_USED, TENANT_QUOTA, RELEASED),
    *(STORE_SIZE, STORE_USED, STORE_ALARM, LOOP_FAILURES, LOOPS_FAILING, EXPIRY),
)
"""In the order of docs/metrics.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterMetrics:
    """A `core.metrics.Source`: the parts of one master. `clock` is monotonic."""

    version: str
    requests: RequestStats
    commits: CommitStats
    leadership: Leadership
    registrations: Mapping[str, Registration]
    reports: Mapping[Node, AgentReport]
    condition: Callable[[], Awaitable[StoreCondition]]
    loops: Loops
    tls: TlsContexts | None = None
    clock: Callable[[], float] = time.monotonic

    async def read(self) -> Iterable[Reading]:
        """Return the metrics of this moment."""
        store = await self._store()
        return [*self._own(), *self._of_leader(), *store]

    async def _store(self) -> list[Reading]:
        try:
            async with asyncio.timeout(STORE_LIMIT):
                found = await self.condition()
        except (ContivError, TimeoutError):
            return []
        sizes = {STORE_SIZE: found.size, STORE_USED: found.used}
        return [
            *(single(metric, size) for metric, size in sizes.items() if size is not None),
            labelled(STORE_ALARM, found.alarms),
        ]

    def _own(self) -> Iterator[Reading]:
        yield labelled(BUILD, {self.version: 1})
        yield Reading(REQUESTS, dict(self.requests.answered))
        yield Reading(REQUEST_SECONDS, self.requests.seconds.copy())
        yield labelled(COMMITS, self.commits.outcomes)
        yield single(COMMIT_SECONDS, self.commits.seconds.copy())
        yield single(COMMIT_GROUP, self.commits.group_sizes.copy())
        yield single(REBUILDS, self.commits.rebuilds)
        yield single(WATCH_LAG, self.commits.watch_lag.copy())
        state = self.leadership.state
        yield single(LEADER, float(state is ElectionState.LEADER))
        yield labelled(STATE, {one.name.lower(): float(one is state) for one in ElectionState})
        yield labelled(ELECTIONS, self.leadership.inputs)
        if state is ElectionState.FOLLOWER:
            yield single(READY, float(self.leadership.is_ready_to_lead))
        services = self.registrations.items()
        yield labelled(REGISTERED, {name: float(one.registered) for name, one in services})
        yield labelled(LEASES_LOST, {name: float(one.lease.losses) for name, one in services})
        yield labelled(RELEASED, self.leadership.repaired)
        yield labelled(LOOP_FAILURES, self.loops.failures)
        yield labelled(LOOPS_FAILING, self.loops.failing())
        if self.tls is not None:
            yield labelled(EXPIRY, self.tls.expiry())

    def _of_leader(self) -> Iterator[Reading]:
        committer = self.leadership.committer
        if committer is None or self.leadership.state is not ElectionState.LEADER:
            return
        view = committer.view
        yield single(PENDING, committer.pending)
        yield single(LOCK, max(0.0, self.leadership.lock_valid_until - self.clock()))
        wanted = Applicable(committer.revisions, view.lineage.current)
        yield labelled(AGENTS, _agents(self.reports.values(), wanted))
        yield labelled(HOSTS, {"drained": len(view.drains), "absent": len(view.absences)})
        yield labelled(OBJECTS, {kind: len(objects) for kind, objects in view.objects.items()})
        yield single(ENDPOINTS, len(view.endpoints))
        yield from _addresses(view)
        yield from _quotas(view)


def _agents(reports: Iterable[AgentReport], wanted: Applicable) -> dict[str, float]:
    known = list(reports)
    return {
        "known": len(known),
        "behind": sum(1 for one in known if unapplied_reason(wanted, [one])),
        "faulty": sum(1 for one in known if one.errors),
    }


def _quotas(view: View) -> Iterator[Reading]:
    has: dict[tuple[str, ...], float] = {}
    may: dict[tuple[str, ...], float] = {}
    for key in view.objects[Tenant.kind]:
        for what, (used, allowed) in quotas.used(view, TenantName(key)).items():
            has[key, what], may[key, what] = used, allowed
    yield Reading(TENANT_USED, has)
    yield Reading(TENANT_QUOTA, may)


def _addresses(view: View) -> Iterator[Reading]:
    sizes: dict[tuple[str, ...], float] = {}
    free: dict[tuple[str, ...], float] = {}
    for key, network in view.networks.items():
        addresses = view.addresses.get(key)
        if addresses is None:
            continue
        labels = network.tenant, network.name
        if addresses.v4 is not None:
            sizes[*labels, "ipv4"], free[*labels, "ipv4"] = addresses.v4.size, addresses.v4.free
        if addresses.v6 is not None:
            sizes[*labels, "ipv6"], free[*labels, "ipv6"] = addresses.v6.hosts, addresses.v6.free
    yield Reading(ADDRESSES, sizes)
    yield Reading(ADDRESSES_FREE, free)
