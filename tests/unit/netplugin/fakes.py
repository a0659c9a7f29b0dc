"""Fakes of what the agent reaches the outside by: they keep what was made, and fail on demand.

They are as unforgiving as the real ones: what was begun in a thread, in OVSDB or at netmaster comes
about even if whoever asked for it has been cancelled meanwhile.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from pathlib import Path
from typing import Any, TypeVar

from contivmodel.rpc import (
    AllocAddressRequest,
    AllocNetworkRequest,
    ReleaseAddressRequest,
    UpdateEndpointRequest,
)
from core.change_notifier import ChangeNotifier
from core.errors import (
    Conflict,
    ContivError,
    Exhausted,
    HostError,
    NotFound,
    SwitchRefused,
    SwitchUnavailable,
)
from core.ids import (
    EndpointKey,
    GroupKey,
    GroupName,
    HostLabel,
    NetworkId,
    NetworkName,
    TenantName,
    endpoint_key,
    network_id,
)
from netplugin.kernel.firewall.families import FAMILIES
from netplugin.kernel.firewall.iptables import Iptables, IptablesRule
from netplugin.kernel.firewall.iptables_chains import Chains, OwnChains
from netplugin.kernel.links.host_links import Nic
from netplugin.kernel.links.pod_link_state import FoundLink
from netplugin.kernel.links.pod_links import KeptUp, PodLink
from netplugin.kernel.links.pod_places import PodPlace
from netplugin.kernel.netlink.requests import Address, Interface, Network
from netplugin.kernel.netns import CARRIER, KernelLinks
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.masters.address_blocks import BlocksAnswer, BlocksAsked, HeldAddress
from netplugin.masters.master_api import Granted, MasterApi, WantedEndpoint
from netplugin.ovsdb import BondMember, BridgeRow, BridgeSpec, Ovsdb, PortRow, PortSpec
from netplugin.ovsdb.rows import OvsdbView
from netplugin.pods.registry.journal import Journal
from netplugin.pods.registry.journal_entry import JournalEntry
from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats
from ofnet.channel.switch import Switch, SwitchObserver
from ofnet.channel.wire import PacketIn
from ofnet.diff import FlowStamp
from ofnet.flows import AnyFlow
from ofnet.openflow.actions import PacketAction
from ofnet.openflow.meters import Meter
from ofnet.translations import Translated
from ofnet.world import Bridge
from state.docker_networks import DockerPlace
from state.records import EndpointRecord, NetworkRecord
from tests.bed.waiting import WITHIN
from tests.unit.netplugin.port_rows import port_row
from tests.unit.netplugin.records import NET, endpoint
from tests.unit.ofnet.fake_switch import read_by

T = TypeVar("T")
UNDERLAY_CARD = "eth0"
"""The link that has the tunnels' address."""
QUICK = 0.002
"""Seconds that work outside this process takes."""


@dataclass(slots=True)
class Faults:
    """What goes wrong, by the name of the step; `stopped` steps wait until they are let go."""

    failing: dict[str, ContivError] = field(default_factory=dict)
    stopped: dict[str, asyncio.Event] = field(default_factory=dict)
    reached: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    """Pieces of work that have begun and will yet come about, waited for or not."""

    _lanes: dict[str, deque[object]] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, step: str) -> asyncio.Event:
        """Make a step wait for the event returned."""
        return self.stopped.setdefault(step, asyncio.Event())

    def check(self, part: str) -> None:
        """Fail where a part of a step is to fail."""
        if part in self.failing:
            raise self.failing[part]

    async def until(self, step: str, times: int = 1) -> None:
        """Wait until a step has been reached so often."""
        async with asyncio.timeout(WITHIN):
            while self.reached[step] < times:
                self._news.clear()
                await self._news.wait()

    async def quiet(self, seconds: float = 0.02, limit: float = 0.1) -> None:
        """Return when no step has begun or ended for so long: all that is left waits.

        After `limit` seconds return nevertheless: something is being retried.
        """
        loop = asyncio.get_running_loop()
        seen, since, end = (-1, -1), loop.time(), loop.time() + limit
        while loop.time() < min(since + seconds, end):
            now = (self.reached.total(), self.pending)
            if now != seen:
                seen, since = now, loop.time()
            await asyncio.sleep(QUICK)

    async def work(self, step: str, do: Callable[[], T], *, lane: str = "") -> T:
        """Do outside work: once begun it is done, whoever stops waiting for it.

        What shares a lane is done in the order it was asked for.
        """
        self.reached[step] += 1
        self.pending += 1
        self._news.set()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        queue = self._lanes.setdefault(lane, deque()) if lane else deque()
        queue.append(done)
        asyncio.get_running_loop().call_later(QUICK, self._finish, step, do, done, queue)
        return await done

    def _finish(
        self, step: str, do: Callable[[], T], done: "asyncio.Future[T]", queue: deque[object]
    ) -> None:
        gate = self.stopped.get(step)
        if queue[0] is not done or (gate is not None and not gate.is_set()):
            again = self._finish
            asyncio.get_running_loop().call_later(QUICK, again, step, do, done, queue)
            return
        queue.popleft()
        self.pending -= 1
        failure = self.failing.get(step)
        try:
            if failure is not None:
                raise failure
            result = do()
        except ContivError as exc:
            if not done.done():
                done.set_exception(exc)
        else:
            if not done.done():
                done.set_result(result)


