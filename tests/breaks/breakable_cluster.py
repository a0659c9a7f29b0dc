"""The clusters that are broken, and the operator who asks them.

In come a directory and what kind of cluster it is; out comes one with pods, of which commands can
be asked as an operator types them. Must not know what is broken.
"""

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.bed.bgp_router import BgpRouter
from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import FABRIC_ADDRESS, UPLINK, Host
from tests.bed.kubernetes import ApiServer
from tests.bed.netns import Namespace, http_request
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import WITHIN, eventually
from tests.breaks.beds import TokenBed
from tests.system.peers import all_at_peace, peer, peers
from tests.system.rest import ask

PLAIN, KUBERNETES, SECURE = "plain", "kubernetes", "secure"
CONSUL, DOCKER, PEERS = "consul", "docker", "peers"
"""Kinds of clusters: of the last each host speaks BGP with a router."""
SECOND = 9998
"""The port of the second master."""
API_PORT = 6443
LINES = 40
"""Lines of a journal that an operator looks at."""


@dataclass(slots=True)
class BreakableCluster:
    """A cluster of two hosts, with pods `web1` and `web2` on the first, `db1`, `db2` on the other.

    `db1` and `db2` are in the group `db` with the policy `guard`, `web1` is in `web`; the service
    `shop` has no provider.
    """

    bed: Bed
    second: Daemon
    pods: dict[str, Pod] = field(default_factory=dict)
    router: BgpRouter | None = None
    read: dict[str, int] = field(default_factory=dict)
    """What of each daemon's log is older than the break, in characters."""

    @property
    def one(self) -> Host:
        """The first host."""
        return self.bed.hosts[0]

    @property
    def two(self) -> Host:
        """The second host."""
        return self.bed.hosts[1]

    @property
    def between(self) -> Namespace:
        """What is between the hosts; netmaster and store are there too."""
        return self.bed.fabric.namespace

    def ask(self, command: str) -> str:
        """Return what a command says, on both outputs.

        Beside netctl these are `ADD`, what a runtime is told of a new pod on a host; `readyz`, what
        an agent answers; `plain`, a netctl that knows nothing of TLS; `journal`, what a daemon
        logged since the break; `preflight`; `docker`, the client of a host's engine.
        """
        program, *words = shlex.split(command)
        doing: Mapping[str, Callable[..., str]] = {
            "netctl": self._netctl,
            "plain": self._plain_netctl,
            "ADD": self._add,
            "journal": self._journal,
            "readyz": self._readyz,
            "preflight": self._preflight,
            "docker": self._docker,
        }
        return doing[program](*words)

    def begin(self) -> None:
        """Note that what is logged from now on is of the next break."""
        self.read = {label: len(one.log_text()) for label, one in self._daemons().items()}

    def is_well(self) -> bool:
        """Whether pods reach each other and no host has an error."""
        return not self.ailment()

    def ailment(self) -> str:
        """Return what is wrong now; "" for nothing."""
        try:
            hosts = [ask(self.bed, "GET", f"/hosts/{one.label}").json() for one in self.bed.hosts]
        except (OSError, ValueError) as exc:
            return f"netmaster: {exc}"
        for host in hosts:
            wrong = [*host.get("errors", ["no record"]), host.get("behind", "")]
            if any(wrong):
                return f"{host.get('label')}: {wrong}"
        names = [*self.pods][:2]
        if names and self.pods[names[0]].ping(self.pods[names[1]].address) is None:
            return f"{names[0]} does not reach {names[1]}"
        return ""

    def host(self, label: str) -> Host:
        """Return a host."""
        return next(one for one in self.bed.hosts if one.label == label)

    def agent(self, label: str) -> Daemon:
        """Return the agent of a host."""
        return self.bed.agents[self.bed.hosts.index(self.host(label))]

    def run(self, namespace: Namespace, script: str) -> str:
        """Run a script in a namespace; it must succeed."""
        return namespace.run(["sh", "-ec", script]).stdout

    def try_add(
        self, host: Host, name: str, *, network: str = "default-net", group: str = ""
    ) -> str:
        """Add a pod; return the error, "" if there was none. The pod is not kept."""
        try:
            pod = self.bed.add_pod(host, name, network=network, group=group)
        except (CniFailed, subprocess.TimeoutExpired) as exc:
            return str(exc)
        self.bed.delete_pod(pod)
        return ""

    def _netctl(self, *words: str) -> str:
        done = self.between.run(self.bed.netctl_command(*words), check=False, timeout=WITHIN)
        return done.stdout + done.stderr

    def _plain_netctl(self, *words: str) -> str:
        command = self.bed.netctl_command()[:1]
        url = self.bed.url.replace("https://", "http://")
        done = self.between.run([*command, "--netmaster", url, *words], check=False)
        return done.stdout + done.stderr

    def _add(self, label: str, *more: str) -> str:
        named = dict(word.split("=", 1) for word in more)
        return self.try_add(self.host(label), "new", **named)

    def _journal(self, label: str) -> str:
        text = self._daemons()[label].log_text()[self.read.get(label, 0) :]
        return "\n".join(text.splitlines()[-LINES:])

    def _readyz(self, label: str) -> str:
        url = f"{self.bed.agent_url()}/readyz"
        namespace = self.host(label).namespace
        return http_request(url, namespace=namespace, context=self.bed.context())[1].decode()

    def _preflight(self, label: str) -> str:
        agent, host = self.agent(label), self.host(label)
        command = [agent.command[0], "preflight", *agent.command[1:]]
        env = {**host.ovs.environment, "NODE_NAME": host.label}
        done = host.namespace.run(command, check=False, env=env, timeout=WITHIN)
        return done.stdout + done.stderr

    def _docker(self, label: str, *words: str) -> str:
        engine = next(one for one in self.bed.engines if one.label == label)
        done = engine.attempt(*words)
        return done.stdout + done.stderr

    def _daemons(self) -> dict[str, Daemon]:
        agents = {host.label: self.agent(host.label) for host in self.bed.hosts}
        return {**agents, "netmaster": self.bed.netmaster, "second": self.second}


