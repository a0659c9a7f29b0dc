"""The desired state of one bridge, and what of it changed. Pure: no I/O, no clock.

In come facts: what follows from records, by the modules `netplugin.world.builder` names, and what
this host reports itself (tunnel ports, uplinks, the port for BGP and its routes). Out comes an
`ofnet.world.World` with its `ofnet.changes.Changes`, for a round of `netplugin.bridges.reconciler`.
What would take an address of the underlay is withheld, as `netplugin.world.bridges.spared` says.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final, NamedTuple, TypeVar

from core.collections.overlay import SharedCopies
from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.bridges.spared import Allowed, Spared
from ofnet.changes import KINDS, Changes, ObjectId, ObjectKind
from ofnet.world import (
    AccessPort,
    Bridge,
    HostPort,
    LocalEndpoint,
    ManagementPort,
    NamePort,
    Network,
    RemoteEndpoint,
    Router,
    Service,
    Uplink,
    Vtep,
    World,
)

_K = TypeVar("_K")
_V = TypeVar("_V")
_OF_POLICIES: Final = ("rules", "policy_classes", "policy_entries", "policy_subjects")
_OBJECTS: Final = (
    "networks",
    "local",
    "barred",
    "vteps",
    "access",
    "peer_macs",
    "services",
    "management",
    "management_ports",
    "routes",
)
_SINGLE: Final = ("host_port", "name_port", "uplinks", "router", "learning")
_SOURCES: Final = (
    # this state, as it is; endpoints of other hosts as `SharedCopies` has them
    *(*_OBJECTS, *_SINGLE, "remote"),
    # the `cluster` that `take` gets
    *("fwd_mode", "arp_mode", "launches", "dns_address", "guard", "flow_records"),
    *(*_OF_POLICIES, "kubernetes_partial", "complete"),
    # the bridge's agent, which asks the switch
    *("nd_extension", "unchanged_nat"),
)
_ENDPOINTS: Final = frozenset({ObjectKind.LOCAL, ObjectKind.REMOTE})


def check_sources(world: type[World], sources: Iterable[str] = _SOURCES) -> None:
    """Raise TypeError unless each field of a World has one source."""
    # A field without a source would be empty in every World, which means that its flows go.
    wrong = Counter(sources)
    wrong.subtract(field.name for field in fields(world))
    if any(wrong.values()):
        raise TypeError(f"fields of the World without one source: {[*+wrong, *-wrong]}")


check_sources(World)


class _Withheld(NamedTuple):
    """An object that the bridge does not have as it was asked for, and what is wrong with it."""

    asked: Any
    faults: tuple[str, ...]


class BridgeState:
    """The desired state of one bridge, and what of it changed since the last `take`.

    Its public attributes are fields of `World`, to be read. They are changed by the methods alone,
    which record what changed and set the signal. Setting a value to what it was is no change.
    """

    def __init__(self, bridge: Bridge, signal: ChangeSignal) -> None:
        self.networks: dict[NetworkId, Network] = {}
        self.local: dict[EndpointKey, LocalEndpoint] = {}
        self.barred: dict[EndpointKey, int] = {}
        self.remote: dict[EndpointKey, RemoteEndpoint] = {}
        self.vteps: dict[HostLabel, Vtep] = {}
        self.host_port: HostPort | None = None
        self.name_port: NamePort | None = None
        self.access: dict[EndpointKey, AccessPort] = {}
        self.uplinks: tuple[Uplink, ...] = ()
        self.peer_macs: dict[HostLabel, str] = {}
        self.services: dict[str, Service] = {}
        self.management: dict[str, IPv4Network | IPv6Network] = {}
        self.management_ports: dict[str, ManagementPort] = {}
        self.router: Router | None = None
        self.routes: dict[IPv4Network | IPv6Network, str] = {}
        self.learning = False
        self._bridge = bridge
        self._signal = signal
        self._spared = Spared()
        self._withheld: dict[tuple[ObjectKind, Any], _Withheld] = {}
        self._marked: set[ObjectId] = set()
        self._everything = True
        self._remotes: SharedCopies[Any, Any] = SharedCopies(self.remote)
        """Endpoints of other hosts may be a hundred thousand: one that changes costs no copy."""
        self._copies: dict[str | None, Mapping[Any, Any]] = {}
        """The parts of the last World that are still the same, by the field's name."""

    # -- from records --------------------------------------------------------------------------

    def set_network(self, nid: NetworkId, network: Network | None) -> None:
        """Set or clear a network; policies come with the first and go with the last."""
        first = network is not None and not self.networks
        if first or (network is None and self.networks.keys() == {nid}):
            self._everything = True
        self._put(ObjectKind.NETWORK, self.networks, nid, network)

    def set_endpoint(
        self, key: EndpointKey, local: LocalEndpoint | None, remote: RemoteEndpoint | None
    ) -> None:
        """Set an endpoint: one of this host, one of another host, or none of both."""
        self._set_local(key, local)
        self._set_remote(key, remote)

    def set_service(self, key: str, service: Service | None) -> None:
        """Set or clear a service."""
        allowed = Allowed(service) if service is None else self._spared.service(service)
        self._put_allowed(ObjectKind.SERVICE, self.services, key, service, allowed)

    def set_peer_mac(self, host: HostLabel, mac: str | None) -> None:
        """Set or clear the MAC address that another host's uplinks send by."""
        self._put(ObjectKind.PEER, self.peer_macs, host, mac)

    def set_management(self, name: str, address: IPv4Network | IPv6Network | None) -> None:
        """Set or clear an address whose management ports pods must not reach."""
        self._put(ObjectKind.MANAGEMENT, self.management, name, address)

    def set_management_ports(self, ports: Mapping[str, ManagementPort]) -> None:
        """Replace the management ports."""
        before, self.management_ports = self.management_ports, dict(ports)
        self._mark(ObjectKind.MANAGEMENT_PORT, _differing(before, ports))

    def announce(self, group_id: int) -> None:
        """Mark the local endpoints of a group, so that they are announced anew."""
        members = (key for key, one in self.local.items() if one.group_id == group_id)
        self._mark(ObjectKind.LOCAL, members)

    def alter_rules(self, rules: Iterable[str], classed: Iterable[GroupKey]) -> None:
        """Mark rules that changed, and groups that changed their class; `take` gets them all."""
        if self.networks:
            self._mark(ObjectKind.RULE, rules)
            self._mark(ObjectKind.POLICY_CLASS, classed)

    def alter_kube_policies(self, entries: Iterable[str], subjects: Iterable[str]) -> None:
        """Mark entries and subjects of Kubernetes' policies that changed; `take` gets them."""
        if self.networks:
            self._mark(ObjectKind.POLICY_ENTRY, entries)
            self._mark(ObjectKind.POLICY_SUBJECT, subjects)

    def alter_everything(self) -> None:
        """Mark every object: a setting of the whole cluster changed."""
        self._everything = True
        self._signal.set()

    # -- from this host ------------------------------------------------------------------------

    def set_access(self, key: EndpointKey, port: AccessPort | None) -> None:
        """Set or clear the interface to this host that the pod of an endpoint has."""
        allowed = Allowed(port) if port is None else self._spared.access(port)
        self._put_allowed(ObjectKind.ACCESS, self.access, key, port, allowed)

    def set_vteps(self, vteps: Mapping[HostLabel, Vtep]) -> None:
        """Replace the tunnel ports by those that OVSDB reports."""
        before, self.vteps = self.vteps, dict(vteps)
        self._mark(ObjectKind.VTEP, map(str, _differing(before, vteps)))

    def set_host_port(self, port: HostPort | None) -> None:
        """Set or clear the host's port. `cluster_endpoints.endpoints` calls it first."""
        before, self.host_port = self.host_port, port
        self._mark_if(before != port, ObjectKind.HOST_PORT)

    def set_name_port(self, port: NamePort | None) -> None:
        """Set or clear the port of the name service."""
        before, self.name_port = self.name_port, port
        self._mark_if(before != port, ObjectKind.NAME_PORT)

    def set_uplinks(self, uplinks: Sequence[Uplink]) -> None:
        """Set the ports that tie the bridge to the physical network."""
        before, self.uplinks = self.uplinks, tuple(uplinks)
        self._mark_if(before != self.uplinks, ObjectKind.UPLINKS)

    def set_router(self, router: Router | None) -> None:
        """Set or clear the host's port for BGP."""
        allowed = Allowed(router) if router is None else self._spared.router(router)
        self._withhold(ObjectKind.ROUTER, "", router, allowed)
        before, self.router = self.router, allowed.value
        self._mark_if(before != self.router, ObjectKind.ROUTER)

    def set_routes(self, routes: Mapping[IPv4Network | IPv6Network, str]) -> None:
        """Replace the prefixes learned by BGP, each with the MAC address of its next hop."""
        before, self.routes = self.routes, dict(routes)
        self._mark(ObjectKind.ROUTE, map(str, _differing(before, routes)))

    def set_learning(self, *, learning: bool) -> None:
        """Set whether prefixes may be missing that the BGP peer has yet to send again."""
        before, self.learning = self.learning, learning
        self._mark_if(before != learning, ObjectKind.ROUTER)

    def adopt(self, other: "BridgeState") -> None:
        """Set what does not come from records to what it is on another state of the same bridge."""
        self.set_vteps(other.vteps)
        self.set_host_port(other.host_port)
        self.set_name_port(other.name_port)
        self.set_uplinks(other.uplinks)
        self.set_router(other.router)
        self.set_routes(other.routes)
        self.set_learning(learning=other.learning)
        self.set_management_ports(other.management_ports)
        for name, address in other.management.items():
            self.set_management(name, address)
        for key, port in other.access.items():
            self.set_access(key, port)

    # -- what the underlay needs ---------------------------------------------------------------

    def spare(self, spared: Spared) -> None:
        """Set what no object may take from hosts: what was withheld comes back if it may now."""
        before, self._spared = self._spared, spared
        changed = before.addresses.keys() ^ spared.addresses.keys()
        withheld = dict(self._withheld)
        if changed:
            for key, local in list(self.local.items()):
                if not changed.isdisjoint((local.ip, local.ip6, local.nat_ip)):
                    self._set_local(key, local)
            for key, remote in list(self.remote.items()):
                if not changed.isdisjoint((remote.ip, remote.ip6)):
                    self._set_remote(key, remote)
            for key, port in list(self.access.items()):
                self.set_access(key, port)
            self.set_router(self.router)
        for name, service in list(self.services.items()):
            self.set_service(name, service)
        for (kind, name), one in withheld.items():
            self._set(kind, name, one.asked)

    def faults(self) -> list[str]:
        """Return what is wrong with objects that the bridge does not have as asked for."""
        return [fault for one in self._withheld.values() for fault in one.faults]

    def _set(self, kind: ObjectKind, name: Any, asked: Any) -> None:
        match kind:
            case ObjectKind.LOCAL:
                self._set_local(name, asked)
            case ObjectKind.REMOTE:
                self._set_remote(name, asked)
            case ObjectKind.ACCESS:
                self.set_access(name, asked)
            case ObjectKind.ROUTER:
                self.set_router(asked)
            case _:
                self.set_service(name, asked)

    def _set_local(self, key: EndpointKey, asked: LocalEndpoint | None) -> None:
        allowed = Allowed(asked) if asked is None else self._spared.local(self._bridge, asked)
        self._put_allowed(ObjectKind.LOCAL, self.local, key, asked, allowed)
        barred = asked is not None and allowed.value is None
        port = asked.ofport if asked is not None and barred else None
        self._put(ObjectKind.BARRED, self.barred, key, port)

    def _set_remote(self, key: EndpointKey, asked: RemoteEndpoint | None) -> None:
        allowed = Allowed(asked) if asked is None else self._spared.remote(self._bridge, asked)
        self._put_allowed(ObjectKind.REMOTE, self.remote, key, asked, allowed)

    def _put_allowed(
        self,
        kind: ObjectKind,
        there: dict[_K, _V],
        key: _K,
        asked: _V | None,
        allowed: Allowed[_V],
    ) -> None:
        self._withhold(kind, key, asked, allowed)
        self._put(kind, there, key, allowed.value)

    def _withhold(
        self, kind: ObjectKind, key: object, asked: _V | None, allowed: Allowed[_V]
    ) -> None:
        """Note what an object was asked to be, if the bridge does not have it so."""
        if allowed.value is asked:
            if self._withheld.pop((kind, key), None) is not None:
                self._signal.set()  # its fault is gone, also where no flow changes
        elif self._withheld.get((kind, key)) != (one := _Withheld(asked, allowed.faults)):
            self._withheld[kind, key] = one
            self._signal.set()

    # -- what comes out ------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """True if anything changed since the last `take`."""
        return self._everything or bool(self._marked)

    def take(self, cluster: World) -> tuple[World, Changes]:
        """Return the bridge's World, and what changed in it since the last call.

        `cluster` has what does not come from this state: settings, and what follows from policies.
        The World returned stays as it is while a switch is updated to it.
        """
        parts: dict[str, Any] = {name: getattr(self, name) for name in _SINGLE}
        parts |= {name: self._copy(name) for name in _OBJECTS}
        # What depends on hosts and networks is looked for among all endpoints.
        walked = self._everything or any(one.kind not in _ENDPOINTS for one in self._marked)
        parts["remote"] = self._remotes.copy(plain=walked)
        # Policies judge packets from and to endpoints, and a bridge without networks has none: most
        # clusters use one of the two bridges for their pods.
        if not self.networks:
            parts |= {name: {} for name in _OF_POLICIES}
        else:
            parts["policy_subjects"] = self._spared.judged(self._bridge, cluster.policy_subjects)
        changes = Changes(objects=frozenset(self._marked), everything=self._everything)
        self._marked, self._everything = set(), False
        return replace(cluster, **parts), changes

    def _copy(self, name: str) -> Mapping[Any, Any]:
        # Worlds share the copy of what has not changed.
        if name not in self._copies:
            self._copies[name] = dict(getattr(self, name))
        return self._copies[name]

    # -- marks ---------------------------------------------------------------------------------

    def _put(self, kind: ObjectKind, there: dict[_K, _V], key: _K, value: _V | None) -> None:
        if there.get(key) != value:
            if value is None:
                del there[key]
            else:
                there[key] = value
            if kind is ObjectKind.REMOTE:
                self._remotes.changed(key)
            self._mark(kind, [str(key)])

    def _mark_if(self, differs: bool, kind: ObjectKind) -> None:  # noqa: FBT001 - a comparison
        if differs:
            self._mark(kind, [""])

    def _mark(self, kind: ObjectKind, names: Iterable[str]) -> None:
        # The change is in place already: the observer may take the state at once.
        before = len(self._marked)
        self._marked.update(ObjectId(kind, name) for name in names)
        self._copies.pop(KINDS[kind].field, None)
        if len(self._marked) > before:
            self._signal.set()


def _differing(there: Mapping[_K, _V], wanted: Mapping[_K, _V]) -> set[_K]:
    return {key for key in there.keys() | wanted.keys() if there.get(key) != wanted.get(key)}