class FakeJournal(Journal):
    """Entries in memory."""

    def __init__(self, faults: Faults) -> None:
        self.entries: dict[EndpointKey, JournalEntry] = {}
        self.staged: dict[EndpointKey, JournalEntry] = {}
        self._faults = faults

    async def load(self) -> list[JournalEntry]:
        return list(self.entries.values())

    async def write(self, entry: JournalEntry) -> None:
        await self._faults.work(
            f"journal {entry.state}",
            lambda: self.entries.update({entry.key: entry}),
            lane="journal",
        )

    async def stage(self, entry: JournalEntry) -> None:
        await self._faults.work(
            f"journal {entry.state}",
            lambda: self.staged.update({entry.key: entry}),
            lane="journal",
        )

    async def commit(self, key: EndpointKey) -> None:
        await self._faults.work(
            "journal commit",
            lambda: self.entries.update({key: self.staged.pop(key)}),
            lane="journal",
        )

    async def remove(self, key: EndpointKey) -> None:
        await self._faults.work(
            "journal remove", lambda: self.entries.pop(key, None), lane="journal"
        )


@dataclass(frozen=True, slots=True)
class Inside:
    """What a pod's interface was given."""

    mac: str
    addresses: Sequence[Interface]
    gateways: Sequence[Address]
    routes: tuple[IPv4Network, ...] = ()


