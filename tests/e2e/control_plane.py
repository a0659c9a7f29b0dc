"""The control plane: etcd, API server, controller manager and scheduler, in a namespace.

In come the folder of Kubernetes' binaries and a directory; out comes an API server at 10.88.0.1, by
IPv6 at fd00:88::1, or at a node's address, and a kubeconfig of an administrator. What each program
is told: `tests.e2e.programs`. Next: `tests.e2e.cluster`.
"""

import os
import secrets
import subprocess
from pathlib import Path

from core.addresses import authority
from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually
from tests.e2e.programs import Family, Plane, Version, version_in


class ControlPlane:
    """What kubelets and kubectl speak to, in a namespace of its own, or in that of a node.

    `node` is that namespace and the node's address. There the API server reaches pods, as in most
    clusters: it asks them for those who ask it (pods/proxy). From elsewhere nobody does.
    """

    def __init__(
        self,
        binaries: Path,
        directory: Path,
        keeper: Keeper | None = None,
        *,
        family: Family = Family.V4,
        node: tuple[Namespace, str] | None = None,
    ) -> None:
        self._directory = directory
        self._family = family
        self._pki = directory / "pki"
        self.kubeconfig = directory / "kubeconfig"
        own = Namespace(f"e2e-{os.getpid()}-master", keeper=keeper)
        self.namespace, self.address = node or (own, family.choose("10.88.0.1", "fd00:88::1")[0])
        self._etcd = self._daemon("etcd", self._etcd_command())
        self._take(binaries)

    def _take(self, binaries: Path) -> None:
        """Take the programs of a release."""
        self._binaries = binaries
        release = version_of(binaries / "kube-apiserver")
        told = Plane(release, self.address, self._directory, self._family)
        self.api = self._daemon("kube-apiserver", told.api_server(), ready=self._answers)
        self._others = [
            self._daemon("kube-controller-manager", told.controller_manager()),
            self._daemon("kube-scheduler", told.scheduler()),
        ]

    def start(self) -> None:
        """Make keys and start everything; the namespace has its address."""
        self._make_keys()
        self._etcd.start()
        self._start_programs()

    def _start_programs(self) -> None:
        self.api.start(within=180)
        for daemon in self._others:
            daemon.start()

    def upgrade(self, binaries: Path) -> None:
        """End the programs, and start those of another release on the same store."""
        for daemon in (*self._others, self.api):
            daemon.stop()
        self._take(binaries)
        self._start_programs()

    def stop(self) -> None:
        """End everything at once."""
        for daemon in (*self._others, self.api, self._etcd):
            daemon.kill()
        self.namespace.delete()

    def kubectl(self, *words: str, check: bool = True, text: str = "", timeout: float = 120) -> str:
        """Run kubectl, `text` is its input; return its output."""
        done = subprocess.run(
            self.kubectl_words(*words),
            input=text,
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}{done.stdout}")
        return done.stdout

    def kubectl_words(self, *words: str) -> list[str]:
        """Return the words of a kubectl, for whoever runs it himself."""
        kubectl = str(self._binaries / "kubectl")
        return [*self.namespace.enter, kubectl, f"--kubeconfig={self.kubeconfig}", *words]

    def _daemon(self, name: str, command: list[str], ready: object = None) -> Daemon:
        words = [name, *command] if name == "etcd" else [str(self._binaries / name), *command]
        log = self._directory / f"{name}.log"
        if callable(ready):
            return Daemon(words, log=log, namespace=self.namespace, ready=ready)
        return Daemon(words, log=log, namespace=self.namespace)

    def _answers(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz", check=False) == "ok"

    def _etcd_command(self) -> list[str]:
        return [
            *("--data-dir", str(self._directory / "etcd"), "--log-level", "warn"),
            *("--unsafe-no-fsync", "--listen-client-urls", "http://127.0.0.1:2379"),
            *("--advertise-client-urls", "http://127.0.0.1:2379"),
            *("--listen-peer-urls", "http://127.0.0.1:2380"),
        ]

    def _make_keys(self) -> None:
        pki = self._pki
        pki.mkdir(parents=True)
        addresses = (self.address, "127.0.0.1", *self._family.first_services)
        names = ",".join(f"IP:{one}" for one in addresses)
        own = "DNS:kubernetes,DNS:kubernetes.default.svc"
        (pki / "api.ext").write_text(f"subjectAltName={names},{own}\n")
        new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
        for command in (
            [*new, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "9"],
            [*new, "-keyout", "api.key", "-out", "api.csr", "-subj", "/CN=kube-apiserver"],
            [
                *("openssl", "x509", "-req", "-in", "api.csr", "-CA", "ca.crt", "-CAkey", "ca.key"),
                *("-CAcreateserial", "-days", "9", "-out", "api.crt", "-extfile", "api.ext"),
            ],
            ["openssl", "genrsa", "-out", "sa.key", "2048"],
            ["openssl", "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"],
        ):
            subprocess.run(command, cwd=pki, check=True, capture_output=True)
        url = f"https://{authority(self.address, 6443)}"
        token = secrets.token_hex(16)
        (pki / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        self.kubeconfig.write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}", certificate-authority: {pki}/ca.crt}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
contexts: [{{name: x, context: {{cluster: c, user: admin}}}}]
current-context: x
""")


def version_of(program: str | Path) -> Version:
    """Return the version of a program, which it prints for `--version`."""
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return version_in(said.stdout)


def await_default_account(plane: ControlPlane) -> None:
    """Wait until pods can be made."""
    eventually(
        lambda: plane.kubectl("get", "serviceaccount", "default", check=False),
        "default service account",
        within=120,
    )
