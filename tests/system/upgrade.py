"""A rolling upgrade: from an older release to this tree, with packets on the way all the time.

Run by `make upgrade-check`, not by `make test`. OLD is the commit of the older release. Three
masters and two agents of it serve pods on both kinds of networks, in each forwarding mode. Then one
daemon after the other is ended and started from this tree. Nothing may be lost, nothing forbidden
may pass, no flow that both releases want may be written anew but once, by the host's first agent of
this tree, which numbers flows under a key; and in each mixed state new pods, rules and their
removal must work. Connections by a service are measured and printed, and so is what
is lost while pods come and go, which the older release does not do without loss on its own.
"""

import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from core import keys
from state import schema
from tests.bed.cluster import NETMASTER_PORT, Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.netns import answers
from tests.bed.pods import Pod
from tests.bed.release import Release, install_plugin, run_by
from tests.bed.waiting import eventually
from tests.system.echoes import Way, pinging
from tests.system.footprint import flow_ages
from tests.system.planes import NETWORKS, add_networks, add_rules, addresses, applied
from tests.system.rest import ask
from tests.system.services import Talk, create_service, label, serving
from tests.system.traffic import blocked, connects
from tests.system.watcher import FIRST_PORT, Lane, Watcher, watching

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

OLD = os.environ.get("CONTIV_TEST_OLD", "aa5f26e")
PACE = 0.01
"""Seconds between two datagrams of a lane."""
FORBIDDEN = 7001
PORT = 7002
MASTER_PORTS = (NETMASTER_PORT, 9998, 9997)
GUARD = re.compile("table=5, priority=201,.*tp_dst=(" + "|".join(map(str, MASTER_PORTS)) + ") ")
BY_HAND = 100
"""Ports that are added and removed without an agent, to see what that alone costs."""
PAUSE = 20
"""Datagrams that a tunnel of the userspace datapath may lose when its host gets another port.

An agent of this tree adds ports to the bridges once, when it starts there first. `by_hand` prints
what Open vSwitch loses of its own by that: mostly one datagram, at times a burst.
"""


