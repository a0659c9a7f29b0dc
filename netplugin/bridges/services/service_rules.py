"""Services of Kubernetes for what is no pod: the host itself and the outside. Pure.

Pods reach services by the switch. Connections of the host (with them those of pods in its network)
to a service's address, and of anybody to a node port or an external address, are translated by the
host's kernel, whose connection tracking knows every target alike: pods here and elsewhere, hosts,
outside addresses. In come the services and what this host is; out come chains for
`netplugin.kernel.firewall.iptables_chains`, with kube-proxy's rules:

* a connection goes to one of the targets, each with the same probability; with ClientIP affinity
  to that of the client's last connection, as long as that is not older than the service says;
* from outside it gets an address of this host as source, so that the answer comes back here; to a
  pod it keeps its own, by which policies judge it (`ofnet.pipelines.features.host_forwarding`);
  with externalTrafficPolicy Local it goes to targets of this host alone;
* at an address of a load balancer clients are held to `loadBalancerSourceRanges`, this host too; a
  range with the host's address lets in the balancer's own as well, which the host may have;
* what another proxy serves, by the service's labels, has no rules;
* where the targets of this host alone may be used and none is ready, those that terminate but still
  serve are;
* a port without targets refuses; one without targets here, if these alone may be used, is silent.

Beyond kube-proxy: nothing is translated to a management address and port that pods must not reach,
and no service takes one for itself (`netplugin.world.management`). Who may write services would be
master of the cluster otherwise. What is refused is named.
"""

# The order in CONTIV-SERVICES: addresses first, then node ports, which are a port of any address of
# this host. A chain of a port is named by a digest of what it is for, so that the names of the
# other chains stay while services come and go, and a client's affinity with them.

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from core.addresses import authority
from netplugin.bridges.services.stale_datagrams import Ways
from netplugin.kernel.firewall.iptables_chains import LONGEST_NAME, PREFIX
from netplugin.world.bridges import port_names
from netplugin.world.bridges.management_ends import NOTHING, ManagementEnds
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from ofnet.world import PRIVATE6, tunnel_source6

Address = IPv4Address | IPv6Address
Block = IPv4Network | IPv6Network

SERVICES: Final = f"{PREFIX}SERVICES"
NODE_PORTS: Final = f"{PREFIX}NODEPORTS"
SOURCES: Final = f"{PREFIX}SOURCES"
REFUSED: Final = f"{PREFIX}REFUSED"

MARK: Final = "0x2000/0x2000"
"""Of connections that get this host's address as source; kube-proxy has 0x4000 and 0x8000."""

