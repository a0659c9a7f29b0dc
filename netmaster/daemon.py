"""Composes netmaster, starts and stops it (docs/original/netmaster-daemon.md §2-4).

The listeners come first, so that their ports are known before they are registered. Then the ofnet
RPC, the registrations and the candidacy run until SIGTERM or until one of them fails. The store may
become available later; the service manager is told that netmaster is ready when somebody leads. A
stop releases the lock at once; after a kill its lease has to end first.
"""

import asyncio
import logging
import socket
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

from core import keys
from core.errors import HostError, StoreUnavailable
from core.logs import fields
from core.patience import patient
from core.retry import begin_loops
from core.service_manager import READY, STOPPING, feed_watchdog, notify
from core.tasks import supervisor
from daemons import metrics_page
from daemons.browsers import BrowserPolicy
from daemons.certificates.tls import TlsContexts, call_refused, contexts_of
from daemons.diagnosis_parts import Part, as_json, constant_text, log_lines
from daemons.health import Health
from daemons.listen_address import ListenAddress
from daemons.memory import reclaim_regularly
from daemons.metrics_page import MetricsPage
from daemons.program import load_ahead
from netmaster import health
from netmaster.api.http import ui
from netmaster.api.http.access import AccessControl
from netmaster.api.http.metrics_route import metrics_route
from netmaster.api.http.proxy import Proxy
from netmaster.api.http.server import RestServer, leaderless
from netmaster.api.leader.agents import RegisteredAgents
from netmaster.api.leader.status import StatusApi
from netmaster.api.v2.diagnostics import diagnosis
from netmaster.api.v2.events import stream
from netmaster.api.v2.events.log import LISTS, EventLog
from netmaster.api.v2.events.stream import EventStreams
from netmaster.auth.accounts import StoredAccounts
from netmaster.auth.lockout import Lockout
from netmaster.auth.login import Logins
from netmaster.auth.passwords import Passwords
from netmaster.commits.commit_stats import CommitStats
from netmaster.external.aci import GatewayClient
from netmaster.external.docker import DockerClient
from netmaster.leadership import (
    FOLLOWER,
    ExternalParties,
    LeaderSettings,
    Leadership,
    MasterContext,
)
from netmaster.master_metrics import MasterMetrics
from netmaster.plan.objects.globals import StartupFlags
from netmaster.registrations import Registrations
from netmaster.settings import MasterSettings
from objdb.api import Backend, Lock
from objdb.connect import StoreAddress, connect
from objdb.wait_for_store import wait_for_store
from ofnet.rpc import control, jsonrpc
from state import schema
from state.records import ServiceInstance

log = logging.getLogger(__name__)

TRY: Final = 0.05
"""Seconds between two looks whether somebody leads."""
LOOK: Final = 1.0
"""Seconds between two looks for agents whose report is overdue."""
SERVICE_TTL: Final = 10
SERVED: Final = patient(10.0)
"""Seconds that the service manager waits for a leader; its own limit is 90."""


async def run(settings: MasterSettings, version: str) -> None:
    """Run netmaster until it is told to stop. Raises ContivError or OSError if it cannot run."""
    loops = begin_loops()
    async with AsyncExitStack() as undo:
        tls = contexts_of(settings.tls)
        backend = connect(settings.store)
        undo.push_async_callback(backend.close)
        # Closed after the server: requests in progress at a stop still use these clients.
        answering = await undo.enter_async_context(AsyncExitStack())
        server = RestServer(
            health=Health(health.checks(backend, loops), faults=loops.names),
            browsers=BrowserPolicy(
                trusted_origins=settings.trusted_origins,
                names=frozenset({socket.gethostname().lower()}),
                pages=(ui.ROOT.rstrip("/"),),
            ),
        )
        undo.push_async_callback(server.close)
        own = await _listen(server, settings, tls)
        lock = backend.lock(keys.LEADER_LOCK, str(own), settings.lease_ttl)
        proxy = Proxy(lock.holder, str(own), tls=tls, faults=loops.faults)
        answering.push_async_callback(proxy.close)
        # Already now: what follows may take seconds, and another master may lead meanwhile.
        server.role = proxy.answer
        events = EventLog()
        agents = control.OfnetMaster(changed=partial(events.touch, "hosts"))
        ofnet = jsonrpc.RpcServer(
            agents.methods(),
            host=own.host,
            port=settings.ofnet_port,
            ssl=tls.server() if tls else None,
            refuses=call_refused if tls else None,
        )
        await ofnet.start()
        undo.push_async_callback(ofnet.close)
        registrations = Registrations(
            backend,
            (
                _instance(keys.SERVICE_NETMASTER, own, version),
                _instance(keys.SERVICE_NETMASTER_RPC, ListenAddress(own.host, ofnet.port), version),
            ),
            settings.store.members,
        )
        # Before the first registration, so that a leader has never known this master without them.
        with suppress(HostError):  # looked for again at once, and told then
            await registrations.look()
        agents_rest = RegisteredAgents(backend, source=own.host, tls=tls)
        answering.push_async_callback(agents_rest.close)
        parties = ExternalParties(
            agents=agents_rest,
            reports=agents.nodes,
            gateway=GatewayClient(settings.aci_gateway),
            docker=DockerClient(settings.docker_socket, settings.plugin_name),
            announce=registrations.announce,
            access=_access_control(backend, answering) if tls else None,
        )
        commits = CommitStats()
        leadership = Leadership(
            MasterContext(
                backend=backend,
                lock=lock,
                writer=f"netmaster-{own}",
                now=_wall_clock,
                commits=commits,
            ),
            server,
            proxy.answer,
            parties=parties,
            status=StatusApi(
                version,
                backend,
                lock,
                ofnet=agents,
                own=control.Node(own.host, ofnet.port),
                faults=loops.faults,
            ),
            settings=_leader_settings(settings),
        )
        metrics = MasterMetrics(
            version=version,
            requests=server.stats,
            commits=commits,
            leadership=leadership,
            registrations=registrations.by_service,
            reports=agents.nodes,
            condition=backend.condition,
            loops=loops,
            tls=tls,
        )
        server.own[stream.PATH] = EventStreams(events, parties.access).answer
        page = MetricsPage(metrics)
        server.own[metrics_page.PATH] = metrics_route(page, parties.access)
        parts: dict[str, Part] = {
            "version.txt": partial(constant_text, f"{version}\n"),
            "settings.json": partial(constant_text, as_json(settings)),
            "health.json": Health(health.checks(backend, loops), faults=loops.faults).report,
            "store.json": partial(diagnosis.key_counts, backend),
            "metrics.txt": page.plain_text,
            "log.txt": log_lines,
        }
        server.own[diagnosis.OWN] = diagnosis.own_route(parts, parties.access)
        server.own |= ui.pages()
        tasks = await undo.enter_async_context(supervisor(signals=True))
        registrations.run(tasks)
        tasks.supervise("leadership", _be_candidate(settings.store, backend, leadership))
        tasks.supervise("overdue agents", _look_for_overdue(agents))
        tasks.supervise("events", _follow(settings.store, backend, events))
        for name, prefixes in LISTS.items():
            for prefix in prefixes:
                tasks.supervise("lists", events.follow_list(backend, name, prefix))
        tasks.supervise("watchdog", feed_watchdog())
        tasks.supervise("memory", reclaim_regularly())
        log.info("netmaster started", extra=fields(address=own, port=ofnet.port))
        tasks.spawn("readiness", _tell_ready(server, proxy, lock, str(own)))
        tasks.spawn("imports", load_ahead(metrics_page.load))
        await tasks.wait()
        notify(STOPPING)
        log.info("netmaster stopping")


