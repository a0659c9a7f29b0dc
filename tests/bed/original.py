"""A cluster as the original has left it: pods, Open vSwitch and store, with its daemons ended.

In come the recordings of the original at work (`tests/golden`): its flows, groups and ports on two
hosts with a pod each on a vxlan and on a vlan network. Out comes that state on a real Open vSwitch
and in a real etcd, made by nothing but the tools of the system; and `OriginalBed`, whose daemons
are ours and do not run yet. Must not know how ours take it over.
"""

import http.client
import json
import re
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core import keys
from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.etcd import Etcd
from tests.bed.hosts import UPLINK, Host
from tests.bed.netns import Namespace, fresh_name, http_request, tx_checksum_off
from tests.bed.pods import IFNAME, Pod, Sandbox
from tests.bed.store import Store
from tests.bed.waiting import eventually

GOLDEN: Final = Path(__file__).parents[1] / "golden"
VXLAN, VLAN = "contivVxlanBridge", "contivVlanBridge"
CONTROLLERS: Final = {VXLAN: "tcp:127.0.0.1:6633", VLAN: "tcp:127.0.0.1:6634"}
ROUTER_MAC: Final = "00:00:11:11:11:11"
"""By which the original routes: pods have it as that of all others."""
CARD_MACS: Final = ("e6:d1:79:9b:f6:20", "ea:ed:33:ce:09:c8")
"""Those of the recordings' uplinks, which are in its flows."""
_HOST_MAC: Final = "02:02:ac:13:ff:fe"


@dataclass(frozen=True, slots=True)
class Given:
    """A pod of the recordings: its container, network, port number, address and VLAN."""

    container: str
    network: str
    number: int
    address: str
    tag: int

    @property
    def key(self) -> str:
        """The endpoint's id."""
        return f"{self.network}.default-{self.container}"

    @property
    def mac(self) -> str:
        """The MAC address, which follows from the address."""
        return "02:02:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))

    @property
    def bridge(self) -> str:
        """The bridge of its network."""
        return VXLAN if self.network == "nvxlan" else VLAN


PODS: Final = (
    (
        Given("cid-avxlan", "nvxlan", 1, "10.1.1.1", 1),
        Given("cid-avlan", "nvlan", 10, "10.2.1.1", 100),
    ),
    (
        Given("cid-bvxlan", "nvxlan", 1, "10.1.1.2", 1),
        Given("cid-bvlan", "nvlan", 5, "10.2.1.2", 100),
    ),
)
"""The pods of each host, in the recordings' words."""


