"""Breaks of a cluster with its default settings: switches, kernels, links, daemons, policies.

Each function breaks a site, and mends it at its end; `BREAKS` has what is asked about each and the
words that name its cause.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from ofnet.world import Bridge
from tests.bed.daemon import Daemon
from tests.bed.etcd import Etcd
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.netns import Namespace, fresh_name
from tests.bed.traffic import round_trip
from tests.breaks.breakable_cluster import PLAIN, SECOND, BreakableCluster, sysctl
from tests.breaks.table import Break, adding
from tests.system.echoes import answering
from tests.system.tunnel_probes import lossy

BREAKS: Final[dict[str, Break]] = {}
VXLAN: Final = Bridge.VXLAN.value
DEAD_SERVER: Final = "192.168.77.253"
TO_TUNNELS: Final = "udp,tp_dst=4789"


breaks = partial(adding(BREAKS), PLAIN)


# flows and ports


@breaks("the flow of a pod is deleted", "netctl trace web1 db1", "lacks flow")
def flow_deleted(cluster: BreakableCluster) -> Iterator[None]:
    cluster.one.ovs.ofctl("del-flows", VXLAN, f"ip,nw_dst={cluster.pods['db1'].address}")
    yield


@breaks("somebody adds a flow that drops", "netctl trace web1 db1", "flow that is not wanted")
def foreign_flow(cluster: BreakableCluster) -> Iterator[None]:
    flow = f"table=0,priority=65000,ip,nw_dst={cluster.pods['db1'].address}"
    cluster.two.ovs.ofctl("add-flow", VXLAN, f"{flow},actions=drop")
    yield
    cluster.two.ovs.ofctl("--strict", "del-flows", VXLAN, flow)


@breaks("a pod's port is deleted", "journal h2", "port", "missing")
def port_deleted(cluster: BreakableCluster) -> Iterator[None]:
    ports = cluster.two.ovs.vsctl("list-ports", VXLAN).split()
    cluster.two.ovs.vsctl("del-port", next(one for one in ports if one.startswith("vvport")))
    yield


@breaks("a tunnel's port is deleted", "journal h1", "somebody deleted a tunnel port", "h2")
def tunnel_deleted(cluster: BreakableCluster) -> Iterator[None]:
    ports = cluster.one.ovs.vsctl("list-ports", VXLAN).split()
    cluster.one.ovs.vsctl("del-port", next(one for one in ports if one.startswith("vxif")))
    yield


@breaks("another program sets the bridge's controller", "netctl host inspect h1", "controller")
def other_controller(cluster: BreakableCluster) -> Iterator[None]:
    code = "while :; do ovs-vsctl --timeout=5 set-controller contivVxlanBridge tcp:127.0.0.1:6653;"
    run = cluster.one.namespace.popen(
        ["sh", "-c", f"{code} sleep 0.5; done"], env=cluster.one.ovs.environment
    )
    try:
        yield
    finally:
        run.kill()
        run.wait()


# pods


@breaks("the pod has lost its address", "netctl trace web1 db1", "address")
def address_removed(cluster: BreakableCluster) -> Iterator[None]:
    db1 = cluster.pods["db1"]
    cluster.run(db1.namespace, f"ip addr del {db1.address}/16 dev eth0")
    yield
    cluster.run(db1.namespace, f"ip addr add {db1.address}/16 dev eth0")
    cluster.run(db1.namespace, "ip route replace default via 10.20.0.1")


@breaks("the pod's eth0 is down", "netctl trace web1 db1", "eth0", "down")
def link_down(cluster: BreakableCluster) -> Iterator[None]:
    namespace = cluster.pods["db1"].namespace
    cluster.run(namespace, "ip link set eth0 down")
    yield
    cluster.run(namespace, "ip link set eth0 up; ip route replace default via 10.20.0.1")


@breaks("a pod speaks with another's address", "netctl trace web2 db1", "web2", "not its own")
def spoofing(cluster: BreakableCluster) -> Iterator[None]:
    web1, web2, db1 = (cluster.pods[name] for name in ("web1", "web2", "db1"))
    cluster.run(web2.namespace, f"ip addr add {web1.address}/16 dev eth0")
    sending = web2.namespace.popen(["ping", "-i", "0.2", "-I", web1.address, db1.address])
    try:
        yield
    finally:
        sending.kill()
        sending.wait()
        cluster.run(web2.namespace, f"ip addr del {web1.address}/16 dev eth0")


@breaks(
    "nobody listens in the pod",
    "netctl trace --live -l tcp -P 5432 web1 db1",
    "delivered",
    "refused",
)
def nobody_listens(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks(
    "the pod's own firewall drops",
    "netctl trace --live -l tcp -P 5432 web1 db1",
    "delivered",
    "no answer came",
)
def own_firewall(cluster: BreakableCluster) -> Iterator[None]:
    rule = "INPUT -p tcp --dport 5432 -j DROP"
    cluster.run(cluster.pods["db1"].namespace, f"iptables -w -I {rule}")
    yield
    cluster.run(cluster.pods["db1"].namespace, f"iptables -w -D {rule}")


@breaks(
    "the pod's own firewall rejects",
    "netctl trace --live -l tcp -P 5432 web1 db1",
    "ICMP",
    "prohibited",
)
def own_firewall_rejects(cluster: BreakableCluster) -> Iterator[None]:
    rule = "INPUT -p tcp --dport 5432 -j REJECT --reject-with icmp-admin-prohibited"
    cluster.run(cluster.pods["db1"].namespace, f"iptables -w -I {rule}")
    yield
    cluster.run(cluster.pods["db1"].namespace, f"iptables -w -D {rule}")


@breaks("the pod is in another tenant", "netctl trace web1 db9", "tenant blue")
def other_tenant(cluster: BreakableCluster) -> Iterator[None]:
    bed = cluster.bed
    bed.netctl("tenant", "create", "blue")
    words = ["-t", "blue", "--subnet=10.60.0.0/24", "--gateway=10.60.0.1", "default-net"]
    bed.netctl("net", "create", *words)
    pod = bed.add_pod(cluster.two, "db9", tenant="blue")
    try:
        yield
    finally:
        bed.delete_pod(pod)
        bed.netctl("net", "rm", "-t", "blue", "default-net")
        bed.netctl("tenant", "rm", "blue")


@breaks("there is no such pod", "netctl trace web1 nosuch", "no endpoint", "nosuch")
def no_such_pod(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks(
    "no pod has the address",
    "netctl trace --live web1 10.20.99.99",
    "no endpoint has the address 10.20.99.99",
)
def unused_address(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks("a rule denies the port", "netctl trace -l tcp -P 80 web1 db1", "guard", "rule 1")
def deny_rule(cluster: BreakableCluster) -> Iterator[None]:
    words = ["-d", "in", "-l", "tcp", "-P", "80", "-j", "deny", "guard", "1"]
    cluster.bed.netctl("policy", "rule-add", *words)
    cluster.bed.netctl("host", "applied", "--wait", "60")
    yield
    cluster.bed.netctl("policy", "rule-rm", "guard", "1")


@breaks("a service has no provider", "netctl trace -l tcp -P 80 web1 shop", "shop", "no provider")
def no_providers(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks(
    "the name server outside does not answer",
    f"netctl trace -l udp -P 53 web1 {DEAD_SERVER}",
    f"name server {DEAD_SERVER} does not answer",
)
def dns_server_away(cluster: BreakableCluster) -> Iterator[None]:
    code = f"""
