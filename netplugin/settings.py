"""The agent's command line, validated once and in the original's order.

In come the values that `daemons.flags` read; out comes a valid `AgentSettings`, or a
UsageError with the original's text (docs/original/netplugin-agent.md §1.1). Unlike in the original,
every path and port can be set, since several agents run on one test machine (ADR 16).
"""

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path
from typing import Final

from core.addresses import authority
from core.errors import UsageError
from core.ids import HostLabel
from core.numbers import bounded
from daemons import flags
from daemons.certificates import tls
from daemons.certificates.tls import TlsFiles
from daemons.flags import Flag, Generation, Values
from daemons.listen_address import ANY_ADDRESS, ListenAddress, split
from objdb.connect import StoreAddress, store_of
from ofnet.world import FwdMode, ManagementPort, tunnel_source4
from state.records import Encap

DOCKER: Final = "docker"
SWARM: Final = "swarm-mode"
"""Modes (`daemons.flags.MODES`)."""
PLUGIN_SOCKET: Final = "/run/docker/plugins/netplugin.sock"
HOST_ID: Final = "host-id"
REST_PORT: Final = 9090
VXLAN_OPENFLOW_PORT: Final = 6633
VLAN_OPENFLOW_PORT: Final = 6634
UNIX: Final = "unix:"
"""What the address of an OVSDB begins with that is reached by a unix socket."""
LONGEST_GRACE: Final = 365 * 86400
LONGEST_AUDIT_INTERVAL: Final = 86400
SMALLEST_MTU: Final = 1280
PROTOCOLS: Final = {"tcp": 6, "udp": 17}
LARGEST_MTU: Final = 65_535
CLUSTER_DOMAIN: Final = "cluster.local"
LARGEST_BLOCK: Final = 256
LARGEST_DNS_RATE: Final = 1_000_000
MOST_FLOW_RECORDS: Final = 10_000_000
DEFAULT_NAMED_PODS: Final = 100
MOST_NAMED_PODS: Final = 100_000
"""More than a host has ports."""
_DOMAIN: Final = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*")

