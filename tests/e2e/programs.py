"""What the cluster's programs are told, by the version of each: flags and files.

In come versions as the programs print them, addresses and paths; out come words of command lines,
kubelet's and containerd's files. Pure, so that `make test` knows releases that no machine of ours
has: from 1.20, the first one supported, to those without its flags (1.24, 1.27), with nftables
(1.31), and with cgroups of version 1 on request only (1.31).
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

RUNTIME: Final = "unix:///run/containerd/containerd.sock"


class Family(StrEnum):
    """The families of a cluster's nodes, services and pods; Kubernetes prefers the first of two."""

    V4 = "v4"
    DUAL = "dual"
    V6 = "v6"
    V6_FIRST = "v6-first"

    def choose(self, four: str, six: str) -> tuple[str, ...]:
        """Return what a cluster of these families has of two, in its order."""
        return {
            Family.V4: (four,),
            Family.DUAL: (four, six),
            Family.V6: (six,),
            Family.V6_FIRST: (six, four),
        }[self]

    @property
    def is_dual(self) -> bool:
        """True for both families."""
        return len(self.choose("", "")) > 1

    @property
    def services(self) -> tuple[str, ...]:
        """The subnets of services."""
        return self.choose("10.96.0.0/16", "fd00:96::/112")

    @property
    def dns(self) -> str:
        """The address of the cluster's DNS."""
        return self.choose("10.96.0.10", "fd00:96::a")[0]

    @property
    def first_services(self) -> tuple[str, ...]:
        """The addresses of the service `kubernetes`, of which one is given."""
        return self.choose("10.96.0.1", "fd00:96::1")


class Version(NamedTuple):
    """A release, as far as flags depend on it."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST: Final = Version(1, 20)
NFTABLES: Final = Version(1, 31)
"""kube-proxy's mode nftables needs no feature gate any more."""
GINKGO_2: Final = Version(1, 25)
"""Since then upstream's tests are built on version 2 of their runner."""
_DUAL_STACK: Final = Version(1, 21)
_ONE_PORT: Final = Version(1, 24)
_RUNTIME_IN_FILE: Final = Version(1, 27)
_CGROUP_1_ON_REQUEST: Final = Version(1, 31)


