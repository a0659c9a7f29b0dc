"""Records and host facts in, one World per bridge out. Pure: no I/O, no clock.

`netplugin.bridges.record_events` feeds it typed records (`state.watch`), `netplugin.kube.feed`
Kubernetes' services. Which parts get a record says `netplugin.world.graph`:

* `forwarding_mode`: how the whole cluster forwards;
* `networks`, with `vrfs`: which network is on which bridge, and in which VRF;
* `endpoint_table`: the records of endpoints, which all that needs them finds there;
* `endpoints`: which endpoints are local or remote, and with which values;
* `services`, with `service_records` and `kube_providers`: the services and their providers;
* `pod_policies`: Kubernetes' policies;
* `policies`, `aci_announcements`: rules, and the groups whose endpoints are announced;
* `peers`: the other hosts, and this host's BGP peer; `management`: what pods must not reach;
  `underlay`: what routes to pods must not take, and with `spared` no flow;
* `dns_records`: names and addresses.

They translate records by `netplugin.world.bridges.conversion` and set the results on the state of a
bridge (`netplugin.world.bridges.bridge_state`). `take` returns the World with its changes, for
`ofnet.agent`. What this host itself reports (ports, tunnels, routes) is set on the parts directly.
Every change sets the `netplugin.world.bridges.change_signal`.
"""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address

from core.ids import EndpointKey, HostLabel, TenantName
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.dns.kube_names import CLUSTER_DOMAIN
from netplugin.world.graph import WorldGraph
from netplugin.world.kubernetes.kube_services import KubeService
from netplugin.world.underlay import HostUnderlay
from ofnet.changes import Changes
from ofnet.world import Bridge, FwdMode, World
from state.intents import Fact