_PROTOCOLS: Final = frozenset({"tcp", "udp", "sctp"})
_PORTS: Final = port_names.HOST_LINKS
"""The host's ports for pods. By the first one it reaches other hosts' pods too."""
_HERE: Final = "-m addrtype --src-type LOCAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What this host is: its addresses, those of targets that run on it, and its private network.

    `address` is the one under which it connects to pods, by IPv4, and `own` are those of others.

    `known` is all of the management, which no service may take; `closed` what none may lead to.
    """

    address: IPv4Address
    targets: frozenset[Address]
    private: IPv4Network | None
    own: frozenset[Address] = frozenset()
    known: ManagementEnds = NOTHING
    closed: ManagementEnds = NOTHING


@dataclass(slots=True)
class ServiceRules:
    """The rules of each chain, by table, and where they lead datagrams.

    `refused` says what services ask for and do not get.
    """

    nat: dict[str, list[str]] = field(default_factory=dict)
    filter: dict[str, list[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    datagrams: Ways = field(default_factory=Ways)


def rules(
    services: Iterable[KubeService], version: int, here: Here, datagrams: Ways | None = None
) -> ServiceRules:
    """Return the chains of a family, 4 or 6; note in `datagrams` where they lead those of UDP."""
    made = ServiceRules(
        datagrams=datagrams if datagrams is not None else Ways(),
        nat={SERVICES: [], NODE_PORTS: [], SOURCES: list(_sources(version, here))},
        filter={REFUSED: []},
    )
    ours = sorted((one for one in services if not one.left_alone), key=lambda service: service.key)
    for service in ours:
        for port in service.ports:
            if port.protocol.lower() in _PROTOCOLS:
                _Port(service, port, version, here, made).add()
    made.nat[SERVICES].append(f"-m addrtype --dst-type LOCAL -j {NODE_PORTS}")
    return made


def _sources(version: int, here: Here) -> Iterator[str]:
    """Yield the rules that give connections an address of this host as source."""
    # The host's own, towards pods: the address that the routes name, whichever the connection was
    # begun with. Others: none, their answers come back by the switch; those of pods
    # `netplugin.bridges.host.host_access` gives one.
    source = here.address if version == 4 else tunnel_source6(here.address)
    for port in _PORTS if version == 4 else _PORTS[:1]:
        yield f"-o {port} -m conntrack --ctstate DNAT {_HERE} -j SNAT --to-source {source}"
    yield from (f"-o {port} -j RETURN" for port in _PORTS)
    yield f"-m mark --mark {MARK} -j MASQUERADE"


@dataclass(frozen=True, slots=True)
class _Port:
    """One port of a service, for one family."""

    service: KubeService
    port: KubePort
    version: int
    here: Here
    made: ServiceRules

    def add(self) -> None:
        """Add the port's chains, and what leads to them."""
        everywhere = [one for one in self.port.near if self._leads_to(one)]
        on_host = self._on_host(self.port.targets) or self._on_host(self.port.draining)
        inside = on_host if self.service.internal_local else everywhere
        for address in self._own(self.service.addresses):
            self._lead(SERVICES, self._to(address), "S", inside)
        outside = (*self.service.external_ips, *self.service.load_balancer_ips)
        for address in dict.fromkeys(self._own(outside)):
            clients = self._clients_of(address)
            self._lead_from_outside(SERVICES, self._to(address), everywhere, on_host, clients)
        if self.port.node_port and (not self.service.addresses or self._has_family()):
            if not self.here.known.has_port(self.port.protocol, self.port.node_port):
                way = NODE_PORTS, self._at(self.port.node_port)
                self._lead_from_outside(*way, everywhere, on_host)
            else:
                self._refuse(f"its node port {self.port.node_port} is one of the management")
        if self.port.protocol.lower() == "udp":
            self._note_datagrams(inside, [*everywhere, *on_host])

    def _note_datagrams(self, inside: list[KubeTarget], outside: list[KubeTarget]) -> None:
        service, port, lead = self.service, self.port, self.made.datagrams.lead
        refused = self.here.known
        for addresses, found in (
            (service.addresses, inside),
            ((*service.external_ips, *service.load_balancer_ips), outside),
        ):
            for address in self._of_family(addresses):
                if not refused.cover(address, port.protocol, port.port):
                    lead(address, port.port, ((one.address, one.port) for one in found))
        if port.node_port and not refused.has_port(port.protocol, port.node_port):
            lead(None, port.node_port, ((one.address, one.port) for one in outside))

    def _clients_of(self, address: Address) -> list[Block]:
        """Return who may use an address; [] for all."""
        clients: list[Block] = list(self.service.clients_of(address))
        if any(one in block for block in clients for one in self.here.own):
            clients.append(ip_network(address))
        return clients

    def _on_host(self, targets: Iterable[KubeTarget]) -> list[KubeTarget]:
        here = (one for one in targets if one.address in self.here.targets)
        return [one for one in here if self._leads_to(one)]

    def _leads_to(self, target: KubeTarget) -> bool:
        """Tell whether a target is of this family, and none that pods must not reach."""
        if target.address.version != self.version:
            return False
        closed = self.here.closed.cover(target.address, self.port.protocol, target.port)
        if closed:
            self._refuse(f"its target {target.address} port {target.port} is of the management")
        return not closed

    def _own(self, addresses: Iterable[Address]) -> Iterator[Address]:
        """Yield the addresses of this family that a service may have."""
        for address in self._of_family(addresses):
            if self.here.known.cover(address, self.port.protocol, self.port.port):
                self._refuse(f"{address} port {self.port.port} is of the management")
            else:
                yield address

    def _refuse(self, why: str) -> None:
        fault = f"service {self.service.key} not served in full: {why} of this cluster"
        if fault not in self.made.refused:
            self.made.refused.append(fault)

    def _has_family(self) -> bool:
        return any(True for _ in self._of_family(self.service.addresses))

    def _of_family(self, addresses: Iterable[Address]) -> Iterator[Address]:
        return (address for address in addresses if address.version == self.version)

    def _at(self, number: int) -> str:
        protocol = self.port.protocol.lower()
        return f"-p {protocol} -m {protocol} --dport {number}"

    def _to(self, address: Address) -> str:
        return f"-d {address}/{address.max_prefixlen} {self._at(self.port.port)}"

    def _lead(self, chain: str, match: str, kind: str, targets: list[KubeTarget]) -> None:
        if targets:
            self.made.nat[chain].append(f"{match} -j {self._spread(kind, targets)}")
        else:
            self.made.filter[REFUSED].append(f"{match} {self._refusal()}")

    def _lead_from_outside(
        self,
        chain: str,
        match: str,
        everywhere: list[KubeTarget],
        on_host: list[KubeTarget],
        clients: Sequence[Block] = (),
    ) -> None:
        local_address = "-m addrtype --dst-type LOCAL " if chain == NODE_PORTS else ""
        if not everywhere:
            self.made.filter[REFUSED].append(f"{local_address}{match} {self._refusal()}")
            return
        entrance = self._name("X")
        spread = self._spread("E", everywhere)
        if not self.service.external_local:
            lines = [f"-j MARK --set-xmark {MARK}", f"-j {spread}"]
        else:
            # what is inside the cluster is not held to the policy for the outside
            lines = [line for who in self._inside() for line in self._marked(who, spread)]
            if on_host:
                lines.append(f"-j {self._spread('L', on_host)}")
            else:
                silent = f"{local_address}{match} -m addrtype ! --src-type LOCAL -j DROP"
                self.made.filter[REFUSED].append(silent)
        self.made.nat[entrance] = lines
        if not clients:
            self.made.nat[chain].append(f"{match} -j {entrance}")
            return
        self.made.nat[chain] += [f"-s {client} {match} -j {entrance}" for client in clients]
        # of others: what was not translated still has this target
        self.made.filter[REFUSED].append(f"{match} -j DROP")

    def _inside(self) -> Iterator[str]:
        yield _HERE
        if self.here.private is not None:
            yield f"-s {self.here.private if self.version == 4 else PRIVATE6}"

    def _marked(self, who: str, spread: str) -> tuple[str, str]:
        return f"{who} -j MARK --set-xmark {MARK}", f"{who} -j {spread}"

    def _refusal(self) -> str:
        if self.port.protocol.lower() == "tcp":
            return "-j REJECT --reject-with tcp-reset"
        return "-j REJECT"

    def _spread(self, kind: str, targets: list[KubeTarget]) -> str:
        """Add the chain that chooses a target; return its name."""
        name = self._name(kind)
        ordered = sorted(targets, key=lambda one: (int(one.address), one.port))
        chosen = [self._target(name, target) for target in ordered]
        lines = []
        if self.service.affinity_seconds:
            seconds = f"--rcheck --seconds {self.service.affinity_seconds} --reap"
            lines = [f"-m recent --name {chain} {seconds} -j {chain}" for chain in chosen]
        for left, chain in zip(range(len(chosen), 0, -1), chosen, strict=True):
            share = f"-m statistic --mode random --probability {1 / left:.10f} "
            lines.append(f"{share if left > 1 else ''}-j {chain}")
        self.made.nat[name] = lines
        return name

    def _target(self, of: str, target: KubeTarget) -> str:
        """Add the chain that translates to a target; return its name."""
        name = _digest("T", of, str(target.address), str(target.port))
        to = authority(str(target.address), target.port)
        protocol = self.port.protocol.lower()
        remember = [f"-m recent --name {name} --set"] if self.service.affinity_seconds else []
        itself = f"-s {target.address} -j MARK --set-xmark {MARK}"
        translate = f"-p {protocol} -m {protocol} -j DNAT --to-destination {to}"
        self.made.nat[name] = [itself, *remember, translate]
        return name

    def _name(self, kind: str) -> str:
        port = self.port
        return _digest(kind, self.service.key, port.name, port.protocol, str(port.port))


def _digest(kind: str, *what: str) -> str:
    # As long as a chain's name may be: 95 bits. Who writes services chooses what is digested, and
    # could find one whose 64 bits are those of some chain of another's.
    digest = base64.b32encode(hashlib.sha256("/".join(what).encode()).digest()).decode()
    name = f"{PREFIX}{kind}-{digest}"
    return name[:LONGEST_NAME]
