"""A sandbox reaches the plugin as containerd sends it."""

from pathlib import Path

from tests.bed.netns import Namespace
from tests.bed.pods import Runtime, Sandbox


class _Nothing:
    dies_with_owner = False

    def watch_pid(self, pid: int) -> None:
        raise AssertionError(pid)

    def watch_namespace(self, name: str) -> None:
        raise AssertionError(name)

    def watch_dir(self, path: Path) -> None:
        raise AssertionError(path)

    def watch_cgroup(self, name: str) -> None:
        raise AssertionError(name)


SANDBOX = Sandbox(
    name="p1",
    kube_namespace="default",
    container_id="0b1d43df1e91",
    uid="d62f0ab2-5d3d-4c75-9124-1cbe47885bc6",
    namespace=Namespace("pod", keeper=_Nothing()),
)


def test_arguments_are_those_of_kubelet() -> None:
    pairs = dict(pair.split("=") for pair in SANDBOX.args().split(";"))
    assert pairs == {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": "default",
        "K8S_POD_NAME": "p1",
        "K8S_POD_INFRA_CONTAINER_ID": "0b1d43df1e91",
        "K8S_POD_UID": "d62f0ab2-5d3d-4c75-9124-1cbe47885bc6",
    }


def test_environment_is_that_of_containerd() -> None:
    env = Runtime(Path("/opt/cni/bin/contivk8s")).environment("ADD", SANDBOX, netns="/x")
    del env["PATH"]
    assert env == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "0b1d43df1e91",
        "CNI_NETNS": "/x",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
        "CNI_ARGS": SANDBOX.args(),
    }
