"""`make conformance`: upstream's network tests on the product, one cluster for each setting.

In come Kubernetes' programs (`K8S_BIN`) and upstream's tests of the same release (`E2E_BIN`); out
come, for each setting, what passed, what failed and why, and what was skipped and why. The exit
code is 1 if a test failed or none ran. Reading reports and choosing tests is
`tests.e2e.verdicts`'; this starts and asks. Half an hour and more for each setting; `PROCS` tests
at a time with upstream's `ginkgo`, else one. `ONLY`, a pattern of names, runs some of them.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.bed.daemon import Daemon
from tests.e2e import coredns, images, verdicts
from tests.e2e.cluster import GATEWAY, ROOT, RealCluster, missing
from tests.e2e.control_plane import version_of
from tests.e2e.programs import NFTABLES, Family, Version

BUILD = ROOT / "build" / "conformance"
_WITH_HOSTS = (
    *("unshare", "--mount", "sh", "-ec"),
    'mount --bind "$1" /etc/hosts; shift; exec "$@"',
    "with-hosts",
)
"""Runs what follows with another /etc/hosts.

Some tests of older releases begin by asking http://google.com whether there is an internet. The
clusters have none: what answers there is the machine that is their gateway.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """How the product is installed; `proxy` is the mode of kube-proxy, "" where there is none.

    The agents are the cluster's DNS, or CoreDNS is.
    """

    name: str
    overlay: str
    proxy: str = ""
    family: Family = Family.V4
    coredns: bool = False

    def settings(self) -> dict[str, str]:
        """Return what the daemons are told beside the overlay."""
        return {} if self.coredns else {"CONTIV_NETPLUGIN_DNS_ADDRESS": self.family.dns}


SETTINGS = (
    Setting("replace", "without-kube-proxy"),
    Setting("iptables", "vxlan", proxy="iptables"),
    Setting("nftables", "vxlan", proxy="nftables"),
    Setting("dual-stack", "without-kube-proxy", family=Family.DUAL),
    Setting("ipv6", "without-kube-proxy", family=Family.V6),
    Setting("ipv6-first", "without-kube-proxy", family=Family.V6_FIRST),
    Setting("coredns", "without-kube-proxy", coredns=True),
)


def lacking() -> str:
    """Return what is missing, which programs in which versions, and where to get them."""
    if fault := missing():
        return fault
    release = version_of(Path(os.environ["K8S_BIN"]) / "kubelet")
    folder = os.environ.get("E2E_BIN", "")
    wanted = ("e2e.test", *images.PROGRAMS)
    absent = [name for name in wanted if not (Path(folder) / name).is_file()]
    if not folder or absent:
        return (
            f"E2E_BIN must name a folder with upstream's tests; missing: {', '.join(absent)}. "
            f"e2e.test, and ginkgo for several tests at a time, are in kubernetes-test-linux-"
            f"amd64.tar.gz of the release {release} (https://kubernetes.io/releases/download/); "
            "the others are the programs of the images of their names, which `e2e.test "
            "--list-images` lists"
        )
    tests = tests_release(Path(folder))
    if tests != release:
        return f"e2e.test is of {tests}, the programs in K8S_BIN are of {release}: take one release"
    return ""


def tests_release(folder: Path) -> Version:
    """Return the release of upstream's tests."""
    return version_of(folder / "e2e.test")


def run(setting: Setting, folder: Path) -> list[verdicts.Verdict]:
    """Install the product on a new cluster and run upstream's tests; return what came of each."""
    choice = verdicts.Choice(
        tests_release(folder), family=setting.family, only=os.environ.get("ONLY", "")
    )
    reports = BUILD / setting.name
    reports.mkdir(parents=True, exist_ok=True)
    for old in reports.glob("*.xml"):
        old.unlink()
    listed = subprocess.run(
        [folder / "e2e.test", "--list-images"], check=True, capture_output=True, text=True
    ).stdout.split()
    tar = images.for_upstream(BUILD, folder, listed)
    tars = [tar]
    if setting.coredns:
        tars.append(coredns.image(BUILD, folder / "coredns"))
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        cluster = RealCluster(Path(directory), family=setting.family, plane_on_node=True)
        try:
            cluster.start(tars)
            if setting.proxy:
                for node in cluster.nodes:
                    node.start_proxy(setting.proxy)
            cluster.install(setting.overlay, **setting.settings())
            if setting.coredns:
                coredns.install(cluster)
            _run_tests(cluster, choice, folder, reports)
            (reports / "state.txt").write_text(cluster.state())
        finally:
            cluster.close()
    return verdicts.read(choice, [path.read_text() for path in sorted(reports.glob("*.xml"))])


def _run_tests(cluster: RealCluster, choice: verdicts.Choice, folder: Path, reports: Path) -> None:
    """Run upstream's tests beside the API server; their words go to `log`, verdicts to reports."""
    ginkgo = folder / "ginkgo"
    command = verdicts.command(
        choice,
        folder / "e2e.test",
        ginkgo if ginkgo.is_file() else None,
        int(os.environ.get("PROCS", "2")),
    )
    command += [
        *(f"--kubeconfig={cluster.plane.kubeconfig}", "--provider=skeleton"),
        *(f"--num-nodes={len(cluster.nodes)}", "--disable-log-dump=true"),
        *("--dns-domain=cluster.local", f"--kubectl-path={cluster.binaries / 'kubectl'}"),
        f"--report-dir={reports}",
    ]
    page = cluster.directory / "page"
    page.mkdir()
    ask = ["curl", "-sf", "-o", "/dev/null", f"http://{GATEWAY}/"]
    outside = Daemon(
        [sys.executable, "-m", "http.server", "80", "--bind", GATEWAY, "--directory", page],
        log=cluster.directory / "outside.log",
        namespace=cluster.fabric,
        ready=lambda: cluster.fabric.run(ask, check=False).returncode == 0,
    )
    outside.start()
    hosts = cluster.directory / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{GATEWAY} google.com\n")
    with (reports / "log").open("wb") as log:
        subprocess.run(
            [*cluster.plane.namespace.enter, *_WITH_HOSTS, str(hosts), *command],
            cwd=reports,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,  # the verdicts say more
        )
    outside.kill()


def main(names: list[str]) -> int:
    """Run the settings of these names, or all; return the exit code."""
    known = {setting.name: setting for setting in SETTINGS}
    if unknown := [name for name in names if name not in known]:
        print(f"no setting {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    if fault := lacking():
        print(fault, file=sys.stderr)
        return 2
    folder = Path(os.environ["E2E_BIN"]).resolve()
    release = tests_release(folder)
    good = True
    for name in names or known:
        setting = known[name]
        if setting.proxy == "nftables" and release < NFTABLES:
            print(f"== {name}: left out, kube-proxy {release} has no mode nftables")
            continue
        if setting.coredns and not (folder / "coredns").is_file():
            print(f"== {name}: left out, {folder} has no program coredns (github.com/coredns)")
            continue
        print(f"== {name}: Kubernetes {release}", flush=True)
        found = run(setting, folder)
        print(verdicts.told(found), flush=True)
        good = good and verdicts.good(found)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