class Rolling:
    """A cluster whose daemons are of the older release until they are replaced."""

    def __init__(self, bed: Bed, old: Release) -> None:
        self.bed = bed
        self.old = old
        self.masters = [bed.netmaster, *map(bed.another_master, MASTER_PORTS[1:])]
        for daemon in (*self.masters, *bed.agents):
            run_by(daemon, old)

    def start(self) -> None:
        """Start all of it, with its networks."""
        self.bed.start()
        install_plugin(self.bed, self.old)
        for master in self.masters[1:]:
            master.start()
        add_networks(self.bed)

    def stop(self) -> None:
        """End all of it."""
        for master in self.masters[1:]:
            master.kill()
        self.bed.stop()

    def schema(self) -> schema.SchemaStamp:
        """Return the stamp of the store."""
        return schema.decode(self.bed.store.entries(keys.SCHEMA)[keys.SCHEMA])

    def replace(self, daemon: Daemon) -> None:
        """End a daemon in good order, and start it from this tree."""
        assert daemon.terminate() == 0
        run_by(daemon, None)
        if daemon in self.bed.agents:
            daemon.start()
            return
        daemon.spawn()  # as a follower, maybe
        port = MASTER_PORTS[self.masters.index(daemon)]
        url = f"http://{self.bed.fabric.address}:{port}/info"
        eventually(lambda: answers(url, namespace=daemon.namespace), "it answers")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Check the older release out."""
    return Release(tmp_path_factory.mktemp("old") / "release", OLD)


@pytest.fixture(params=["routing-masters-first", "bridge-agents-first"])
def rolling(
    request: pytest.FixtureRequest, bed_dirs: Iterator[Path], old: Release
) -> Iterator[Rolling]:
    """Run a cluster of the older release."""
    directory = next(bed_dirs)
    directory.mkdir()
    cluster = Rolling(Bed(directory, fwd_mode=request.param.partition("-")[0]), old)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Losses:
    """What the watched lanes and the echo requests lost, since the last look."""

    def __init__(self, watcher: Watcher, pings: Sequence[Way]) -> None:
        self._watcher, self._pings = watcher, pings
        self._known: dict[str, set[int]] = {}

    def since_last(self) -> dict[str, int]:
        """Return how many datagrams and echoes were lost, by lane."""
        lost = self._watcher.lost_until_now()
        self._watcher.count()
        for way in self._pings:
            way.goes_on()
            missing = way.missing()
            if new := missing - self._known.get(way.name, set()):
                lost[f"ping {way.name}"] = len(new)
            self._known[way.name] = missing
        return lost

    def of_tunnels(self, passing: Sequence[Lane]) -> set[str]:
        """Return the names of what a tunnel carries."""
        lanes = {
            str(lane)
            for lane in passing
            if lane.source.name.startswith("vxlan") and lane.source.host is not lane.target.host
        }
        return lanes | {f"ping {way.name}" for way in self._pings if way.name.startswith("vxlan")}


def test_a_rolling_upgrade_loses_nothing(
    rolling: Rolling, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    bed = rolling.bed
    masters = [(f"master {number}", one) for number, one in enumerate(rolling.masters, 1)]
    agents = [
        (f"agent of {host.label}", agent) for host, agent in zip(bed.hosts, bed.agents, strict=True)
    ]
    masters_first = request.node.callspec.params["rolling"].endswith("masters-first")
    order = [*masters, *agents] if masters_first else [*agents, *masters]
    pods = [
        bed.add_pod(host, f"{network}{number}", network=network, group=f"web-{network}")
        for network in NETWORKS
        for number, host in enumerate((*bed.hosts, bed.hosts[0]), 1)
    ]
    for network in NETWORKS:
        add_rules(
            bed, f"guard-{network}", {"1": ["-protocol=udp", f"-port={FORBIDDEN}", "-action=deny"]}
        )
    passing, forbidden = lanes(pods)
    backup = command(rolling, "dump")
    ways = {
        f"{one.name}-to-{other.name}-{family}": (one.namespace, address)
        for one, other in zip(pods[0::3], pods[1::3], strict=True)
        for family, address in zip((4, 6), addresses(other), strict=True)
    }
    with (
        service(rolling) as talks,
        watching(passing, forbidden, interval=PACE) as watcher,
        pinging(tmp_path, PACE, **ways) as pings,
    ):
        losses = Losses(watcher, pings)
        tunnels = losses.of_tunnels(passing)
        by_hand(rolling, losses, tunnels)
        changed(rolling, losses, "the older release alone")
        for what, daemon in order:
            before, began = [flow_ages(host) for host in bed.hosts], time.monotonic()
            had = [interfaces(host) for host in bed.hosts]
            with talks.measured(what):
                rolling.replace(daemon)
                applied(bed)
                lost = losses.since_last()
            own = None if daemon in rolling.masters else bed.hosts[bed.agents.index(daemon)]
            no_flap(bed.hosts, before, time.monotonic() - began, but=own)
            assert [gone - interfaces(host) for host, gone in zip(bed.hosts, had, strict=True)] == [
                set() for _ in bed.hosts
            ]
            print(f"{what} replaced: lost {lost}")  # noqa: T201 - measured
            pauses = tunnels if daemon in bed.agents else ()
            assert {lane: n for lane, n in lost.items() if lane not in pauses or n > PAUSE} == {}
            if daemon is not order[-1][1]:
                assert rolling.schema().version == schema.OLDEST, "not all of them read a newer one"
                assert not bed.store.entries(keys.LINEAGE)
            else:
                eventually(lambda: rolling.schema() == schema.CURRENT, "the schema is raised")
                eventually(lambda: ask(bed, "GET", "/info").status == 200, "a term has begun")
            if own is not None:
                restarted(rolling, daemon, own, losses)
            changed(rolling, losses, f"{what} replaced")
            if daemon is rolling.masters[-1] and masters_first:
                bed.agents[0].stop()  # one of the older release, beside masters of this one
                bed.agents[0].start()
                watcher.goes_on()
            if daemon is order[2][1]:
                install_plugin(bed, None)
    refuses(rolling)
    goes_back(rolling, backup)


def by_hand(rolling: Rolling, losses: Losses, tunnels: set[str]) -> None:
    """Add ports that no agent knows, to a bridge of the host; print what the lanes lost by it."""
    ovs = rolling.bed.hosts[0].ovs
    losses.since_last()
    for _ in range(BY_HAND):
        ovs.vsctl("add-port", "br-phy", "probe", "--", "set", "interface", "probe", "type=internal")
        ovs.vsctl("del-port", "probe")
    lost = losses.since_last()
    print(f"{BY_HAND} ports added and removed by hand: lost {lost}")  # noqa: T201 - measured
    assert lost.keys() <= tunnels


def interfaces(host: Host) -> set[str]:
    """Return the interfaces of a host's switch, with their ids and OpenFlow numbers."""
    columns = "--columns=name,_uuid,ofport"
    listed = host.ovs.vsctl("--format=csv", "--no-headings", columns, "list", "interface")
    return set(listed.splitlines())