FLAGS: Final = (
    *flags.COMMON,
    *tls.FLAGS,
    Flag(
        names=("host", "host-label"),
        env="HOST",
        help="name of this host in the cluster",
        generation=Generation.BOTH,
    ),
    Flag(
        names=("vtep-ip",),
        env="VTEP_IP",
        help="source address of tunnels; one of IPv4 and one of IPv6, with a comma, in clusters of "
        "hosts with one of them",
        generation=Generation.BOTH,
    ),
    Flag(
        names=("ctrl-ip",),
        env="CONTROL_IP",
        help="address others reach this agent at",
        generation=Generation.BOTH,
    ),
    Flag(
        names=("vlan-uplinks", "vlan-if"),
        env="VLAN_UPLINKS",
        help="comma-delimited network cards for VLANs, several as one bond; may be repeated",
        repeatable=True,
        generation=Generation.BOTH,
    ),
    Flag(names=("vxlan-port",), env="VXLAN_PORT", help="UDP port of tunnels", default="4789"),
    Flag(
        names=("run-dir",),
        env="RUN_DIR",
        help="directory of the CNI socket, and of namespaces for DNS; vanishes with a reboot",
        default="/run/contiv",
        generation=Generation.OURS,
    ),
    Flag(
        names=("data-dir",),
        env="DATA_DIR",
        help="directory of the endpoint journal; outlives a reboot",
        default="/var/lib/contiv/netplugin",
        generation=Generation.OURS,
    ),
    Flag(
        names=("cni-socket",),
        env="CNI_SOCKET",
        help="default: contiv-cni.sock in the run directory",
        generation=Generation.OURS,
    ),
    Flag(
        names=("docker-plugin-socket",),
        env="DOCKER_PLUGIN_SOCKET",
        help="where docker finds the network driver, in the modes of docker; the name of the file "
        "is the driver's (default: /run/docker/plugins/netplugin.sock; in mode swarm-mode, where a "
        "managed plugin connects to it, docker-plugin.sock in the run directory)",
        generation=Generation.OURS,
    ),
    Flag(
        names=("docker-plugin-name",),
        env="DOCKER_PLUGIN_NAME",
        help="name of the managed plugin, in mode swarm-mode",
        default="netplugin",
        generation=Generation.OURS,
    ),
    Flag(
        names=("docker-socket",),
        env="DOCKER_SOCKET",
        help="docker's socket on this host, in the modes of docker",
        default="/var/run/docker.sock",
        generation=Generation.OURS,
    ),
    Flag(
        names=("docker-scope",),
        env="DOCKER_SCOPE",
        help="of docker's networks in mode docker: local (each host has its own, which this agent "
        "makes) or global (engines have a cluster store)",
        default="local",
        generation=Generation.OURS,
    ),
    Flag(
        names=("ovsdb",),
        env="OVSDB",
        help="Open vSwitch's database",
        default="unix:/var/run/openvswitch/db.sock",
        generation=Generation.OURS,
    ),
    Flag(
        names=("rest-address",),
        env="REST_ADDRESS",
        help="where inspection is served (default: port 9090 of --ctrl-ip)",
        generation=Generation.OURS,
    ),
    Flag(
        names=("vxlan-rpc-port",),
        env="VXLAN_RPC_PORT",
        help="RPC, vxlan bridge",
        default="9002",
        generation=Generation.OURS,
    ),
    Flag(
        names=("vlan-rpc-port",),
        env="VLAN_RPC_PORT",
        help="RPC, vlan bridge",
        default="9003",
        generation=Generation.OURS,
    ),
    Flag(
        names=("vxlan-openflow-port",),
        env="VXLAN_OPENFLOW_PORT",
        help="port of 127.0.0.1 for OpenFlow, vxlan bridge (default: a unix socket beside "
        "OVSDB's; 6633 where --ovsdb names none)",
        generation=Generation.OURS,
    ),
    Flag(
        names=("vlan-openflow-port",),
        env="VLAN_OPENFLOW_PORT",
        help="port of 127.0.0.1 for OpenFlow, vlan bridge (default: a unix socket beside "
        "OVSDB's; 6634 where --ovsdb names none)",
        generation=Generation.OURS,
    ),
    Flag(
        names=("no-source-guard",),
        env="NO_SOURCE_GUARD",
        help="let pods send from addresses that are not theirs",
        default="false",
        switch=True,
        generation=Generation.OURS,
    ),
    Flag(
        names=("pod-host-ports",),
        env="POD_HOST_PORTS",
        help="management ports that pods may reach, comma-delimited, each N, tcp/N or udp/N",
        generation=Generation.OURS,
    ),
    Flag(
        names=("no-pod-guard",),
        env="NO_POD_GUARD",
        help="let pods reach the management ports of hosts, masters and the store",
        default="false",
        switch=True,
        generation=Generation.OURS,
    ),
    Flag(
        names=("pod-prefixes",),
        env="POD_PREFIXES",
        help="comma-delimited prefixes in which this host's routes to pods come before its own "
        "(default: its own come first, except default routes)",
        generation=Generation.OURS,
    ),
    Flag(
        names=("takeover-label",),
        env="TAKEOVER_LABEL",
        help="take the host label over from another host, whose agent then ends",
        default="false",
        switch=True,
        generation=Generation.OURS,
    ),
    Flag(
        names=("k8s-config",),
        env="K8S_CONFIG",
        help="Kubernetes configuration: its API server, the subnet of services; may be absent",
        default="/var/contiv/config/contiv.json",
        generation=Generation.OURS,
    ),
    Flag(
        names=("cluster-domain",),
        env="CLUSTER_DOMAIN",
        help="DNS zone of the cluster's services, as kubelet has it",
        default=CLUSTER_DOMAIN,
        generation=Generation.OURS,
    ),
    Flag(
        names=("dns-address",),
        env="DNS_ADDRESS",
        help="address at which this agent is the pods' name server (default: the cluster has one)",
        generation=Generation.OURS,
    ),
    Flag(
        names=("dns-upstream",),
        env="DNS_UPSTREAM",
        help="comma-delimited name servers for names outside (default: those of /etc/resolv.conf)",
        generation=Generation.OURS,
    ),
    Flag(
        names=("dns-rate",),
        env="DNS_RATE",
        help="DNS queries a second that each pod may ask, 0 for no limit",
        default="200",
        generation=Generation.OURS,
    ),
    Flag(
        names=("kube-proxy",),
        env="KUBE_PROXY",
        help="serve hosts and the outside in the place of kube-proxy (replace), or leave it to it "
        "(coexist)",
        default="replace",
        generation=Generation.OURS,
    ),
    Flag(
        names=("kube-tenant-labels",),
        env="KUBE_TENANT_LABELS",
        help="whose label io.contiv.tenant names a pod's tenant: that of the namespace, else of "
        "the pod (pods), or that of the namespace alone (namespaces)",
        default="pods",
        generation=Generation.OURS,
    ),
    Flag(
        names=("own-tenants-only",),
        env="OWN_TENANTS_ONLY",
        help="know the endpoints of tenants with pods on this host alone; without effect on nodes "
        "of Kubernetes",
        default="false",
        switch=True,
        generation=Generation.OURS,
    ),
    Flag(
        names=("address-blocks",),
        env="ADDRESS_BLOCKS",
        help="how many free addresses of each vxlan network with pods here this host holds ahead, "
        "so that pods start without netmaster; 0 for none",
        default="0",
        generation=Generation.OURS,
    ),
    Flag(
        names=("mtu",),
        env="MTU",
        help="what pods can send in one piece, 0 for what the links carry",
        default="0",
        generation=Generation.OURS,
    ),
    Flag(
        names=("probe-interval",),
        env="PROBE_INTERVAL",
        help="seconds between path MTU probes of other hosts; 0 for never, and for no probes "
        "inside of tunnels either",
        default="300",
        generation=Generation.OURS,
    ),
    Flag(
        names=("leak-grace",),
        env="LEAK_GRACE",
        help="seconds after which an endpoint whose pod is gone is released, 0 for never",
        default="600",
        generation=Generation.OURS,
    ),
    Flag(
        names=("audit-interval",),
        env="AUDIT_INTERVAL",
        help="seconds between checks for changes made by others: flows, links, rules",
        default="60",
        generation=Generation.OURS,
    ),
    Flag(
        names=("flow-records",),
        env="FLOW_RECORDS",
        help="record the connections of pods here, and what was dropped, for `netctl flows`: new "
        "connections cost the switch about a sixth more",
        default="false",
        switch=True,
        generation=Generation.OURS,
    ),
    Flag(
        names=("flow-records-kept",),
        env="FLOW_RECORDS_KEPT",
        help="how many records are kept at most, for an hour at most; about 1 KB each",
        default="100000",
        generation=Generation.OURS,
    ),
    Flag(
        names=("flow-export",),
        env="FLOW_EXPORT",
        help="where records of flows are sent as they end, separated by commas: file:PATH and "
        "unix:PATH get lines of JSON, ipfix:ADDRESS:PORT gets IPFIX by UDP; needs --flow-records",
        generation=Generation.OURS,
    ),
    Flag(
        names=("pod-metrics",),
        env="POD_METRICS",
        help="which pods /metrics names, with bytes, packets and drops: those with most traffic "
        "(top), each (all), or none, and no sums of groups either (off)",
        default="top",
        generation=Generation.OURS,
    ),
    Flag(
        names=("pod-metrics-top",),
        env="POD_METRICS_TOP",
        help="how many pods /metrics names at most, with --pod-metrics=top",
        default=str(DEFAULT_NAMED_PODS),
        generation=Generation.OURS,
    ),
    Flag(
        names=("bgp-password-file",),
        env="BGP_PASSWORD_FILE",
        help="file of lines with a BGP peer's address and its TCP-MD5 password",
        generation=Generation.OURS,
    ),
    Flag(
        names=("config",),
        env="CONFIG",
        help="accepted; the older generation never read it",
        dead=True,
        generation=Generation.OLDER,
    ),
)


