"""The alert rules on a cluster that really fails: each begins with its failure and ends after it.

Run by `make alerts-check`, not by `make test`. A real Prometheus reads two masters and two agents
every second, with the rules of `deploy/monitoring` at a twelfth of their times. No other alert
than those of a failure may begin with it.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ofnet.tables import TableId
from tests.bed.cluster import AGENT_PORT, NETMASTER_PORT, ROOT, STORE_PORT, Bed
from tests.bed.daemon import Daemon
from tests.bed.etcd import Etcd
from tests.bed.hosts import PREFIX_LENGTH, Host
from tests.bed.kubernetes import ApiServer
from tests.bed.netns import answers, http_request
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually, repeating
from tests.system.kube_site import api_beside, api_flags
from tests.system.planes import planes

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

RULES: Final = ROOT / "deploy" / "monitoring" / "alerts.yml"
FASTER: Final = 12
SECOND_PORT, FOREIGN_PORT, FOREIGN_STORE = 9998, 9997, 2479
PROMETHEUS_PORT = 9091
BEGINS, ENDS = 150.0, 150.0
"""Seconds after which an alert must have begun or ended; the longest counts 60 s by itself."""


@dataclass(frozen=True)
class WatchedCluster:
    """The cluster with its second master, and what watches it."""

    bed: Bed
    second: Daemon
    api: ApiServer

    @property
    def masters(self) -> tuple[Daemon, Daemon]:
        return self.bed.netmaster, self.second

    def alerts(self, state: str = "firing") -> set[str]:
        """Return the names of the alerts in a state."""
        url = f"http://127.0.0.1:{PROMETHEUS_PORT}/api/v1/alerts"
        _, body = http_request(url, namespace=self.bed.fabric.namespace)
        found = json.loads(body)["data"]["alerts"]
        return {one["labels"]["alertname"] for one in found if one["state"] == state}

    def leader(self) -> Daemon:
        """Return the master that leads."""
        leading: list[Daemon] = []

        def found() -> bool:
            leading[:] = [one for one in self.masters if self._leads(one)]
            return bool(leading)

        eventually(found, "a master leads")
        return leading[0]

    def _leads(self, master: Daemon) -> bool:
        return self.serves(master, f'"leader-ip":"{self.address(master)}"')

    def serves(self, master: Daemon, told: str = "") -> bool:
        """Return whether a master answers, with this in its answer."""
        if not master.running or master.frozen:
            return False
        url = f"http://{self.address(master)}/info"
        return answers(url, text=told.encode(), namespace=self.bed.fabric.namespace)

    def address(self, master: Daemon) -> str:
        """Return where a master listens."""
        port = NETMASTER_PORT if master is self.bed.netmaster else SECOND_PORT
        return f"{self.bed.fabric.address}:{port}"


def scaled(text: str) -> str:
    """Return rules with their times divided; thresholds stay."""

    def seconds(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) * 60 // FASTER}s"

    return re.sub(r"(for: |\[)(\d+)m", seconds, text)


def prometheus(bed: Bed) -> Daemon:
    """Return a Prometheus of the bed's daemons."""
    directory = bed.dir / "prometheus"
    directory.mkdir()
    masters = [f"{bed.fabric.address}:{port}" for port in (NETMASTER_PORT, SECOND_PORT)]
    agents = [f"{host.address}:{AGENT_PORT}" for host in bed.hosts]
    jobs = {"netmaster": [*masters, f"{bed.fabric.address}:{FOREIGN_PORT}"], "netplugin": agents}
    config = {
        "global": dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "1s"),
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": targets}]}
            for job, targets in jobs.items()
        ],
    }
    (directory / "alerts.yml").write_text(scaled(RULES.read_text()))
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{PROMETHEUS_PORT}"
    command = [
        *("prometheus", f"--config.file={directory / 'prometheus.yml'}"),
        *(f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address={address}"),
    ]
    namespace = bed.fabric.namespace
    ready = partial(answers, f"http://{address}/-/ready", namespace=namespace)
    return Daemon(command, log=directory / "log", namespace=namespace, ready=ready)


@pytest.fixture(scope="module")
def cluster(
    bed_dirs: Iterator[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WatchedCluster]:
    """Run the cluster, and Prometheus beside it."""
    often = ["--probe-interval", "1", "--audit-interval", "10"]
    flags = {"netplugin": [*api_flags(tmp_path_factory), *often]}
    with ExitStack() as stack:
        bed = stack.enter_context(planes(next(bed_dirs), "routing", flags=flags))
        api = stack.enter_context(api_beside(bed))
        cluster = WatchedCluster(bed, bed.another_master(SECOND_PORT), api)
        for daemon in (cluster.second, prometheus(bed)):
            stack.callback(daemon.kill)
            daemon.start(within=30)
        eventually(lambda: not cluster.alerts() | cluster.alerts("pending"), "quiet", within=ENDS)
        yield cluster


# -- failures --------------------------------------------------------------------------------------


@contextmanager
def no_leader(cluster: WatchedCluster) -> Iterator[None]:
    for master in cluster.masters:
        master.kill()
    try:
        yield
    finally:
        for master in cluster.masters:
            master.start(within=30)


@contextmanager
def a_master_of_another_store(cluster: WatchedCluster) -> Iterator[None]:
    bed = cluster.bed
    where = bed.dir / "foreign"
    store = Etcd(where, bed.fabric.namespace, bed.fabric.address, FOREIGN_STORE)
    master = bed.another_master(FOREIGN_PORT)
    master.command = [one.replace(f":{STORE_PORT}", f":{FOREIGN_STORE}") for one in master.command]
    try:
        store.start()
        master.start()
        yield
    finally:
        master.kill()
        store.kill()


@contextmanager
def leaders_lost(
    cluster: WatchedCluster, end: Callable[[Daemon], None], restore: Callable[[Daemon], None]
) -> Iterator[None]:
    """Have one leader after another succeeded, each of which comes back."""
    leader = cluster.leader()
    for _ in range(7):
        before = leader
        end(before)
        try:
            leader = cluster.leader()
        finally:
            restore(before)
        eventually(partial(cluster.serves, before), "it is back", within=30)
    yield


@contextmanager
def repeated(action: Callable[[], object], pause: float = 0.5) -> Iterator[None]:
    """Do something again and again, whether it works or not, until the end."""

    def attempt() -> None:
        with suppress(Exception):
            action()

    with repeating(attempt, pause):
        yield


def change(cluster: WatchedCluster) -> None:
    """Have netmaster commit something."""
    bed = cluster.bed
    for verb in (["create", "--subnet=10.99.0.0/24"], ["delete"]):
        bed.netctl("net", verb[0], *verb[1:], "changing", check=False)


@contextmanager
def a_full_store(cluster: WatchedCluster) -> Iterator[None]:
    store = cluster.bed.store
    assert isinstance(store, Etcd)
    store.alarm("ACTIVATE")
    try:
        with repeated(partial(change, cluster)):
            yield
    finally:
        store.alarm("DEACTIVATE")


@contextmanager
def a_slow_store(cluster: WatchedCluster) -> Iterator[None]:
    store = cluster.bed.store

    def hang() -> None:
        store.pause()
        try:
            time.sleep(0.7)  # the failure itself
        finally:
            store.resume()

    with repeated(partial(change, cluster), 0.0), repeated(hang, 0.1):
        yield


@contextmanager
def pods(
    cluster: WatchedCluster, number: int, network: str, group: str = ""
) -> Iterator[list[Pod]]:
    bed, (host, _) = cluster.bed, cluster.bed.hosts
    add = partial(bed.add_pod, host, network=network, group=group)
    made = [add(f"{network}{one}") for one in range(number)]
    try:
        yield made
    finally:
        for pod in made:
            bed.delete_pod(pod)


@contextmanager
def a_full_network(cluster: WatchedCluster) -> Iterator[None]:
    bed = cluster.bed
    bed.netctl("net", "create", "--subnet=10.98.0.10-10.98.0.12/24", "small")
    try:
        with pods(cluster, 3, "small"):
            yield
    finally:
        bed.netctl("net", "delete", "small")


@contextmanager
def no_agent(cluster: WatchedCluster) -> Iterator[None]:
    agent = cluster.bed.agents[1]
    agent.kill()
    try:
        yield
    finally:
        agent.start(within=30)


@contextmanager
def no_switch(cluster: WatchedCluster) -> Iterator[None]:
    host = cluster.bed.hosts[1]
    host.ovs.vswitchd.kill()
    # The host's own address is on a bridge here; it stays reachable as by a card of its own.
    move_address(host, "br-phy", "eth0")
    try:
        change(cluster)
        yield
    finally:
        move_address(host, "eth0", "br-phy")
        host.ovs.vswitchd.start()


def move_address(host: Host, before: str, after: str) -> None:
    for verb, device in (("delete", before), ("add", after)):
        address = f"{host.address}/{PREFIX_LENGTH}"
        host.namespace.run(["ip", "address", verb, address, "dev", device])


@contextmanager
def flows_taken_away(cluster: WatchedCluster, pause: float) -> Iterator[None]:
    switch = cluster.bed.hosts[0].ovs
    with repeated(partial(switch.ofctl, "del-flows", "contivVlanBridge", "table=0"), pause):
        yield


@contextmanager
def a_switch_that_refuses(cluster: WatchedCluster) -> Iterator[None]:
    switch = cluster.bed.hosts[0].ovs
    limit = ["--id=@limit", "create", "flow_table", "flow_limit=1", "overflow_policy=refuse"]
    table = f"flow_tables:{TableId.POLICY.value}=@limit"
    switch.vsctl("--", *limit, "--", "set", "bridge", "contivVlanBridge", table)
    bed = cluster.bed
    rule = ["-d", "in", "--protocol=tcp", "--port=80", "--action=deny", "guard-vlan", "1"]
    try:
        with pods(cluster, 1, "vlan", "web-vlan"):
            bed.netctl("policy", "rule-add", *rule)
            yield
            bed.netctl("policy", "rule-rm", "guard-vlan", "1")
    finally:
        switch.vsctl("clear", "bridge", "contivVlanBridge", "flow_tables")


@contextmanager
def pods_of_no_network(cluster: WatchedCluster) -> Iterator[None]:
    bed = cluster.bed
    for number in range(6):
        with pytest.raises(CniFailed):
            bed.add_pod(bed.hosts[0], f"absent{number}", network="absent")
    yield


@contextmanager
def a_slow_switch(cluster: WatchedCluster) -> Iterator[None]:
    bed = cluster.bed
    switch = bed.hosts[0].ovs.vswitchd
    numbers = iter(range(1000))

    def add_slowly() -> None:
        name = f"slow{next(numbers)}"
        switch.pause()
        resumed = threading.Timer(2.8, switch.resume)
        resumed.start()
        try:
            bed.delete_pod(bed.add_pod(bed.hosts[0], name))
        finally:
            resumed.join()

    with repeated(add_slowly, 0.1):
        yield


@contextmanager
def a_tunnel_that_is_taken(cluster: WatchedCluster) -> Iterator[None]:
    near, far = cluster.bed.hosts
    agent = cluster.bed.agents[0]
    tunnel = ["type=vxlan", f"options:remote_ip={far.address}", "options:key=flow"]
    agent.kill()
    name = next(
        one
        for one in near.ovs.vsctl("list-ports", "contivVxlanBridge").split()
        if one.startswith("vxif")
    )
    near.ovs.vsctl("del-port", name)
    near.ovs.vsctl("add-br", "foreign", "--", "set", "bridge", "foreign", "datapath_type=netdev")
    near.ovs.vsctl("add-port", "foreign", "taken", "--", "set", "interface", "taken", *tunnel)
    try:
        agent.start(within=30)
        yield
    finally:
        near.ovs.vsctl("del-br", "foreign")


@contextmanager
def a_narrow_path(cluster: WatchedCluster) -> Iterator[None]:
    bed = cluster.bed
    set_mtu = ["ip", "link", "set", bed.hosts[1].link, "mtu"]
    bed.fabric.namespace.run([*set_mtu, "1400"])
    try:
        yield
    finally:
        bed.fabric.namespace.run([*set_mtu, "1500"])


@contextmanager
def a_slow_path(cluster: WatchedCluster) -> Iterator[None]:
    """Have the other host's switch stand still nearly always: this kernel may delay no packets."""
    switch = cluster.bed.hosts[1].ovs.vswitchd

    def stand() -> None:
        switch.pause()
        time.sleep(0.15)  # the failure itself
        switch.resume()

    try:
        with repeated(stand, 0.02):
            yield
    finally:
        switch.resume()


@contextmanager
def no_bgp_peer(cluster: WatchedCluster) -> Iterator[None]:
    bed, label = cluster.bed, cluster.bed.hosts[0].label
    local = ["--router-ip=10.97.0.1/24", "--as=65001"]
    bed.netctl("bgp", "create", label, *local, "--neighbor=10.97.0.2", "--neighbor-as=65002")
    try:
        yield
    finally:
        bed.netctl("bgp", "delete", label)


@contextmanager
def no_api_server(cluster: WatchedCluster) -> Iterator[None]:
    cluster.api.failing = 503
    cluster.api.hang_up()
    try:
        yield
    finally:
        cluster.api.failing = 0


@contextmanager
def a_chain_that_is_taken(cluster: WatchedCluster) -> Iterator[None]:
    """Have another program hold the chain that iptables needs for rules of pods' links."""
    host = cluster.bed.hosts[1].namespace
    chain = "chain ip raw PREROUTING { type filter hook prerouting priority 7; }"
    # in one transaction: the agent puts its chain back at once
    host.run(["nft", f"delete table ip raw; add table ip raw; add {chain}"])
    try:
        yield
    finally:
        host.run(["nft", "delete table ip raw"])


Failure = Callable[[WatchedCluster], AbstractContextManager[None]]
LOST: Final = {"ContivTunnelLoss"}
"""A switch that does not forward loses probes of its tunnels too."""

FAILURES: Final[Mapping[str, tuple[Failure, set[str], set[str]]]] = {
    "no leader": (no_leader, {"ContivNoLeader"}, set()),
    "another store": (a_master_of_another_store, {"ContivTwoLeaders"}, set()),
    "leaders that hang": (
        partial(leaders_lost, end=Daemon.pause, restore=Daemon.resume),
        {"ContivLeaderFlaps"},
        {"ContivNoLeader"},
    ),
    "leaders that crash": (
        partial(leaders_lost, end=Daemon.kill, restore=Daemon.spawn),
        {"ContivLeaderFlaps", "ContivRestarts"},
        {"ContivNoLeader"},
    ),
    "full store": (a_full_store, {"ContivCommitsFail", "ContivStoreAlarm"}, set()),
    "slow store": (a_slow_store, {"ContivCommitsSlow"}, set()),
    "full network": (a_full_network, {"ContivNetworkFull"}, set()),
    "no agent": (
        no_agent,
        {"ContivAgentDown", "ContivHostsWithoutAgent"},
        {"ContivHostsBehind"},
    ),
    "no switch": (
        no_switch,
        {"ContivSwitchGone", "ContivHostsBehind", "ContivAgentBehind"},
        {"ContivLoopFails", *LOST},
    ),
    "missing flows": (partial(flows_taken_away, pause=0.0), {"ContivFlowsMissing"}, LOST),
    "drift": (partial(flows_taken_away, pause=7.0), {"ContivFlowsDrift"}, LOST),
    "refused flows": (a_switch_that_refuses, {"ContivFlowsRefused"}, set()),
    "failing ADDs": (pods_of_no_network, {"ContivAddsFail"}, set()),
    "slow ADDs": (a_slow_switch, {"ContivAddsSlow"}, {"ContivAddsFail", *LOST}),
    "tunnel taken": (a_tunnel_that_is_taken, {"ContivTunnelsMissing"}, LOST),
    "narrow path": (a_narrow_path, {"ContivPathMtu", *LOST}, set()),
    "slow path": (a_slow_path, {"ContivTunnelSlow"}, {"ContivLoopFails"}),
    "no BGP peer": (no_bgp_peer, {"ContivBgpDown"}, set()),
    "no API server": (no_api_server, {"ContivKubernetesFeed"}, set()),
    "chain taken": (a_chain_that_is_taken, {"ContivLoopFails"}, set()),
}
"""What fails -> how, the alerts that must begin, and those that may."""


NOT_HERE: Final = {
    "ContivCertificateExpires",  # nothing here has a certificate
    "ContivConntrackFull",  # the kernel's table is that of the whole machine
    "ContivDatapathLoses",  # a queue of the kernel's datapath
    "ContivDataDiskFull",  # the disk is that of the whole machine
}
"""Alerts that `tests/unit/deploy/test_monitoring.py` alone shows, by promtool."""


def test_every_alert_has_its_failure() -> None:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    named = {rule["alert"] for group in groups for rule in group["rules"]}
    assert set().union(*(wanted for _, wanted, _ in FAILURES.values())) == named - NOT_HERE


@pytest.mark.parametrize("what", FAILURES)
def test_an_alert_begins_with_its_failure_and_ends_after_it(
    cluster: WatchedCluster, what: str
) -> None:
    failure, wanted, allowed = FAILURES[what]
    assert cluster.alerts() == set()
    began = time.monotonic()
    seen: set[str] = set()
    with failure(cluster):
        eventually(lambda: wanted <= _note(seen, cluster), f"{wanted} begin", within=BEGINS)
        raised = time.monotonic() - began
    ended = time.monotonic()
    eventually(lambda: not cluster.alerts(), "all alerts end", within=ENDS)
    print(f"{what}: {raised:.0f} s to begin, {time.monotonic() - ended:.0f} s to end; {seen}")  # noqa: T201 - measured
    assert seen <= wanted | allowed


def _note(seen: set[str], cluster: WatchedCluster) -> set[str]:
    now = cluster.alerts()
    seen |= now
    return now