import socket, struct, time
name = b"\\x07example\\x03org\\x00"
question = struct.pack(">HHHHHH", 1, 256, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
while True:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.sendto(question, ("{DEAD_SERVER}", 53))
    time.sleep(0.5)
"""
    asking = cluster.pods["web1"].namespace.popen(["python3", "-c", code])
    try:
        yield
    finally:
        asking.kill()
        asking.wait()


# kernels of hosts


@breaks("a route of the host drops its way to another", "netctl trace web1 db1", "blackhole")
def blackhole(cluster: BreakableCluster) -> Iterator[None]:
    route = f"blackhole {cluster.two.address}/32"
    cluster.run(cluster.one.namespace, f"ip route add {route}")
    yield
    cluster.run(cluster.one.namespace, f"ip route del {route}")


@breaks("iptables -F", "journal h1", "somebody deleted host access rules")
def rules_flushed(cluster: BreakableCluster) -> Iterator[None]:
    cluster.run(cluster.one.namespace, "iptables -w -t nat -F; iptables -w -F")
    yield


@breaks("ip_forward=0", "netctl host inspect h1", "net.ipv4.ip_forward is 0")
def forward_off(cluster: BreakableCluster) -> Iterator[None]:
    undo = sysctl(cluster.one.namespace, "net.ipv4.ip_forward", "0")
    yield
    undo()


@breaks(
    "ip_forward=0, by a packet",
    f"netctl trace --live web1 {FABRIC_ADDRESS}",
    "kernel of host h1",
    "ip_forward",
)
def forward_off_packet(cluster: BreakableCluster) -> Iterator[None]:
    undo = sysctl(cluster.one.namespace, "net.ipv4.ip_forward", "0")
    yield
    undo()


@breaks("a foreign rule drops what is forwarded", "netctl host inspect h1", "mangle", "FORWARD")
def foreign_rule(cluster: BreakableCluster) -> Iterator[None]:
    rule = "-t mangle {} FORWARD -s 10.20.0.0/16 -j DROP"
    cluster.run(cluster.one.namespace, f"iptables -w {rule.format('-I')}")
    yield
    cluster.run(cluster.one.namespace, f"iptables -w {rule.format('-D')}")


@breaks(
    "an older iptables drops what pods send, before all else",
    "netctl host inspect h1",
    "raw of iptables-legacy",
    "PREROUTING -i contivh0",
)
def legacy_rule(cluster: BreakableCluster) -> Iterator[None]:
    rule = "-t raw {} PREROUTING -i contivh0 -j DROP"
    cluster.run(cluster.one.namespace, f"iptables-legacy -w {rule.format('-I')}")
    yield
    cluster.run(cluster.one.namespace, f"iptables-legacy -w {rule.format('-D')}")


@breaks(
    "a rule of nftables drops what leaves to pods",
    "netctl host inspect h1",
    "table inet fire",
    "ip daddr 10.20.0.0/16 drop",
)
def nft_postrouting(cluster: BreakableCluster) -> Iterator[None]:
    chain = "{ type filter hook postrouting priority 0 ; }"
    cluster.run(
        cluster.one.namespace,
        f"nft add table inet fire; nft add chain inet fire leaving '{chain}'; "
        "nft add rule inet fire leaving ip daddr 10.20.0.0/16 drop",
    )
    yield
    cluster.run(cluster.one.namespace, "nft delete table inet fire")


@breaks("a table of nftables drops what is forwarded", "netctl host inspect h1", "table inet fire")
def nft_forward(cluster: BreakableCluster) -> Iterator[None]:
    chain = "{ type filter hook forward priority 10 ; policy drop ; }"
    cluster.run(
        cluster.one.namespace, f"nft add table inet fire; nft add chain inet fire forward '{chain}'"
    )
    yield
    cluster.run(cluster.one.namespace, "nft delete table inet fire")


@breaks(
    "the host has no route to the outside",
    "netctl trace --live web1 203.0.113.9",
    "kernel of host h1",
    "no route",
)
def no_default_route(cluster: BreakableCluster) -> Iterator[None]:
    cluster.run(cluster.one.namespace, "ip route del default")
    yield
    cluster.run(cluster.one.namespace, f"ip route add default via {FABRIC_ADDRESS}")


# links between hosts


@contextmanager
def between(cluster: BreakableCluster, *rules: str) -> Iterator[None]:
    """Have the second host's switch do these to what passes its card."""
    for rule in rules:
        cluster.two.ovs.ofctl("add-flow", "br-phy", f"priority=100,{rule}")
    yield
    cluster.two.ovs.ofctl("del-flows", "br-phy", TO_TUNNELS)


@breaks("a firewall between hosts drops UDP 4789", "netctl host inspect h1", "let UDP 4789 pass")
def port_blocked(cluster: BreakableCluster) -> Iterator[None]:
    with between(cluster, f"{TO_TUNNELS},actions=drop"):
        yield


@breaks(
    "UDP 4789 passes one way only",
    "netctl host inspect h1",
    "packets of the tunnel arrive from",
    "UDP 4789 pass from this host to it",
)
def one_direction(cluster: BreakableCluster) -> Iterator[None]:
    with between(cluster, f"{TO_TUNNELS},nw_dst={cluster.two.address},actions=drop"):
        yield


@breaks("tunnels leave in another VLAN", "netctl host inspect h1", "let UDP 4789 pass")
def wrong_vlan(cluster: BreakableCluster) -> Iterator[None]:
    with between(cluster, f"{TO_TUNNELS},actions=mod_vlan_vid:99,NORMAL"):
        yield


@breaks("30 % of the tunnel's packets are lost", "netctl host inspect h1", "packets were lost")
def heavy_loss(cluster: BreakableCluster) -> Iterator[None]:
    with lossy(cluster.between, cluster.two.address, 0.3):
        yield


@breaks(
    "5 % of the tunnel's packets are lost",
    "netctl host inspect h1",
    "packets were lost",
)
def slight_loss(cluster: BreakableCluster) -> Iterator[None]:
    with lossy(cluster.between, cluster.two.address, 0.05):
        yield


@breaks("the path carries 1400 bytes only", "netctl host inspect h1", "bytes do not pass")
def path_mtu(cluster: BreakableCluster) -> Iterator[None]:
    links = (cluster.one.link, cluster.two.link, "sw")
    for link in links:
        cluster.run(cluster.between, f"ip link set {link} mtu 1400")
    yield
    for link in links:
        cluster.run(cluster.between, f"ip link set {link} mtu 1500")


_ANNOUNCING: Final = """
import fcntl, socket, struct, time
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind(("eth0", 0))
mac = fcntl.ioctl(sock.fileno(), 0x8927, struct.pack("256s", b"eth0"))[18:24]
ip = socket.inet_aton("{}")
while True:
    for what in (1, 2):
        arp = struct.pack(">HHBBH", 1, 0x800, 6, 4, what) + mac + ip + b"\\xff" * 6 + ip
        sock.send(b"\\xff" * 6 + mac + b"\\x08\\x06" + arp)
        time.sleep(0.1)
"""


@breaks(
    "another machine has the host's tunnel address",
    "journal h2",
    "192.168.77.2",
    "another machine",
)
def address_taken(cluster: BreakableCluster) -> Iterator[None]:
    thief = Namespace(fresh_name("thief")).create()
    cluster.bed.fabric.join(thief, "thief0")
    cluster.run(thief, f"ip addr add {cluster.two.address}/24 dev eth0")
    announcing = thief.popen(["python3", "-c", _ANNOUNCING.format(cluster.two.address)])
    try:
        yield
    finally:
        announcing.kill()
        announcing.wait()
        thief.delete()
        for host, other in ((cluster.one, cluster.two), (cluster.two, cluster.one)):
            round_trip(host.namespace, other.address)


@breaks("the host's cable is pulled", "netctl trace web1 db1", "h2", "does not answer")
def cable_pulled(cluster: BreakableCluster) -> Iterator[None]:
    cluster.bed.fabric.cut(cluster.two.link)
    yield
    cluster.bed.fabric.heal(cluster.two.link)


# daemons


@breaks("the agent is dead", "netctl trace web1 db1", "h2: its agent does not answer")
def agent_dead(cluster: BreakableCluster) -> Iterator[None]:
    cluster.agent("h2").kill()
    yield
    cluster.agent("h2").start()


@breaks("the agent hangs", "netctl trace web1 db1", "h2: its agent does not answer")
def agent_hangs(cluster: BreakableCluster) -> Iterator[None]:
    with paused(cluster.agent("h2")):
        yield


@contextmanager
def paused(*daemons: Daemon) -> Iterator[None]:
    """Freeze daemons during the body."""
    for one in daemons:
        one.pause()
    try:
        yield
    finally:
        for one in daemons:
            one.resume()


@breaks("ovs-vswitchd is dead", "readyz h2", "ovs-vswitchd", "restart openvswitch-switch")
def switch_dead(cluster: BreakableCluster) -> Iterator[None]:
    yield from _without_switch(cluster)


def _without_switch(cluster: BreakableCluster) -> Iterator[None]:
    two = cluster.two
    two.ovs.vswitchd.kill()
    # what the switch carried of the host's own traffic goes by the card
    address = f"{two.address}/24"
    namespace = two.namespace
    cluster.run(
        namespace, f"ip addr del {address} dev br-phy || true; ip addr add {address} dev eth0"
    )
    yield
    cluster.run(
        namespace, f"ip addr del {address} dev eth0; ip addr add {address} dev br-phy || true"
    )
    two.ovs.vswitchd.start()
    cluster.run(namespace, f"ip addr replace {address} dev br-phy; ip link set br-phy up")
    cluster.run(namespace, f"ip route replace default via {FABRIC_ADDRESS}")


@breaks("ovs-vswitchd is dead, by a trace", "netctl trace web1 db1", "h2", "switch")
def switch_dead_trace(cluster: BreakableCluster) -> Iterator[None]:
    yield from _without_switch(cluster)


@breaks("ovs-vswitchd hangs", "readyz h2", "ovs-vswitchd does not answer")
def switch_hangs(cluster: BreakableCluster) -> Iterator[None]:
    with paused(cluster.two.ovs.vswitchd):
        yield


@breaks(
    "ovsdb-server hangs",
    "netctl host inspect h2",
    "ovsdb-server",
    "does not answer",
    "restart openvswitch-switch",
)
def database_hangs(cluster: BreakableCluster) -> Iterator[None]:
    with paused(cluster.two.ovs.server):
        yield


@breaks("the store is dead", "netctl net create -s 10.44.0.0/24 n44", "store", "does not answer")
def store_dead(cluster: BreakableCluster) -> Iterator[None]:
    cluster.bed.store.kill()
    yield
    cluster.bed.store.start()


@breaks("all masters are dead", "ADD h2", "no netmaster leads")
def masters_dead(cluster: BreakableCluster) -> Iterator[None]:
    for master in (cluster.bed.netmaster, cluster.second):
        master.kill()
    yield
    cluster.bed.netmaster.start()
    cluster.second.start()


@breaks(
    "the leader hangs",
    f"netctl --netmaster http://{FABRIC_ADDRESS}:{SECOND} net ls",
    "leader",
    "does not answer",
)
def leader_hangs(cluster: BreakableCluster) -> Iterator[None]:
    with paused(cluster.bed.netmaster):
        yield


@breaks("the agent does not reach the masters", "netctl host inspect h2", "does not answer")
def masters_filtered(cluster: BreakableCluster) -> Iterator[None]:
    with filtered(cluster, "-p tcp -m multiport --dports 9999,9998,9001"):
        yield


@contextmanager
def filtered(cluster: BreakableCluster, what: str) -> Iterator[None]:
    """Drop some of what the second host sends."""
    cluster.run(cluster.two.namespace, f"iptables -w -I OUTPUT {what} -j DROP")
    yield
    cluster.run(cluster.two.namespace, f"iptables -w -D OUTPUT {what} -j DROP")


@breaks("the host does not reach TCP 9001", "netctl host inspect h2", "reports do not come", "9001")
def reports_filtered(cluster: BreakableCluster) -> Iterator[None]:
    # whichever port the leader has for reports
    others = f"-d {FABRIC_ADDRESS} -p tcp ! --sport 9090 -m multiport ! --dports 2379,9999,{SECOND}"
    with filtered(cluster, others):
        yield


@breaks("the agent does not reach the store", "readyz h2", "store", "firewall")
def store_filtered(cluster: BreakableCluster) -> Iterator[None]:
    with filtered(cluster, "-p tcp --dport 2379"):
        yield


@breaks("the store is full (NOSPACE)", "netctl net create -s 10.44.0.0/24 n44", "alarm disarm")
def store_full(cluster: BreakableCluster) -> Iterator[None]:
    assert isinstance(cluster.bed.store, Etcd)
    cluster.bed.store.alarm("ACTIVATE")
    yield
    cluster.bed.store.alarm("DEACTIVATE")


@contextmanager
def mounted(cluster: BreakableCluster, mount: Sequence[str]) -> Iterator[None]:
    """Mount something on the second agent's data directory during the body."""
    data = str(cluster.two.dir / "data")
    inside = ["nsenter", "-t", str(cluster.agent("h2").pid), "-n", "-m", "--"]
    cluster.two.namespace.run([*inside, "mount", *mount, data])
    yield
    cluster.two.namespace.run([*inside, "umount", "-l", data])


@breaks("the data directory is read-only", "netctl host inspect h2", "Read-only file system")
def data_read_only(cluster: BreakableCluster) -> Iterator[None]:
    with mounted(cluster, ["-o", "bind,ro", str(cluster.two.dir / "data")]):
        yield


@breaks("the disk of the data directory is full", "netctl host inspect h2", "No space left")
def data_full(cluster: BreakableCluster) -> Iterator[None]:
    data = cluster.two.dir / "data"
    kept = data.with_name("kept")
    shutil.copytree(data, kept)
    with mounted(cluster, ["-t", "tmpfs", "-o", "size=256k", "tmpfs"]):
        script = f"cp -a {kept}/. {data}/; head -c 4000000 /dev/zero >{data}/filler || true"
        cluster.two.namespace.run(["sh", "-c", script])
        yield
    shutil.rmtree(kept)


# operators


@breaks(
    "the agent is started with an address no link has",
    "journal h2",
    "no link of this host has the address 192.168.77.99",
)
def wrong_vtep(cluster: BreakableCluster) -> Iterator[None]:
    agent = cluster.agent("h2")
    before = list(agent.command)
    agent.stop()
    agent.command[before.index("--vtep-ip") + 1] = "192.168.77.99"
    agent.spawn()
    try:
        yield
    finally:
        agent.kill()
        agent.command = before
        agent.start()


@breaks("an agent of another host has the label", "journal h2", "host label in use")
def label_taken(cluster: BreakableCluster) -> Iterator[None]:
    agent = cluster.agent("h2")
    before = list(agent.command)
    agent.stop()
    agent.command[before.index("--host") + 1] = "h1"
    agent.spawn()
    try:
        yield
    finally:
        agent.kill()
        agent.command = before
        agent.start()


@breaks("the agent is told of a store that is not there", "journal h2", "192.168.77.250:2379")
def wrong_store(cluster: BreakableCluster) -> Iterator[None]:
    agent = cluster.agent("h2")
    before = list(agent.command)
    agent.stop()
    agent.command = [
        word.replace(f"{FABRIC_ADDRESS}:2379", "192.168.77.250:2379") for word in before
    ]
    agent.spawn()
    try:
        yield
    finally:
        agent.kill()
        agent.command = before
        agent.start()


@breaks(
    "a network overlaps another",
    "netctl net create -s 10.20.128.0/17 -g 10.20.128.1 ovl",
    "network default-net conflicts with subnet",
)
def overlap(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks(
    "a network overlaps that of the hosts",
    "netctl net create -s 192.168.77.0/24 -g 192.168.77.253 ovl",
    "192.168.77.",
    "host",
)
def overlaps_hosts(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks("all addresses are given away", "ADD h1 network=tiny", "address exhaustion in subnet")
def exhausted(cluster: BreakableCluster) -> Iterator[None]:
    bed = cluster.bed
    bed.netctl("net", "create", "--subnet=10.46.0.0/30", "--gateway=10.46.0.1", "tiny")
    pod = bed.add_pod(cluster.one, "tiny0", network="tiny")
    yield
    bed.delete_pod(pod)
    bed.netctl("net", "rm", "tiny")


@breaks("a pod asks for a network that is not there", "ADD h1 network=nosuch", "nosuch", "network")
def no_such_network(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks("a pod asks for a group that is not there", "ADD h1 group=nosuch", "nosuch", "group")
def no_such_group(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks("a network with pods is removed", "netctl net rm default-net", "endpoint")
def network_in_use(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks("another program listens on the agent's port", "preflight h2", "9090")
def port_in_use(cluster: BreakableCluster) -> Iterator[None]:
    agent = cluster.agent("h2")
    agent.stop()
    try:
        with answering(cluster.two.namespace, "0.0.0.0", 9090):
            yield
    finally:
        agent.start()
