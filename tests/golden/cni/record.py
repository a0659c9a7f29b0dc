"""Records what a runtime sends to a CNI plugin, by `recorder`: a line for each call (README.md).

In come the programs of a runtime, in the order of `PATH` where a release of its own is meant, and
the name of a recording; out comes `runtimes/NAME.jsonl`. `ASKED` is what the runtime was asked for,
by the name of the pod, as the agent is to read it: each ADD carries its part, and
`tests/integration/cni/test_recordings.py` compares.
"""

import json
import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bed.busybox import write_image
from tests.bed.containerd import IMAGE, PLUGINS, Containerd
from tests.bed.cri import Cri, Mapped
from tests.bed.netns import Namespace, fresh_name

HERE: Final = Path(__file__).parent
RECORDER: Final = HERE / "recorder"
SHOWN: Final = "/lab/rt"
"""What a recording has for the directory in which it was made."""
CAPABILITIES: Final = (
    *("aliases", "bandwidth", "cgroupPath", "dns", "io.kubernetes.cri.pod-annotations"),
    *("ipRanges", "ips", "mac", "portMappings"),
)
PORTS: Final = (
    Mapped(18080, 8080),
    Mapped(10053, 53, "udp", "127.0.0.1"),
    Mapped(8443, 443, "sctp", "::1"),
)
RATES: Final = {"ingress": "10M", "egress": "8M"}
DNS: Final = {
    "servers": ["10.96.0.10", "fd77::a"],
    "searches": ["default.svc.cluster.local", "svc.cluster.local"],
    "options": ["ndots:5"],
}
_READ: Final = {"servers": "nameservers", "searches": "search", "options": "options"}
_TWO_PORTS: Final = ["tcp 18080 to 8080", "udp 10053 of 127.0.0.1 to 53"]
_LIMITS: Final = {"sends": [8000, 0], "receives": [10000, 0]}
_STATIC: Final = {"ips": ["10.77.0.99", "fd77::99"], "mac": "0a:00:00:00:00:99"}

ASKED: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "containerd": {
        "ports": {"ports": ["sctp 8443 of ::1 to 443", *_TWO_PORTS]},
        "limited": _LIMITS,
        "named": {"dns": {_READ[name]: texts for name, texts in DNS.items()}, "sends": [8000, 0]},
    },
    "ocicni": {
        "limited": _LIMITS,
        "asking": {"ports": _TWO_PORTS, "mac": _STATIC["mac"], "ips": ["10.77.0.99"]},
    },
    "gocni": {
        "ports": {"ports": ["tcp 18080 of 0.0.0.0 to 8080", _TWO_PORTS[1]]},
        "static": _STATIC,
    },
    "podman": {"ports": {"ports": _TWO_PORTS}, "static": _STATIC},
}


def network(directory: Path, version: str) -> dict[str, Any]:
    """Return the network configuration list of a recording."""
    ranges = [[{"subnet": "10.77.0.0/24"}], [{"subnet": "fd77::/64"}]]
    routes = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
    ipam = {"type": "host-local", "dataDir": str(directory / "ipam"), "ranges": ranges}
    bridge = {"type": "bridge", "bridge": "recbr0", "isGateway": True}
    plugin = {
        "type": RECORDER.name,
        "capabilities": dict.fromkeys(CAPABILITIES, True),
        "delegate": bridge | {"ipam": ipam | {"routes": routes}},
    }
    return {"cniVersion": version, "name": "recnet", "plugins": [plugin]}


def containerd(directory: Path, namespace: Namespace, version: str) -> None:
    """Have a containerd run the pods by CRI and end them, as kubelet does."""
    runtime = Containerd(directory, namespace, RECORDER)
    try:
        runtime.prepare(network(directory, version))
        runtime.start(within=60)
        runtime.load_image()
        with runtime.client() as cri:
            _run_pods(cri)
    finally:
        runtime.destroy()


def _run_pods(cri: Cri) -> None:
    key = "kubernetes.io/{}-bandwidth"
    rates = {key.format(way): rate for way, rate in RATES.items()}
    egress = {key.format("egress"): RATES["egress"]}
    asked: Mapping[str, Mapping[str, Any]] = {
        "plain": {},
        "ports": {"ports": PORTS},
        "limited": {"annotations": rates},
        "named": {"annotations": egress, "dns": DNS},
    }
    for name, more in asked.items():
        pod = cri.run(name, str(uuid.uuid4()), **more)
        cri.stop(pod)
        cri.remove(pod)


