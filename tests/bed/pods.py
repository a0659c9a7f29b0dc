"""Pods as a container runtime sees them: a namespace, and calls of the CNI plugin.

In comes what kubelet would ask for; out comes the plugin's answer. The plugin is started as
containerd starts it: environment, network configuration on standard input, in the host's network
namespace. Must not know what the plugin does.
"""

import json
import os
import secrets
import subprocess
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bed.hosts import Host
from tests.bed.netns import Namespace
from tests.bed.traffic import round_trip
from tests.bed.waiting import PATIENCE, WITHIN

IFNAME = "eth0"


class CniFailed(Exception):
    """The plugin refused; `answer` is its error object, as far as it gave one."""

    def __init__(self, verb: str, done: "subprocess.CompletedProcess[str]") -> None:
        super().__init__(f"{verb}: status {done.returncode}: {done.stdout or done.stderr}")
        self.answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a runtime knows of a pod when it calls the plugin."""

    name: str
    kube_namespace: str
    container_id: str
    uid: str
    namespace: Namespace
    asked: tuple[str, ...] = ()
    """What CNI_ARGS asks for beside, as `IP=10.1.2.3`."""

    def args(self) -> str:
        """Write CNI_ARGS as containerd does."""
        return ";".join(
            [
                "IgnoreUnknown=1",
                f"K8S_POD_NAMESPACE={self.kube_namespace}",
                f"K8S_POD_NAME={self.name}",
                f"K8S_POD_INFRA_CONTAINER_ID={self.container_id}",
                f"K8S_POD_UID={self.uid}",
                *self.asked,
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that has its network."""

    sandbox: Sandbox
    host: Host
    conf: dict[str, Any]
    result: dict[str, Any]

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.sandbox.name

    @property
    def namespace(self) -> Namespace:
        """The pod's network namespace."""
        return self.sandbox.namespace

    @property
    def address(self) -> str:
        """The pod's first IP address."""
        return str(self.result["ips"][0]["address"]).partition("/")[0]

    @property
    def mac(self) -> str:
        """The MAC address of the pod's interface, as the kernel has it."""
        links = json.loads(self.namespace.run(["ip", "-json", "link", "show", IFNAME]).stdout)
        return str(links[0]["address"])

    def ping(self, address: str, *, count: int = 1, interval: float = 0.2) -> float | None:
        """Send ICMP echo requests; the mean time in ms if every one was answered, else None."""
        return round_trip(self.namespace, address, count=count, interval=interval)

    def loses_nothing_to(self, address: str, *, count: int = 1, interval: float = 0.2) -> bool:
        """Say whether each of some ICMP echo requests is answered, however late."""
        sent = partial(round_trip, self.namespace, address, count=count, interval=interval)
        return sent(patience=WITHIN) is not None


@dataclass(frozen=True, slots=True)
class Runtime:
    """Starts the plugin as containerd does, on any host."""

    plugin: Path

    def call(
        self,
        verb: str,
        host: Host,
        conf: dict[str, Any],
        sandbox: Sandbox,
        *,
        netns: str,
        ifname: str = IFNAME,
    ) -> "subprocess.CompletedProcess[str]":
        """Run the plugin once; its status and output are the caller's to judge."""
        return subprocess.run(
            [*host.namespace.enter, str(self.plugin)],
            input=json.dumps(conf),
            env=self.environment(verb, sandbox, netns=netns) | {"CNI_IFNAME": ifname},
            check=False,
            capture_output=True,
            text=True,
            timeout=WITHIN * PATIENCE,
        )

    def environment(self, verb: str, sandbox: Sandbox, *, netns: str) -> dict[str, str]:
        """Give the plugin's environment."""
        return {
            "PATH": os.environ["PATH"],
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": sandbox.container_id,
            "CNI_NETNS": netns,
            "CNI_IFNAME": IFNAME,
            "CNI_PATH": str(self.plugin.parent),
            "CNI_ARGS": sandbox.args(),
        }

    def add(self, host: Host, conf: dict[str, Any], sandbox: Sandbox) -> Pod:
        """Give a sandbox its network."""
        done = self.call("ADD", host, conf, sandbox, netns=str(sandbox.namespace.path))
        if done.returncode:
            raise CniFailed("ADD", done)
        return Pod(sandbox=sandbox, host=host, conf=conf, result=json.loads(done.stdout))

    def delete(self, pod: Pod) -> None:
        """Take a pod's network away, then its namespace."""
        netns = str(pod.namespace.path) if pod.namespace.path.exists() else ""
        done = self.call("DEL", pod.host, pod.conf, pod.sandbox, netns=netns)
        if done.returncode:
            raise CniFailed("DEL", done)
        pod.namespace.delete()


def new_sandbox(name: str, namespace: Namespace, *, kube_namespace: str = "default") -> Sandbox:
    """Make what kubelet and containerd make before they call the plugin."""
    return Sandbox(
        name=name,
        kube_namespace=kube_namespace,
        container_id=secrets.token_hex(32),
        uid=str(uuid.uuid4()),
        namespace=namespace.create(),
    )