def changed(rolling: Rolling, losses: Losses, what: str) -> None:
    """Add and remove pods and rules; print what the lanes lost meanwhile.

    What that is depends on the agents that make the ports: see that of the older release alone.
    """
    try_mixed(rolling, what)
    print(f"pods and rules, {what}: lost {losses.since_last()}")  # noqa: T201 - measured


def lanes(pods: Sequence[Pod]) -> tuple[list[Lane], list[Lane]]:
    """Return what passes, in both families, and what is forbidden, for pods of each network."""
    passing, forbidden = [], []
    for network in NETWORKS:
        own = [pod for pod in pods if pod.name.startswith(network)]
        pairs = [(a, b) for a in own for b in own if a is not b]
        passing += [
            Lane(a, b, address, FIRST_PORT + number)
            for number, (a, b) in enumerate(pairs)
            for address in addresses(b)
        ]
        forbidden += [Lane(a, b, b.address, FORBIDDEN) for a, b in pairs]
    return passing, forbidden


def try_mixed(rolling: Rolling, what: str) -> None:
    """Add pods on each host, a rule, and remove them; each must be in force."""
    bed = rolling.bed
    for network in NETWORKS:
        one, other = (
            bed.add_pod(host, f"new{host.label}", network=network, group=f"web-{network}")
            for host in bed.hosts
        )
        for source, target in ((one, other), (other, one)):
            for address in addresses(target):
                eventually(lambda s=source, a=address: s.ping(a), f"{what}: {network} {address}")  # type: ignore[misc]
        policy = f"guard-{network}"
        assert connects(one, other, other.address, PORT), what
        add_rules(bed, policy, {"2": ["-protocol=tcp", f"-port={PORT}", "-action=deny"]})
        assert blocked(one, other, other.address, PORT), what
        assert blocked(other, one, one.address, PORT), what
        bed.netctl("policy", "rule-rm", policy, "2")
        applied(bed)
        assert connects(other, one, one.address, PORT), what
        for pod in (one, other):
            bed.delete_pod(pod)


def restarted(rolling: Rolling, agent: Daemon, host: Host, losses: Losses) -> None:
    """End an agent of this tree and start it again: it loses nothing and writes nothing anew."""
    before, began = flow_ages(host), time.monotonic()
    assert agent.terminate() == 0
    agent.start()
    applied(rolling.bed)
    assert losses.since_last() == {}
    no_flap([host], [before], time.monotonic() - began)


def no_flap(
    hosts: Sequence[Host],
    before: Sequence[dict[str, float]],
    passed: float,
    *,
    but: Host | None = None,
) -> None:
    """Fail if a flow that was there and is there was written anew meanwhile, but on a host.

    Those that guard a master's ports from pods go and come with its registration.
    """
    for host, old in zip(hosts, before, strict=True):
        was, now = map(nameless, (old, flow_ages(host)))
        anew = [
            flow
            for flow, age in now.items()
            if flow in was and age < was[flow] + passed - 1 and not GUARD.search(flow)
        ]
        gone, come = len(was.keys() - now.keys()), len(now.keys() - was.keys())
        print(f"{host.label}: {len(now)} flows, {gone} gone, {come} come, {len(anew)} written anew")  # noqa: T201 - measured
        assert host is but or anew == [], f"{host.label}: {anew}"


