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

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import FABRIC_ADDRESS, Host
from tests.bed.kubernetes import ApiServer
from tests.bed.netns import Namespace, http_request
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import WITHIN, eventually
from tests.system.rest import ask

PLAIN, KUBERNETES, SECURE = "plain", "kubernetes", "secure"
"""Kinds of clusters."""
SECOND = 9998
"""The port of the second master."""
API_PORT = 6443
LINES = 40
"""Lines of a journal that an operator looks at."""


@dataclass(slots=True)
class Site:
    """A cluster of two hosts, with pods `web1` and `web2` on the first, `db1`, `db2` on the other.

    `db1` and `db2` are in the group `db` with the policy `guard`, `web1` is in `web`; the service
    `shop` has no provider.
    """

    bed: Bed
    second: Daemon
    pods: dict[str, Pod] = field(default_factory=dict)
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
        logged since the break; `preflight`.
        """
        program, *words = shlex.split(command)
        doing: Mapping[str, Callable[..., str]] = {
            "netctl": self._netctl,
            "plain": self._plain_netctl,
            "ADD": self._add,
            "journal": self._journal,
            "readyz": self._readyz,
            "preflight": self._preflight,
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
        web1, db1 = self.pods["web1"], self.pods["db1"]
        try:
            hosts = [ask(self.bed, "GET", f"/hosts/{one.label}").json() for one in self.bed.hosts]
        except (OSError, ValueError) as exc:
            return f"netmaster: {exc}"
        for host in hosts:
            wrong = [*host.get("errors", ["no record"]), host.get("behind", "")]
            if any(wrong):
                return f"{host.get('label')}: {wrong}"
        return "" if web1.ping(db1.address) is not None else "web1 does not reach db1"

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

    def _daemons(self) -> dict[str, Daemon]:
        agents = {host.label: self.agent(host.label) for host in self.bed.hosts}
        return {**agents, "netmaster": self.bed.netmaster, "second": self.second}


@contextmanager
def site(directory: Path, kind: str = PLAIN) -> Iterator[Site]:
    """Run a cluster of a kind during the body."""
    directory.mkdir()
    flags: dict[str, Sequence[str]] = {}
    if kind == KUBERNETES:
        file = directory / "contiv.json"
        server = f"http://{FABRIC_ADDRESS}:{API_PORT}"
        file.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": "secret"}))
        flags["netplugin"] = ["--k8s-config", str(file)]
    bed = Bed(directory, flags=flags, secure=kind == SECURE)
    with ExitStack() as stack:
        stack.callback(bed.stop)
        bed.start()
        second = bed.another_master(SECOND)
        stack.callback(second.kill)
        second.start()
        for host in bed.hosts:
            host.namespace.run(["ip", "route", "add", "default", "via", FABRIC_ADDRESS])
        made = Site(bed, second)
        if kind == KUBERNETES:
            stack.enter_context(api_server(made))
        furnish(made)
        yield made


def furnish(made: Site) -> None:
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
    eventually(made.is_well, "pods reach each other", within=WITHIN)


@contextmanager
def api_server(made: Site) -> Iterator[ApiServer]:
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