class FakeLinks(KernelLinks):
    """The host's links, and what is inside the namespaces of pods."""

    def __init__(self, faults: Faults) -> None:
        self.there: dict[str, PodLink | None] = {}
        self.inside: dict[tuple[str, str], Inside] = {}
        self.found: dict[str, Nic] = {}
        """Network cards."""
        self.own: dict[str, Inside] = {}
        """What the host's own links were given."""
        self.routes: dict[str, list[HostRoute]] = {}
        self.neighbours: dict[str, dict[Address, str]] = {}
        self.sources: dict[str, IPv6Address] = {}
        """Addresses of IPv6 for routes alone, by link."""
        self.loose: set[str] = set()
        self.without_ipv6: set[str] = set()
        """Links that have no IPv6."""
        self.watchers: list[Callable[[], None]] = []
        self.underlay = {UNDERLAY_CARD: 1500}
        """The MTUs of the links that are not pods'."""
        self.changed = asyncio.Event()
        """Set: some link is another."""
        self.down: set[tuple[str, str]] = set()
        """Links of pods that somebody has set down, by namespace and name."""
        self.host_ends_down: set[str] = set()
        """Links of the host that somebody has set down."""
        self.peer_mtus: dict[str, tuple[str, int]] = {}
        """What was set in which namespace, by the name of a link's end on the host."""
        self.dead: set[str] = set()
        """Namespaces that are gone, by their paths."""
        self.first: list[Network] | None = None
        """The destinations that are looked up in the agent's table first; None if none is."""
        self.spared: set[Address] = set()
        """Addresses that no route of it takes."""
        self.led: dict[Address, tuple[str, Address | None]] = {}
        """Addresses that the host sends elsewhere: to which link, by which next hop."""
        self.held = {"192.0.2.1"}
        """The addresses of the host."""
        self.held_changed = ChangeNotifier()
        self._faults = faults

    async def has_kernel_datapath(self) -> bool:
        return False

    async def add_pod_link(self, spec: PodLink) -> None:
        await self._faults.work("link", lambda: self._add(spec))

    async def passing(self, name: str, limit: float = CARRIER) -> None:
        """Every link passes at once."""

    async def configure_pod(
        self,
        netns_path: str,
        ifname: str,
        mac: str,
        addresses: Sequence[Interface],
        gateways: Sequence[Address],
    ) -> None:
        inside = Inside(mac, list(addresses), list(gateways))
        await self._faults.work("inside", lambda: self._configure(netns_path, ifname, inside))

    async def pod_link(self, netns_path: str, ifname: str) -> FoundLink | None:
        if netns_path in self.dead:
            raise HostError(f"namespace {netns_path}: No such file or directory")
        inside = self.inside.get((netns_path, ifname))
        if inside is None:
            return None
        return FoundLink(
            up=(netns_path, ifname) not in self.down,
            mac=inside.mac,
            addresses=frozenset(inside.addresses),
            gateways=frozenset(inside.gateways),
            routes=frozenset({*(a.network for a in inside.addresses), *inside.routes}),
        )

    async def receives_at_most(self, name: str, rate: int, burst: int) -> bool:
        link = self.there.get(name)
        return link is not None and (link.rate, link.burst) == (rate, burst)

    async def route_pod(self, netns_path: str, ifname: str, subnet: IPv4Network) -> None:
        given = self.inside[netns_path, ifname]
        routed = replace(given, routes=(*given.routes, subnet))
        await self._faults.work("pod route", lambda: self._configure(netns_path, ifname, routed))

    async def keep_up(self, names: Collection[str]) -> KeptUp:
        def keep() -> KeptUp:
            missing = frozenset(names) - self.there.keys()
            down = self.host_ends_down.intersection(names) - missing
            if "set up" in self._faults.failing:
                return KeptUp(frozenset(), missing, dict.fromkeys(down, "no"))
            self.host_ends_down -= down
            return KeptUp(frozenset(down), missing)

        return await self._faults.work("keep up", keep)

    async def configure_host_link(
        self, name: str, mac: str, addresses: Sequence[Interface]
    ) -> None:
        await self._faults.work("own link", lambda: self._configure_own(name, mac, addresses))

    async def ensure_routes(self, name: str, routes: Collection[HostRoute]) -> None:
        await self._faults.work("routes", lambda: self.routes.update({name: list(routes)}))

    async def change_routes(
        self, name: str, gone: Collection[HostRoute], new: Collection[HostRoute]
    ) -> None:
        held = [one for one in self.routes.get(name, []) if one not in gone]
        await self._faults.work("routes", lambda: self.routes.update({name: [*held, *new]}))

    async def ensure_rules(self, first: Collection[Network]) -> None:
        await self._faults.work("routing", lambda: setattr(self, "first", [*first]))

    async def adopt_routes(self) -> int:
        return 0

    async def ensure_exceptions(self, addresses: Collection[Address], *, only: bool) -> None:
        def change() -> None:
            self.spared = {*addresses, *(() if only else self.spared)}

        await self._faults.work("routing", change)

    async def change_exceptions(self, gone: Collection[Address], new: Collection[Address]) -> None:
        def change() -> None:
            self.spared = (self.spared - set(gone)) | set(new)

        await self._faults.work("routing", change)

    async def ways(self, addresses: Sequence[Address]) -> dict[Address, tuple[str, Address | None]]:
        return {one: self.led.get(one, ("contivh0", None)) for one in addresses}

    async def drop_addresses(
        self,
        wrong: Callable[[Interface, str], bool],  # noqa: ARG002 - none of an earlier release
    ) -> list[str]:
        return []

    async def ensure_source(self, name: str, source: IPv6Address) -> None:
        self.sources[name] = source

    async def has_ipv6(self, name: str) -> bool:
        return name not in self.without_ipv6

    async def loosen(self, name: str) -> bool:
        changed = name not in self.loose
        self.loose.add(name)
        return changed

    async def ensure_neighbours(self, name: str, macs: Mapping[Address, str]) -> None:
        await self._faults.work("neighbours", lambda: self.neighbours.update({name: dict(macs)}))

    async def delete_links(self, names: Iterable[str]) -> None:
        gone = set(names)
        await self._faults.work("unlink", lambda: self._delete(gone))

    async def links(self) -> frozenset[str]:
        if "links listed" in self._faults.failing:
            raise self._faults.failing["links listed"]
        return frozenset(self.there)

    async def cards(self, names: Iterable[str]) -> tuple[Nic, ...]:
        wanted = list(names)
        if missing := [name for name in wanted if name not in self.found]:
            raise HostError(f"uplink {missing[0]}: No such device")
        return tuple(self.found[name] for name in wanted)

    async def pod_places(self, names: Collection[str]) -> dict[str, PodPlace]:
        if "pod places" in self._faults.failing:
            raise self._faults.failing["pod places"]
        specs = {name: spec for name in names if (spec := self.there.get(name)) is not None}
        return {
            name: PodPlace(spec.netns_path, spec.ifname, inside=bool(spec.netns_path))
            for name, spec in specs.items()
        }

    async def netns_alive(self, path: str) -> bool:
        return path not in self.dead

    async def link_towards(self, address: Address) -> str:  # noqa: ARG002 - one card for all
        return next(iter(self.underlay), "")

    async def mtus(self) -> dict[str, int]:
        pods = {name: spec.mtu for name, spec in self.there.items() if spec is not None}
        return {**self.underlay, **pods}

    async def holder(self, address: Address) -> str:
        if UNDERLAY_CARD not in self.underlay:
            raise HostError(f"no link of this host has the address {address}")
        return UNDERLAY_CARD

    async def set_pod_mtu(self, host_name: str, ifname: str, netns_path: str, mtu: int) -> None:
        def change() -> None:
            spec = self.there.get(host_name)
            if spec is None or (spec.ifname, spec.netns_path) != (ifname, netns_path):
                raise HostError(f"link {host_name}: No such device")
            self.there[host_name] = replace(spec, mtu=mtu)

        await self._faults.work("mtu", change)

    async def set_peer_mtu(self, host_name: str, netns_path: str, mtu: int) -> None:
        spec = self.there[host_name]
        assert spec is not None
        self.there[host_name] = replace(spec, mtu=mtu)
        self.peer_mtus[host_name] = netns_path, mtu

    async def changes(self) -> AsyncIterator[None]:
        while True:
            self.changed.clear()
            yield
            await self.changed.wait()

    async def addresses(self, is_pods: Callable[[str], bool]) -> frozenset[str]:
        assert not is_pods(UNDERLAY_CARD)
        return frozenset({"192.0.2.1"})

    async def own_addresses(self) -> frozenset[str]:
        return frozenset(self.held)

    async def address_changes(self) -> AsyncIterator[None]:
        while True:
            changed = self.held_changed.next
            yield
            await changed.wait()

    def end(self, netns: str) -> None:
        """End a pod's namespace, and with it both ends of its link."""
        self.dead.add(netns)
        self._delete({n for n, k in self.there.items() if k and k.netns_path == netns})

    def _add(self, spec: PodLink) -> None:
        self.there.pop(spec.host_name, None)
        taken = [link for link in self.there.values() if link is not None]
        if any((k.netns_path, k.ifname) == (spec.netns_path, spec.ifname) for k in taken):
            raise HostError(f"link {spec.ifname} in {spec.netns_path}: File exists")
        self.there[spec.host_name] = spec
        self._tell()

    def _configure(self, netns: str, ifname: str, wanted: Inside) -> None:
        taken = [link for link in self.there.values() if link is not None]
        if not any((k.netns_path, k.ifname) == (netns, ifname) for k in taken):
            raise HostError(f"link {ifname} in {netns}: No such device")
        self.inside[netns, ifname] = wanted

    def _configure_own(self, name: str, mac: str, addresses: Sequence[Interface]) -> None:
        if name not in self.there:
            raise HostError(f"link {name}: No such device")
        self.own[name] = Inside(mac, list(addresses), [])

    def _delete(self, names: set[str]) -> None:
        for name in names & self.there.keys():
            link = self.there.pop(name)
            if link is not None:
                self.inside.pop((link.netns_path, link.ifname), None)
        self._tell()

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher()