def library(program: Path) -> Callable[[Path, Namespace, str], None]:
    """Return what runs a program of `libraries`."""

    def run(directory: Path, namespace: Namespace, version: str) -> None:
        conf, bin_dir = directory / "net.d", _plugins(directory)
        conf.mkdir()
        (conf / "10-rec.conflist").write_text(json.dumps(network(directory, version)))
        pod = Namespace(fresh_name("pod")).create()
        try:
            namespace.run([program, conf, bin_dir, pod.path], timeout=60)
        finally:
            pod.delete()

    return run


def podman(directory: Path, namespace: Namespace, version: str) -> None:
    """Run containers and a pod by podman, which is told to use CNI."""
    conf, bin_dir = directory / "net.d", _plugins(directory)
    conf.mkdir()
    (conf / "10-rec.conflist").write_text(json.dumps(network(directory, version)))
    write_image(directory / "pause.tar", IMAGE)
    (directory / "containers.conf").write_text(
        f'[network]\nnetwork_backend = "cni"\ncni_plugin_dirs = ["{bin_dir}"]\n'
        f'network_config_dir = "{conf}"\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nruntime = "runc"\nevents_logger = "file"\n'
        f'infra_image = "{IMAGE}"\n[containers]\n'
        'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
    )
    (directory / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    env = {**os.environ, "CONTAINERS_CONF": str(directory / "containers.conf")}
    words = ["podman", "--root", f"{directory}/root", "--runroot", f"{directory}/run"]
    words += ["--storage-driver", "vfs", "--tmpdir", f"{directory}/tmp"]

    def run(*more: str) -> None:
        namespace.run([*words, *more], env=env, timeout=120)

    policy = ("--signature-policy", str(directory / "policy.json"))
    run("load", *policy, "--input", str(directory / "pause.tar"))
    ports = ("--publish", "18080:8080", "--publish", "127.0.0.1:10053:53/udp")
    static = ("--ip", "10.77.0.99", "--ip6", "fd77::99", "--mac-address", "0a:00:00:00:00:99")
    asked = {"plain": (), "ports": ports, "static": (*static, "--network-alias", "web")}
    for name, flags in asked.items():
        run("run", "--detach", "--name", name, "--network", "recnet", *flags, IMAGE)
        run("rm", "--force", "--time", "0", name)


def _plugins(directory: Path) -> Path:
    bin_dir = directory / "bin"
    bin_dir.mkdir()
    for plugin in (*PLUGINS.iterdir(), RECORDER):
        (bin_dir / plugin.name).symlink_to(plugin)
    return bin_dir


@contextmanager
def _recording() -> Iterator[tuple[Path, Path]]:
    """Give a directory for the runtime, and the file of its calls."""
    with tempfile.TemporaryDirectory(prefix="rec") as name:
        calls = Path(name) / "calls.jsonl"
        os.environ["CNI_RECORDING"] = str(calls)
        directory = Path(name) / "rt"
        directory.mkdir()
        yield directory, calls


def shown(calls: str, directory: Path, asked: Mapping[str, Mapping[str, Any]]) -> str:
    """Return calls as a recording has them: its directory renamed, with what was asked for."""
    lines = []
    public = calls.replace(str(directory), SHOWN).replace(os.environ["PATH"], "/usr/sbin:/usr/bin")
    for text in re.sub(r"\bct\d+-[0-9a-f]{4}-", "", public).splitlines():
        call = json.loads(text)
        words = dict(one.split("=", 1) for one in call["env"]["CNI_ARGS"].split(";") if one)
        name = words.get("K8S_POD_NAME") or words.get("NERDCTL_CNI_DHCP_HOSTNAME", "")
        if call["env"]["CNI_COMMAND"] == "ADD" and name in asked:
            call["asked"] = asked[name]
        lines.append(json.dumps(call))
    return "".join(f"{line}\n" for line in lines)


def main(kind: str, name: str, version: str, program: str = "") -> None:
    """Make one recording, and say how many calls it has."""
    runs = {"containerd": containerd, "podman": podman}
    run = runs[kind] if kind in runs else library(Path(program).absolute())
    with _recording() as (directory, calls):
        host = Namespace(fresh_name("rec")).create()
        try:
            run(directory, host, version)
        finally:
            host.delete()
        text = shown(calls.read_text(), directory, ASKED[kind])
    (HERE / "runtimes" / f"{name}.jsonl").write_text(text)
    sys.stdout.write(f"{name}: {len(text.splitlines())} calls\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
