"""Servers and credentials, from the configuration or a pod's environment."""

from pathlib import Path

from netplugin.kube.api_access import Pem
from netplugin.kube.config import KubeConfig
from netplugin.kube.discovery import access_of

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def config(**values: str) -> KubeConfig:
    return KubeConfig.model_validate(values)


def test_neither_server_nor_pod(tmp_path: Path) -> None:
    assert access_of(config(), {}, tmp_path) is None
    assert access_of(config(), {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, tmp_path) is None


def test_a_pod_is_told_by_its_environment(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("")
    found = access_of(config(), IN_CLUSTER, tmp_path)
    assert found is not None
    assert found.servers == ("https://10.96.0.1:443",)
    assert found.credentials.ca == Pem(f"{tmp_path}/ca.crt")
    assert found.credentials.token_file == f"{tmp_path}/token"
    six = access_of(config(), {**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert six is not None
    assert six.servers == ("https://[fd00::1]:443",)


def test_the_configuration_counts_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("")
    named = config(K8S_API_SERVER="https://192.0.2.1", K8S_CA="/own.crt", K8S_TOKEN=" own ")
    found = access_of(named, IN_CLUSTER, tmp_path)
    assert found is not None
    assert found.servers == ("https://192.0.2.1",)
    assert (found.credentials.ca.path, found.bearer()) == ("/own.crt", "own")