class TenantLabels(StrEnum):
    """Whose labels name the tenants of pods."""

    PODS = "pods"
    """Those of namespaces, and of pods in namespaces that name none."""

    NAMESPACES = "namespaces"
    """Those of namespaces alone."""


class KubeProxy(StrEnum):
    """Who leads hosts and the outside to services of Kubernetes."""

    REPLACE = "replace"
    """This agent: no kube-proxy is needed."""

    COEXIST = "coexist"
    """kube-proxy, which runs beside it; pods use the switch in any case."""


class DockerScope(StrEnum):
    """How far the networks of docker's engines reach."""

    LOCAL = "local"
    """Each engine has its own, of the same names."""

    GLOBAL = "global"
    """The engines share them, by a cluster store."""

    SWARM = "swarm"
    """Docker's swarm makes them, and its managers choose the addresses."""


class NamedPods(StrEnum):
    """Which pods of this host metrics name."""

    TOP = "top"
    """Those with most traffic."""
    ALL = "all"
    OFF = "off"
    """None; nothing of pods is counted."""


class ExportKind(StrEnum):
    """What records of flows are exported to."""

    FILE = "file"
    UNIX = "unix"
    """Whoever listens at a unix socket."""
    IPFIX = "ipfix"
    """A collector of IPFIX."""


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """Where records of flows are exported to: as the user says it, and its path or address."""

    text: str
    kind: ExportKind
    where: str
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """How the agent serves the docker engine of its host."""

    plugin_socket: Path
    engine: Path
    scope: DockerScope
    driver: str
    """The name of the driver: that of the socket's file, or of the managed plugin."""
    networks: Path
    """Directory of what was learned of docker's networks."""
    encap: Encap
    """Of the networks that are made for docker's swarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What the agent runs with."""

    mode: str
    fwd_mode: FwdMode | None
    """None takes the mode of the global object."""
    store: StoreAddress
    host: HostLabel
    ctrl_ip: IPv4Address | IPv6Address
    vtep_ip: IPv4Address | IPv6Address
    uplinks: tuple[str, ...]
    vxlan_port: int
    journal: Path
    run_dir: Path
    cni_socket: Path
    ovsdb: str
    rest: ListenAddress
    vxlan_rpc_port: int
    vlan_rpc_port: int
    vxlan_openflow_port: int | None
    """None for a unix socket, as for the other bridge's."""
    vlan_openflow_port: int | None
    k8s_config: Path | None
    """None where the orchestrator is another."""
    mtu: int | None
    """What pods can send in one piece; None for what the links carry."""
    probe_interval: int
    leak_grace: int
    audit_interval: int
    vtep_ip6: IPv4Address | IPv6Address | None = None
    """Where tunnels end besides, of IPv6, if `vtep_ip` is of IPv4."""
    kube_proxy: KubeProxy = KubeProxy.REPLACE
    tenant_labels: TenantLabels = TenantLabels.PODS
    own_tenants_only: bool = False
    address_blocks: int = 0
    """How many free addresses of each network this host holds ahead of its pods."""
    source_guard: bool = True
    tls: TlsFiles = field(default_factory=TlsFiles)
    """None of them: REST and RPC are plain."""
    pod_guard: bool = True
    pod_host_ports: frozenset[ManagementPort] = frozenset()
    """The management ports that pods may reach."""
    cluster_domain: str = CLUSTER_DOMAIN
    """The DNS zone of the cluster's services."""
    dns_address: IPv4Address | IPv6Address | None = None
    """Where pods ask this agent as their name server; None where they have another one."""
    pod_prefixes: tuple[IPv4Network | IPv6Network, ...] = ()
    """Where routes to pods come before the host's own (`netplugin.kernel.routes.route_table`)."""
    dns_upstream: tuple[IPv4Address | IPv6Address, ...] = ()
    """The name servers for names outside; () for those of the host."""
    dns_rate: int = 200
    takeover_label: bool = False
    """Whether a host label that another host has is taken over."""
    bgp_password_file: Path | None = None
    flow_records: int = 0
    """How many records of flows are kept; 0 where none are made."""
    flow_export: tuple[ExportTarget, ...] = ()
    """Where records of flows are sent as they end."""
    named_pods: int | None = DEFAULT_NAMED_PODS
    """How many pods of this host metrics name at most; None where nothing of pods is counted."""
    docker: DockerSettings | None = None
    """None where the orchestrator is another."""

    @property
    def vtep_ips(self) -> tuple[IPv4Address | IPv6Address, ...]:
        """Where tunnels end: of one family each, that of IPv4 first."""
        return self.vtep_ip, *(() if self.vtep_ip6 is None else (self.vtep_ip6,))

    @property
    def tunnel_source(self) -> IPv4Address:
        """The address of IPv4 under which this host connects to pods of others."""
        return tunnel_source4(self.vtep_ip)

    @property
    def kube_cache(self) -> Path:
        """Where what the Kubernetes API said is kept: beside the journal."""
        return self.journal.parent / "kubernetes"

    @property
    def blocks_marker(self) -> Path:
        """What says that this host may hold addresses ahead of its pods: beside the journal."""
        return self.journal.parent / "address-blocks"

    @property
    def host_id_file(self) -> Path:
        """Where the id of this host is kept: beside the journal."""
        return self.journal.parent / HOST_ID


