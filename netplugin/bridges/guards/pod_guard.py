"""Finds what pods must not reach: this host's addresses, masters, the store, and their ports.

In come the addresses that the kernel has, the registrations of masters in the store and the
settings of this agent; out go addresses and ports for `netplugin.world.management`, which has the
other hosts from their records. Changes are followed. Two rules of iptables see to it that what
comes by a pod's link reaches the host by the switch alone, with the guard or without. What is
dropped, and where, is decided by `ofnet.pipelines.features.pod_guard`.
"""

import asyncio
import logging
from collections.abc import Set
from typing import TYPE_CHECKING, Final

from core import keys
from core.change_notifier import each_change
from core.errors import ContivError, Invalid
from core.logs import fields
from core.numbers import bounded
from core.patience import patient
from core.retry import Loop, retry
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.kernel.firewall.iptables import Chain, Iptables, IptablesRule
from netplugin.kernel.host_watches import HostWatches
from netplugin.kernel.netns import KernelLinks
from netplugin.settings import AgentSettings
from netplugin.world import underlay
from netplugin.world.bridges import port_names
from netplugin.world.management import Management, further6, management_ports
from netplugin.world.underlay import HostUnderlay
from objdb.api import Backend, Entry, Snapshot
from objdb.connect import StoreKind
from ofnet.world import ManagementPort
from state import codec
from state.underlay import of_master

if TYPE_CHECKING:
    from state.records import ServiceInstance

log = logging.getLogger(__name__)

MASTERS: Final = keys.SERVICES + keys.SERVICE_NETMASTER
"""The prefix of both services of masters: REST and RPC. One watch for both."""
ALWAYS: Final = ("127.0.0.0/8", "::1", "255.255.255.255", "224.0.0.0/4", "ff00::/8")
"""Loopback, which a host may be told to route (`route_localnet`), broadcasts and multicasts.

A socket that is bound to no address hears all of these.
"""
USUAL_PORTS: Final = (9999, 9001, 9090, 9002, 9003, 6633, 6634, 6640, 4789)
"""REST and RPC of masters and agents, OpenFlow, OVSDB, VXLAN: what other hosts use by default."""
STORE_PORTS: Final = {
    StoreKind.ETCD: (2379, 2380, 4001, 7001),
    StoreKind.CONSUL: (8300, 8301, 8302, 8500, 8501, 8502, 8503, 8600),
}
PREROUTING: Final = Chain(table="raw", name="PREROUTING")
CHAINS: Final = (PREROUTING,)
"""The chains that hold this module's rules."""
PAST_SWITCH: Final = tuple(
    IptablesRule(chain=PREROUTING, match=("-i", f"{prefix}+"), target=("-j", "DROP"))
    for prefix in port_names.POD_LINKS
)
"""Drop what comes to the host's stack by a pod's link itself and not by the switch.

Only the userspace datapath leaves such packets to the host, beside its own copy.
"""
START_LIMIT: Final = patient(5.0)
"""Seconds that a start waits for the names of the store's members."""


