"""kubectl's file of servers and credentials."""

import base64
from pathlib import Path

import pytest

from core.errors import UsageError
from netplugin.kube import kubeconfig
from netplugin.kube.api_access import KubeAccess, Pem
from netplugin.kube.config import KubeConfig
from netplugin.kube.discovery import access_of
from netplugin.kube.exec_plugin import ExecPlugin

FILE = """
apiVersion: v1
kind: Config
current-context: here
contexts:
- name: there
  context: {{cluster: other, user: nobody}}
- name: here
  context: {{cluster: c1, user: agent}}
clusters:
- name: c1
  cluster: {{{cluster}}}
users:
- name: agent
  user: {{{user}}}
"""
CLUSTER = "server: 'https://192.0.2.1:6443/', certificate-authority: pki/ca.crt"
EXEC = (
    "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: [eks, get-token],"
    " env: [{name: AWS_PROFILE, value: agent}], installHint: 'install\n aws', "
    "interactiveMode: IfAvailable, provideClusterInfo: true}"
)


def load(directory: Path, user: str, cluster: str = CLUSTER, text: str = FILE) -> KubeAccess:
    file = directory / "config"
    file.write_text(text.format(cluster=cluster, user=user))
    return kubeconfig.load(file)


def test_the_current_context_counts_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    found = load(tmp_path, "client-certificate: a.crt, client-key: /etc/a.key")
    held = found.credentials
    assert found.servers == ("https://192.0.2.1:6443",)
    assert held.ca == Pem(f"{tmp_path}/pki/ca.crt")
    assert (held.cert, held.key) == (Pem(f"{tmp_path}/a.crt"), Pem("/etc/a.key"))
    assert held.source == f"certificate-authority in {tmp_path}/config"


def test_files_may_be_inside(tmp_path: Path) -> None:
    data = base64.b64encode(b"-----BEGIN").decode()
    cluster = f"server: 'https://c', certificate-authority-data: {data}, tls-server-name: kube"
    held = load(tmp_path, "token: abc", cluster).credentials
    assert (held.ca, held.token, held.server_name) == (Pem(text="-----BEGIN"), "abc", "kube")


def test_a_token_may_be_a_file(tmp_path: Path) -> None:
    assert load(tmp_path, "tokenFile: t").credentials.token_file == f"{tmp_path}/t"


def test_a_program_may_issue_credentials(tmp_path: Path) -> None:
    extension = "extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: a}}]"
    found = load(tmp_path, EXEC, f"{CLUSTER}, tls-server-name: kube, {extension}").issuer
    assert isinstance(found, ExecPlugin)
    assert found.version == "client.authentication.k8s.io/v1beta1"
    assert (found.command, found.arguments) == ("aws", ("eks", "get-token"))
    assert (found.environment, found.hint) == ({"AWS_PROFILE": "agent"}, "install aws")
    assert found.cluster == {
        "server": "https://192.0.2.1:6443/",
        "tls-server-name": "kube",
        "config": {"audience": "a"},
    }


def test_the_path_of_a_program_is_relative_to_the_file(tmp_path: Path) -> None:
    found = load(tmp_path, EXEC.replace("aws,", "bin/aws,").replace("true", "false")).issuer
    assert isinstance(found, ExecPlugin)
    assert (found.command, found.cluster) == (f"{tmp_path}/bin/aws", None)


@pytest.mark.parametrize(
    ("user", "cluster", "text"),
    [
        ("exec: {command: aws}", CLUSTER, "apiVersion"),
        (EXEC.replace("v1beta1", "v1alpha1"), CLUSTER, "apiVersion"),
        (EXEC.replace("aws", "''"), CLUSTER, "command"),
        (EXEC.replace("IfAvailable", "Always"), CLUSTER, "interactiveMode"),
        (f"{EXEC}, token: a", CLUSTER, "exec of user agent beside token: which one is valid"),
        ("auth-provider: {name: gcp}", CLUSTER, "auth-provider of user agent is not supported"),
        ("token: a", "server: 'https://c', insecure-skip-tls-verify: true", "not supported"),
        ("token: a", "server: c", "'c' does not begin with https://"),
        ("token: a", "a: b", "'server' is missing"),
        ("token: a", "server: 'https://c', certificate-authority-data: '%'", "kubeconfig"),
    ],
)
def test_what_cannot_be_used_is_a_wrong_start(
    tmp_path: Path, user: str, cluster: str, text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        load(tmp_path, user, cluster)


@pytest.mark.parametrize("text", ["", "[", "a", "current-context: x", "- 1", "[" * 2000])
def test_what_is_no_kubeconfig_is_a_wrong_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="kubeconfig"):
        load(tmp_path, "", text=text)
    with pytest.raises(UsageError, match="No such file"):
        kubeconfig.load(tmp_path / "none")


def test_the_configuration_names_it(tmp_path: Path) -> None:
    load(tmp_path, "token: abc")
    named = KubeConfig.model_validate({"K8S_KUBECONFIG": f"{tmp_path}/config"})
    found = access_of(named, {})
    assert found is not None
    assert found.bearer() == "abc"
