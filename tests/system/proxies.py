"""kube-proxy beside the agents: of mode iptables, and the rules of one of mode nftables.

In come hosts and the only target of two services; out come rules in the hosts' kernels. Mode
iptables is a real kube-proxy where `K8S_BIN` names a folder with one, else the rules that one made
(`kube_proxy_rules.json`, recorded by `tests/system/kube_proxy.py`). Mode nftables is of releases
since 1.29: its rules are written here (`tests.system.nft_proxy`). Must not know the agents.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.netns import Namespace
from tests.bed.waiting import WITHIN, eventually
from tests.system import nft_proxy
from tests.system.service_ways import (
    ADDRESS,
    ADDRESS6,
    EXTERNAL,
    EXTERNAL6,
    PORTS,
    READY,
    TARGET,
    body,
)

RECORDED = Path(__file__).with_name("kube_proxy_rules.json")
DISCOVERY = "discovery.k8s.io/v1beta1"
"""The version of slices that kube-proxy 1.20 asks for."""
NAMESPACE = "shop"
LOCAL_ADDRESS, LOCAL_ADDRESS6, LOCAL_PORT = "10.96.0.11", "fd00:96::11", 30081
BALANCED, BALANCED6 = "203.0.113.10", "2001:db8:113::10"
MODES = ("iptables", "nftables")
_PROGRAMS = {4: "iptables", 6: "ip6tables"}
_TARGET, _MARK = "<target>", "<mark>"
"""What stands for the target's address, and for the mark of masquerading, in what is recorded."""
_TABLES = ("nat", "filter")
_COMMENT = re.compile(r' -m comment --comment "[^"]*"')


@dataclass(frozen=True)
class Settings:
    """How a kube-proxy is set: where pods are (`--cluster-cidr`), and its mark of masquerading.

    With the first it masquerades what comes to cluster addresses from elsewhere.
    """

    cidrs: Sequence[str] = ()
    bit: int = 14

    @property
    def mark(self) -> str:
        return hex(1 << self.bit)


SETTINGS = {
    "plain": Settings(),
    "cidr": Settings(("10.60.0.0/15", "fd00:60::/31")),
    "bit": Settings(bit=20),
}


@dataclass(frozen=True)
class Served:
    """The target of both services: an address, and the label of the host that has it."""

    version: int
    target: str
    host: str

    @property
    def at(self) -> str:
        """The address and port of the target."""
        return f"{self.target if self.version == 4 else f'[{self.target}]'}:{TARGET}"


def addresses(version: int) -> list[str]:
    """Return where pods ask for the services."""
    if version == 4:
        return [ADDRESS, EXTERNAL, BALANCED, LOCAL_ADDRESS]
    return [ADDRESS6, EXTERNAL6, BALANCED6, LOCAL_ADDRESS6]


def bodies(version: int) -> dict[str, dict[str, Any]]:
    """Return the services: `web` is for all by each way, `local` by the target's host alone."""
    web = body(version)
    web["spec"]["type"] = "LoadBalancer"
    balanced = BALANCED if version == 4 else BALANCED6
    web["status"] = {"loadBalancer": {"ingress": [{"ip": balanced}]}}
    ports = [{**one, "nodePort": LOCAL_PORT} for one in PORTS]
    local = service(LOCAL_ADDRESS if version == 4 else LOCAL_ADDRESS6, *ports)
    local["spec"] |= {"type": "NodePort", "externalTrafficPolicy": "Local"}
    return {"web": web, "local": local}


def tell(api: ApiServer, served: Served) -> None:
    """Have the API server tell of the services, old kube-proxies too."""
    endpoint = {
        "addresses": [served.target],
        "conditions": {"ready": True},
        "nodeName": served.host,
        "topology": {"kubernetes.io/hostname": served.host},
    }
    for name, said in bodies(served.version).items():
        ready = endpoint_slice(name, endpoint, ports=READY, family=f"IPv{served.version}")
        kind = {"kind": "EndpointSlice", "apiVersion": DISCOVERY}
        api.put(SLICES, NAMESPACE, f"{name}-a", **kind, **ready)
        api.put(SERVICES, NAMESPACE, name, kind="Service", apiVersion="v1", **said)


def untell(api: ApiServer) -> None:
    """Have it tell that they are gone."""
    for name in bodies(4):
        api.delete(SLICES, NAMESPACE, f"{name}-a")
        api.delete(SERVICES, NAMESPACE, name)


def real() -> str:
    """Return the program of a real kube-proxy, "" if there is none."""
    folder = os.environ.get("K8S_BIN", "")
    return str(Path(folder, "kube-proxy").resolve()) if folder else ""


@contextmanager
def beside(
    mode: str, name: str, hosts: Mapping[str, Namespace], api: ApiServer, served: Served
) -> Iterator[None]:
    """Run a kube-proxy on each host, by its label; the API server has told of the services."""
    with ExitStack() as stack:
        for label, host in hosts.items():
            if mode == "nftables":
                stack.enter_context(_of_nftables(host, name, served, here=served.host == label))
            elif program := real():
                stack.enter_context(running(program, host, label, api, SETTINGS[name]))
            else:
                stack.enter_context(_recorded(host, name, served, here=served.host == label))
        if mode == "iptables":
            for host in hosts.values():
                eventually(partial(leads_to, host, served), "kube-proxy's rules", within=120)
        yield


