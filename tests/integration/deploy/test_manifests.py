"""What the manifests' scripts run: shells, kubectl, the uninstaller."""

import subprocess
from pathlib import Path

import pytest

from daemons.certificates import enrolment
from tests.unit.deploy.manifests import DEPLOY, INSTALLED, containers, documents, the_one


def test_the_maker_of_the_default_network_is_ready_when_it_is_made(tmp_path: Path) -> None:
    (maker,) = [each for each in containers(INSTALLED) if each["name"] == "default-network"]
    made = maker["command"][-1]
    asked = maker["startupProbe"]["exec"]["command"]
    words = [word.replace(made, str(tmp_path / "made")) for word in asked]
    assert words != asked
    assert subprocess.run(words, check=False).returncode == 1
    (tmp_path / "made").touch()
    assert subprocess.run(words, check=False).returncode == 0


def test_the_plugin_of_kubectl_is_netctl_in_a_masters_pod(tmp_path: Path) -> None:
    """Kubectl runs a file `kubectl-contiv` of PATH as `kubectl contiv`, with what follows."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    kubectl.chmod(0o755)
    master = the_one("Deployment", "contiv-netmaster")
    (container,) = [
        each
        for each in master["spec"]["template"]["spec"]["containers"]
        if each["command"] == ["netmaster"]
    ]
    words = ["network", "create", "--subnet", "10.1.0.0/16", "a b"]
    for given, namespace in (
        ({}, master["metadata"]["namespace"]),
        ({"CONTIV_NAMESPACE": "elsewhere"}, "elsewhere"),
    ):
        said = subprocess.run(
            [DEPLOY / "kubectl-contiv", *words],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"} | given,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        to = ["exec", "-i", f"deployment/{master['metadata']['name']}", "-c", container["name"]]
        assert said == ["-n", namespace, *to, "--", "netctl", *words]


def test_uninstall_removes_what_is_in_no_namespace(tmp_path: Path) -> None:
    log, kubectl = tmp_path / "log", tmp_path / "kubectl"
    reads = 'case "$*" in *" -f -") cat >/dev/null;; esac'
    kubectl.write_text(f'#!/bin/sh\necho "$@" >>{log}\n{reads}\n')
    kubectl.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([DEPLOY / "uninstall"], env=environ, capture_output=True, check=True)
    deleted = {
        word
        for line in log.read_text().splitlines()
        if " delete " in f" {line} "
        for word in line.split()
    }
    for each in INSTALLED:
        if "namespace" not in each["metadata"]:
            assert f"{each['kind'].lower()}/{each['metadata']['name']}" in deleted
    assert {f"spec.signerName={signer}" for signer in enrolment.SIGNERS} <= deleted


@pytest.mark.parametrize("layout", sorted(path.name for path in (DEPLOY / "layouts").iterdir()))
def test_a_layout_moves_directories_of_the_runtime_which_uninstall_follows(
    layout: str, tmp_path: Path
) -> None:
    (patch,) = documents(DEPLOY / "layouts" / layout / "netplugin.yaml")
    agent = the_one("DaemonSet", "contiv-netplugin")
    assert patch["metadata"] == {key: agent["metadata"][key] for key in ("name", "namespace")}
    assert patch["spec"]["template"]["spec"].keys() == {"volumes"}
    moved = {
        volume["name"]: volume["hostPath"]["path"]
        for volume in patch["spec"]["template"]["spec"]["volumes"]
    }
    assert moved.keys() == {"cni-bin", "cni-conf"}, "by these names uninstall looks for them"
    assert moved.keys() <= {
        volume["name"] for volume in agent["spec"]["template"]["spec"]["volumes"]
    }
    document = (DEPLOY.parents[1] / "docs" / "kubernetes.md").read_text()
    assert all(f"`{path}`" in document for path in moved.values())

    applied, kubectl = tmp_path / "applied", tmp_path / "kubectl"
    answers = [f"*'\"{name}\"'*) echo {path};;" for name, path in moved.items()]
    kubectl.write_text(
        f"#!/bin/sh\ncase \"$*\" in {' '.join(answers)} *' -f -') cat >{applied};; esac\n"
    )
    kubectl.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([DEPLOY / "uninstall"], env=environ, capture_output=True, check=True)
    (cleanup,) = documents(applied)
    volumes = {each["name"]: each for each in cleanup["spec"]["template"]["spec"]["volumes"]}
    assert {name: volumes[name]["hostPath"]["path"] for name in moved} == moved
