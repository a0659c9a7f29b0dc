"""A cluster: the control plane and three machines on one switch, and this project's manifests.

In come Kubernetes' binaries (`K8S_BIN`) and the images of `make image`; out comes a cluster with
nodes that have no network yet. `install` applies the manifests as a user does: an overlay of his
own, with the addresses of his site. Next: `tests.e2e.kubernetes`, the cases.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.bed.janitor import process_janitor
from tests.bed.netns import Namespace, tx_checksum_off
from tests.bed.waiting import eventually
from tests.e2e import images
from tests.e2e.control_plane import ControlPlane, await_default_account, version_of
from tests.e2e.node import Node, join
from tests.e2e.programs import OLDEST, Family

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "kubernetes"
BEFORE_130 = DEPLOY / "before-1.30"
IPV6 = DEPLOY / "ipv6"
IMAGES = ROOT / "build" / "image"
LOGS = ROOT / ".run" / "e2e"
"""What the programs and pods of the last cluster wrote."""
BINARIES = (
    *("kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"),
    "kubectl",
)
SYSTEM = "contiv-system"
GATEWAY = "10.88.0.254"
GATEWAY6 = "fd00:88::254"
PATIENCE = 180.0
SYSCTLS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
"""kubelet writes these for the whole machine; they are put back."""


def missing() -> str:
    """Return what is missing for a cluster, and where to get it; "" if all is there."""
    folder = Path(os.environ.get("K8S_BIN", ""))
    absent = [name for name in BINARIES if not (folder / name).is_file()]
    if not os.environ.get("K8S_BIN") or absent:
        return (
            f"K8S_BIN must name a folder with Kubernetes' programs, all of one release from "
            f"{OLDEST} on; missing: {', '.join(absent)}. "
            "Take them from a release (https://kubernetes.io/releases/download/), or build 1.20 "
            "from Debian's sources, in 10 to 20 minutes: scripts/kubernetes-binaries FOLDER"
        )
    kubectl = str(folder / "kubectl")
    said = subprocess.run(
        [kubectl, "version", "--client", "-o", "json"], check=True, capture_output=True
    )
    version = json.loads(said.stdout)["clientVersion"]
    if int(version["minor"].rstrip("+")) < 27:
        return (
            f"overlays need kubectl 1.27 or later, {kubectl} is {version['gitVersion']}: put "
            f"another one there, as scripts/kubectl {folder} does once that one is gone"
        )
    versions = {name: version_of(folder / name) for name in BINARIES if name != "kubectl"}
    if len({*versions.values()}) > 1 or min(versions.values()) < OLDEST:
        here = ", ".join(f"{name} {one}" for name, one in versions.items())
        return f"the programs must be of one release, from {OLDEST} on; here are {here}"
    return ""


class RealCluster:
    """A running cluster; `close` removes all of it.

    The control plane has a namespace of its own, or is on the first node (`plane_on_node`), which
    is then to stay on.
    """

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        *,
        family: Family = Family.V4,
        plane_on_node: bool = False,
    ) -> None:
        self.directory = directory
        self.family = family
        self.binaries = Path(os.environ["K8S_BIN"]).resolve()
        process_janitor().watch_dir(directory)
        self.fabric = Namespace(f"e2e-{os.getpid()}-fabric")
        self._plane_on_node = plane_on_node
        self.nodes = [
            Node(
                f"n{number}",
                family.choose(f"10.88.0.1{number}", f"fd00:88::1{number}"),
                directory / f"n{number}",
                binaries=self.binaries,
                kubeconfig=directory / "kubeconfig",
            )
            for number in range(1, nodes + 1)
        ]
        first = self.nodes[0]
        self.plane = ControlPlane(
            self.binaries,
            directory,
            family=family,
            node=(first.namespace, first.address) if plane_on_node else None,
        )
        self._sysctls: dict[Path, str] = {}

    # -- the machines ------------------------------------------------------------------------------

    def start(self, more_images: Sequence[Path] = ()) -> None:
        """Start the control plane and the machines; return when the nodes are registered."""
        for name in SYSCTLS:
            path = Path("/proc/sys") / name
            self._sysctls[path] = path.read_text()
        self._make_fabric()
        busybox = images.dynamic_busybox(self.directory)
        tars = [
            images.write(self.directory / "pause.tar", images.PAUSE, ["sleep", "99999999"]),
            images.write(self.directory / "tools.tar", images.TOOLS, ["sh"]),
            images.write(self.directory / "public.tar", images.PUBLIC, ["sh"], busybox),
            *(IMAGES / f"{name}.tar" for name in ("netplugin", "etcd", "openvswitch")),
            *more_images,
        ]
        for node in self.nodes:
            node.make()
            join(node, self.fabric)
        # most of a start is the import of images
        with ThreadPoolExecutor() as side_by_side:
            list(side_by_side.map(lambda node: _start(node, tars), self.nodes))
        self.plane.start()
        for node in self.nodes:
            node.start_kubelet()
        for node in self.nodes:
            eventually(
                lambda node=node: self.get("node", node.name),  # type: ignore[misc]  # bound now
                f"node {node.name} is registered",
                within=PATIENCE,
            )
        await_default_account(self.plane)

    def close(self) -> None:
        """Remove everything but the logs, which go to `LOGS`."""
        self._keep_logs()
        for node in self.nodes:
            node.remove()
        self.plane.stop()
        self.fabric.delete()
        for path, value in self._sysctls.items():
            path.write_text(value)

    def _keep_logs(self) -> None:
        shutil.rmtree(LOGS, ignore_errors=True)
        for log in self.directory.rglob("*.log"):
            kept = LOGS / log.relative_to(self.directory)
            kept.parent.mkdir(parents=True, exist_ok=True)
            # what a pod's log in /var/log/pods links to may be gone
            if log.is_file():
                shutil.copyfile(log, kept)

    def _make_fabric(self) -> None:
        self.fabric.create()
        self.fabric.run(["ip", "link", "add", "sw", "type", "bridge"])
        self.fabric.run(["ip", "address", "add", f"{GATEWAY}/24", "dev", "sw"])
        self.fabric.run(["ip", "address", "add", f"{GATEWAY6}/64", "dev", "sw", "nodad"])
        self.fabric.run(["ip", "link", "set", "sw", "up"])
        if self._plane_on_node:
            return
        master = self.plane.namespace.create()
        peer = ["peer", "name", "eth0", "netns", master.name]
        self.fabric.run(["ip", "link", "add", "plane", "type", "veth", *peer])
        self.fabric.run(["ip", "link", "set", "plane", "master", "sw", "up"])
        of6 = ":" in self.plane.address
        own = [f"{self.plane.address}/64", "nodad"] if of6 else [f"{self.plane.address}/24"]
        master.run(["ip", "address", "add", *own, "dev", "eth0"])
        master.run(["ip", "link", "set", "eth0", "up"])
        master.run(["ip", "route", "add", "default", "via", GATEWAY6 if of6 else GATEWAY])
        tx_checksum_off(self.fabric, "plane")
        tx_checksum_off(master, "eth0")

    # -- the manifests -----------------------------------------------------------------------------

    def overlay(self, name: str = "without-kube-proxy", tag: str = "", **more: str) -> Path:
        """Write an overlay of this site over one of the project's; return its directory.

        `tag` is that of another image of the daemons, `more` are further settings.
        """
        site = self.directory / f"site-{name}"
        site.mkdir(exist_ok=True)
        base = os.path.relpath(DEPLOY / "overlays" / name, site)
        store = f"https://{self.nodes[0].in_url}:6666"
        settings = {
            **self._pods(),
            "CONTIV_NETMASTER_ETCD_ENDPOINTS": store,
            "CONTIV_NETPLUGIN_ETCD_ENDPOINTS": store,
            "KUBERNETES_SERVICE_HOST": self.plane.address,
            "KUBERNETES_SERVICE_PORT": "6443",
            **more,
        }
        patches: list[dict[str, Any]] = [{**_named("ConfigMap", "contiv"), "data": settings}]
        content = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [base],
            "components": self._components(site),
            "images": [{"name": "contiv/netplugin", "newTag": tag}] if tag else [],
            "patches": [{"path": f"patch{number}.json"} for number in range(len(patches))],
        }
        # JSON is YAML
        (site / "kustomization.yaml").write_text(json.dumps(content))
        for number, patch in enumerate(patches):
            (site / f"patch{number}.json").write_text(json.dumps(patch))
        return site

    def _pods(self) -> dict[str, str]:
        """Return the settings of the pods' network that differ from the overlays'."""
        if self.family is Family.DUAL:
            return {"POD_SUBNET6": "fd00:20::/64", "POD_GATEWAY6": "fd00:20::ffff:fffe"}
        if self.family is Family.V6_FIRST:
            four = {"POD_SUBNET": "10.20.0.0/16", "POD_GATEWAY": "10.20.255.254"}
            return {**four, "POD_FIRST_FAMILY": "ipv6"}
        return {}

    def plain_overlay(self, name: str) -> Path:
        """Return an overlay of the project; for an API server before 1.30, with what that needs."""
        project = DEPLOY / "overlays" / name
        site = self.directory / f"plain-{name}"
        site.mkdir(exist_ok=True)
        components = self._components(site)
        if not components:
            return project
        content = {"resources": [os.path.relpath(project, site)], "components": components}
        (site / "kustomization.yaml").write_text(json.dumps(content))
        return site

    def _components(self, site: Path) -> list[str]:
        """Return what an overlay needs for addresses of nodes, and for API servers before 1.30."""
        field = "pod.spec.containers.securityContext.appArmorProfile"
        known = self.kubectl("explain", field, check=False)
        wanted = {BEFORE_130: not known, IPV6: ":" in self.nodes[0].address}
        return [os.path.relpath(one, site) for one, needed in wanted.items() if needed]

    def uninstall(self) -> None:
        """Run the project's script, and see that nothing is left on the nodes."""
        self.shell(str(DEPLOY / "uninstall"))
        for node in self.nodes:
            left = (
                "find /etc/cni/net.d /opt/cni/bin /run/contiv /var/lib/contiv/netplugin "
                "! -type d ! -name loopback"
            )
            files = node.run("sh", "-c", f"{left} 2>/dev/null", check=False)
            assert not files, f"{node.name} has {files}"
            for command in (["ip", "link"], ["iptables-save"]):
                said = node.run(*command)
                assert "contiv" not in said.lower(), f"{node.name} has {said}"
        assert self.get("namespace", SYSTEM) is None
        self.await_nodes(ready=False)

    def shell(self, script: str, **variables: str) -> None:
        """Run a script as an operator does, in the project's directory, with kubectl."""
        done = self.plane.namespace.run(
            ["bash", "-euxo", "pipefail", "-c", f"cd {ROOT}; {script}"],
            env={
                "KUBECONFIG": str(self.plane.kubeconfig),
                "PATH": f"{self.binaries}:/usr/sbin:/usr/bin:/sbin:/bin",
                **variables,
            },
            check=False,
            timeout=4 * PATIENCE,
        )
        assert not done.returncode, f"{done.stdout}{done.stderr}\n{self.state()}"

    def install(self, name: str = "without-kube-proxy", **more: str) -> None:
        """Apply an overlay of the manifests; return when the nodes are ready."""
        self.kubectl("label", "--overwrite", "node", self.nodes[0].name, "contiv.io/store=")
        self.kubectl("apply", "-k", str(self.overlay(name, **more)))
        self.await_nodes(ready=True)

    # -- asking ------------------------------------------------------------------------------------

    def kubectl(self, *words: str, check: bool = True, text: str = "") -> str:
        """Run kubectl; return its output."""
        return self.plane.kubectl(*words, check=check, text=text)

    def kubectl_words(self, *words: str) -> list[str]:
        """Return the words of a kubectl."""
        return self.plane.kubectl_words(*words)

    def netctl(self, *words: str, check: bool = True) -> str:
        """Run netctl in a master's pod, with the administrator's certificate that is there."""
        inside = ("exec", "-n", SYSTEM, "deploy/contiv-netmaster", "-c", "netmaster", "--")
        return self.kubectl(*inside, "netctl", *words, check=check)

    def get(self, *words: str) -> Any:
        """Return an object, or a list of them; None if there is none."""
        said = self.kubectl("get", *words, "-o", "json", check=False)
        return json.loads(said) if said else None

    def ready(self, node: Node) -> bool:
        """Return whether kubelet says that a node is ready."""
        found = self.get("node", node.name) or {"status": {}}
        conditions = found["status"].get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def await_nodes(self, *, ready: bool) -> None:
        """Wait until all nodes are ready, or none is."""
        self.until(
            lambda: all(self.ready(node) is ready for node in self.nodes),
            f"nodes are {'ready' if ready else 'not ready'}",
        )

    def until(self, check: Callable[[], Any], what: str, within: float = PATIENCE) -> Any:
        """Wait for a condition; what failed is told with the state of the cluster."""
        try:
            return eventually(check, what, within=within)
        except TimeoutError as exc:
            raise TimeoutError(f"{exc}\n{self.state()}") from exc

    def state(self) -> str:
        """Return what helps to find out why something failed."""
        agents = (
            f"logs -n {SYSTEM} -l app.kubernetes.io/name=contiv-netplugin -c netplugin --prefix"
        )
        asked = ("get nodes,pods -A -o wide", "get events -A --sort-by=.lastTimestamp", agents)
        parts = [self.kubectl(*words.split(), check=False) for words in asked]
        shown = ("tnl/neigh/show", "ovs/route/show", "dpctl/dump-flows -m")
        for node in self.nodes:
            parts.append(f"-- Open vSwitch of {node.name}")
            parts += [node.run("ovs-appctl", *words.split(), check=False) for words in shown]
        return "\n".join(parts)

    def pods_of(self, name: str) -> list[dict[str, Any]]:
        """Return the pods of one of the manifests' programs."""
        label = f"app.kubernetes.io/name={name}"
        return list((self.get("pods", "-n", SYSTEM, "-l", label) or {"items": []})["items"])


def _start(node: Node, tars: Sequence[Path]) -> None:
    node.power_on()
    node.start_runtime()
    node.load(tars)


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": SYSTEM}}