def leads_to(host: Namespace, served: Served) -> bool:
    """Tell whether a kube-proxy of mode iptables has made all rules."""
    shown = host.run([f"{_PROGRAMS[served.version]}-save", "-t", "nat"]).stdout
    return shown.count(f"--to-destination {served.at}") == 2 * len(READY)


@contextmanager
def running(
    program: str, host: Namespace, label: str, api: ApiServer, settings: Settings
) -> Iterator[None]:
    """Run a real kube-proxy of mode iptables for both families."""
    words = [program, f"--master={api.url}", f"--hostname-override={label}"]
    words += ["--proxy-mode=iptables", "--bind-address=127.0.0.1"]
    words += ["--feature-gates=IPv6DualStack=true"]
    words += [f"--cluster-cidr={','.join(settings.cidrs)}"] if settings.cidrs else []
    words += [f"--iptables-masquerade-bit={settings.bit}"]
    # what a namespace may not set
    words += ["--conntrack-max-per-core=0", "--conntrack-min=0", "--iptables-min-sync-period=0s"]
    words += ["--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0"]
    process = host.popen(words)
    try:
        yield
    finally:
        process.kill()
        process.wait()
        _clear(host)


def rules(host: Namespace, served: Served, settings: Settings) -> dict[str, list[str]]:
    """Return the rules of a kube-proxy of mode iptables by table, as they are recorded."""
    found = {}
    for table in _TABLES:
        shown = host.run([f"{_PROGRAMS[served.version]}-save", "-t", table]).stdout
        lines = [line.partition(" - ")[0] for line in shown.splitlines() if "KUBE-" in line]
        bare = "\n".join(_COMMENT.sub("", line) for line in lines)
        whose = bare.replace(served.target, _TARGET).replace(settings.mark, _MARK)
        found[table] = whose.splitlines()
    return found


@contextmanager
def _recorded(host: Namespace, name: str, served: Served, *, here: bool) -> Iterator[None]:
    """Load the rules that a real kube-proxy made."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))["rules"]
    settings, where = SETTINGS[name], "here" if here else "elsewhere"
    found = kept[f"IPv{served.version}"]["cidr" if settings.cidrs else "plain"][where]
    lines: list[str] = []
    for table, recorded in found.items():
        chains = [f"{line} - [0:0]" for line in recorded if line.startswith(":")]
        added = [line for line in recorded if line.startswith("-A KUBE-")]
        # it inserts what leads to its chains before the rules that are there
        leading = [line for line in recorded if line.startswith("-A ") and line not in added]
        inserted = [line.replace("-A ", "-I ", 1) for line in reversed(leading)]
        lines += [f"*{table}", *chains, *added, *inserted, "COMMIT"]
    text = "\n".join(lines).replace(_TARGET, served.target).replace(_MARK, settings.mark) + "\n"
    _restore(host, served.version, text)
    host.run(["sysctl", "-q", "-w", "net.ipv4.conf.all.route_localnet=1"])
    try:
        yield
    finally:
        _clear(host)


@contextmanager
def _of_nftables(host: Namespace, name: str, served: Served, *, here: bool) -> Iterator[None]:
    settings = SETTINGS[name]
    text = nft_proxy.table(
        bodies(served.version).values(),
        served.version,
        served.target,
        here=here,
        cidr=settings.cidrs[served.version == 6] if settings.cidrs else "",
        mark=settings.mark,
    )
    _fed(host, ["nft", "-f", "-"], text)
    try:
        yield
    finally:
        host.run(["nft", "delete", "table", nft_proxy.FAMILIES[served.version], nft_proxy.TABLE])


def _clear(host: Namespace) -> None:
    """Remove what a kube-proxy of mode iptables made."""
    for version, program in _PROGRAMS.items():
        lines: list[str] = []
        for table in (*_TABLES, "mangle"):
            shown = host.run([f"{program}-save", "-t", table]).stdout.splitlines()
            chains = [line.split()[0][1:] for line in shown if line.startswith(":KUBE-")]
            leading = [
                line
                for line in shown
                if "-j KUBE-" in line and line.startswith("-A ") and not line.startswith("-A KUBE-")
            ]
            lines += [f"*{table}", *(f":{name} - [0:0]" for name in chains)]
            lines += [line.replace("-A ", "-D ", 1) for line in leading]
            lines += [*(f"-X {name}" for name in chains), "COMMIT"]
        _restore(host, version, "\n".join(lines) + "\n")
    host.run(["sysctl", "-q", "-w", "net.ipv4.conf.all.route_localnet=0"])


def _restore(host: Namespace, version: int, text: str) -> None:
    _fed(host, [f"{_PROGRAMS[version]}-restore", "-w", "5", "--noflush"], text)


def _fed(host: Namespace, words: list[str], text: str) -> None:
    """Run a program on a host that reads a text. Raises CalledProcessError."""
    subprocess.run([*host.enter, *words], input=text, text=True, check=True, timeout=WITHIN)
