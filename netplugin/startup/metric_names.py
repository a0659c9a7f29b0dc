"""The metrics of an agent: names, kinds, labels, and what they mean.

`netplugin.startup.agent_metrics` reads their values; docs/metrics.md is written from this table.
"""

from typing import Final

from core.metrics import Metric, MetricKind

_C, _G, _H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_PREFIX: Final = "contiv_netplugin_"
_BRIDGE: Final = ("bridge",)
_GROUP: Final = ("tenant", "network", "group")
_POD: Final = (*_GROUP, "namespace", "pod", "container")


def _metric(name: str, kind: MetricKind, text: str, *labels: str) -> Metric:
    return Metric(f"{_PREFIX}{name}", kind, text, labels)


BUILD: Final = _metric("build_info", _G, "1; the version is in the label.", "version")
REQUESTS: Final = _metric(
    "http_requests_total",
    _C,
    "REST requests answered, by the pattern of their route.",
    *("method", "route", "code"),
)
REQUEST_SECONDS: Final = _metric(
    "http_request_duration_seconds", _H, "Time of REST requests.", "method", "route"
)
CALLS: Final = _metric(
    "cni_calls_total", _C, "CNI calls answered, by the status of the answer.", "verb", "code"
)
CALL_SECONDS: Final = _metric("cni_call_duration_seconds", _H, "Time of whole CNI calls.", "verb")
STAGES: Final = _metric(
    "add_stage_duration_seconds",
    _H,
    "Time of each stage of ADDs that did not fail: `place` (Kubernetes asked), `lock` (earlier "
    "calls of the container), `journal adding`, `grant` (netmaster), `records` (store watched up "
    "to the grant), `link` (veth pair), `port` (OVSDB), `flows` (acknowledged), `namespace` "
    "(configured), `journal present`. Some run side by side.",
    "stage",
)
ENDPOINTS: Final = _metric(
    "endpoints",
    _G,
    "Endpoints that a bridge knows: of this host, of other hosts.",
    "bridge",
    "side",
)
FLOWS_KEPT: Final = _metric(
    "flow_records_kept", _G, "Records of flows that are kept; absent without `--flow-records`."
)
FLOWS_MADE: Final = _metric(
    "flow_records_total", _C, "Records of flows that were made, by verdict.", "verdict"
)
FLOWS_LOST: Final = _metric(
    "flow_records_lost_total",
    _C,
    "What records of flows lack: `room` records that went before their hour, `dump` looks at the "
    "datapath that failed, `drop` dropped packets without a record.",
    "cause",
)
FLOWS_EXPORTED: Final = _metric(
    "flow_records_exported_total",
    _C,
    "Records of flows that were exported, by where to, as `--flow-export` has it; one that goes on "
    "counts each time.",
    "to",
)
FLOWS_NOT_EXPORTED: Final = _metric(
    "flow_records_not_exported_total",
    _C,
    "Records of flows that were to be exported and not taken.",
    "to",
)
POD_BYTES: Final = _metric(
    "pod_bytes_total",
    _C,
    "Bytes that a pod has `received` and `sent`, as it sees them, since this agent began: of the "
    "pods with most traffic (`--pod-metrics`); `container` names what is no pod of Kubernetes.",
    *_POD,
    "direction",
)
POD_PACKETS: Final = _metric(
    "pod_packets_total",
    _C,
    "The same in packets, those among them that the switch dropped then.",
    *_POD,
    "direction",
)
POD_DROPS: Final = _metric(
    "pod_dropped_packets_total",
    _C,
    "Packets that the switch dropped, by reason: that a pod sent, or that others sent to it; "
    "without `--flow-records` only those that the source guard dropped (`spoofed`).",
    *(*_POD, "direction", "reason"),
)
GROUP_BYTES: Final = _metric(
    "group_bytes_total",
    _C,
    "Bytes of all pods that a group has or had on this host, as those of a pod; `group` is empty "
    "for a network's pods without one.",
    *_GROUP,
    "direction",
)
GROUP_PACKETS: Final = _metric(
    "group_packets_total", _C, "The same in packets.", *_GROUP, "direction"
)
GROUP_DROPS: Final = _metric(
    "group_dropped_packets_total",
    _C,
    "Dropped packets of all pods that a group has or had on this host, as those of a pod.",
    *(*_GROUP, "direction", "reason"),
)
COLLECTED: Final = _metric(
    "leaks_collected_total", _C, "Objects released by garbage collection.", "cause"
)
WANTED: Final = _metric("flows_wanted", _G, "Flows that the bridge must have.", *_BRIDGE)
INSTALLED: Final = _metric(
    "flows_installed",
    _G,
    "Flows that the switch says it has, asked on this scrape; absent while it does not answer.",
    *_BRIDGE,
)
REFUSED: Final = _metric("flows_refused", _G, "Wanted flows that the switch refuses.", *_BRIDGE)
SYNCED: Final = _metric(
    "flows_synced", _G, "1 while every wanted flow is acknowledged, else 0.", *_BRIDGE
)
COMPARISONS: Final = _metric(
    "flow_comparisons_total", _C, "Comparisons of all flows with those of the switch.", *_BRIDGE
)
DIFFERENCES: Final = _metric(
    "flow_differences_total",
    _C,
    "Flows that a comparison found missing, different or unwanted, and corrected.",
    *_BRIDGE,
)
FLOW_MODS: Final = _metric("flow_mods_total", _C, "Changes of flows sent to the switch.", *_BRIDGE)
CONNECTED: Final = _metric(
    "switch_connected", _G, "1 while ovs-vswitchd is connected, else 0.", *_BRIDGE
)
SESSIONS: Final = _metric(
    "switch_sessions_total", _C, "OpenFlow connections that completed a handshake.", *_BRIDGE
)
SWITCH_ERRORS: Final = _metric(
    "switch_errors_total", _C, "Errors of the switch that answer no request.", *_BRIDGE
)
PACKET_INS: Final = _metric("packet_ins_total", _C, "Packets sent to the agent.", *_BRIDGE)
PACKET_OUTS: Final = _metric(
    "packet_outs_total", _C, "Packets sent by the agent, or dropped for a busy switch.",
    *("bridge", "outcome"),
)  # fmt: skip
EVENTS: Final = _metric(
    "packet_events_total",
    _C,
    "What became of packets, by the counters of `/inspect/driver` (the original's names).",
    *("bridge", "event"),
)
REALISED: Final = _metric(
    "realised_revision",
    _G,
    "Revision of the store up to which everything below a prefix is in force on this host.",
    "prefix",
)
REALISE_SECONDS: Final = _metric(
    "realise_duration_seconds",
    _H,
    "Time from the reading of a revision until the switches forward by it, sampled.",
)
BEHIND: Final = _metric(
    "realise_behind_seconds",
    _G,
    "Age of the revision that was read and is not in force yet; 0 while all are.",
)
WAITING: Final = _metric(
    "watch_waiting_keys", _G, "Keys of the store that were read and not applied yet."
)
UNDECODABLE: Final = _metric(
    "records_undecodable_total", _C, "Records of the store that could not be decoded."
)
FAULTS: Final = _metric(
    "faults", _G, "Present faults by subject, as `netctl host inspect` lists them.", "subject"
)
SERVICES: Final = _metric("services", _G, "Services on a bridge.", *_BRIDGE)
SERVICE_PORTS: Final = _metric(
    "service_ports",
    _G,
    "Ports of services on a bridge, with (`served`) and without (`unserved`) a provider.",
    *("bridge", "state"),
)
TUNNELS: Final = _metric(
    "tunnels", _G, "Hosts to which a tunnel is wanted, and to which one is ready.", "state"
)
POD_MTU: Final = _metric("pod_mtu_bytes", _G, "MTU of the bridge's pods.", *_BRIDGE)
PATHS: Final = _metric(
    "path_mtu_faulty_peers",
    _G,
    "Hosts to which short packets pass and those of the tunnels' full size do not.",
)
TUNNEL_LOSS: Final = _metric(
    "tunnel_loss_ratio",
    _G,
    "Share of the last 100 probes of a tunnel that were lost, there or back.",
    "peer",
)
TUNNEL_SECONDS: Final = _metric(
    "tunnel_round_trip_seconds",
    _G,
    "Median time of these probes there and back, that of the agent itself included.",
    "peer",
)
GUARDED: Final = _metric(
    "source_guard_dropped_packets_total",
    _C,
    "Packets that the source guard dropped: endpoints sent them from addresses not their own.",
)
GUARD_STOPS: Final = _metric(
    "source_guard_stopped_endpoints",
    _G,
    "Endpoints of which the source guard dropped many packets in the last half minute.",
)
CLOSED: Final = _metric(
    "pod_guard_dropped_packets_total",
    _C,
    "Packets that the pod guard of the switches dropped: pods sent them to management ports.",
)
BGP_UP: Final = _metric(
    "bgp_session_up", _G, "1 while the session with the BGP peer is up; absent without a peer."
)
BGP_ROUTES: Final = _metric("bgp_routes", _G, "Routes received from the BGP peer.")
BGP_ANNOUNCED: Final = _metric("bgp_announced_addresses", _G, "Addresses told to the BGP peer.")
BGP_SESSIONS: Final = _metric(
    "bgp_sessions_total", _C, "Sessions that were established, and those that were lost.", "event"
)
DNS: Final = _metric(
    "dns_queries_total", _C, "DNS queries of pods by outcome, of all tenants.", "outcome"
)
LEADER_KNOWN: Final = _metric(
    "master_leader_known", _G, "1 while a netmaster is known to lead, else 0."
)
REGISTERED: Final = _metric(
    "services_registered",
    _G,
    "Services of this agent in the store under a lease that holds, and all it has.",
    "state",
)
LEASES_LOST: Final = _metric(
    "service_leases_lost_total", _C, "Leases of these registrations that were lost."
)
TASKS: Final = _metric("task_failures_total", _C, "Background tasks that failed; see the log.")
LOOP_FAILURES: Final = _metric(
    "loop_failures_total",
    _C,
    "Failed attempts of what is repeated until it succeeds, by what does not work meanwhile: the "
    "words of the log and of the host's errors.",
    "loop",
)
LOOPS_FAILING: Final = _metric(
    "loops_failing",
    _G,
    "What does not work now and is repeated until it succeeds: objects, by the same words; 0 while "
    "all goes well.",
    "loop",
)
KUBE_OBJECTS: Final = _metric(
    "kubernetes_objects", _G, "Objects known of a Kubernetes resource.", "resource"
)
KUBE_LISTED: Final = _metric(
    "kubernetes_listed",
    _G,
    "1 once the API server has listed the resource to this process; 0 while known from disk.",
    "resource",
)
KUBE_SILENT: Final = _metric(
    "kubernetes_last_event_seconds",
    _G,
    "Seconds since the API server last said something about the resource.",
    "resource",
)
KUBE_FAULTY: Final = _metric(
    "kubernetes_faulty", _G, "1 while the watch of the resource has a fault, else 0.", "resource"
)
DISK_FREE: Final = _metric(
    "data_disk_free_bytes", _G, "Bytes that are free on the disk of --data-dir."
)
DISK_SIZE: Final = _metric("data_disk_size_bytes", _G, "Bytes of the disk of --data-dir.")
CONNTRACK: Final = _metric(
    "conntrack_entries",
    _G,
    "Connections that are tracked: by the kernel (of the host, and of pods on the kernel's "
    "datapath), and by the switch's own datapath in userspace.",
    "table",
)
CONNTRACK_LIMIT: Final = _metric(
    "conntrack_entries_limit",
    _G,
    "Connections that can be tracked; beyond, packets of new ones are dropped.",
    "table",
)
LOOKUPS: Final = _metric(
    "datapath_lookups_total",
    _C,
    "Packets that Open vSwitch's datapath knew a flow for (`hit`), asked ovs-vswitchd about "
    "(`missed`, an upcall), and dropped since it could not ask (`lost`).",
    *("datapath", "outcome"),
)
CACHED: Final = _metric(
    "datapath_flows", _G, "Flows that the datapath has in its cache.", "datapath"
)
EXPIRY: Final = _metric(
    "certificate_expiry_timestamp_seconds",
    _G,
    "When the agent's certificate (`own`) and the first of its authorities (`authority`) expire, "
    "in Unix time; with TLS only.",
    "certificate",
)

OF_PODS: Final = (POD_BYTES, POD_PACKETS, POD_DROPS)
OF_GROUPS: Final = (GROUP_BYTES, GROUP_PACKETS, GROUP_DROPS)
METRICS: Final[tuple[Metric, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
"""In the order of docs/metrics.md."""