class WorldBuilder(WorldGraph):
    """Folds facts into the Worlds of both bridges of this host.

    Records come in by `put` and `remove`. The public parts are there to be queried, and to be set
    to what this host reports.
    """

    def __init__(
        self,
        host: HostLabel,
        fwd_mode: FwdMode,
        vrfs: Mapping[TenantName, int] | None = None,
        *,
        guard: bool = True,
        flow_records: bool = False,
        cluster_domain: str = CLUSTER_DOMAIN,
        dns_address: IPv4Address | IPv6Address | None = None,
        underlay: HostUnderlay | None = None,
    ) -> None:
        super().__init__(host, fwd_mode, vrfs, cluster_domain=cluster_domain, underlay=underlay)
        self._host = host
        self._dns_address = dns_address
        self._guard = guard
        self._flow_records = flow_records
        self._cluster_domain = cluster_domain
        self._revisions: dict[str, int] = {}
        self._complete = False
        self._kubernetes_partial = False

    # -- records from the store ----------------------------------------------------------------

    @property
    def record_types(self) -> frozenset[type]:
        """The types of what `put` and `remove` take."""
        return frozenset(self._sources)

    def put(self, fact: Fact) -> None:
        """Add or replace a record.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        self._sources[type(fact)].put(fact)

    def remove(self, fact: Fact) -> None:
        """Remove a record, by its key; one that is not known is passed over."""
        source = self._sources[type(fact)]
        source.remove(source.key(fact))

    # -- pods of this host ---------------------------------------------------------------------

    def put_port(self, key: EndpointKey, port: LocalPort) -> None:
        """Set the port of an endpoint of this host. Raises Invalid as `put` does."""
        self.endpoints.put_port(key, port)
        self.pod_policies.put_port(port.record)

    def remove_port(self, key: EndpointKey) -> None:
        """Remove the port of an endpoint of this host."""
        self.endpoints.remove_port(key)
        self.pod_policies.early.remove(key)

    # -- services of Kubernetes ----------------------------------------------------------------

    def put_kube_service(self, service: KubeService) -> None:
        """Add or replace a service of Kubernetes, which pods of every tenant may use."""
        self._sources[KubeService].put(service)

    def remove_kube_service(self, key: str) -> None:
        """Remove a service of Kubernetes."""
        self._sources[KubeService].remove(key)

    def set_kubernetes_partial(self, *, partial: bool) -> None:
        """Set whether services of Kubernetes may exist that are not known here."""
        # A host that never heard of Kubernetes, or lost its memory of it, must not take a server
        # that is away for a cluster without services (ADR 19).
        if partial != self._kubernetes_partial:
            self._kubernetes_partial = partial
            self._alter_everything()

    # -- what would be -------------------------------------------------------------------------

    def twin(self) -> "WorldBuilder":
        """Return another builder for this host that knows all but records, and shares nothing.

        It has the host's ports and tunnels, the VRF ids and the services of Kubernetes. Records are
        to be put. It has no policies of Kubernetes.
        """
        other = WorldBuilder(
            self._host,
            self.forwarding.fwd_mode,
            self.vrfs,
            guard=self._guard,
            flow_records=self._flow_records,
            cluster_domain=self._cluster_domain,
            dns_address=self._dns_address,
            underlay=self.underlay.copy(),
        )
        for bridge, state in self._bridges.items():
            other._bridges[bridge].adopt(state)
        for key, port in self.endpoints.ports.items():
            other.put_port(key, port)
        for service in self.services.asked_kube.values():
            other.put_kube_service(service)
        other.set_kubernetes_partial(partial=self._kubernetes_partial)
        return other

    # -- completeness and revisions ------------------------------------------------------------

    def set_complete(self) -> None:
        """Note that every source has been read once: from now on absence means gone (ADR 11)."""
        if not self._complete:
            self._complete = True
            self.networks.set_complete()
            self._alter_everything()

    @property
    def complete(self) -> bool:
        """True once every source has been read: absence means gone."""
        # Until then nothing may be deleted, neither flows nor ports (ADR 11). To an agent that
        # starts, what it has not read yet looks the same as what was removed while it was away. If
        # it deleted that, pods that run would be cut off until the rest has been read.
        return self._complete

    def set_revision(self, prefix: str, revision: int) -> None:
        """Note that all records under a store prefix, up to a revision, have been put."""
        self._revisions[prefix] = revision
        self._signal.set()

    def forget_revision(self, prefix: str) -> None:
        """Note that the revisions of a prefix mean nothing any more: the store went back."""
        self._revisions.pop(prefix, None)
        self._signal.set()

    @property
    def revisions(self) -> Mapping[str, int]:
        """The revision up to which this World has the records, by store prefix."""
        return dict(self._revisions)

    # -- what comes out ------------------------------------------------------------------------

    def observe(self, notify: Callable[[], None]) -> None:
        """Call `notify` on the first change since the last `take`, and now if there was one.

        There is one observer. It takes the state of every bridge each time.
        """
        self._signal.observe(notify)

    @property
    def vrfs(self) -> Mapping[TenantName, int]:
        """VRF ids in use; they must be stored before flows with them are sent."""
        return self._vrfs.ids

    def private_addresses(self) -> dict[IPv4Address, IPv4Address]:
        """Return the private addresses of this host's pods, by their own; none in bridge mode."""
        routing = self.forwarding.fwd_mode is FwdMode.ROUTING
        return self.endpoints.private_addresses() if routing else {}

    def take(self, bridge: Bridge) -> tuple[World, Changes]:
        """Settle what was put off; return the bridge's World and what changed since the last call.

        For a bridge that no reconciler serves: one would no longer hear of the other's changes.
        """
        self._settle()
        return self._bridges[bridge].take(self._cluster())

    def take_changed(self) -> dict[Bridge, tuple[World, Changes]]:
        """Settle what was put off; return what `take` does for each bridge that changed."""
        self._settle()
        cluster = self._cluster()
        return {b: state.take(cluster) for b, state in self._bridges.items() if state.dirty}

    def faults(self) -> list[str]:
        """Return what is wrong with objects that would take what hosts or pods have."""
        found = [fault for state in self._bridges.values() for fault in state.faults()]
        return list(dict.fromkeys([*found, *self.services.faults()]))

    def _cluster(self) -> World:
        """Return the part of the World that both bridges share."""
        return World(
            fwd_mode=self.forwarding.fwd_mode,
            arp_mode=self.forwarding.arp_mode,
            rules={} if self.forwarding.fabric_enforces else self._policies.rules,
            policy_classes={} if self.forwarding.fabric_enforces else self._policies.classes,
            policy_entries=dict(self.pod_policies.policies.entries),
            policy_subjects=dict(self.pod_policies.policies.subjects),
            launches=dict(self._announcements.launches),
            dns_address=self._dns_address,
            guard=self._guard,
            flow_records=self._flow_records,
            kubernetes_partial=self._kubernetes_partial,
            complete=self._complete,
        )
