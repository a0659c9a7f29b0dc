"""The parts of which the World follows, and which of them gets what. Pure: no I/O, no clock.

`WorldGraph` makes the parts and wires them, once; the drawing above `_wired` shows the result.
`netplugin.world.builder` puts records into it and takes the Worlds out of it. A part that gets
records of a type is a node: a function for one that is put or replaced, and one for the key of one
that is removed. Nodes of endpoints are functions of `(old, new)`
(`netplugin.world.cluster_endpoints.endpoint_table`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from core.ids import HostLabel, TenantName
from netplugin.world.aci_announcements import AciAnnouncements
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.bridges.conversion import check_endpoint, check_host, check_network, ports_of
from netplugin.world.bridges.forwarding_mode import ForwardingMode
from netplugin.world.bridges.networks import Networks
from netplugin.world.bridges.spared import Spared
from netplugin.world.bridges.vrfs import VrfIds
from netplugin.world.cluster_endpoints.endpoint_table import EndpointTable
from netplugin.world.cluster_endpoints.endpoints import Endpoints
from netplugin.world.contiv_policies.policies import Policies
from netplugin.world.dns.dns_records import DnsRecords
from netplugin.world.docker_networks import DockerNetworks
from netplugin.world.kubernetes.kube_services import KubeService
from netplugin.world.management import Management
from netplugin.world.peers import Peers
from netplugin.world.pod_policies import PodPolicies
from netplugin.world.services.bridge_services import Services
from netplugin.world.underlay import HostUnderlay
from ofnet.world import Bridge, FwdMode
from state.intents import Attachment, Fact, Launch, Profile
from state.lineage import Lineage
from state.policy_rules import PolicyRule
from state.records import (
    BgpRecord,
    DocknetRecord,
    EndpointRecord,
    GlobalRecord,
    GrantRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    ServiceRecord,
    TagRangesRecord,
)

_F = TypeVar("_F")
_K = TypeVar("_K")
_Node = tuple[Callable[[_F], object], Callable[[_K], object]]

IGNORED: Final[frozenset[type[Fact]]] = frozenset({TagRangesRecord, GrantRecord, Lineage})
"""The types of records that say nothing of what switches forward."""


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The nodes that get records of one type, in this order.

    `check` raises Invalid for a record that cannot be read, before any node has changed anything:
    no node has to come first.
    """

    key: Callable[[Any], Any]
    check: Callable[[Any], object]
    nodes: tuple[_Node[Any, Any], ...]

    def put(self, record: object) -> None:
        """Add or replace a record."""
        self.check(record)
        for put, _ in self.nodes:
            put(record)

    def remove(self, key: object) -> None:
        """Remove a record."""
        for _, remove in self.nodes:
            remove(key)


