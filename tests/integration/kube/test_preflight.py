"""`netplugin preflight` says of Kubernetes what an agent would meet."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.commands import preflight
from tests.bed.certificates import make_certificates
from tests.bed.kubernetes import ApiServer

FLAGS = ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing"]
FLAGS += ["--ctrl-ip", "192.0.2.1", "--vtep-ip", "192.0.2.2"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


@pytest.fixture
def server(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "NODE_NAME"):
        monkeypatch.delenv(name, raising=False)
    with ApiServer(certificates=certificates) as server:
        server.token = "right"
        yield server


def run(tmp_path: Path, **content: str) -> None:
    file = tmp_path / "contiv.json"
    file.write_text(json.dumps(content))
    checks = {"Kubernetes": preflight.CHECKS["Kubernetes"]}
    preflight.run([*FLAGS, "--k8s-config", str(file)], {}, checks)


def test_every_resource_is_read(
    server: ApiServer, certificates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        tmp_path,
        K8S_API_SERVER=server.url,
        K8S_CA=f"{certificates}/ca.pem",
        K8S_TOKEN="right",
        K8S_NODE_NAME="n1",
    )
    assert capsys.readouterr().out == (
        f"ok     Kubernetes: {server.url} answers the configured token, services in 10.254.0.0/16\n"
    )
    assert {one.resource for one in server.asked} == {
        "services",
        "endpointslices",
        "pods",
        "namespaces",
    }
    assert {one.query.get("fieldSelector") for one in server.asked} == {
        None,
        "spec.nodeName=n1",
    }


@pytest.mark.parametrize(
    ("token", "ca", "forbidden", "said"),
    [
        ("wrong", "ca.pem", "", "does not accept the configured token (401 Unauthorized)"),
        ("right", "other.pem", "", "not from the authority in"),
        ("right", "none.pem", "", "none.pem: No such file or directory: mend K8S_CA"),
        ("right", "ca.pem", "pods", 'resources: ["pods"], verbs: ["get", "list", "watch"]'),
    ],
)
def test_what_is_amiss_is_said(
    *,
    server: ApiServer,
    certificates: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    token: str,
    ca: str,
    forbidden: str,
    said: str,
) -> None:
    server.forbidden = {forbidden}
    with pytest.raises(HostError, match="lacks 1 of 1"):
        run(tmp_path, K8S_API_SERVER=server.url, K8S_CA=f"{certificates}/{ca}", K8S_TOKEN=token)
    out = capsys.readouterr().out
    assert out.startswith("LACKS  Kubernetes: ")
    assert said in out


@pytest.mark.usefixtures("server")
def test_without_a_server_there_is_nothing_to_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path)
    assert "ok     Kubernetes: no API server named" in capsys.readouterr().out