class FakeOvsdb(Ovsdb):
    """The database, with the part of ovs-vswitchd that hands out OpenFlow numbers."""

    def __init__(self, faults: Faults, links: FakeLinks) -> None:
        super().__init__(limit=5.0)
        self._faults = faults
        self._links = links
        links.watchers.append(self._number_ports)
        self.remembering: dict[str, frozenset[int]] = {}
        """The zones that remember ended connections, by the bridge they are of."""

        self.given: dict[str, int] = {}
        """Numbers the switch gives whatever is asked for."""
        self.show(bridges={bridge: {} for bridge in Bridge})

    def show(
        self,
        *,
        ports: dict[str, PortRow] | None = None,
        bridges: dict[str, dict[str, str]] | None = None,
    ) -> None:
        """Make the database be as given; links the switch has made go with their rows."""
        old = self._view
        gone = [] if ports is None else [n for n in old.ports if n not in ports]
        for name in gone:
            if old.ports[name].type == "internal":
                self._links.there.pop(name, None)
        self._take(
            OvsdbView(
                revision=old.revision + 1,
                connected=True,
                ports=dict(old.ports) if ports is None else ports,
                bridges=dict(old.bridges) if bridges is None else _with_ids(old, bridges),
            )
        )

    async def hang_up(self, *bridges: str, within: float = 1.0) -> None:
        """There is no controller to replace."""

    async def ensure_bridge(self, spec: BridgeSpec) -> None:
        def change() -> None:
            ids = self.bridge_external_ids(spec.name)  # without the owner: tests compare the rest
            self.set_up(
                spec.name,
                BridgeRow(
                    external_ids=ids,
                    controllers=(spec.controller,),
                    fail_mode=spec.fail_mode,
                    datapath_type=spec.datapath_type,
                    protocols=spec.protocols,
                    other_config={
                        "disable-in-band": "true",
                        "datapath-id": str(spec.datapath_id),
                    },
                    own_devices=(spec.own_port.name,) if spec.own_port else (),
                ),
            )

        await self._faults.work("bridge", change)

    def set_up(self, name: str, row: BridgeRow) -> None:
        """Put a bridge with its settings."""
        view = self._view
        bridges = {**view.bridges, name: row}
        self._take(replace(view, revision=view.revision + 1, bridges=bridges))

    async def remember_ended(self, bridge: str, zones: Collection[int]) -> None:
        """Have zones remember ended connections."""
        self.remembering[bridge] = frozenset(zones)

    async def set_bridge_external_ids(self, bridge: str, ids: object) -> None:
        assert isinstance(ids, dict)

        def change() -> None:
            if bridge not in self.bridges():
                raise SwitchRefused(f"bridge {bridge} does not exist")
            new = {**self.bridge_external_ids(bridge), **ids}
            kept = {name: value for name, value in new.items() if value is not None}
            self.show(bridges={**self._bridges(), bridge: kept})

        await self._faults.work("external ids", change)

    async def add_port(self, bridge: str, spec: PortSpec, replaces: Iterable[str] = ()) -> None:
        gone = {*spec.members, *replaces}
        await self._faults.work("row", lambda: self._add(bridge, spec, gone))

    async def set_policing(self, name: str, *, rate: int, burst: int) -> None:
        await self._faults.work("policing", lambda: self.police(name, rate, burst))

    def police(self, name: str, rate: int, burst: int) -> None:
        """Limit a port's traffic."""
        row = replace(self.ports()[name], policing_rate=rate, policing_burst=burst)
        self.show(ports={**self.ports(), name: row})

    async def set_mtu(self, name: str, mtu: int) -> None:
        def change() -> None:
            row = replace(self.ports()[name], mtu_request=mtu)
            self.show(ports={**self.ports(), name: row})

        await self._faults.work("own mtu", change)

    async def delete_port(self, bridge: str, name: str) -> None:
        row = self.ports(bridge).get(name)
        if row is None:  # seen in the replica, as it is now: nothing is sent
            self._faults.reached["unrow"] += 1
            return
        await self._faults.work("unrow", lambda: self.lose(name))

    async def delete_ports(self, ports: Mapping[str, str]) -> None:
        await self._faults.work("unrow", lambda: self.lose(*ports))

    def lose(self, *names: str) -> None:
        """Take rows away."""
        self.show(ports={n: row for n, row in self.ports().items() if n not in names})

    def _bridges(self) -> dict[str, dict[str, str]]:
        return {name: dict(self.bridge_external_ids(name)) for name in self.bridges()}

    def _add(self, bridge: str, spec: PortSpec, gone: set[str]) -> None:
        if bridge not in self.bridges():
            raise SwitchRefused(f"bridge {bridge} does not exist")
        self.lose(*gone)
        row = port_row(
            spec.name,
            bridge=bridge,
            type=spec.type,
            tag=spec.tag,
            external_ids=dict(spec.external_ids),
            options=dict(spec.options),
            policing_rate=spec.policing_rate,
            policing_burst=spec.policing_burst,
            members=tuple(map(_card, sorted(spec.members))),
        )
        self.given.setdefault(spec.name, spec.ofport_request or 0)
        if spec.type == "internal":
            self._links.there[spec.name] = None
        self.show(ports={**self.ports(), spec.name: row})
        self._number_ports()

    def _number_ports(self) -> None:
        rows = {name: self._numbered(row) for name, row in self.ports().items()}
        if rows != self.ports():
            self.show(ports=rows)

    def _numbered(self, row: PortRow) -> PortRow:
        if row.members:
            return replace(row, members=tuple(map(self._numbered_card, row.members)))
        if row.type == "" and row.name not in self._links.there:
            return replace(row, ofport=-1, error=f"could not open network device {row.name}")
        if row.ofport is None or row.ofport < 0:
            return replace(row, ofport=self.given.get(row.name) or 60_000, error=None)
        return row

    def _numbered_card(self, card: BondMember) -> BondMember:
        there = card.name in self._links.there
        return replace(card, ofport=self.given.get(card.name) or 60_000 if there else -1)