def resolve(values: Values, host_address: Callable[[], str]) -> AgentSettings:
    """Return the settings, or raise UsageError for the first flag that is wrong.

    `host_address` gives the host's default address; asked for only where a flag does not name one.
    """
    modes = flags.network_options(values)
    store = store_of(values)
    host = _host_label(values["host"] or socket.gethostname())
    ctrl_ip = _any_ip("control IP", values["ctrl-ip"] or host_address())
    default_vtep = str(ctrl_ip) if values.older or ctrl_ip.version == 6 else ""
    vtep_ip, *further = _vtep_ips(values["vtep-ip"] or default_vtep or host_address())
    named = filter(None, (name.strip() for name in values["vlan-uplinks"].split(",")))
    uplinks = tuple(dict.fromkeys(named))
    if modes.net_mode == "vlan" and not uplinks:
        raise UsageError("vlan-uplinks must be set when using VLAN mode")
    return AgentSettings(
        mode=modes.mode,
        fwd_mode=FwdMode(modes.fwd_mode) if modes.fwd_mode else None,
        store=store,
        host=host,
        ctrl_ip=ctrl_ip,
        vtep_ip=vtep_ip,
        vtep_ip6=next(iter(further), None),
        uplinks=uplinks,
        vxlan_port=values.number("vxlan-port", 1, 65535),
        journal=journal_dir(values),
        run_dir=Path(values["run-dir"]),
        cni_socket=cni_socket(values),
        ovsdb=values["ovsdb"],
        rest=_address(values["rest-address"] or authority(str(ctrl_ip), REST_PORT)),
        vxlan_rpc_port=values.number("vxlan-rpc-port", 0, 65535),
        vlan_rpc_port=values.number("vlan-rpc-port", 0, 65535),
        vxlan_openflow_port=_openflow_port(values, "vxlan-openflow-port", VXLAN_OPENFLOW_PORT),
        vlan_openflow_port=_openflow_port(values, "vlan-openflow-port", VLAN_OPENFLOW_PORT),
        k8s_config=Path(values["k8s-config"]) if modes.mode == "kubernetes" else None,
        mtu=_mtu(values),
        probe_interval=values.number("probe-interval", 0, LONGEST_AUDIT_INTERVAL),
        leak_grace=values.number("leak-grace", 0, LONGEST_GRACE),
        audit_interval=values.number("audit-interval", 1, LONGEST_AUDIT_INTERVAL),
        kube_proxy=_kube_proxy(values["kube-proxy"]),
        tenant_labels=_tenant_labels(values["kube-tenant-labels"]),
        own_tenants_only=values.on("own-tenants-only"),
        address_blocks=values.number("address-blocks", 0, LARGEST_BLOCK),
        source_guard=not values.on("no-source-guard"),
        tls=tls.tls_files(values),
        pod_guard=not values.on("no-pod-guard"),
        pod_host_ports=_pod_host_ports(values["pod-host-ports"]),
        pod_prefixes=tuple(
            _prefix(word.strip()) for word in filter(str.strip, values["pod-prefixes"].split(","))
        ),
        cluster_domain=_domain(values["cluster-domain"]),
        dns_address=_any_ip("DNS address", values["dns-address"])
        if values["dns-address"]
        else None,
        dns_upstream=tuple(
            _any_ip("DNS upstream", word.strip())
            for word in filter(str.strip, values["dns-upstream"].split(","))
        ),
        dns_rate=values.number("dns-rate", 0, LARGEST_DNS_RATE),
        takeover_label=values.on("takeover-label"),
        bgp_password_file=Path(values["bgp-password-file"])
        if values["bgp-password-file"]
        else None,
        flow_records=_flow_records(values),
        flow_export=_flow_export(values),
        named_pods=_named_pods(values),
        docker=_docker(values, modes) if modes.mode in {DOCKER, SWARM} else None,
    )