@contextmanager
def cluster(directory: Path, kind: str = PLAIN) -> Iterator[BreakableCluster]:
    """Run a cluster of a kind during the body."""
    with ExitStack() as stack:
        found = stack.enter_context(peers(directory, (UPLINK,))) if kind == PEERS else None
        if found is not None:
            bed = found.bed
        else:
            directory.mkdir()
            bed = _bed(directory, kind)
            stack.callback(bed.stop)
            bed.start()
        second = bed.another_master(SECOND)
        stack.callback(second.kill)
        second.start()
        for host in bed.hosts:
            host.namespace.run(["ip", "route", "replace", "default", "via", FABRIC_ADDRESS])
        made = BreakableCluster(bed, second, router=found and found.router)
        if kind == KUBERNETES:
            stack.enter_context(api_server(made))
        if found is not None:
            made.pods = {pod.name: pod for pod in found.pods}
            for host in bed.hosts:
                peer(found, host)
            all_at_peace(found)
        elif kind == DOCKER:
            bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "net1")
            eventually(lambda: "net1" in made.ask("docker h2 network ls"), "docker has it")
        else:
            furnish(made)
        try:
            eventually(made.is_well, "all is well", within=WITHIN)
        except TimeoutError as exc:
            raise TimeoutError(f"{exc}: {made.ailment()}") from exc
        yield made


def _bed(directory: Path, kind: str) -> Bed:
    """Return a cluster that is yet to be started."""
    flags: dict[str, Sequence[str]] = {}
    if kind == CONSUL:
        return TokenBed(directory, store="consul")
    if kind == DOCKER:
        return Bed(directory, engines=("--live-restore",))
    if kind == KUBERNETES:
        file = directory / "contiv.json"
        server = f"http://{FABRIC_ADDRESS}:{API_PORT}"
        file.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": "secret"}))
        flags["netplugin"] = ["--k8s-config", str(file)]
    return Bed(directory, flags=flags, secure=kind == SECURE)


def furnish(made: BreakableCluster) -> None:
    """Make the networks, groups, service and pods."""
    bed = made.bed
    for words in (
        "net create --subnet=10.20.0.0/16 --gateway=10.20.0.1 default-net",
        "policy create guard",
        "group create default-net web",
        "group create -p guard default-net db",
        "service create -s default-net -l app=none -p 80:8080:TCP -ip 10.20.0.200 shop",
    ):
        bed.netctl(*words.split())
    for host, name, group in (
        (made.one, "web1", "web"),
        (made.two, "db1", "db"),
        (made.one, "web2", ""),
        (made.two, "db2", "db"),
    ):
        made.pods[name] = bed.add_pod(host, name, group=group)


@contextmanager
def api_server(made: BreakableCluster) -> Iterator[ApiServer]:
    """Run an API server of Kubernetes beside the masters."""
    with ApiServer(FABRIC_ADDRESS, API_PORT, namespace=made.between) as api:
        made.bed.api = api
        try:
            yield api
        finally:
            made.bed.api = None


def sysctl(namespace: Namespace, name: str, value: str) -> Callable[[], object]:
    """Set a value of the kernel; return what sets the former one."""
    before = namespace.run(["sysctl", "-n", name]).stdout.strip()
    namespace.run(["sysctl", "-qw", f"{name}={value}"])
    return partial(namespace.run, ["sysctl", "-qw", f"{name}={before}"])