class OriginalBed(Bed):
    """Two hosts, etcd and pods as the original left them. `original_pods` are by host."""

    def __init__(self, directory: Path, fwd_mode: str) -> None:
        super().__init__(directory, 2, fwd_mode=fwd_mode)
        self.original_pods: list[list[Pod]] = []

    def new_store(self) -> Store:
        """Make an etcd that serves the API of the original, too."""
        store = super().new_store()
        assert isinstance(store, Etcd)
        store.command.append("--enable-v2")
        return store

    def start(self) -> "OriginalBed":
        """Start the hosts and the store, and make what the original left."""
        super().start()
        for number, host in enumerate(self.hosts):
            peer = self.hosts[1 - number]
            self._bridges(host, peer, CARD_MACS[number])
            self.original_pods.append([self._connect(host, one) for one in PODS[number]])
            self.load_flows(host)
        for key, value in self._stored():
            self._put(key, value)
        return self

    def stop(self) -> None:
        """End what was started."""
        for daemon in (*self.agents, self.netmaster):
            if daemon.running:
                daemon.kill()
        super().stop()

    def load_flows(self, host: Host) -> None:
        """Give a host's bridges the flows and groups that the original made, and no others."""
        node = f"node{self.hosts.index(host) + 1}"
        for bridge, encap in ((VXLAN, "vxlan"), (VLAN, "vlan")):
            name = f"{encap}-{self.fwd_mode}-04-one-local-one-remote-{node}.txt"
            text = (GOLDEN / "flows" / name).read_text()
            groups = re.findall(r"^ (group_id=.*)$", text, re.MULTILINE)
            flows = re.findall(r"^ cookie=0x[0-9a-f]+, (.*)$", text, re.MULTILINE)
            for kind, lines in (("groups", groups), ("flows", flows)):
                (host.dir / kind).write_text("\n".join(lines) + "\n")
            if groups:
                host.ovs.ofctl("del-groups", bridge)
                host.ovs.ofctl("add-groups", bridge, str(host.dir / "groups"))
            host.ovs.ofctl("replace-flows", bridge, str(host.dir / "flows"))

    def original_keys(self) -> dict[str, str]:
        """Return what the original's store holds, by etcd's API v2."""
        path = "/v2/keys/contiv.io?recursive=true"
        _, body = http_request(f"{self.store.url}{path}", namespace=self.fabric.namespace)
        return dict(_leaves(json.loads(body)["node"]))

    def _daemons(self) -> list[tuple[str, Daemon]]:
        return [(self.store.kind, self.store)]

    def _bridges(self, host: Host, peer: Host, mac: str) -> None:
        for bridge, controller in CONTROLLERS.items():
            protocols = "protocols=OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13"
            settings = ["datapath_type=netdev", "fail_mode=secure", protocols]
            host.ovs.vsctl("add-br", bridge, "--", "set", "bridge", bridge, *settings)
            host.ovs.vsctl("set-controller", bridge, controller)
        _add(host, VXLAN, "contivh0", 2, "hostcontivh0", "type=internal")
        for words in (
            ["link", "set", "contivh0", "address", _HOST_MAC],
            ["address", "add", "172.19.255.254/16", "dev", "contivh0"],
            ["link", "set", "contivh0", "up"],
            ["link", "set", UPLINK, "address", mac],
        ):
            host.namespace.run(["ip", *words])
        tunnel = [f"options:remote_ip={peer.address}", "options:key=flow", "options:tos=inherit"]
        name = "vxif" + peer.address.replace(".", "")
        _add(host, VXLAN, name, 0, "", "type=vxlan", *tunnel, "options:dst_port=4789")
        _add(host, VLAN, UPLINK, 0, "uplinkPort")

    def _connect(self, host: Host, given: Given) -> Pod:
        """Make a pod and connect it as the original's plugin and agent do."""
        namespace = Namespace(fresh_name("orig")).create()
        outer, inner = f"vvport{given.number}", f"vport{given.number}"
        ip = ["ip", "link", "add", outer, "mtu", "1450", "type", "veth", "peer", "name", inner]
        host.namespace.run([*ip, "mtu", "1450"])
        host.namespace.run(["ip", "link", "set", outer, "up"])
        _add(host, given.bridge, outer, given.tag, given.key)
        host.namespace.run(["ip", "link", "set", inner, "netns", namespace.name])
        gateway = given.address.rpartition(".")[0] + ".254"
        for words in (
            ["link", "set", inner, "name", IFNAME],
            ["link", "set", IFNAME, "address", given.mac],
            ["address", "add", f"{given.address}/24", "dev", IFNAME],
            ["link", "set", IFNAME, "up"],
            ["route", "add", "default", "via", gateway],
        ):
            namespace.run(["ip", *words])
        tx_checksum_off(namespace, IFNAME)
        self._know_each_other(namespace, given)
        sandbox = Sandbox(
            name=given.container,
            kube_namespace="default",
            container_id=given.container,
            uid=str(uuid.uuid4()),
            namespace=namespace,
        )
        address = {"address": f"{given.address}/24"}
        pod = Pod(
            sandbox=sandbox,
            host=host,
            conf=self.conf(host, network=given.network),
            result={"ips": [address]},
        )
        self.pods.append(pod)
        return pod

    def _know_each_other(self, namespace: Namespace, given: Given) -> None:
        """Have a pod know the others by what the original answers ARP requests with."""
        # For good: nobody answers while no agent runs, which on a busy machine may last longer
        # than a pod remembers.
        for other in (one for host in PODS for one in host if one.network == given.network):
            if other is not given:
                mac = ROUTER_MAC if self.fwd_mode == "routing" else other.mac
                entry = ["lladdr", mac, "dev", IFNAME, "nud", "permanent"]
                namespace.run(["ip", "neigh", "replace", other.address, *entry])

    def _stored(self) -> Iterator[tuple[str, Any]]:
        """Yield the original's keys and values: the recorded cluster, with these pods and hosts."""
        text = (GOLDEN / "store" / f"agent-{self.fwd_mode}-end.json").read_text()
        recorded: dict[str, Any] = json.loads(text)["keys"]
        nets = ("nvxlan", "nvlan")
        kept = [
            *(keys.obj("network", f"default:{net}") for net in nets),
            *(f"{keys.NETWORKS}{net}.default" for net in nets),
            *(keys.obj("tenant", "default"), keys.obj("global", "global")),
            *(keys.GLOBAL_CONFIG, keys.TAG_RANGES, keys.GLOBAL_OPER),
        ]
        yield from ((key, recorded[key]) for key in kept)
        model = recorded[keys.ENDPOINTS + "nvlan.default-cid-tvlan"]
        for host, pods in zip(self.hosts, PODS, strict=True):
            for one in pods:
                yield (
                    keys.ENDPOINTS + one.key,
                    model
                    | {
                        "id": one.key,
                        "netID": f"{one.network}.default",
                        "endpointID": one.container,
                        "containerId": one.container,
                        "homingHost": host.label,
                        "ipAddress": one.address,
                        "macAddress": one.mac,
                        "epCommonName": one.container,
                    },
                )
            for service, port in (("netplugin", 9002), ("netplugin.vtep", 4789)):
                yield (
                    keys.service(service, host.address, port),
                    {
                        "ServiceName": service,
                        "HostAddr": host.address,
                        "Port": port,
                        "Hostname": host.label,
                        "TTL": 10,
                        "Role": "",
                        "Version": "",
                    },
                )

    def _put(self, key: str, value: Any) -> None:
        connection = http.client.HTTPConnection(self.store.address, self.store.port, timeout=60)
        try:
            self.fabric.namespace.call(connection.connect)
            body = urllib.parse.urlencode({"value": json.dumps(value)})
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("PUT", f"/v2/keys{urllib.parse.quote(key)}", body, form)
            answer = connection.getresponse()
            assert answer.status in {200, 201}, answer.read()
        finally:
            connection.close()


def _leaves(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for one in node.get("nodes", ()):
        if one.get("dir"):
            yield from _leaves(one)
        else:
            yield one["key"], one["value"]


def _add(host: Host, bridge: str, name: str, tag: int, owner: str, *interface: str) -> None:
    """Add a port with the original's settings; return when it has its number."""
    ids = [f"external_ids:endpoint-id={owner}"] if owner else []
    mode = ["vlan_mode=access", f"tag={tag}"] if tag else ["vlan_mode=trunk"]
    settings = ["--", "set", "interface", name, *interface, *ids] if interface or ids else []
    host.ovs.vsctl("add-port", bridge, name, "--", "set", "port", name, *mode, *ids, *settings)
    eventually(
        lambda: host.ovs.vsctl("get", "interface", name, "ofport").strip() not in {"[]", "-1"},
        f"port {name} has its number",
    )
