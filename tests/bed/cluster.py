"""The whole system on one machine: store and netmaster beside the fabric, an agent on each host.

In come a directory and a number of hosts; out comes a running cluster that can be given pods, and
whose parts can be killed, frozen and restarted one by one. Used by the demo and by system tests.
"""

import shutil
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import permutations
from pathlib import Path
from types import MappingProxyType
from typing import Any

from core.addresses import authority
from tests.bed.daemon import AT_ONCE, Daemon
from tests.bed.docker import Mounts
from tests.bed.engines import SWARM, Engine
from tests.bed.hosts import UPLINK, Fabric, Host
from tests.bed.identities import Identities
from tests.bed.janitor import Keeper
from tests.bed.kubernetes import ApiServer
from tests.bed.kubernetes import pod as kube_pod
from tests.bed.netns import Namespace, answers, fresh_name
from tests.bed.physical import PhysicalNetwork
from tests.bed.plugin import compiled
from tests.bed.pods import Pod, Runtime, Sandbox, new_sandbox
from tests.bed.store import STORES, Store
from tests.bed.traffic import round_trip
from tests.bed.waiting import eventually

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
MODES = {
    "routing": ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing"],
    # the daemons refuse "vxlan" with "bridge", though such networks can be made
    "bridge": ["--mode", "kubernetes", "--netmode", "vlan", "--fwdmode", "bridge"],
}
DOCKER = ["--netmode", "vxlan", "--fwdmode", "routing", "--mode"]
"""The modes of a cluster whose hosts have docker engines, before that of docker."""
MASTER, ADMIN = "m1", "admin"
"""Names in the certificates of a secure bed; an agent's is the label of its host."""
NO_AUDITS = ["--audit-interval", "86400"]
"""Flags of an agent that looks at nothing by and by: what it does, it was told of at once."""
STORE_PORT = 2379
NETMASTER_PORT = 9999
SUBNETS = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1")
SUBNETS6 = ("--subnetv6=fd00:20::/64", "--gatewayv6=fd00:20::1")
"""What `netctl network create` is told of the network that a cluster begins with."""
AGENT_PORT = 9090