class WorldGraph:
    """The parts of the World of a host, which are fed by `_sources` and by the host itself.

    `vrfs` are the VRF ids this host used before.
    """

    def __init__(
        self,
        host: HostLabel,
        fwd_mode: FwdMode,
        vrfs: Mapping[TenantName, int] | None = None,
        *,
        cluster_domain: str,
        underlay: HostUnderlay | None = None,
    ) -> None:
        self._signal = ChangeSignal()
        self._bridges = {bridge: BridgeState(bridge, self._signal) for bridge in Bridge}
        self.vxlan, self.vlan = self._bridges[Bridge.VXLAN], self._bridges[Bridge.VLAN]
        self._vrfs = VrfIds(vrfs or {})
        self.forwarding = ForwardingMode(fwd_mode)
        self.networks = Networks(self._bridges, self._vrfs)
        self.endpoint_records = table = EndpointTable(host)
        self.endpoints = Endpoints(host, self._bridges, table)
        self.services = Services(host, self._bridges, self._vrfs.ids, table, self._signal)
        self.peers = Peers(host, self.vlan)
        self.docker_networks = DockerNetworks()
        self.management = Management(self._bridges)
        self.underlay = underlay or HostUnderlay(host)
        self._spared = Spared()
        self.names = DnsRecords(table, cluster_domain)
        self._policies = Policies()
        self.pod_policies = PodPolicies(host, self._bridges, self._vrfs.ids, table, self._signal)
        self._announcements = AciAnnouncements(self.endpoints, self.forwarding, self.vlan)
        self._sources = self._wired()
        self._late: tuple[Callable[[], None], ...] = (
            self._spare,
            self.services.update_bridges,
            self.pod_policies.update_bridges,
        )

    # What comes in at the left goes to the nodes in the middle, from top to bottom; what a node
    # finds goes on to the right. No arrow leads back. What a node makes of its inputs depends on
    # their last values alone, so that the Worlds are the same in whatever order nodes get a change
    # (tests/property/netplugin/test_graph.py).
    #
    #  NetworkRecord ──┬► networks ───────────┬ networks, tenants ► endpoints ─────────► bridges
    #                  │                      │                   ► services, pod_policies
    #                  │                      └ tenants held ─────► policies ► rules ──► bridges
    #                  ├► endpoint_records ──── rows of another tenant ► as EndpointRecord
    #                  ├► pod_policies' early ─ rows of another tenant ► pod_policies
    #                  └► policies ──────────── rules ─────────────────────────────────► bridges
    #  EndpointRecord ──► endpoint_records ─┬ (old, new) ► endpoints ──────────────────► bridges
    #                                       ├ (old, new) ► names
    #                                       ├ (old, new) ► management ─────────────────► bridges
    #                                       ├ (old, new) ► services ─────────────┐
    #                                       └ (old, new) ► pod_policies ─────────┤
    #  ServiceRecord ──┬► services ──────────────────────────────────────────────┤
    #  KubeService     └► names                                                  │
    #  policies, namespaces and nodes of Kubernetes ► pod_policies ──────────────┤
    #  HostRecord ─────┬► peers ───────────── MAC addresses ───────────────────────────► bridges
    #                  ├► management ──────── addresses ───────┬───────────────────────► bridges
    #                  └► underlay ────────── addresses ───────┴► _spare ────────┤
    #                                                                            └ late ► bridges
    #  GroupRecord ────┬► endpoints ─────────────────────────────────────────────────► bridges
    #                  └► policies ──┬─────── rules ─────────────────────────────────► bridges
    #  Attachment, PolicyRule ───────┘
    #  Profile, Launch ─► announcements ───── groups ────────────────────────────────► vlan bridge
    #  GlobalRecord ────► forwarding ──────┬─ everything ────────────────────────────► bridges
    #                                      └─ private network ► services
    #  BgpRecord ───────► peers               DocknetRecord ► docker_networks

    def _wired(self) -> Mapping[type, RecordSource]:
        """Wire the parts; return where each type of record goes."""
        for source in (self.management, self.underlay):
            source.observe(self._signal.set)
        self.networks.feed(
            self.endpoints.networks_changed,
            self.services.networks_changed,
            self.pod_policies.networks_changed,
            lambda _: self._alter_rules(self._policies.hold(self.networks.held_tenants())),
        )
        table, early = self.endpoint_records, self.pod_policies.early
        names, policies = self.names, self._policies
        table.feed(
            self.endpoints.update,
            names.update_endpoint,
            self.management.update_endpoint,
            self.services.update_endpoint,
            self.pod_policies.update_endpoint,
        )

        def rules(
            put: Callable[[_F], Iterable[str]], remove: Callable[[_K], Iterable[str]]
        ) -> _Node[_F, _K]:
            return (
                lambda record: self._alter_rules(put(record)),
                lambda key: self._alter_rules(remove(key)),
            )

        return {
            NetworkRecord: _source(
                NetworkRecord,
                lambda it: it.id,
                (self.networks.put, self.networks.remove),
                (table.put_network, table.remove_network),
                (early.put_network, early.remove_network),
                rules(policies.put_network, policies.remove_network),
                check=check_network,
            ),
            EndpointRecord: _source(
                EndpointRecord, lambda it: it.key, (table.put, table.remove), check=check_endpoint
            ),
            ServiceRecord: _source(
                ServiceRecord,
                lambda it: it.key,
                (self.services.put, self.services.remove),
                (names.put_service, names.remove_service),
                check=ports_of,
            ),
            KubeService: _source(
                KubeService,
                lambda it: it.key,
                (self.services.put_kube, self.services.remove_kube),
                (names.kube.put, names.kube.remove),
            ),
            HostRecord: _source(
                HostRecord,
                lambda it: it.label,
                (self.peers.put, self.peers.remove),
                (self.management.put_host, self.management.remove_host),
                (self.underlay.put_host, self.underlay.remove_host),
                check=check_host,
            ),
            GroupRecord: _source(
                GroupRecord,
                lambda it: it.key,
                (self.endpoints.put_group, self.endpoints.remove_group),
                rules(policies.put_group, policies.remove_group),
            ),
            Attachment: _source(
                Attachment,
                lambda it: it.key,
                rules(policies.put_attachment, policies.remove_attachment),
            ),
            PolicyRule: _source(
                PolicyRule, lambda it: it, rules(policies.put_rule, policies.remove_rule)
            ),
            Profile: _source(
                Profile, lambda it: it.key, (self._announcements.put, self._announcements.remove)
            ),
            Launch: _source(Launch, lambda it: it.profile, (_ignore, self._announcements.launched)),
            # Settings that are removed stay in force: forwarding needs some.
            GlobalRecord: _source(GlobalRecord, lambda it: it, (self._put_settings, _ignore)),
            BgpRecord: _source(
                BgpRecord, lambda it: it.hostname, (self.peers.put_bgp, self.peers.remove_bgp)
            ),
            DocknetRecord: _source(
                DocknetRecord,
                lambda it: it.id,
                (self.docker_networks.put, self.docker_networks.remove),
            ),
            **{kind: RecordSource(_ignore, _ignore, ()) for kind in IGNORED},
        }

    # -- from nodes to bridges -----------------------------------------------------------------

    def _alter_rules(self, rules: Iterable[str]) -> None:
        classed = self._policies.take_classed()
        for bridge in self._bridges.values():
            bridge.alter_rules(rules, classed)

    def _put_settings(self, record: GlobalRecord) -> None:
        if self.forwarding.put(record):
            self._alter_everything()
        self.services.set_private(self.forwarding.private_subnet)

    def _alter_everything(self) -> None:
        for bridge in self._bridges.values():
            bridge.alter_everything()

    def _settle(self) -> None:
        """Set on the bridges what is put off until a World is taken."""
        # An agent that starts reads endpoints and hosts by the thousand, and each may alter a
        # service of many providers, or what is spared. Each of these is made once a round. The
        # change that they notified of is still pending then, so that the marks they set here cause
        # no further round.
        for update in self._late:
            update()
        self._signal.clear()

    def _spare(self) -> None:
        """Keep the bridges' objects off what hosts need for themselves."""
        addresses, management = self.underlay.kept, self.management.known
        before = self._spared
        if addresses is before.addresses and management is before.management:
            return
        self._spared = Spared(addresses, management)
        changed = before.addresses.keys() ^ addresses.keys()
        subjects = self.pod_policies.policies.subjects.items()
        judged = [name for name, one in subjects if one.address in changed] if changed else []
        for state in self._bridges.values():
            state.spare(self._spared)
            state.alter_kube_policies((), judged)


def _source(
    _type: type[_F],
    key: Callable[[_F], _K],
    *nodes: _Node[_F, _K],
    check: Callable[[_F], object] = lambda _: None,
) -> RecordSource:
    """Return a source; the type is there for the type checker, which compares all with it."""
    return RecordSource(key, check, nodes)


def _ignore(_: object) -> None:
    """Take a record that changes nothing."""