def _with_ids(old: OvsdbView, ids: dict[str, dict[str, str]]) -> dict[str, BridgeRow]:
    return {
        name: replace(old.bridges.get(name, BridgeRow()), external_ids=found)
        for name, found in ids.items()
    }


def _card(name: str) -> BondMember:
    return BondMember(name=name, ofport=None, mac_in_use=None, link_state=None, lacp_current=None)


class FakeControl:
    """The control socket of ovs-vswitchd: commands it was sent, and a fault if it has one."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.pid = 1
        self.commands: list[str] = []
        self.fault: ContivError | None = None
        self.free = asyncio.Event()
        """Cleared: purges wait for it."""
        self.free.set()

    def path(self) -> Path:
        return Path(f"/run/ovs-vswitchd.{self.pid}.ctl")

    async def call(self, command: str, *_arguments: str) -> str:
        self.commands.append(command)
        if self.fault is not None:
            raise self.fault
        if command == "version":
            return f"ovs-vswitchd (Open vSwitch) {self.version}"
        await self.free.wait()
        return ""


class FakeFirewall(Iptables):
    """The host's rules."""

    def __init__(self, faults: Faults) -> None:
        self.rules: list[IptablesRule] = []
        self._faults = faults

    async def found(self, versions: Collection[int] = FAMILIES) -> list[str]:
        return [str(rule) for rule in self.rules if rule.chain.version in versions]

    async def keep(
        self, wanted: Collection[IptablesRule], versions: Collection[int] = FAMILIES
    ) -> bool:
        ours = [rule for rule in wanted if rule.chain.version in versions]
        return await self._faults.work("rules", lambda: self._replace(ours, versions))

    def _replace(self, wanted: list[IptablesRule], versions: Collection[int]) -> bool:
        self._faults.check(f"rules of IPv{max(versions)}")
        before = self.rules
        others = [rule for rule in before if rule.chain.version not in versions]
        self.rules = sorted([*others, *wanted], key=lambda rule: rule.chain.version)
        return before != self.rules