def version_in(said: str) -> Version:
    """Return the version that a program prints for `--version`.

    Raises ValueError, with what was said, if there is none in it.
    """
    found = re.search(r"\bv?(\d+)\.(\d+)\.\d", said)
    if not found:
        raise ValueError(f"no version in {said!r}")
    return Version(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Plane:
    """Where the programs of a control plane are; `directory` has `pki` and `kubeconfig`."""

    version: Version
    address: str
    directory: Path
    family: Family = Family.V4

    def api_server(self) -> list[str]:
        """Return the words for kube-apiserver; etcd is on its own machine."""
        pki = self.directory / "pki"
        ranges = ",".join(self.family.services)
        return [
            *("--etcd-servers=http://127.0.0.1:2379", f"--bind-address={self.address}"),
            *(f"--advertise-address={self.address}", "--secure-port=6443"),
            *(f"--service-cluster-ip-range={ranges}", f"--tls-cert-file={pki}/api.crt"),
            *(f"--tls-private-key-file={pki}/api.key", f"--client-ca-file={pki}/ca.crt"),
            *(f"--cert-dir={pki}", f"--token-auth-file={pki}/tokens.csv"),
            *("--authorization-mode=Node,RBAC", "--anonymous-auth=false"),
            *(f"--service-account-key-file={pki}/sa.pub", "--allow-privileged=true"),
            f"--service-account-signing-key-file={pki}/sa.key",
            *("--service-account-issuer=https://kubernetes.default.svc", "--v=1"),
            *("--endpoint-reconciler-type=lease", "--kubelet-preferred-address-types=InternalIP"),
            *self._gates(),
        ]

    def controller_manager(self) -> list[str]:
        """Return the words for kube-controller-manager."""
        pki = self.directory / "pki"
        return [
            *self._as_client(),
            f"--root-ca-file={pki}/ca.crt",
            f"--service-account-private-key-file={pki}/sa.key",
            *("--use-service-account-credentials=false", "--allocate-node-cidrs=false"),
            *self._gates(),
        ]

    def scheduler(self) -> list[str]:
        """Return the words for kube-scheduler."""
        return self._as_client()

    def _as_client(self) -> list[str]:
        words = [f"--kubeconfig={self.directory / 'kubeconfig'}", "--leader-elect=false"]
        words += ["--bind-address=127.0.0.1", "--v=1"]
        # a second port, without TLS, is open by default as long as there is this flag
        return words if self.version >= _ONE_PORT else [*words, "--port=0"]

    def _gates(self) -> list[str]:
        return gates(self.version, dual_stack=self.family.is_dual)


def gates(version: Version, *, dual_stack: bool) -> list[str]:
    """Return the flag for a feature that a release does not have by default."""
    wanted = dual_stack and version < _DUAL_STACK
    return ["--feature-gates=IPv6DualStack=true"] if wanted else []


@dataclass(frozen=True, slots=True)
class Machine:
    """A node: `version` is kubelet's, `addresses` are in the order of the cluster's families."""

    version: Version
    name: str
    addresses: tuple[str, ...]
    kubeconfig: Path
    cgroup: str

    @property
    def family(self) -> Family:
        """The families of its addresses."""
        return next(one for one in Family if one.choose("", ":") == _colons(self.addresses))

    def kubelet(self, file: Path) -> list[str]:
        """Return the words for kubelet, whose configuration is in a file."""
        words = [
            *(f"--config={file}", f"--kubeconfig={self.kubeconfig}"),
            *(f"--hostname-override={self.name}", f"--node-ip={','.join(self.addresses)}", "--v=2"),
            *gates(self.version, dual_stack=self.family.is_dual),
        ]
        if self.version < _RUNTIME_IN_FILE:
            words += ["--container-runtime=remote", f"--container-runtime-endpoint={RUNTIME}"]
        return words

    def kubelet_file(self) -> dict[str, Any]:
        """Return kubelet's configuration; a release refuses fields that it does not know."""
        content: dict[str, Any] = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.addresses[0],
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "kubeletCgroups": "",
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "maxOpenFiles": 16384,
            "maxPods": 330,
            "oomScoreAdj": 0,
            "makeIPTablesUtilChains": False,
            "resolvConf": "/dev/null",
            "clusterDNS": [self.family.dns],
            "clusterDomain": "cluster.local",
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {
                "memory.available": "50Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "5s",
        }
        if self.version >= _RUNTIME_IN_FILE:
            content["containerRuntimeEndpoint"] = RUNTIME
        if self.version >= _CGROUP_1_ON_REQUEST:
            content["failCgroupV1"] = False
        return content

    def proxy(self, mode: str) -> list[str]:
        """Return the words for kube-proxy in mode iptables or nftables."""
        return [
            *(f"--kubeconfig={self.kubeconfig}", f"--hostname-override={self.name}"),
            *(f"--proxy-mode={mode}", "--masquerade-all=false", "--v=1"),
            # these would be settings of the whole machine
            *("--conntrack-max-per-core=0", "--conntrack-min=0"),
            *("--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s"),
            *gates(self.version, dual_stack=self.family.is_dual),
        ]


def _colons(addresses: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(":" if ":" in address else "" for address in addresses)


def containerd_file(version: Version, pause: str) -> str:
    """Return containerd's configuration, with the image of the pods' sandboxes.

    Version 2 of the file is of containerd 1, whose plugin `cri` was one; version 3 of 2. Of two
    addresses the network's first is the pod's, which is IPv4 otherwise: kubelets of before do not
    order them by themselves.
    """
    if version.major < 2:
        return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
    max_conf_num = 1
    ip_pref = "cni"
"""
    return f"""version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
    max_conf_num = 1
    ip_pref = "cni"
"""
