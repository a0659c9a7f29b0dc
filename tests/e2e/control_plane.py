"""The control plane: etcd, API server, controller manager and scheduler in a namespace of its own.

In come the folder of Kubernetes' binaries and a directory; out comes an API server at 10.88.0.1,
and a kubeconfig of an administrator. Next: `tests.e2e.cluster`.
"""

import os
import secrets
import subprocess
from pathlib import Path

from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually

ADDRESS = "10.88.0.1"
URL = f"https://{ADDRESS}:6443"
SERVICES = "10.96.0.0/16"
_NAMES = "IP:10.88.0.1,IP:127.0.0.1,IP:10.96.0.1,DNS:kubernetes,DNS:kubernetes.default.svc"


class ControlPlane:
    """What kubelets and kubectl speak to."""

    def __init__(self, binaries: Path, directory: Path, keeper: Keeper | None = None) -> None:
        self._binaries = binaries
        self._directory = directory
        self._pki = directory / "pki"
        self.kubeconfig = directory / "kubeconfig"
        self.namespace = Namespace(f"e2e-{os.getpid()}-master", keeper=keeper)
        self._etcd = self._daemon("etcd", self._etcd_command())
        self.api = self._daemon("kube-apiserver", self._api_command(), ready=self._answers)
        self._others = [
            self._daemon("kube-controller-manager", self._manager_command()),
            self._daemon("kube-scheduler", self._scheduler_command()),
        ]

    def start(self) -> None:
        """Make keys and start everything; the namespace has its address."""
        self._make_keys()
        self._etcd.start()
        self.api.start(within=180)
        for daemon in self._others:
            daemon.start()

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

    def _api_command(self) -> list[str]:
        pki = self._pki
        return [
            *("--etcd-servers=http://127.0.0.1:2379", f"--bind-address={ADDRESS}"),
            *(f"--advertise-address={ADDRESS}", "--secure-port=6443", "--insecure-port=0"),
            *(f"--service-cluster-ip-range={SERVICES}", f"--tls-cert-file={pki}/api.crt"),
            *(f"--tls-private-key-file={pki}/api.key", f"--client-ca-file={pki}/ca.crt"),
            *(f"--cert-dir={pki}", f"--token-auth-file={pki}/tokens.csv"),
            *("--authorization-mode=Node,RBAC", "--anonymous-auth=false"),
            *(f"--service-account-key-file={pki}/sa.pub", "--allow-privileged=true"),
            f"--service-account-signing-key-file={pki}/sa.key",
            *("--service-account-issuer=https://kubernetes.default.svc", "--v=1"),
            *("--endpoint-reconciler-type=lease", "--kubelet-preferred-address-types=InternalIP"),
        ]

    def _manager_command(self) -> list[str]:
        return [
            *(f"--kubeconfig={self.kubeconfig}", f"--root-ca-file={self._pki}/ca.crt"),
            f"--service-account-private-key-file={self._pki}/sa.key",
            *("--use-service-account-credentials=false", "--leader-elect=false"),
            *("--bind-address=127.0.0.1", "--port=0", "--allocate-node-cidrs=false", "--v=1"),
        ]

    def _scheduler_command(self) -> list[str]:
        return [
            *(f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"),
            *("--bind-address=127.0.0.1", "--port=0", "--v=1"),
        ]

    def _make_keys(self) -> None:
        pki = self._pki
        pki.mkdir(parents=True)
        (pki / "api.ext").write_text(f"subjectAltName={_NAMES}\n")
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
        token = secrets.token_hex(16)
        (pki / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        self.kubeconfig.write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{URL}", certificate-authority: {pki}/ca.crt}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
contexts: [{{name: x, context: {{cluster: c, user: admin}}}}]
current-context: x
""")


def await_default_account(plane: ControlPlane) -> None:
    """Wait until pods can be made."""
    eventually(
        lambda: plane.kubectl("get", "serviceaccount", "default", check=False),
        "default service account",
        within=120,
    )