class FakeChains(OwnChains):
    """The agent's own chains, by family and table."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.there: dict[tuple[int, str], dict[str, Sequence[str]]] = {}
        self._faults = faults

    async def replace(self, version: int, wanted: Chains) -> None:
        made = {(version, table): dict(chains) for table, chains in wanted.items()}

        def update() -> None:
            self._faults.check(f"chains of IPv{version}")
            self.there.update(made)

        await self._faults.work("chains", update)

    async def remove(self, tables: Sequence[str], versions: Iterable[int] = (4, 6)) -> None:
        gone = {
            (version, table): dict[str, Sequence[str]]() for version in versions for table in tables
        }
        await self._faults.work("chains", lambda: self.there.update(gone))

    async def rules(self, version: int, table: str, name: str) -> list[str]:
        return list(self.there.get((version, table), {}).get(name, ()))


class FakeMaster(MasterApi):
    """Grants endpoints their addresses; the test decides when the store tells of it."""

    def __init__(self, faults: Faults) -> None:
        self.endpoints: dict[EndpointKey, EndpointRecord] = {}
        self.networks: set[NetworkId] = {NET}
        self.revisions: dict[str, int] = {}
        self._faults = faults
        self.last = 0
        self.history = ""
        self.reserved: set[tuple[str, str]] = set()
        self.keeps: dict[EndpointKey, str] = {}
        """Addresses, each after netmaster's name of its network."""
        self.asked: list[AllocAddressRequest] = []
        self.updates: list[UpdateEndpointRequest] = []
        self.allocated: list[AllocNetworkRequest] = []
        self.freed: list[str] = []
        self.lease = ("", 0)
        self.lease_seconds = 1000.0
        self.held: set[str] = set()
        """Addresses that the host holds ahead of its pods, or has named as those of pods."""
        self.source = ""
        """The endpoint id of the pod in which the machine runs that pods await."""
        self.replaced: list[str] = []
        self._promised: dict[EndpointKey, EndpointRecord] = {}

    async def create_endpoint(self, wanted: WantedEndpoint) -> Granted:
        record = await self._faults.work("create", lambda: self._create(wanted))
        if self.source and wanted.request.awaits_machine:
            promised = self._promised.setdefault(record.key, self.endpoints.pop(record.key))
            return Granted(promised, dict(self.revisions), self.history, self.source)
        if wanted.request.replaces:
            self.replaced.append(wanted.request.replaces)
        return Granted(record, dict(self.revisions), self.history)

    async def delete_endpoint(
        self, tenant: TenantName, network: NetworkName, endpoint_id: str
    ) -> None:
        gone = endpoint_key(network_id(network, tenant), endpoint_id)
        await self._faults.work("release", lambda: self.endpoints.pop(gone, None))

    async def set_labels(self, record: EndpointRecord, network: NetworkRecord) -> None:
        assert record.network == network.id
        await self._faults.work("labels", lambda: self.endpoints.update({record.key: record}))

    async def ready(self) -> None:
        await self._faults.work("ready", lambda: None)

    async def reserve_address(self, wanted: AllocAddressRequest) -> str:
        return await self._faults.work("reserve", lambda: self._reserve(wanted))

    async def release_address(self, held: ReleaseAddressRequest) -> None:
        gone = held.network_id, held.ipv4_address
        await self._faults.work("release address", lambda: self.reserved.discard(gone))

    async def update_endpoint(self, update: UpdateEndpointRequest) -> None:
        await self._faults.work("update", lambda: self.updates.append(update))

    async def allocate_network(self, wanted: AllocNetworkRequest) -> DockerPlace:
        await self._faults.work("network", lambda: self.allocated.append(wanted))
        return DockerPlace(
            TenantName(wanted.tenant_name or "default"),
            NetworkName(wanted.network_name or wanted.docker_id),
            GroupName(wanted.service_name) or None,
        )

    async def renew_address_blocks(self, host: HostLabel, asked: BlocksAsked) -> BlocksAnswer:
        return await self._faults.work("blocks", lambda: self._renew(host, asked))

    async def free_network(self, docker_id: str) -> None:
        await self._faults.work("free network", lambda: self.freed.append(docker_id))

    def _renew(self, host: HostLabel, asked: BlocksAsked) -> BlocksAnswer:
        if (asked.lease, asked.number) != self.lease:
            return BlocksAnswer(*self.lease, False, 0.0, (), False)
        self.held = {one for addresses in asked.held.values() for one in addresses}
        self.lease = (self.lease[0] or f"lease{self.last}", self.lease[1] + 1)
        token = f"{host}/{self.lease[0]}/{self.lease[1]}"
        granted = []
        for nid, number in asked.wanted.items():
            for _ in range(number):
                self.last += 1
                address = endpoint(self.last, nid=nid).ip_address
                granted.append((nid, HeldAddress(address, "", token)))
                self.held.add(address)
        return BlocksAnswer(*self.lease, True, self.lease_seconds, tuple(granted), False)

    def _reserve(self, wanted: AllocAddressRequest) -> str:
        self.asked.append(wanted)
        subnet, _, length = wanted.address_pool.partition("/")
        address = wanted.preferred
        if not address:
            self.last += 1
            address = str(ip_address(subnet) + self.last)
        self.reserved.add((wanted.network_id, address))
        return f"{address}/{length}"

    def _create(self, wanted: WantedEndpoint) -> EndpointRecord:
        ask = wanted.request
        nid = network_id(NetworkName(ask.network_name), TenantName(ask.tenant_name))
        if nid not in self.networks:
            raise NotFound("key not found")
        if len(self.endpoints) > 250:
            raise Exhausted("address exhaustion")
        key = endpoint_key(nid, ask.endpoint_id)
        self.keeps[key] = ask.keep
        group = f"{ask.service_name}:{ask.tenant_name}" if ask.service_name else ""
        if key not in self.endpoints:
            self.last += 1
            record = endpoint(self.last, nid=nid, container=ask.endpoint_id)
            if ask.config.ip_address:
                held = {one.ip_address for one in self.endpoints.values()}
                if ask.config.ip_address in held:
                    raise Conflict(f"ip address {ask.config.ip_address} is not available")
                number = int(IPv4Address(ask.config.ip_address)) & 0xFFFF
                record = endpoint(number, nid=nid, container=ask.endpoint_id)
            self.endpoints[key] = replace(
                record,
                service_name=ask.service_name,
                group_key=GroupKey(group),
                common_name=ask.common_name,
                mac_address=ask.config.mac_address or record.mac_address,
                labels=dict(ask.labels) or None,
            )
        return self.endpoints[key]