def _flow_records(values: Values) -> int:
    kept = values.number("flow-records-kept", 1, MOST_FLOW_RECORDS)
    return kept if values.on("flow-records") else 0


def _flow_export(values: Values) -> tuple[ExportTarget, ...]:
    """Return where records of flows are exported to. Raises UsageError."""
    words = dict.fromkeys(filter(None, map(str.strip, values["flow-export"].split(","))))
    if words and not values.on("flow-records"):
        raise UsageError("--flow-export needs --flow-records")
    return tuple(map(_export_target, words))


def _export_target(text: str) -> ExportTarget:
    kind, _, where = text.partition(":")
    if kind in {ExportKind.FILE, ExportKind.UNIX} and Path(where).is_absolute():
        return ExportTarget(text, ExportKind(kind), where)
    address, _, number = where.rpartition(":")
    port = bounded(number, 1, 65535)
    if kind == ExportKind.IPFIX and port is not None:
        own = str(_any_ip("collector", address.removeprefix("[").removesuffix("]")))
        return ExportTarget(text, ExportKind.IPFIX, own, port)
    raise UsageError(
        f"--flow-export {text}: want file:/PATH, unix:/PATH, ipfix:ADDRESS:PORT or "
        "ipfix:[ADDRESS]:PORT"
    )