class Bed:
    """A cluster. `tell` hears about each step: what it is, and its command line.

    `flags` are more of them, by the name of the daemon. With `cards` each host
    has these as its uplink, plugged into a `physical` network; else one, into a plain bridge.
    `secure`: the daemons have certificates of an authority of this cluster (`identities`).
    `engines`: each host has a docker engine, started with these flags; netmaster is told of that
    of the first host. With `docker_mode` "swarm-mode" the engines have the managed plugin instead.
    `control6`: store, masters and agents reach each other by IPv6; tunnels stay with IPv4.
    `six`: no machine has an address of IPv4.
    """

    def __init__(
        self,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        hosts: int = 2,
        *,
        fwd_mode: str = "routing",
        flags: Mapping[str, Sequence[str]] = MappingProxyType({}),
        store: str = "etcd",
        cards: Sequence[str] = (),
        secure: bool = False,
        engines: Sequence[str] | None = None,
        docker_mode: str = "docker",
        control6: bool = False,
        six: bool = False,
        keeper: Keeper | None = None,
        tell: Callable[[str, str], None] = lambda _what, _command: None,
    ) -> None:
        self.dir = dir
        self.fwd_mode = fwd_mode
        self._modes = MODES[fwd_mode] if engines is None else [*DOCKER, docker_mode]
        self._flags = flags
        self._keeper = keeper
        self._tell = tell
        self._names = fresh_name("")
        self.fabric = Fabric(self._name("fabric"), keeper=keeper, six=six)
        self.hosts = [
            Host(
                number,
                self._name(f"h{number}"),
                dir / f"h{number}",
                keeper=keeper,
                forwards=engines is None,
                six=six,
            )
            for number in range(1, hosts + 1)
        ]
        self.engines = [
            Engine(host, in_swarm=docker_mode == SWARM, flags=engines or (), keeper=keeper)
            for host in (self.hosts if engines is not None else ())
        ]
        self._control6 = control6 or six
        self._six = six
        self.cards = tuple(cards) or (UPLINK,)
        network = PhysicalNetwork(self._name("phys"), dir / "phys", keeper=keeper)
        self._physical = network if cards else None
        self.runtime = Runtime(dir / "cni" / "contivk8s")
        self.pods: list[Pod] = []
        self.api: ApiServer | None = None
        """The API server that the agents ask about pods, if a test runs one."""

        self.identities = Identities(dir / "tls", tell) if secure else None
        self._scheme = "https" if secure else "http"
        self.control = self.fabric.address6 if self._control6 else self.fabric.address
        self.url = f"{self._scheme}://{authority(self.control, NETMASTER_PORT)}"
        self._kind = store
        self.netmaster = self._netmaster()
        self.agents = [self._agent(host) for host in self.hosts]
        self._undo = ExitStack()

    def start(self) -> "Bed":
        """Start everything; what was started is stopped again if a part does not come up."""
        with ExitStack() as undo:
            self._install_plugin()
            self._issue_certificates()
            undo.callback(self.fabric.stop)
            self.fabric.start()
            if self._physical is not None:
                undo.callback(self._physical.stop)
                self._physical.start()
            for host in self.hosts:
                self._tell(f"host {host.label}", f"namespace {host.namespace.name}, {host.address}")
                undo.callback(host.stop)
                host.start(self.fabric)
                self._plug(host)
            if self._control6 and not self._six:
                self._add_control6()
            for engine in self.engines:
                undo.callback(engine.end)
                engine.mounts.create()
            self.store = self.new_store()
            daemons = self._daemons()
            for what, daemon in daemons:
                self._tell(what, " ".join([daemon.name, *daemon.command[1:]]))
                undo.callback(daemon.kill)
                daemon.spawn()
            for _, daemon in daemons:
                daemon.await_ready()
            self._resolve_each_other()
            for engine in self.engines:
                engine.load_image()
            self._undo = undo.pop_all()
        return self

    def stop(self) -> None:
        """Remove every pod's namespace and end everything, in reverse order of its start."""
        for pod in self.pods:
            pod.namespace.delete()
        self.pods.clear()
        self._undo.close()

    @property
    def physical(self) -> PhysicalNetwork:
        """The physical network of this cluster."""
        assert self._physical is not None, "it has a plain bridge"
        return self._physical

    def another_master(self, port: int) -> Daemon:
        """Return a master to be started beside the first; it is ready when it answers."""
        internal = authority(self.control, port)
        return Daemon(
            [*self._netmaster_command(internal), "--ofnet-port", "0"],
            log=self.dir / f"netmaster-{port}.log",
            namespace=self.fabric.namespace,
            ready=lambda: self._answers(f"{self._scheme}://{internal}/info"),
            keeper=self._keeper,
        )

    def store_flags(self, _label: str = "") -> list[str]:
        """Say how a daemon finds the store: the agent of a host, or netmaster."""
        return [f"--{self._kind}", f"http://{authority(self.control, STORE_PORT)}"]

    def new_store(self) -> Store:
        """Make the store, which is started with the rest."""
        return STORES[self._kind](
            self.dir,
            self.fabric.namespace,
            self.control,
            STORE_PORT,
            keeper=self._keeper,
        )

    def netctl(self, *words: str, check: bool = True) -> str:
        """Run netctl beside netmaster; its output."""
        self._tell("netctl", " ".join(["netctl", *words]))
        done = self.fabric.namespace.run(self.netctl_command(*words), check=check)
        return done.stdout

    def netctl_command(self, *words: str) -> list[str]:
        """Return the command line of netctl, to be run beside netmaster."""
        flags = self.tls_flags(ADMIN)
        return [str(PROGRAMS / "netctl"), "--netmaster", self.url, *flags, *words]

    def add_pod(
        self,
        host: Host,
        name: str,
        *,
        tenant: str = "default",
        network: str = "default-net",
        group: str = "",
        labels: Mapping[str, str] = MappingProxyType({}),
        host_ports: Sequence[Mapping[str, object]] = (),
        kube_namespace: str = "default",
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> Pod:
        """Run a pod on a host: make its sandbox and have the plugin connect it.

        With an API server it has the pod first, with labels and annotations. `host_ports` are
        `portMappings`.
        """
        # A pod of the name may be there, as one is for a while whose node was lost.
        called = f"{name}-2" if any(one.name == name for one in self.pods) else name
        namespace = Namespace(self._name(called), keeper=self._keeper)
        sandbox = new_sandbox(name, namespace, kube_namespace=kube_namespace)
        if self.api is not None:
            self.api.put("namespaces", "", sandbox.kube_namespace)
            described = kube_pod(host.label, sandbox.uid, labels, annotations)
            self.api.put("pods", sandbox.kube_namespace, name, **described)
        conf = self.conf(host, tenant=tenant, network=network, group=group)
        if host_ports:
            conf["runtimeConfig"] = {"portMappings": list(host_ports)}
        self._tell_call("ADD", sandbox)
        try:
            pod = self.runtime.add(host, conf, sandbox)
        except BaseException:
            namespace.delete()
            raise
        self.pods.append(pod)
        return pod

    def delete_pod(self, pod: Pod) -> None:
        """End a pod: have the plugin disconnect it and remove its sandbox."""
        self._tell_call("DEL", pod.sandbox)
        self.runtime.delete(pod)
        self.pods.remove(pod)
        if self.api is not None:
            self.api.delete("pods", pod.sandbox.kube_namespace, pod.name)

    def conf(
        self, host: Host, *, tenant: str = "default", network: str = "default-net", group: str = ""
    ) -> dict[str, Any]:
        """Give the network configuration as a host's /etc/cni/net.d holds it."""
        contiv = {
            "socket": str(self.cni_socket(host)),
            "tenant": tenant,
            "network": network,
            "group": group,
        }
        return {
            "cniVersion": "1.0.0",
            "name": "contiv-net",
            "type": "contivk8s",
            "contiv": contiv,
        }

    def cni_socket(self, host: Host) -> Path:
        """Say where a host's agent listens for the plugin."""
        return host.dir / "contiv-cni.sock"

    def logs(self) -> list[Path]:
        """List the log files of this cluster's daemons."""
        return sorted(self.dir.glob("**/*.log"))

    @property
    def _anywhere(self) -> str:
        return "::" if self._control6 else "0.0.0.0"

    def _add_control6(self) -> None:
        ends = [(host.namespace, "br-phy", host.address6) for host in self.hosts]
        for namespace, link, address in [*ends, (self.fabric.namespace, "sw", self.control)]:
            namespace.run(["ip", "address", "add", f"{address}/64", "dev", link, "nodad"])

    def _plug(self, host: Host) -> None:
        if self._physical is not None:
            self._physical.plug(host.namespace, host.label, self.cards)
        else:
            self.fabric.join(host.namespace, f"p{host.label}", card=UPLINK, switch="phys")

    def _tell_call(self, verb: str, sandbox: Sandbox) -> None:
        self._tell(
            f"pod {sandbox.name}",
            f"CNI_COMMAND={verb} CNI_NETNS={sandbox.namespace.path} ... contivk8s <10-contiv.conf",
        )

    def _daemons(self) -> list[tuple[str, Daemon]]:
        agents = [
            (f"agent on {host.label}", agent)
            for host, agent in zip(self.hosts, self.agents, strict=True)
        ]
        engines = [(f"docker on {engine.label}", engine) for engine in self.engines]
        return [(self.store.kind, self.store), ("netmaster", self.netmaster), *agents, *engines]

    def _netmaster(self) -> Daemon:
        internal = authority(self.control, NETMASTER_PORT)
        return Daemon(
            self._netmaster_command(internal),
            log=self.dir / "netmaster.log",
            namespace=self.fabric.namespace,
            env=AT_ONCE,
            ready=lambda: self._answers(f"{self.url}/info", f'"leader-ip":"{internal}"'),
            keeper=self._keeper,
        )

    def _netmaster_command(self, internal: str) -> list[str]:
        port = internal.rpartition(":")[2]
        return [
            *(str(PROGRAMS / "netmaster"), *self._modes, *self.store_flags()),
            *(
                "--external-address",
                authority(self._anywhere, port),
                "--internal-address",
                internal,
            ),
            *self.tls_flags(MASTER),
            *(("--docker-socket", str(self.engines[0].socket)) if self.engines else ()),
            *self._flags.get("netmaster", ()),
        ]

    def _agent(self, host: Host) -> Daemon:
        engine = next((one for one in self.engines if one.label == host.label), None)
        inside = None if engine is None else engine.mounts
        return HostDaemon(
            inside,
            [
                *(str(PROGRAMS / "netplugin"), *self._modes, *self.store_flags(host.label)),
                *("--host", host.label, "--vtep-ip", host.address),
                *("--ctrl-ip", host.address6 if self._control6 else host.address),
                *("--run-dir", str(host.dir), "--data-dir", str(host.dir / "data")),
                *("--ovsdb", f"unix:{host.ovs.db_socket}"),
                *("--cni-socket", str(self.cni_socket(host))),
                *("--rest-address", authority(self._anywhere, AGENT_PORT)),
                *("--vlan-uplinks", ",".join(self.cards)),
                *self.tls_flags(host.label),
                *(_engine_flags(engine) if engine else ()),
                *self._flags.get("netplugin", ()),
            ],
            log=host.dir / "netplugin.log",
            namespace=host.namespace,
            env={**host.ovs.environment, "NODE_NAME": host.label},
            ready=lambda: self._agent_ready(host, engine),
            keeper=self._keeper,
        )

    def _agent_ready(self, host: Host, engine: Engine | None) -> bool:
        url = f"{self.agent_url()}/debug/leaks"
        served = self.cni_socket(host) if engine is None else engine.plugin_socket
        return _accepts(served) and answers(url, namespace=host.namespace, context=self.context())

    def context(self, name: str = ADMIN) -> ssl.SSLContext | None:
        """Return the TLS context of a client with an identity; None where the bed is plain."""
        return self.identities.context(name) if self.identities else None

    def _answers(self, url: str, text: str = "") -> bool:
        namespace = self.fabric.namespace
        return answers(url, namespace=namespace, text=text.encode(), context=self.context())

    def agent_url(self) -> str:
        """Return the URL of an agent's REST routes, on its host."""
        _, own = self.agent_addresses(self.hosts[0])
        return f"{self._scheme}://{authority(own, AGENT_PORT)}"

    def agent_addresses(self, host: Host) -> tuple[str, str]:
        """Return the addresses at which an agent is reached, from outside and on its host."""
        return (host.address6, "::1") if self._control6 else (host.address, "127.0.0.1")

    def tls_flags(self, name: str = ADMIN) -> list[str]:
        """Return the flags of a program with an identity, none where the bed is plain."""
        return self.identities.flags(name) if self.identities else []

    def _resolve_each_other(self) -> None:
        """Have each host resolve the others' addresses.

        The userspace switch drops what it has to send to a neighbour it has not resolved yet; the
        kernel's would queue it. It learns from ARP answers to its host.
        """
        for host, peer in permutations(self.hosts, 2):
            resolved = partial(round_trip, host.namespace, peer.address)
            eventually(resolved, f"{host.label} reaches {peer.label}")

    def _issue_certificates(self) -> None:
        if self.identities is None:
            return
        self.identities.initialize()
        self.identities.issue("master", MASTER, self.control)
        self.identities.issue("admin", ADMIN)
        for host in self.hosts:
            self.identities.issue("agent", host.label, *self.agent_addresses(host))

    def _install_plugin(self) -> None:
        self.runtime.plugin.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(compiled(), self.runtime.plugin)
        self.runtime.plugin.chmod(0o755)

    def _name(self, role: str) -> str:
        return f"{self._names}{role}"


@contextmanager
def networked(bed: Bed) -> Iterator[Bed]:
    """Run a cluster during the body, with a network `default-net` (10.20.0.0/16)."""
    bed.start()
    try:
        bed.netctl("net", "create", *SUBNETS, "default-net")
        yield bed
    finally:
        bed.stop()


class HostDaemon(Daemon):
    """A daemon that sees the mounts of its host, where that has some of its own."""

    def __init__(self, mounts: Mounts | None, command: Sequence[str], **more: Any) -> None:
        super().__init__(command, **more)
        self._mounts = mounts

    def prefix(self) -> list[str]:
        """Return what runs before the program."""
        return [*super().prefix(), *(self._mounts.enter if self._mounts else ())]


def _engine_flags(engine: Engine) -> tuple[str, ...]:
    plugin = ("--docker-plugin-socket", str(engine.plugin_socket))
    return (*plugin, "--docker-socket", str(engine.socket))


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        try:
            door.connect(str(path))
        except OSError:
            return False
    return True