class FakeSwitch(Switch):
    """A switch's flow table: adds replace by table, priority and match, deletes go by cookie."""

    def __init__(self, bridge: Bridge, faults: Faults) -> None:
        super().__init__(bridge, target=f"unix:/ovs/{bridge}.openflow")
        self.table: dict[object, AnyFlow] = {}
        self._faults = faults
        self._online = True
        self._agent: SwitchObserver | None = None
        self.packets: list[bytes] = []
        """What was to be sent."""

    def attach(self, observer: SwitchObserver) -> None:
        self._agent = observer

    @property
    def connected(self) -> bool:
        return self._online

    def send_packet(self, data: bytes, actions: Sequence[PacketAction], *, in_port: int) -> bool:
        assert actions, f"nothing is done with what comes from {in_port}"
        self.packets.append(data)
        return True

    def hear(self, in_port: int, frame: bytes) -> None:
        """Bring a packet up."""
        assert self._agent is not None
        self._agent.on_packet_in(PacketIn(0, in_port, None, frame))

    def go(self, *, online: bool) -> None:
        """Come or go."""
        self._online = online
        if self._agent is not None:
            (self._agent.on_connected if online else self._agent.on_disconnected)()

    @property
    def session(self) -> Any:
        """The switch answers by itself."""
        return self

    async def apply(self, add: Sequence[AnyFlow], delete: Sequence[FlowStamp]) -> None:
        await self._faults.work(f"flows {self._bridge}", lambda: self._apply(add, set(delete)))

    async def refusals(self, flows: Sequence[AnyFlow]) -> dict[AnyFlow, str]:
        assert flows
        return {}

    async def counts(self, kind: ObjectKind) -> list[flow_stats.FlowCount]:
        raise SwitchUnavailable(f"flows of {kind} are not counted here")

    async def barrier(self) -> None:
        raise SwitchUnavailable("there is no connection to wait for")

    async def release(self) -> str:
        return "3.5.0"

    async def entries(self) -> list[flow_stats.FlowEntry]:
        return []

    async def groups(self) -> list[int]:
        return []

    async def meters(self) -> list[Meter]:
        return sorted({meter for flow in self.table.values() for meter in flow.meters})

    async def flow_count(self) -> int:
        return len(self.table)

    async def forget(self, ended: Collection[Translated]) -> None:
        """Do nothing: there are no connections."""

    async def dump(self) -> list[FlowStamp]:
        return [FlowStamp(flow.table, flow.cookie) for flow in self.table.values()]

    def _apply(self, add: Sequence[AnyFlow], delete: set[FlowStamp]) -> None:
        self.table.update({flow.key: read_by(self._agent, flow) for flow in add})
        for key, flow in list(self.table.items()):
            if FlowStamp(flow.table, flow.cookie) in delete:
                del self.table[key]