def _named_pods(values: Values) -> int | None:
    most, got = values.number("pod-metrics-top", 1, MOST_NAMED_PODS), values["pod-metrics"]
    named = {NamedPods.TOP: most, NamedPods.ALL: MOST_NAMED_PODS, NamedPods.OFF: None}
    try:
        return named[NamedPods(got)]
    except ValueError as exc:
        raise UsageError(f"pod-metrics must be top, all or off, got {got}") from exc


def cni_socket(values: Values) -> Path:
    """Return where the CNI plugin finds the agent."""
    return Path(values["cni-socket"] or f"{values['run-dir']}/contiv-cni.sock")


def journal_dir(values: Values) -> Path:
    """Return the directory of the endpoint journal."""
    return Path(values["data-dir"]) / "endpoints"


def _prefix(text: str) -> IPv4Network | IPv6Network:
    try:
        found = ip_network(text)
    except ValueError as exc:
        raise UsageError(f"pod-prefixes: {exc}") from exc
    if not found.prefixlen:
        raise UsageError(f"pod-prefixes: {found} has every address, those of hosts among them")
    return found


def _docker(values: Values, modes: flags.NetworkOptions) -> DockerSettings:
    in_swarm = modes.mode == SWARM
    got = values["docker-scope"]
    if got not in {DockerScope.LOCAL, DockerScope.GLOBAL}:
        raise UsageError(f"docker-scope must be local or global, got {got}")
    place = f"{values['run-dir']}/docker-plugin.sock" if in_swarm else PLUGIN_SOCKET
    plugin_socket = Path(values["docker-plugin-socket"] or place)
    return DockerSettings(
        plugin_socket=plugin_socket,
        engine=Path(values["docker-socket"]),
        scope=DockerScope.SWARM if in_swarm else DockerScope(got),
        driver=values["docker-plugin-name"] if in_swarm else plugin_socket.stem,
        networks=Path(values["data-dir"]) / "docker-networks",
        encap=Encap(modes.net_mode or Encap.VXLAN),
    )