def _access_control(backend: Backend, stack: AsyncExitStack) -> AccessControl:
    passwords = Passwords()
    stack.callback(passwords.close)
    return AccessControl(
        Logins(
            accounts=StoredAccounts(backend),
            passwords=passwords,
            lockout=Lockout(time.monotonic),
            now=_wall_clock,
        )
    )


def _leader_settings(settings: MasterSettings) -> LeaderSettings:
    return LeaderSettings(
        mode=settings.mode,
        flags=StartupFlags(fwd_mode=settings.fwd_mode, infra_type=settings.infra),
        dead_host_after=settings.dead_host_after,
        history=settings.store_history,
        address_cooldown=settings.address_cooldown,
        sticky_for=settings.sticky_for,
    )


async def _be_candidate(store: StoreAddress, backend: Backend, leadership: Leadership) -> None:
    """Be a candidate once the store answers. Raises as `wait_for_store` and `schema.check` do."""
    stamp = await wait_for_store(store, backend, keys.SCHEMA)
    schema.check(stamp.value if stamp else None)
    await leadership.run()


async def _tell_ready(server: RestServer, proxy: Proxy, lock: Lock, own: str) -> None:
    """Tell the service manager when requests are served, by this master or another one.

    After `SERVED` seconds in any case: the store may become available later.
    """
    # Whoever starts the unit asks at once, and would be told that there is no leader.
    with suppress(TimeoutError):
        async with asyncio.timeout(SERVED):
            while True:
                with suppress(StoreUnavailable):
                    leader = await lock.holder()
                    forwards, refuses = server.role == proxy.answer, server.role is leaderless
                    # It has the lock for a moment before it answers as the leader.
                    if leader is not None and not refuses and forwards == (leader != own):
                        break
                await asyncio.sleep(TRY)
    notify(READY)


async def _follow(store: StoreAddress, backend: Backend, events: EventLog) -> None:
    """Keep the changes of objects, once the store answers, for those who watch them."""
    await wait_for_store(store, backend, keys.SCHEMA)
    await events.follow(backend)


async def _look_for_overdue(agents: control.OfnetMaster) -> None:
    while True:
        await asyncio.sleep(LOOK)
        agents.look()


async def _listen(
    server: RestServer, settings: MasterSettings, tls: TlsContexts | None
) -> ListenAddress:
    """Open the listeners; return the address at which masters and agents reach this one."""
    context = tls.server(certificate_optional=True) if tls else None
    external = await server.listen(settings.external, context)
    if settings.single_listener:
        return ListenAddress(settings.internal.host, external.port)
    return await server.listen(settings.internal, context)


def _instance(service: str, address: ListenAddress, version: str) -> ServiceInstance:
    return ServiceInstance(
        service=service,
        address=address.host,
        port=address.port,
        role=FOLLOWER,
        version=version,
        ttl=SERVICE_TTL,
        schema=schema.VERSION,
    )


def _wall_clock() -> float:
    return datetime.now(UTC).timestamp()