class PodGuard:
    """Keeps the addresses and ports of the cluster's management in the World. One per agent."""

    def __init__(
        self,
        settings: AgentSettings,
        management: Management,
        store: Backend,
        links: KernelLinks,
        iptables: Iptables,
        *,
        watches: HostWatches,
        known: HostUnderlay,
    ) -> None:
        self._settings = settings
        self._management = management
        self._underlay = known
        self._store = store
        self._links = links
        self._watches = watches
        self._iptables = iptables
        self._interval = float(settings.audit_interval)
        self._rules = ReconcileLoop(
            name="rules for links of pods",
            converge=self._keep_rules,
            observe=_nothing,
            triggers=(),
            interval=self._interval,
            anew=(watches.firewall.lost,),
        )
        self._looking = Loop(log, "addresses of this host not read", about="for the pod guard")
        self._registered: dict[str, ServiceInstance] = {}

    async def start(self) -> None:
        """Set all that can be found now; what cannot be is logged, and found by `run`."""
        try:
            await self._keep_rules()
        except ContivError as exc:  # `run` retries
            log.warning("rules for links of pods not set yet", extra=fields(error=exc))
        management = self._management
        management.set_addresses("always", ALWAYS)
        management.set_ports("settings", own_ports(self._settings))
        try:
            self._replace(await self._store.snapshot(MASTERS))
        except ContivError as exc:  # `run` retries
            log.warning("masters not known to the pod guard yet", extra=fields(error=exc))
        try:
            await self._look()
        except ContivError as exc:  # `run` retries
            log.warning("addresses of this host not read yet", extra=fields(error=exc))
        if self._settings.pod_guard:
            management.close(self._settings.pod_host_ports)
        else:  # what is known still is nobody else's: no service takes it
            log.warning(
                "pod guard is OFF: pods reach the management ports of hosts, masters and store"
                " (--no-pod-guard)"
            )

    async def run(self) -> None:
        """Follow changes, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._rules.run())
            tasks.create_task(self._follow_masters())
            tasks.create_task(self._follow_host())

    async def _keep_rules(self) -> object:
        await self._iptables.keep(PAST_SWITCH)
        return _nothing()

    async def _look(self) -> None:
        """Read this host's addresses and those of the store's members."""
        self._management.set_addresses("this host", await self._links.addresses(_is_pods))
        hosts = {member.rpartition(":")[0].strip("[]") for member in self._settings.store.members}
        found: set[str] = set()
        for host in hosts:
            found |= await resolve(host)
        if found:
            self._management.set_addresses("store", found)

    async def _follow_host(self) -> None:
        async for _ in each_change(self._watches.addresses.changed, self._interval):
            await retry(self._looking, self._look)

    async def _follow_masters(self) -> None:
        async for item in self._store.watch(MASTERS):
            if isinstance(item, Snapshot):
                self._replace(item)
                continue
            for key in item.deletes:
                self._registered.pop(key, None)
            for entry in item.puts:
                self._register(entry)
            self._publish()

    def _replace(self, snapshot: Snapshot) -> None:
        self._registered.clear()
        for entry in snapshot.entries.values():
            self._register(entry)
        self._publish()

    def _register(self, entry: Entry) -> None:
        try:
            instance = codec.decode_service(entry.key, entry.value)
        except Invalid:
            return  # `netplugin.masters.control` logs it
        self._registered[entry.key] = instance

    def _publish(self) -> None:
        known = self._registered.values()
        self._management.set_addresses(
            "masters", (text for one in known for text in (one.address, *further6(one.addresses)))
        )
        self._management.set_ports("masters", management_ports(one.port for one in known))
        self._underlay.set_needed(
            underlay.MASTERS, (one for each in known for one in of_master(each))
        )


def own_ports(settings: AgentSettings) -> frozenset[ManagementPort]:
    """Return the ports that follow from the settings: this agent's, the store's, usual ones."""
    store = settings.store
    named = (member.rpartition(":")[2] for member in store.members)
    return management_ports(
        (
            *USUAL_PORTS,
            *STORE_PORTS[store.kind],
            *(port for text in named if (port := bounded(text, 0, 65535)) is not None),
            settings.rest.port,
            settings.vxlan_rpc_port,
            settings.vlan_rpc_port,
            settings.vxlan_port,
            *filter(None, (settings.vxlan_openflow_port, settings.vlan_openflow_port)),
        )
    )


async def resolve(host: str) -> Set[str]:
    """Return the addresses of a host by name; none if it has none now."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(START_LIMIT):
            found = await loop.getaddrinfo(host, None)
    except (OSError, TimeoutError):
        return frozenset()
    return {str(address[0]).partition("%")[0] for *_, address in found}


def _nothing() -> object:
    return None


def _is_pods(link: str) -> bool:
    return port_names.pod_number(link) is not None