def _tenant_labels(text: str) -> TenantLabels:
    try:
        return TenantLabels(text)
    except ValueError as exc:
        message = f"kube-tenant-labels must be pods or namespaces, got {text}"
        raise UsageError(message) from exc


def _kube_proxy(text: str) -> KubeProxy:
    try:
        return KubeProxy(text)
    except ValueError as exc:
        raise UsageError(f"kube-proxy must be replace or coexist, got {text}") from exc


def _mtu(values: Values) -> int | None:
    """Return the MTU wanted; less than IPv6's smallest is of no use (RFC 8200 §5)."""
    if values["mtu"] == "0":
        return None
    return values.number("mtu", SMALLEST_MTU, LARGEST_MTU)


def _openflow_port(values: Values, name: str, usual: int) -> int | None:
    """Return the port for OpenFlow, None for a unix socket: any local user can dial a port."""
    if values[name]:
        return values.number(name, 0, 65535)
    return None if values["ovsdb"].startswith(UNIX) else usual


def _pod_host_ports(text: str) -> frozenset[ManagementPort]:
    ports: set[ManagementPort] = set()
    for word in filter(None, (word.strip() for word in text.split(","))):
        protocol, slash, number = word.rpartition("/")
        numbers = PROTOCOLS.values() if not slash else filter(None, [PROTOCOLS.get(protocol)])
        port = bounded(number, 1, 65535)
        chosen = set() if port is None else {ManagementPort(one, port) for one in numbers}
        if not chosen:
            raise UsageError(f"pod-host-ports must be N, tcp/N or udp/N, got {word}")
        ports |= chosen
    return frozenset(ports)


def _domain(text: str) -> str:
    """Return a DNS zone; its labels are those of host names (RFC 1123 §2.1)."""
    domain = text.strip(".").lower()
    if not _DOMAIN.fullmatch(domain):
        raise UsageError(f"cluster-domain must be a DNS name, got {text!r}")
    return domain


def _any_ip(what: str, text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError as exc:
        raise UsageError(f"invalid netplugin {what}: {text}") from exc


def _vtep_ips(text: str) -> tuple[IPv4Address | IPv6Address, ...]:
    found = [_any_ip("VTEP IP", word.strip()) for word in text.split(",")]
    if len({one.version for one in found}) < len(found):
        raise UsageError(f"invalid netplugin VTEP IP: {text}, two addresses of one family")
    return tuple(sorted(found, key=lambda one: one.version))


def _host_label(text: str) -> HostLabel:
    if "/" in text or any(not c.isprintable() for c in text):
        raise UsageError(f"invalid netplugin host label: {text!r}")
    return HostLabel(text)


def _address(text: str) -> ListenAddress:
    host, port = split(text) or ("", "")
    number = bounded(port, 0, 65535)
    if number is None:
        raise UsageError(f"bind address is not in 'ip:port' format, got {text}")
    return ListenAddress(host or ANY_ADDRESS, number)