def nameless(ages: dict[str, float]) -> dict[str, float]:
    """Return the ages of flows without their cookies, which each release may choose."""
    return {re.sub(r"cookie=\S+ ", "", flow): age for flow, age in ages.items()}


class Talks:
    """A client's connections by a service: one that stays, and new ones all the time."""

    def __init__(self, client: Pod, vip: str) -> None:
        self._client, self._vip = client, vip
        self._results: Counter[str] = Counter()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End them."""
        self._ended.set()
        self._thread.join()

    @contextmanager
    def measured(self, what: str) -> Iterator[None]:
        """Print what became of connections during the body."""
        before = self._results.copy()
        yield
        print(f"{what} replaced, connections by a service: {dict(self._results - before)}")  # noqa: T201 - measured

    def _run(self) -> None:
        while not self._ended.is_set():
            with ExitStack() as stack:
                try:
                    lasting = stack.enter_context(closing(Talk(self._client, self._vip, 80, 1.0)))
                except OSError:
                    self._results["refused"] += 1
                    continue
                while not self._ended.wait(0.05):
                    try:
                        lasting.says()
                        self._results["lasting answered"] += 1
                    except OSError:
                        self._results["lasting ended"] += 1
                        break
                    try:
                        with closing(Talk(self._client, self._vip, 80, 1.0)) as talk:
                            talk.says()
                        self._results["new served"] += 1
                    except OSError:
                        self._results["new failed"] += 1


@contextmanager
def service(rolling: Rolling) -> Iterator[Talks]:
    """Run a service with a provider on each host, and a client."""
    bed = rolling.bed
    client, *providers = (
        bed.add_pod(host, name, network="vxlan")
        for name, host in zip(("client", "s1", "s2"), (bed.hosts[0], *bed.hosts), strict=True)
    )
    vip = create_service(bed, "vxlan")
    for pod in providers:
        label(bed, pod)
    with serving(*providers):
        talks = Talks(client, vip)
        try:
            yield talks
        finally:
            talks.stop()


def refuses(rolling: Rolling) -> None:
    """Show that daemons of the older release end, with both numbers and what to do."""
    for daemon in (rolling.masters[-1], rolling.bed.agents[0]):
        assert daemon.terminate() == 0
        run_by(daemon, rolling.old)
        done = subprocess.run(
            [*daemon.prefix(), *daemon.command],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1
        assert f"schema version {schema.VERSION}, this release knows 1" in done.stderr
        assert "run the newer release" in done.stderr
        run_by(daemon, None)
        daemon.start()


def goes_back(rolling: Rolling, backup: str) -> None:
    """Show that the older release takes the cluster over again with the backup it made."""
    bed = rolling.bed
    for daemon in (*rolling.masters, *bed.agents):
        assert daemon.terminate() == 0
        run_by(daemon, rolling.old)
    command(rolling, "load", "--replace", text=backup)
    assert rolling.schema() == schema.SchemaStamp(schema.OLDEST)
    assert not bed.store.entries(keys.LINEAGE)
    for daemon in (*rolling.masters[:1], *bed.agents):
        daemon.start()
    applied(bed)
    one, other = (bed.add_pod(host, f"old{host.label}", network="vxlan") for host in bed.hosts)
    eventually(lambda: one.ping(other.address), "new pods reach each other")


def command(rolling: Rolling, *words: str, text: str = "") -> str:
    """Run a command of the older netmaster on the store; return its output."""
    program = str(rolling.old.program("netmaster"))
    enter = rolling.bed.fabric.namespace.enter
    done = subprocess.run(
        [*enter, program, *words, *rolling.bed.store_flags()],
        check=False,
        capture_output=True,
        text=True,
        input=text,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
